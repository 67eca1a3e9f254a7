"""A scheduler that is broken on purpose does not get away with it."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest

from stowplan.api.status import ApiError
from stowplan.client.objectstore import ObjectStore
from stowplan.lab.chaos import execute, plan_of
from stowplan.runtime.clock.watchdog import LIMIT
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.cycle.failure_handler import FailureHandler
from stowplan.scheduler.event_handlers import NodeEventHandler
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.plugins.defaultbinder import DefaultBinder
from stowplan.scheduler.plugins.nodeaffinity import NodeAffinity
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFit
from stowplan.scheduler.queue.in_flight import InFlight
from stowplan.scheduler.queue.nominator import Nominator
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.changes import ChangeLog

SEEDS: Final = (20, 15, 23, *range(25))
"""The first few show everything below; the others are for when plans have become different ones."""

Break = Callable[[pytest.MonkeyPatch], None]


def _without(cls: type[Any], method: str, answer: Any = None) -> Break:
    """A method that does nothing."""
    return lambda patch: patch.setattr(cls, method, lambda *_, **__: answer)


def _everything_fits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeResourcesFit, "filter", lambda self, cycle, pod, nodes: None)
    patch.setattr(NodeResourcesFit, "filter_row", lambda self, cycle, pod, row: 0)


def _bind_twice(patch: pytest.MonkeyPatch) -> None:
    bind = DefaultBinder.bind

    async def twice(self: DefaultBinder, *args: Any) -> None:
        await bind(self, *args)
        with suppress(ApiError):
            await bind(self, *args)

    patch.setattr(DefaultBinder, "bind", twice)


def _lose_deletions(patch: pytest.MonkeyPatch) -> None:
    """One in ten deletions is not delivered."""
    remove, calls = ObjectStore.remove, [0]

    def deaf(self: ObjectStore[Any], key: str, last: Any = None) -> None:
        calls[0] += 1
        if calls[0] % 10:
            remove(self, key, last)

    patch.setattr(ObjectStore, "remove", deaf)


def _lose_the_failed(patch: pytest.MonkeyPatch) -> None:
    """A pod whose attempt failed is not put back."""

    def drop(self: FailureHandler, queued: Any, failure: Any, **more: Any) -> None:
        self._context.queue.done(queued.uid)

    patch.setattr(FailureHandler, "_requeue", drop)


def _keep_the_deleted(patch: pytest.MonkeyPatch) -> None:
    """A pod that is deleted stays where it is in the queue."""
    patch.setattr(SchedulingQueue, "delete", lambda self, pod: None)


def _forget_changes(patch: pytest.MonkeyPatch) -> None:
    """Results are reused though nodes and pods have changed."""
    append, calls = ChangeLog.append, [0]

    def forgetful(self: ChangeLog, row: int) -> None:
        calls[0] += 1
        if calls[0] % 5:
            append(self, row)

    patch.setattr(ChangeLog, "append", forgetful)


def _requeue_nothing(patch: pytest.MonkeyPatch) -> None:
    """Nothing that happens makes a waiting pod be tried again."""
    patch.setattr(SchedulingQueue, "move_all", lambda *_, **__: None)


SABOTAGES: Final[dict[str, tuple[Break, str]]] = {
    "assumptions are not taken back": (_without(Cache, "forget", False), "no pod stays assumed"),
    "resources are not looked at": (_everything_fits, "no node is overcommitted"),
    "node affinity is not looked at": (
        lambda patch: (
            patch.setattr(NodeAffinity, "filter", lambda self, cycle, pod, nodes: None),
            patch.setattr(NodeAffinity, "pre_filter", lambda self, cycle, pod: None),
            None,
        )[-1],
        "no pod is bound to an infeasible node",
    ),
    "pods are bound twice": (_bind_twice, "no pod is bound twice"),
    "deletions get lost": (_lose_deletions, "the cache equals the store"),
    "changes of nodes are ignored": (_without(NodeEventHandler, "updated"), "the cache equals the store"),
    "failed pods are not put back": (_lose_the_failed, "no pod is lost"),
    "deleted pods stay in the queue": (_keep_the_deleted, "no pod is lost"),
    "attempts never end": (_without(InFlight, "end"), "no pod is in flight any more"),
    "waits never end": (_without(WaitingPods, "remove"), "no pod waits at Permit any more"),
    "reservations are kept": (_without(Lifecycle, "unreserve", ()), "every reservation ends"),
    "nominations are kept for ever": (_without(Nominator, "remove"), "only pending pods are nominated"),
    "stale results are reused": (_forget_changes, "no pod is bound to an infeasible node"),
    "events requeue nothing": (_requeue_nothing, "an event that helps a pod requeues it"),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_scheduler_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage, invariant = SABOTAGES[name]
    sabotage(monkeypatch)
    for seed in SEEDS:
        broken = {finding.invariant for finding in execute(plan_of(seed)).findings}
        if invariant in broken:
            return
    pytest.fail(f"{invariant!r} was not found broken within {len(SEEDS)} seeds")


def test_the_scheduler_dying_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: Any) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(SchedulingQueue, "flush_backoff", explode)
    found = next(finding for seed in SEEDS for finding in execute(plan_of(seed)).findings[:1])
    assert "the scheduler survives: ZeroDivisionError: on purpose" in str(found)


@pytest.mark.parametrize(
    ("seconds", "are_slow", "is_held"),
    [(2 * LIMIT, lambda number: number % 20 == 0, True), (LIMIT / 5, lambda number: number < 64, False)],
)
def test_an_attempt_that_holds_the_loop_is_found_but_not_many_short_ones(
    seconds: float, are_slow: Callable[[int], bool], is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 32 attempts come in a row, as virtual time stands still; a scheduler would pause between them."""
    pop, popped = SchedulingQueue.pop, [0]

    def slow(self: SchedulingQueue) -> Any:
        popped[0] += 1
        if are_slow(popped[0]):
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                sum(range(200))
        return pop(self)

    monkeypatch.setattr(SchedulingQueue, "pop", slow)
    findings = execute(plan_of(0)).findings
    assert any("never held for long" in one.invariant for one in findings) == is_held
