"""Reserve, Permit, PreBind and PostBind in `stowplan.testing.cluster`."""

import asyncio
from typing import Any

import pytest

from stowplan.framework import Plugin, Wait, unschedulable
from stowplan.testing import cluster, node, pod


class Tracing(Plugin):
    """Rejects pods by their label, and notes its calls."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def _answer(self, point: str, pod: Any) -> Any:
        self.calls.append(point)
        if pod.labels.get("fails") == point:
            raise ZeroDivisionError("on purpose")
        return unschedulable(f"no {point}") if pod.labels.get("rejects") == point else None

    def reserve(self, cycle: Any, pod: Any, node: str) -> Any:
        return self._answer("reserve", pod)

    def unreserve(self, cycle: Any, pod: Any, node: str) -> None:
        self.calls.append("unreserve")

    def permit(self, cycle: Any, pod: Any, node: str) -> Any:
        return self._answer("permit", pod)

    async def pre_bind(self, cycle: Any, pod: Any, node: str) -> Any:
        await asyncio.sleep(0)
        return self._answer("pre_bind", pod)

    def post_bind(self, cycle: Any, pod: Any, node: str) -> None:
        self.calls.append("post_bind")


def traced(world: Any) -> list[str]:
    calls: list[str] = world.frameworks["default-scheduler"].plugins["Tracing"].calls
    return calls


def test_they_are_called_in_order_when_a_pod_is_scheduled_and_not_when_it_is_only_decided() -> None:
    world = cluster([node("n")], plugins=[Tracing])
    assert world.decide(pod("p")).node == "n"
    assert traced(world) == []
    assert world.schedule(pod("p")).node == "n"
    assert traced(world) == ["reserve", "permit", "pre_bind", "post_bind"]
    assert world.pods_on("n") == ["default/p"]


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
def test_a_pod_that_is_rejected_leaves_its_node_again(point: str) -> None:
    world = cluster([node("n")], plugins=[Tracing])
    decision = world.schedule(pod("p").labels(rejects=point))
    assert (decision.node, decision.message) == (None, f"no {point}")
    assert traced(world)[-1] == "unreserve"
    assert world.pods_on("n") == []
    failed = world.schedule(pod("q").labels(fails=point))
    assert failed.node is None
    assert "ZeroDivisionError: on purpose (test_binding_points.py:" in failed.message
    assert world.pods_on("n") == []


def test_they_are_called_from_within_an_event_loop_too() -> None:
    async def story() -> None:
        world = cluster([node("n")], plugins=[Tracing])
        assert world.schedule(pod("p")).node == "n"

    asyncio.run(story())


class Pairs(Plugin):
    def permit(self, cycle: Any, pod: Any, node: str) -> Any:
        scheduler = self.handle.scheduler
        for other in scheduler.waiting:
            if other.pod.labels["pair"] == pod.labels["pair"]:
                other.allow(self.name)
                scheduler.event(pod.pod, type="Normal", reason="Paired", action="Pairing", note=other.pod.key)
                return None
        return Wait(60)


def test_a_pod_waits_at_permit_until_it_is_allowed_or_has_waited_too_long() -> None:
    world = cluster([node("n")], plugins=[Pairs])
    assert world.schedule(pod("a0").labels(pair="a")).node == "n"
    assert world.schedule(pod("b0").labels(pair="b")).node == "n"
    assert world.waiting == {"default/a0": ["Pairs"], "default/b0": ["Pairs"]}
    world.schedule(pod("a1").labels(pair="a"))
    assert world.waiting == {"default/b0": ["Pairs"]}
    assert [(event.reason, event.note) for event in world.events] == [("Paired", "default/a0")]
    world.advance(59)
    assert world.waiting
    world.advance(2)
    assert world.waiting == {}
    assert world.rejected == {
        "default/b0": "rejected due to timeout after waiting 1m0s at plugin Pairs",
    }
    assert sorted(world.pods_on("n")) == ["default/a0", "default/a1"]


class Asking(Plugin):
    def reserve(self, cycle: Any, pod: Any, node: str) -> Any:
        return getattr(self.handle.scheduler, pod.labels["wants"])


def test_what_needs_an_api_server_says_so() -> None:
    world = cluster([node("n")], plugins=[Asking])
    decision = world.schedule(pod("p").labels(wants="client"))
    assert "NoSchedulerError: cluster() has no API server: use live_cluster()" in decision.message
    began = world.clock.now()
    world.advance(5)
    assert world.clock.now() == began + 5
