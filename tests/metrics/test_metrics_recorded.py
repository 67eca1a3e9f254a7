"""Names, types, labels, buckets and stability are those kube-scheduler was seen to expose."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from metrics.reading import ALL_GATES, made, touch_everything
from metrics.recorded import Recorded, recorded
from stowplan.api.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.metrics.catalogue import COUNTERS, GAUGES, HISTOGRAMS

ATTEMPT = (*(f"{0.001 * 2**power:g}" for power in range(15)), "+Inf")
UNSEEN = [
    Recorded("scheduler_permit_wait_duration_seconds", "histogram", "BETA", ("result",), ATTEMPT),
    Recorded("scheduler_podgroup_schedule_attempts_total", "counter", "ALPHA", ("profile", "result"), ()),
    Recorded(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "histogram",
        "ALPHA",
        ("profile", "result"),
        ATTEMPT,
    ),
    Recorded("scheduler_podgroup_scheduling_algorithm_duration_seconds", "histogram", "ALPHA", (), ATTEMPT),
]
"""Families for which there was no occasion in the recordings."""
NEVER_COUNTED = "scheduler_volume_binder_cache_requests_total"

RECORDED = {entry.name: entry for entry in recorded()}
KNOWN = {**RECORDED, **{entry.name: entry for entry in UNSEEN}}
UNLABELLED = [name for name, entry in RECORDED.items() if entry.unlabelled]


def shown_names(text: bytes) -> list[str]:
    return re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE)


@pytest.fixture(scope="module")
def full_text() -> str:
    metrics = made(ALL_GATES)
    touch_everything(metrics)
    return metrics.text().decode()


@pytest.mark.parametrize("name", KNOWN)
def test_a_family_is_what_it_is_in_kube_scheduler(name: str, full_text: str) -> None:
    entry = KNOWN[name]
    families = {family.name: family for family in text_string_to_metric_families(full_text)}
    family = families[name.removesuffix("_total") if entry.type == "counter" else name]
    assert family.type == entry.type
    assert family.documentation.startswith(f"[{entry.stability}] ")
    assert {label for sample in family.samples for label in sample.labels} - {"le"} == set(entry.labels)
    les = list(dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels))
    assert tuple(les) == entry.buckets


def test_no_other_family_exists_but_one_that_nobody_counts_in(full_text: str) -> None:
    assert set(shown_names(full_text.encode())) == set(KNOWN)
    described = {entry.full_name for entry in (*COUNTERS, *GAUGES, *HISTOGRAMS)}
    assert {name for name in described if not name.startswith("stowplan_")} == {*KNOWN, NEVER_COUNTED}


def test_families_are_in_the_order_of_their_names(full_text: str) -> None:
    names = shown_names(full_text.encode())
    assert names == sorted(names)


def test_before_anything_happens_there_are_families_without_labels_and_the_state() -> None:
    metrics = made(DEFAULT_GATES)
    state = ["scheduler_cache_size", "scheduler_pending_pods"]
    assert shown_names(metrics.text()) == sorted([*UNLABELLED, *state])
    values = [
        sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    ]
    assert set(values) == {0.0}


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        ("SchedulerQueueingHints", {"queueing_hint_execution_duration_seconds", "inflight_events"}),
        (
            "SchedulerAsyncPreemption",
            {"preemption_goroutines_duration_seconds", "preemption_goroutines_execution_total"},
        ),
        ("DRAExtendedResource", {"resourceclaim_creates_total"}),
        (
            "DRADeviceBindingConditions",
            {"dra_bindingconditions_allocations_total", "dra_bindingconditions_wait_duration_seconds"},
        ),
        (
            "SchedulerAsyncAPICalls",
            {
                "async_api_call_execution_total",
                "async_api_call_execution_duration_seconds",
                "pending_async_api_calls",
            },
        ),
        (
            "GenericWorkload",
            {
                "podgroup_schedule_attempts_total",
                "podgroup_scheduling_attempt_duration_seconds",
                "podgroup_scheduling_algorithm_duration_seconds",
            },
        ),
    ],
)
def test_a_gate_that_is_off_hides_its_families_and_no_others(gate: str, names: set[str]) -> None:
    metrics = made(FeatureGates({**ALL_GATES, gate: False}))
    touch_everything(metrics)
    hidden = {f"scheduler_{name}" for name in names}
    assert set(shown_names(metrics.text())) == set(KNOWN) - hidden
