"""The attempts of a pod: the latest first, ten at most, with what was refused and who was evicted."""

from typing import Any

import pytest

from scheduler.live_scheduler import World, live
from stowplan.explain.web import Inspection
from stowplan.scheduler.decisions import EARLIER
from stowplan.scheduler.framework import Plugin, Status, unschedulable


def test_the_attempts_before_the_last_one_are_remembered_up_to_a_limit() -> None:
    async def story(world: World) -> None:
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        world.add_node("n", cpu="1")
        await world.add_pod("p", cpu="40")
        await world.settle((EARLIER + 5) * 400)
        found = await inspection.pod(world.namespace, "p")
        assert found is not None
        numbers = [one.number for one in found.attempts]
        assert found.situation[0].startswith(f"attempt {numbers[0]}, "), "the last one, not the oldest"
        assert len(numbers) == EARLIER + 1
        assert numbers == list(range(numbers[0], numbers[0] - len(numbers), -1))
        assert {one.outcome for one in found.attempts} == {"unschedulable"}
        assert "Insufficient cpu" in found.attempts[-1].message
        times = [one.time for one in found.attempts]
        assert times == sorted(times, reverse=True)

    live(story)


class RefusesAtPermit(Plugin):
    def permit(self, cycle: Any, pod: Any, node: str) -> Status:
        return unschedulable("the team has used up its share")


class RefusesAtReserve(Plugin):
    def reserve(self, cycle: Any, pod: Any, node: str) -> Status:
        return unschedulable("the team has used up its share")

    def unreserve(self, cycle: Any, pod: Any, node: str) -> None: ...


@pytest.mark.parametrize("plugin", [RefusesAtPermit, RefusesAtReserve])
def test_a_node_that_was_refused_after_the_choice_is_named(plugin: type[Plugin]) -> None:
    async def story(world: World) -> None:
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(400)
        found = await inspection.pod(world.namespace, "p")
        assert found is not None
        reason = f"n was chosen and {plugin.__name__} refused it: the team has used up its share"
        assert found.headline == f"d/p is pending: {reason}"
        assert found.stopped_at == "bound"
        [cause] = (await inspection.pending({world.namespace})).causes
        assert (cause.reason, cause.help) == (found.cause, found.remedy)

    live(story, plugins=[plugin])


def test_the_attempt_that_evicted_pods_stays_with_its_pod() -> None:
    async def story(world: World) -> None:
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        world.add_node("n", cpu="1")
        await world.add_pod("low", terminationGracePeriodSeconds=30)
        await world.add_pod("high", priority=100)
        world.delete_pod("low")
        await world.settle(60)
        assert world.node_of("high") == "n"
        found = await inspection.pod(world.namespace, "high")
        assert found is not None
        bound, *earlier = found.attempts
        assert (bound.outcome, bound.preemption) == ("bound", None)
        [evicting] = [one.preemption for one in earlier if one.preemption is not None]
        assert (evicting.node, evicting.victims) == ("n", ("d/low",))
        assert found.evictions is not None
        assert found.evictions.victims == ("d/low",)

    live(story)
