"""Recorded outcomes are applied one after the other, regardless of the result here."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stowplan.api.pod import PodCondition
from stowplan.framework import (
    SKIP,
    Cycle,
    NodeRow,
    Plugin,
    PodInfo,
    Status,
)
from stowplan.framework.advanced import NotBuiltError
from stowplan.lab.verify.decisions import compare
from stowplan.lab.verify.replay import (
    PreFilter,
    RecordedCandidate,
    RecordedPreemption,
    RecordedScenario,
    ReplayAttempt,
    ScenarioReplay,
)
from stowplan.lab.verify.report import VerifyReport
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.plugins.registry import IN_TREE
from stowplan.testing import NodeBuilder, PodBuilder, node, pod

NODES = (node("a").allocatable(cpu="2"), node("b").allocatable(cpu="2"))


def scenario(objects: Iterable[NodeBuilder | PodBuilder], *pods: PodBuilder) -> RecordedScenario:
    return RecordedScenario(
        name="s",
        objects=[msgspec.Raw(msgspec.json.encode(builder.obj())) for builder in objects],
        pods=[msgspec.Raw(msgspec.json.encode(builder.obj())) for builder in pods],
        expected=[],
    )


def recorded(name: str, **fields: Any) -> ReplayAttempt:
    given: dict[str, Any] = {
        "pod": f"default/{name}",
        "attempt": 1,
        "pre_filter": PreFilter(code="Success", plugin="", reasons=[], node_names=None, skipped=[]),
        "rejected": {},
        "feasible": [],
        "best": [],
        "assigned": None,
        "fit_error": None,
        "preemption": None,
        **fields,
    }
    return ReplayAttempt(**given)


def room_made(
    *victims: str,
    on: str | None = "a",
    code: str = "Success",
    message: str = "",
    candidates: dict[str, RecordedCandidate] | None = None,
    ties: list[str] | None = None,
) -> RecordedPreemption:
    return RecordedPreemption(
        code=code,
        nominated_node=on,
        victims=list(victims),
        message=message,
        candidates=candidates,
        ties=ties,
    )


def outcome(replay: ScenarioReplay, name: str) -> ReplayAttempt:
    found = replay.attempt(recorded(name)).attempt
    assert found is not None
    return found


def test_a_pod_stands_where_it_was_recorded_even_if_it_would_go_elsewhere_here() -> None:
    replay = ScenarioReplay(scenario(NODES, pod("p").requests(cpu="2"), pod("q").requests(cpu="2")))
    assert outcome(replay, "p").assigned == "a"
    replay.settle(recorded("p", assigned="b"), 0)
    assert outcome(replay, "q").feasible == ["a"]


def test_victims_are_gone_and_the_node_is_nominated_to_the_pod() -> None:
    running = [pod(f"on-{name}").requests(cpu="2").on(name) for name in "ab"]
    replay = ScenarioReplay(scenario((*NODES, *running), pod("p").requests(cpu="2")))
    assert outcome(replay, "p").feasible == []
    replay.settle(recorded("p", preemption=room_made("default/on-a")), 0)
    found = outcome(replay, "p")
    assert (found.via_nominated_node, found.assigned) == (True, "a")


@pytest.mark.parametrize(
    ("settled", "kept"),
    [
        ({"preemption": room_made(on=None, code="Unschedulable")}, True),
        ({"preemption": room_made(on="", code="Unschedulable")}, False),
        ({"error": "broken"}, False),
    ],
)
def test_a_failed_attempt_takes_the_nomination_back_or_leaves_it(settled: dict[str, Any], kept: bool) -> None:
    replay = ScenarioReplay(scenario(NODES, pod("p").nominated("a")))
    assert outcome(replay, "p").via_nominated_node
    replay.settle(recorded("p", **settled), 0)
    assert outcome(replay, "p").via_nominated_node is kept


@pytest.mark.parametrize(("dying", "kept"), [(False, False), (True, True)])
def test_less_important_pods_lose_their_nomination_only_if_somebody_is_asked_to_go(
    dying: bool, kept: bool
) -> None:
    running = pod("old").on("a")
    replay = ScenarioReplay(
        scenario(
            (*NODES, running.terminating() if dying else running),
            pod("p").priority(5),
            pod("lesser").priority(4).nominated("a"),
            pod("equal").priority(5).nominated("a"),
            pod("elsewhere").nominated("b"),
        )
    )
    replay.settle(recorded("p", preemption=room_made("default/old")), 0)
    assert outcome(replay, "equal").via_nominated_node
    assert outcome(replay, "elsewhere").via_nominated_node
    assert outcome(replay, "lesser").via_nominated_node is kept


def test_a_pod_that_needs_what_is_not_built_is_counted_apart_and_still_takes_its_place() -> None:
    class NodePorts(Plugin):
        def pre_filter(self, cycle: Cycle, info: PodInfo) -> Status | None:
            if info.name == "p":
                raise NotBuiltError(self.name, "not built")
            return SKIP

        def filter_node(self, cycle: Cycle, info: PodInfo, node: NodeRow) -> Status | None:
            return None

    registry = Registry({**IN_TREE, "NodePorts": NodePorts})
    replay = ScenarioReplay(scenario(NODES, pod("p").requests(cpu="2"), pod("q").requests(cpu="2")), registry)
    expected = recorded("p", feasible=["a"], best=["a"], assigned="a")
    replayed = replay.attempt(expected)
    assert (replayed.attempt, replayed.missing) == (None, "NodePorts")
    report = VerifyReport()
    compare(report, "f", "here", expected, replayed)
    assert report.total.compared == 0
    assert {subject for _, subject in report.counts} == {"preFilter", "feasible", "best", "assigned"}
    replay.settle(expected, 0)
    assert outcome(replay, "q").feasible == ["b"]


NOBODY = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)
WITHOUT_PREEMPTION = Registry({name: cls for name, cls in IN_TREE.items() if name != "DefaultPreemption"})


@pytest.mark.parametrize(
    ("priority", "message", "preemption"),
    [
        (1, "", room_made("default/old", candidates={"a": RecordedCandidate(["default/old"], 0)})),
        (0, f" {NOBODY}", room_made(on="", code="Unschedulable", message=NOBODY)),
    ],
)
def test_what_a_missing_plugin_adds_is_compared_as_soon_as_the_plugin_is_there(
    priority: int, message: str, preemption: RecordedPreemption
) -> None:
    one = scenario(
        (NODES[0], pod("old").requests(cpu="2").on("a")), pod("p").priority(priority).requests(cpu="1")
    )
    expected = recorded(
        "p", fit_error=f"0/1 nodes are available: 1 Insufficient cpu.{message}", preemption=preemption
    )
    without, with_it = VerifyReport(), VerifyReport()
    compare(without, "f", "here", expected, ScenarioReplay(one, WITHOUT_PREEMPTION).attempt(expected))
    compare(with_it, "f", "here", expected, ScenarioReplay(one).attempt(expected))
    for report in (without, with_it):
        assert report.counts["f", "fitError"].equal == 1
    assert without.counts["f", "preemption"].not_built == 1
    assert without.counts["f", "fitError, words of DefaultPreemption"].not_built == 1
    assert with_it.counts["f", "preemption"].equal == 1
    assert with_it.total.not_built == 0


def test_among_equal_nodes_the_first_by_name_is_told_as_the_recordings_have_it() -> None:
    olds = [pod(f"old-{name}").requests(cpu="2").on(name) for name in "ab"]
    replay = ScenarioReplay(scenario((*NODES, *olds), pod("p").priority(1).requests(cpu="1")))
    candidates = {name: RecordedCandidate([f"default/old-{name}"], 0) for name in "ab"}
    expected = room_made("default/old-a", candidates=candidates, ties=["a", "b"])
    for _ in range(8):
        assert outcome(replay, "p").preemption == expected


def test_a_nomination_is_in_the_status_of_the_pod_as_long_as_it_lasts() -> None:
    """A pod whose victim is still terminating does not preempt again; without the nomination it would."""
    gone = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    leaving = pod("leaving").requests(cpu="2").on("a").terminating().obj()
    leaving = replace(leaving, status=replace(leaving.status, conditions=(gone,)))
    replay = ScenarioReplay(scenario((NODES[0], PodBuilder(leaving)), pod("p").priority(1).requests(cpu="1")))
    replay.settle(recorded("p", preemption=room_made(on="a")), 0)
    waiting = outcome(replay, "p").preemption
    assert waiting is not None
    assert waiting.message.endswith("not eligible due to a terminating pod on the nominated node.")
    replay.settle(recorded("p", preemption=room_made(on="")), 1)
    assert outcome(replay, "p").preemption == room_made(
        "default/leaving", candidates={"a": RecordedCandidate(["default/leaving"], 0)}
    )
