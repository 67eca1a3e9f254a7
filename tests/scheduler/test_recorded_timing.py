"""When pods are tried again, and when their events are written: against times that were recorded."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from observed.files import recorded
from releases import GATES_1_36, V1_36
from scheduler.comparable_writes import RECORDED, same_as
from scheduler.live_scheduler import World, configured, live
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.status import ApiError
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.testing.extenders import RuleExtender, Rules

LATENCY = 0.006
SLACK = 0.06
"""How far times of two machines may be apart. Whole-second windows make gaps whole seconds."""

AFTER_ERRORS = (0, 3, 8, 17, 28, 39, 50, 61, 72)
"""When a pod was tried again, in seconds from its second try."""


def _tried_at(
    arrival: float,
    until: float,
    story: Callable[[World], Awaitable[object]] | None = None,
    *,
    cpu: str = "1",
    error: ApiError | None = None,
    **options: Any,
) -> list[float]:
    """When a pod is tried that arrives at a second of the world, in seconds from its arrival."""

    async def begin(world: World) -> None:
        world.add_node("n", cpu="2")
        world.add_node("tainted", taints=[_taint(-1)])
        if error is not None:
            world.wire.always["POST pods/p/binding"] = error
        await world.until(arrival)
        world.put_pod("p", cpu=cpu)
        if story is not None:
            await story(world)
        await world.until(arrival + until)

    world = live(begin, latency=LATENCY, verbosity=3, **{"config": RECORDED, **options})
    return [round(at - arrival, 3) for at in world.attempts("p")]


@pytest.mark.parametrize(
    ("code", "reason", "first"),
    [(500, "InternalError", 1.377), (403, "Forbidden", 1.071), (409, "Conflict", 1.751)],
)
def test_after_errors_a_pod_is_tried_in_whole_second_windows_that_grow(
    code: int, reason: str, first: float
) -> None:
    later = [at + first for at in AFTER_ERRORS]
    tried = _tried_at(3 - first, 74.5, error=ApiError(code, reason, "injected"))
    assert tried == pytest.approx([0, *later], abs=SLACK)


def test_the_backoff_of_a_configuration_holds() -> None:
    config = configured(gates=GATES_1_36, podInitialBackoffSeconds=2, podMaxBackoffSeconds=3)
    tried = _tried_at(3 - 2.428, 75, error=ApiError(500, "InternalError", "injected"), config=config)
    assert tried == pytest.approx([0, *(2.428 + 4 * number for number in range(19))], abs=SLACK)


def test_a_failing_extender_is_an_error_like_any_other() -> None:
    extender = RuleExtender(ExtenderConfig(url_prefix="http://x", filter_verb="filter"), Rules(says_no=True))
    tried = _tried_at(3 - 1.432, 74.5, extenders=[extender])
    assert tried == pytest.approx([0, *(at + 1.432 for at in AFTER_ERRORS)], abs=SLACK)


def test_without_any_event_a_pod_is_tried_again_after_five_minutes_checked_every_thirty_seconds() -> None:
    assert _tried_at(30 * 11 - 328.943, 400, cpu="4") == pytest.approx([0, 328.943], abs=SLACK)


def test_the_longest_wait_can_be_set() -> None:
    tried = _tried_at(30 - 28.833, 450, cpu="4", longest_wait=10)
    assert tried == pytest.approx([0, *(28.833 + 30 * number for number in range(15))], abs=SLACK)


async def _taint_every_half_second(world: World) -> None:
    await world.settle(1.02)
    for number in range(100):
        world.change_node("tainted", taints=[_taint(number)])
        await world.settle(0.507)


def test_with_nothing_else_to_do_a_pod_is_tried_at_every_event_that_may_help_it() -> None:
    tried = _tried_at(0.5, 51.5, _taint_every_half_second, cpu="4")
    assert tried == pytest.approx([0, *(1.02 + 0.507 * number for number in range(100))], abs=SLACK)


def test_without_early_tries_the_windows_return() -> None:
    config = configured(gates=FeatureGates({"SchedulerPopFromBackoffQ": False}, V1_36))
    tried = _tried_at(4 - 3.931, 51.5, _taint_every_half_second, cpu="4", config=config)
    assert tried == pytest.approx([0, 1.02, 3.931, 8.933, 17.932, 28.933, 39.932, 50.931], abs=SLACK)


def test_a_series_of_events_is_written_as_recorded_and_closed_long_after_the_pod_is_gone() -> None:
    written = recorded("timing/event-series")["in_order"]

    async def story(world: World) -> None:
        world.namespace = "obs-s"
        world.add_node("node-s1", cpu="2")
        world.add_node("node-s2", taints=[_taint(0)])
        await world.until(4.0)
        world.put_pod("big", cpu="4")
        for number in range(1, 7):
            await world.settle(1.5)
            world.change_node("node-s2", taints=[_taint(number)])
        await world.settle(1)
        world.delete_pod("big")
        await world.until(719.9)
        same_as(world.wire.writes, written[:-1])
        await world.until(720.1)
        same_as(world.wire.writes, written)

    live(story, latency=LATENCY, config=RECORDED)


def _taint(value: int) -> dict[str, str]:
    return {"key": "mine", "value": str(value), "effect": "NoSchedule"}
