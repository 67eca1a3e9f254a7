"""Hostile objects: none of them brings the scheduler down, fools it, or stays in its memory."""

import time
from collections import Counter
from typing import Any

import pytest
from msgspec import Raw

from effort import examples
from stowplan.lab.fuzz import FuzzCase, FuzzResult, FuzzRun, corpus, random_case, run_cases
from stowplan.lab.fuzz.cases import STORE, WIRE, FuzzStep, pod
from stowplan.lab.fuzz.extremes import EXTREMES, KINDS
from stowplan.lab.fuzz.run import FEASIBLE, GIVEN_BACK, GOES_ON, GROWS, LATE, NO_ERRORS, QUICK, SURVIVES
from stowplan.lab.fuzz.server_cases import SERVER_CASES, run_server_cases
from stowplan.lab.fuzz.wire import run_wire
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.plugins.nodeaffinity import NodeAffinity
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFit
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

SMALL = FuzzRun(nodes=20, size=100)
BATCH = 8


def _shown(result: FuzzResult) -> str:
    return "\n".join(map(str, result.findings))


@pytest.mark.parametrize("name", [case.name for case in corpus(10) if case.route == STORE])
def test_the_corpus_holds(name: str) -> None:
    result = run_cases(SMALL, [_named(name)])
    assert not result.findings, _shown(result)
    assert result.counts["refused"] == 0


@pytest.mark.parametrize("name", [case.name for case in corpus(10) if case.route == WIRE])
def test_the_corpus_holds_over_the_wire(name: str) -> None:
    result = run_wire(SMALL, [_named(name)])
    assert not result.findings, _shown(result)


def test_the_embedded_api_server_holds() -> None:
    result = run_server_cases(SERVER_CASES)
    assert not result.findings, _shown(result)


def _named(name: str) -> FuzzCase:
    return next(case for case in corpus(SMALL.size) if case.name == name)


@pytest.mark.parametrize("batch", range(examples(3)))
def test_random_cases_hold(batch: int) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    result = run_cases(SMALL, [random_case(seed, SMALL.size, SMALL.nodes) for seed in seeds])
    assert not result.findings, _shown(result)
    assert result.cases == BATCH
    assert result.counts["refused"] < result.counts["writes"] / 5


def test_every_field_of_every_kind_is_driven_to_its_extremes_sooner_or_later() -> None:
    met: Counter[str] = Counter()
    for seed in range(400):
        for step in random_case(seed, 10, 20).steps:
            met.update(f"{step.resource.kind} {field}" for field in step.field.split(" and "))
    missing = [one for one in EXTREMES if not met[f"{one.resource.kind} {one.field}"]]
    assert missing == []
    assert {one.resource for one in EXTREMES} == set(KINDS)


def test_a_case_repeats() -> None:
    assert random_case(7, 50, 20) == random_case(7, 50, 20)
    assert random_case(7, 50, 20) != random_case(8, 50, 20)


# A scheduler that is broken on purpose is found out


def _rules(case: FuzzCase) -> set[str]:
    return {finding.rule for finding in run_cases(SMALL, [case]).findings}


def _case(*steps: FuzzStep) -> FuzzCase:
    return FuzzCase("broken on purpose", (*steps, FuzzStep("wait")))


def test_an_infeasible_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeAffinity, "filter", lambda self, cycle, pod, nodes: None)
    monkeypatch.setattr(NodeAffinity, "pre_filter", lambda self, cycle, pod: None)
    assert FEASIBLE in _rules(_case(FuzzStep("create", body=pod("p", nodeSelector={"disk": "tape"}))))


def test_an_attempt_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(NodeResourcesFit, "pre_filter", explode)
    assert NO_ERRORS in _rules(_case(FuzzStep("create", body=pod("p"))))


def test_a_scheduler_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise MemoryError("on purpose")

    monkeypatch.setattr(SchedulingQueue, "pop", explode)
    assert SURVIVES in _rules(_case(FuzzStep("create", body=pod("p"))))


def test_pods_that_stay_in_memory_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    assume = Cache.assume

    def hoard(self: Cache, info: object, node: str) -> None:
        kept.extend([info] * 200)
        self.kept = kept  # type: ignore[attr-defined]
        assume(self, info, node)  # type: ignore[arg-type]

    monkeypatch.setattr(Cache, "assume", hoard)
    assert GIVEN_BACK in _rules(_case(FuzzStep("create", body=pod("p"))))


def test_ordinary_pods_that_wait_for_ever_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pop = SchedulingQueue.pop

    def deaf(self: SchedulingQueue) -> object:
        queued = pop(self)
        return None if queued is not None and queued.key.endswith("probe") else queued

    monkeypatch.setattr(SchedulingQueue, "pop", deaf)
    assert GOES_ON in _rules(_case(FuzzStep("create", body=pod("p"))))


def _burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_pods_that_hold_up_others_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pre_filter = NodeResourcesFit.pre_filter

    def slow(self: NodeResourcesFit, cycle: Any, info: Any) -> Any:
        if info.key.endswith("slow"):
            _burn(1.1)
        return pre_filter(self, cycle, info)

    monkeypatch.setattr(NodeResourcesFit, "pre_filter", slow)
    assert {LATE, QUICK} <= _rules(_case(FuzzStep("create", body=pod("slow"))))


def test_costs_that_grow_faster_than_the_input_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod costs as many milliseconds as it has labels, squared."""
    pre_filter = NodeResourcesFit.pre_filter

    def slow(self: NodeResourcesFit, cycle: Any, info: Any) -> Any:
        _burn(len(info.pod.metadata.labels) ** 2 / 1000)
        return pre_filter(self, cycle, info)

    def labelled(count: int) -> tuple[FuzzStep, ...]:
        body = pod("labelled")
        body["metadata"]["labels"] = {f"l{number}": "x" for number in range(count)}
        return (FuzzStep("create", body=body), FuzzStep("wait"))

    monkeypatch.setattr(NodeResourcesFit, "pre_filter", slow)
    case = FuzzCase("broken on purpose", labelled(16), half=FuzzCase("half", labelled(8)))
    assert GROWS in {finding.rule for finding in run_cases(SMALL, [case]).findings}


def test_objects_over_the_wire_reach_the_scheduler_as_they_are() -> None:
    """A pod that can be read is bound; one of a type that cannot is skipped by itself."""
    nested = {"fieldsType": "FieldsV1", "fieldsV1": Raw(b'{"f:a":' * 50 + b"{}" + b"}" * 50)}
    body = pod("readable")
    body["metadata"]["managedFields"] = [nested]
    wrong = FuzzStep("create", body={"metadata": {"name": "wrong", "namespace": "fuzz"}, "spec": 7})
    case = FuzzCase("mixed", (FuzzStep("create", body=body), wrong), WIRE)
    result = run_wire(SMALL, [case])
    assert not result.findings, _shown(result)
    assert result.counts == {"writes": 2, "bound": 2}
