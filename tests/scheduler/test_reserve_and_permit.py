"""After the choice: Reserve and Permit, with everything they may answer."""

import asyncio
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, enabling, live, plugin
from stowplan.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from stowplan.scheduler.framework.interface import Wait
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable

DAY = 86_400.0


def _raise(*_: Any) -> None:
    raise ValueError("no shelf")


def _reserving(name: str, log: list[str], answer: Any = None) -> Any:
    def reserve(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        log.append(f"+{name}")
        return answer() if callable(answer) else answer

    return plugin(name, reserve=reserve, unreserve=lambda self, cycle, pod, node: log.append(f"-{name}"))


def _permitting(name: str, answer: Any) -> Any:
    return plugin(name, permit=lambda self, cycle, pod, node: answer() if callable(answer) else answer)


FAILURES = [
    (
        lambda: unschedulable("no shelf"),
        "0/1 nodes are available: 1 no shelf.",
        "Unschedulable",
        "unschedulable",
    ),
    (
        lambda: unresolvable("no shelf"),
        "0/1 nodes are available: 1 no shelf.",
        "Unschedulable",
        "unschedulable",
    ),
    (
        lambda: Status(Code.PENDING, ("no shelf",)),
        "0/1 nodes are available: 1 no shelf.",
        "Unschedulable",
        "unschedulable",
    ),
    (lambda: error("no shelf"), 'running {} plugin "B": no shelf', "SchedulerError", "backoff"),
    (
        _raise,
        'running {} plugin "B": ValueError: no shelf (test_reserve_and_permit.py:17)',
        "SchedulerError",
        "backoff",
    ),
]


@pytest.mark.parametrize(("answer", "message", "reason", "place"), FAILURES)
def test_what_cannot_be_reserved_is_given_back_by_all_in_reverse_order(
    answer: Any, message: str, reason: str, place: str
) -> None:
    log: list[str] = []
    plugins = [_reserving("A", log), _reserving("B", log, answer), _reserving("C", log)]

    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")
        await world.add_pod("p")
        assert log == ["+A", "+B", "-C", "-B", "-A"]
        assert world.message("p") == message.format("Reserve")
        assert world.condition("p")["reason"] == reason
        assert world.place_of("p") == place
        assert world.scheduler.context.cache.assumed == {}
        assert len(world.scheduler.context.cache.table.pods) == 0

    live(story, plugins=plugins)


@pytest.mark.parametrize(("answer", "message", "reason", "place"), FAILURES)
def test_what_is_not_permitted_is_given_back(answer: Any, message: str, reason: str, place: str) -> None:
    log: list[str] = []
    plugins = [_reserving("A", log), _permitting("B", answer), _reserving("C", log)]

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert log == ["+A", "+C", "-C", "-A"]
        assert world.message("p") == message.format("Permit")
        assert (world.condition("p")["reason"], world.place_of("p")) == (reason, place)
        assert world.scheduler.context.cache.assumed == {}

    live(story, plugins=plugins)


def test_one_that_cannot_give_back_does_not_keep_others_from_it() -> None:
    log: list[str] = []
    broken = plugin("Broken", reserve=lambda self, cycle, pod, node: None, unreserve=_raise)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert log == ["+A", "+B", "-B", "-A"]
        assert (
            world.problems[0]
            == 'running Unreserve plugin "Broken": ValueError: no shelf (test_reserve_and_permit.py:17)'
        )

    live(story, plugins=[_reserving("A", log), broken, _reserving("B", log, error("no"))])


def _waiting(world: World) -> Any:
    return next(iter(world.scheduler.waiting))


def test_a_pod_waits_until_all_who_hold_it_let_it_go() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        made = await world.add_pod("p")
        assert world.nominated("p") == "n"
        assert world.wire.shorts == ["PATCH pods/p/status"]
        assert made["metadata"]["uid"] in world.scheduler.context.cache.assumed
        assert made["metadata"]["uid"] in world.queue.in_flight
        waiting = _waiting(world)
        assert waiting.pending_plugins == ["A", "B"]
        waiting.allow("A")
        await world.settle(1)
        assert world.node_of("p") == ""
        waiting.allow("B")
        await world.settle()
        assert (world.node_of("p"), world.nominated("p")) == ("n", "")
        assert len(world.scheduler.waiting) == 0

    live(story, plugins=[_permitting("A", Wait(60)), _permitting("B", Wait(60)), _permitting("C", SUCCESS)])


def test_others_are_scheduled_while_one_waits() -> None:
    hold = plugin("Hold", permit=lambda self, cycle, pod, node: Wait(60) if pod.name == "p" else None)

    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        await world.add_pod("p")
        await world.add_pod("q")
        await world.add_pod("r")
        assert (world.node_of("q"), world.node_of("r")) == ("n", "")
        assert world.message("r").startswith("0/1 nodes are available: 1 Insufficient cpu.")
        _waiting(world).reject("Hold", "changed my mind")
        await world.settle()
        assert world.message("p") == "0/1 nodes are available: 1 changed my mind."
        assert world.nominated("p") == ""
        assert world.node_of("r") == "n"
        assert world.place_of("p") == "unschedulable"

    live(story, plugins=[hold])


@pytest.mark.parametrize(
    ("seconds", "after", "text"),
    [
        (2.5, 2.5, "2.5s"),
        (90, 90, "1m30s"),
        (DAY, 900, "15m0s"),
        (0.25, 0.25, "250ms"),
    ],
)
def test_a_wait_ends_by_itself(seconds: float, after: float, text: str) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.put_pod("p")
        await world.settle(after - 0.01)
        assert world.message("p") == ""
        await world.settle(0.02)
        reason = f"rejected due to timeout after waiting {text} at plugin Hold"
        assert world.message("p") == f"0/1 nodes are available: 1 {reason}."
        assert world.condition("p")["reason"] == "Unschedulable"
        assert world.scheduler.context.cache.assumed == {}

    live(story, plugins=[_permitting("Hold", Wait(seconds))])


def test_the_shortest_wait_ends_it() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(5.1)
        assert "at plugin B." in world.message("p")

    live(story, plugins=[_permitting("A", Wait(9)), _permitting("B", Wait(5))])


def test_a_rejection_outweighs_a_wish_to_wait() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert world.message("p") == "0/1 nodes are available: 1 no."
        assert len(world.scheduler.waiting) == 0
        assert world.nominated("p") == ""

    live(story, plugins=[_permitting("A", Wait(9)), _permitting("B", lambda: unschedulable("no"))])


def test_a_waiting_pod_that_is_deleted_frees_its_node() -> None:
    hold = plugin("Hold", permit=lambda self, cycle, pod, node: Wait(60) if pod.name == "p" else None)

    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("p")
        await world.add_pod("q")
        assert world.node_of("q") == ""
        world.delete_pod("p")
        await world.settle()
        assert world.node_of("q") == "n"
        assert len(world.scheduler.waiting) == 0
        assert world.place_of("p") is None
        assert len(world.queue.in_flight) == 0

    live(story, plugins=[hold])


def test_a_waiting_pod_gives_way_to_a_more_important_one_without_being_deleted() -> None:
    hold = plugin("Hold", permit=lambda self, cycle, pod, node: Wait(60) if pod.name == "low" else None)

    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low")
        await world.add_pod("high", priority=10)
        await world.settle(0.1)
        assert world.node_of("high") == "n"
        assert world.has_pod("low")
        uid = world.pod("high")["metadata"]["uid"]
        note = f"Preempted by pod {uid} on node n (in kube-scheduler memory)."
        assert world.notes("low", "Preempted") == [note]
        assert world.condition("low", "DisruptionTarget") == {}
        assert "waiting on permit for pod: preempted" in world.notes("low", "FailedScheduling")

    live(story, plugins=[hold])


def test_a_plugin_lets_its_pods_go_together() -> None:
    """A gang of two in a few lines: who comes first waits for the other."""

    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        held = [one for one in self.handle.scheduler.waiting if one.pod.labels == pod.labels]
        for other in held:
            other.allow("Pairs")
        return None if held else Wait(60)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("one", metadata={"labels": {"pair": "a"}})
        await asyncio.sleep(5)
        assert world.node_of("one") == ""
        await world.add_pod("two", metadata={"labels": {"pair": "a"}})
        assert (world.node_of("one"), world.node_of("two")) == ("n", "n")

    live(story, plugins=[plugin("Pairs", permit=permit)])


@pytest.mark.parametrize(("code", "at_once"), [(Code.UNSCHEDULABLE, False), (Code.PENDING, True)])
def test_a_pod_that_was_only_asked_for_patience_does_not_back_off(code: Code, at_once: bool) -> None:
    registered = [EventRegistration(ClusterEvent(Resource.NODE, Action.ADD))]
    asks = plugin(
        "Asks",
        reserve=lambda self, cycle, pod, node: Status(code, ("not yet",)),
        events=lambda self: registered,
    )
    config = configured(enabling(asks), gates={"SchedulerPopFromBackoffQ": False})

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        world.add_node("m")
        await world.settle(0.1)
        assert (len(world.attempts("p")) == 2) is at_once

    live(story, config=config, plugins=[asks], verbosity=3)
