"""Hostile objects: none of them brings the scheduler down, fools it, or stays in its memory."""

from collections import Counter

import pytest

from effort import examples
from stowplan.fuzz import Case, FuzzResult, FuzzRun, corpus, random_case, run_cases
from stowplan.fuzz.cases import Step, pod
from stowplan.fuzz.extremes import EXTREMES, KINDS
from stowplan.fuzz.run import FEASIBLE, GIVEN_BACK, GOES_ON, NO_ERRORS, SURVIVES
from stowplan.plugins.nodeaffinity import NodeAffinity
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.cache import Cache

SMALL = FuzzRun(nodes=20, size=100)
BATCH = 8


def _shown(result: FuzzResult) -> str:
    return "\n".join(map(str, result.findings))


@pytest.mark.parametrize("name", [case.name for case in corpus(10)])
def test_the_corpus_holds(name: str) -> None:
    case = next(case for case in corpus(SMALL.size) if case.name == name)
    result = run_cases(SMALL, [case])
    assert not result.findings, _shown(result)
    assert result.counts["refused"] == 0


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


def _rules(case: Case) -> set[str]:
    return {finding.rule for finding in run_cases(SMALL, [case]).findings}


def _case(*steps: Step) -> Case:
    return Case("broken on purpose", (*steps, Step("wait")))


def test_an_infeasible_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeAffinity, "filter", lambda self, cycle, pod, nodes: None)
    monkeypatch.setattr(NodeAffinity, "pre_filter", lambda self, cycle, pod: None)
    assert FEASIBLE in _rules(_case(Step("create", body=pod("p", nodeSelector={"disk": "tape"}))))


def test_an_attempt_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(NodeResourcesFit, "pre_filter", explode)
    assert NO_ERRORS in _rules(_case(Step("create", body=pod("p"))))


def test_a_scheduler_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise MemoryError("on purpose")

    monkeypatch.setattr(SchedulingQueue, "pop", explode)
    assert SURVIVES in _rules(_case(Step("create", body=pod("p"))))


def test_pods_that_stay_in_memory_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    assume = Cache.assume

    def hoard(self: Cache, info: object, node: str) -> None:
        kept.extend([info] * 200)
        self.kept = kept  # type: ignore[attr-defined]
        assume(self, info, node)  # type: ignore[arg-type]

    monkeypatch.setattr(Cache, "assume", hoard)
    assert GIVEN_BACK in _rules(_case(Step("create", body=pod("p"))))


def test_ordinary_pods_that_wait_for_ever_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pop = SchedulingQueue.pop

    def deaf(self: SchedulingQueue) -> object:
        queued = pop(self)
        return None if queued is not None and queued.key.endswith("probe") else queued

    monkeypatch.setattr(SchedulingQueue, "pop", deaf)
    assert GOES_ON in _rules(_case(Step("create", body=pod("p"))))
