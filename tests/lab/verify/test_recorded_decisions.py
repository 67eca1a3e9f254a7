"""Every decision recorded from kube-scheduler comes out the same here, in every detail that is built."""

from pathlib import Path

import pytest

from stowplan.lab.verify.dispatch import replay
from stowplan.lab.verify.report import FactCounts, VerifyReport, render_text

GOLDEN = Path(__file__).parents[2] / "golden"

COMPARED = {
    "resources": {
        "assigned": 1637,
        "fitError": 589,
        "preemption": 517,
        "preemption candidates": 11,
        "viaNominatedNode": 11,
        "filter NodeResourcesFit": 1536,
        "score NodeResourcesFit": 845,
        "score NodeResourcesBalancedAllocation": 707,
    },
    "nodeaffinity": {
        "assigned": 1497,
        "fitError": 519,
        "preemption": 519,
        "preemption candidates": 11,
        "viaNominatedNode": 10,
        "filter (nodes not asked for)": 135,
        "filter NodeAffinity": 955,
        "filter NodeDeclaredFeatures": 49,
        "filter NodeName": 32,
        "filter NodeUnschedulable": 1060,
        "score NodeAffinity": 494,
    },
    "taints": {
        "assigned": 1558,
        "fitError": 277,
        "preemption": 277,
        "preemption candidates": 14,
        "viaNominatedNode": 13,
        "filter TaintToleration": 1352,
        "score TaintToleration": 1096,
    },
    "ports-images": {
        "assigned": 1634,
        "fitError": 288,
        "preemption": 288,
        "preemption candidates": 15,
        "viaNominatedNode": 15,
        "filter NodePorts": 855,
        "score ImageLocality": 1206,
    },
    "interpod": {
        "assigned": 1663,
        "fitError": 525,
        "preemption": 525,
        "preemption candidates": 8,
        "viaNominatedNode": 8,
        "filter InterPodAffinity": 1102,
        "score InterPodAffinity": 813,
    },
    "spread": {
        "assigned": 1579,
        "fitError": 389,
        "preemption": 389,
        "preemption candidates": 5,
        "viaNominatedNode": 4,
        "filter PodTopologySpread": 486,
        "score PodTopologySpread": 539,
    },
    "preemption": {
        "assigned": 1549,
        "fitError": 911,
        "preemption": 911,
        "preemption candidates": 360,
        "preemption ties": 23,
        "viaNominatedNode": 219,
        "filter InterPodAffinity": 187,
        "filter NodeResourcesFit": 1303,
        "score NodeResourcesFit": 246,
    },
    "volumes": {
        "assigned": 1681,
        "error": 4,
        "fitError": 669,
        "preemption": 669,
        "preemption candidates": 5,
        "viaNominatedNode": 5,
        "filter NodeVolumeLimits": 584,
        "filter VolumeBinding": 536,
        "filter VolumeRestrictions": 189,
        "filter VolumeZone": 31,
        "score NodeResourcesFit": 856,
    },
    "mixed": {
        "assigned": 2408,
        "fitError": 713,
        "preemption": 713,
        "preemption candidates": 23,
        "viaNominatedNode": 28,
        "filter (nodes not asked for)": 30,
        "filter InterPodAffinity": 1002,
        "filter NodeAffinity": 554,
        "filter NodeVolumeLimits": 100,
        "filter PodTopologySpread": 279,
        "filter VolumeBinding": 155,
        "filter VolumeRestrictions": 29,
        "filter VolumeZone": 10,
        "score InterPodAffinity": 1302,
        "score PodTopologySpread": 270,
        "total": 1515,
    },
    "extenders": {
        "assigned": 755,
        "error": 25,
        "fitError": 335,
        "preemption": 335,
        "preemption candidates": 41,
        "viaNominatedNode": 18,
        "filter (nodes not asked for)": 221,
        "score http://ext.example:8888/broken": 4,
        "score http://ext.example:8888/last": 84,
        "score http://ext.example:8888/silent": 80,
        "score http://ext.example:8888/sum": 99,
        "total": 308,
    },
    "dra": {
        "assigned": 989,
        "claims": 401,
        "error": 18,
        "fitError": 315,
        "preemption": 315,
        "filter DynamicResources": 610,
        "filter NodeResourcesFit": 595,
        "score DynamicResources": 520,
    },
    "dra-advanced": {
        "assigned": 813,
        "allocations by node": 367,
        "claim status": 416,
        "deallocated claims": 15,
        "error": 26,
        "extended resource mappings": 17,
        "extended resource requests": 17,
        "fitError": 305,
        "preBind failure": 24,
        "filter DynamicResources": 586,
        "score DynamicResources": 364,
    },
    "hints": {
        "handler": 460,
        "node-events": 300,
        "pod-events": 350,
        "requeue": 300,
        "hint DefaultPreemption": 421,
        "hint DynamicResources": 1426,
        "hint InterPodAffinity": 1912,
        "hint NodeAffinity": 809,
        "hint NodeDeclaredFeatures": 1951,
        "hint NodeName": 560,
        "hint NodePorts": 981,
        "hint NodeResourcesFit": 1512,
        "hint NodeUnschedulable": 832,
        "hint NodeVolumeLimits": 753,
        "hint PodTopologySpread": 2290,
        "hint SchedulingGates": 141,
        "hint TaintToleration": 832,
        "hint VolumeBinding": 1624,
        "hint VolumeRestrictions": 1093,
        "hint VolumeZone": 1223,
    },
    "cel": {
        "result": 818,
        "outputType": 731,
        "estimatedMaxCost": 731,
        "actualCost": 728,
        "newExpressionCompileError": 4,
    },
}
"""Number of facts compared when this was written. Fewer would mean that some are skipped."""

FACTS = {
    "resources": 15_728,
    "nodeaffinity": 16_125,
    "taints": 17_925,
    "ports-images": 17_950,
    "interpod": 18_588,
    "spread": 18_901,
    "preemption": 13_107,
    "volumes": 17_271,
    "mixed": 31_783,
    "extenders": 7_841,
    "hints": 19_770,
    "dra": 10_804,
    "dra-advanced": 8_081,
    "config": 990,
    "primitives": 8_478,
    "cel": 3_012,
}

FACTS_IN_ALL = {
    "podgroups": 1_231,
}
"""Facts of recordings that are not replayed yet, all of them counted."""


def replayed(family: str) -> VerifyReport:
    report = VerifyReport()
    replay(GOLDEN / f"{family}.jsonl.gz", report)
    assert not report.failed, render_text(report)
    return report


@pytest.mark.parametrize("family", FACTS)
def test_every_recorded_fact_that_is_built_comes_out_the_same(family: str) -> None:
    report = replayed(family)
    assert report.total.compared >= FACTS[family]
    for subject, least in COMPARED.get(family, {}).items():
        counted = report.counts.get((family, subject), FactCounts())
        assert counted.compared >= least, subject


@pytest.mark.parametrize("family", FACTS_IN_ALL)
def test_facts_about_what_is_not_built_are_counted_and_none_is_lost(family: str) -> None:
    total = replayed(family).total
    assert total.compared + total.not_built >= FACTS_IN_ALL[family]


def test_every_recording_is_replayed_by_one_of_these_tests() -> None:
    recordings = {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz")}
    assert recordings == FACTS.keys() | FACTS_IN_ALL.keys()
    assert COMPARED.keys() == FACTS.keys() - {"config", "primitives"}
