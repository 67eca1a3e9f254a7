"""`explain`: why a pod is where it is, or still waits, and what would help."""

import json

import pytest

from releases import GATES_1_37
from scheduler.live_scheduler import World, configured, live
from stowplan.api.meta import timestamp
from stowplan.explain.document.pod import SchedulingDocument
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin, Wait
from stowplan.scheduler.table.podinfo import PodInfo


def explained(world: World, name: str) -> SchedulingDocument:
    found = world.scheduler.explain(f"d/{name}")
    assert found is not None
    json.dumps(found.document())
    return found


def test_a_bound_pod_says_who_won_by_how_much_and_why() -> None:
    async def story(world: World) -> None:
        world.add_node("small", cpu="2")
        world.add_node("large", cpu="16")
        world.add_node("off", unschedulable=True)
        await world.add_pod("p")
        found = explained(world, "p")
        assert found.state.place == "bound"
        assert found.state.node == "large"
        assert found.attempt is not None
        decision = found.attempt.decision
        assert found.attempt.outcome == "bound"
        assert decision is not None
        assert [candidate.node for candidate in decision.best] == ["large", "small"]
        assert decision.margin == decision.best[0].total - decision.best[1].total > 0
        [rejection] = decision.funnel
        assert (rejection.plugin, rejection.nodes, rejection.examples) == ("NodeUnschedulable", 1, ("off",))
        text = found.text()
        assert "Pod d/p: bound (large)" in text
        assert f"large wins by {decision.margin} points" in text
        assert "node(s) were unschedulable" in text

    live(story)


def test_a_pod_that_fits_nowhere_says_what_would_have_it_tried_again() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", cpu="100")
        found = explained(world, "p")
        now = found.state
        assert (now.place, now.rejected_by) == ("unschedulable", ("NodeResourcesFit",))
        assert now.until == timestamp(world.began + 300)
        wakers = {one.resource: one for one in now.wakers}
        assert wakers["Node"].actions == ("Add", "UpdateNodeAllocatable")
        assert wakers["AssignedPod"].actions == ("Delete", "UpdatePodScaleDown")
        assert "Rejected by: NodeResourcesFit" in found.text()
        document = found.document()
        assert document["now"]["until"] == "2026-01-01T00:05:00Z"
        assert document["lastAttempt"]["decision"]["funnel"][0]["reasons"] == ["Insufficient cpu"]
        assert document["lastAttempt"]["preemption"]["node"] is None
        assert "preemption: 0/1 nodes" in document["lastAttempt"]["message"]

    live(story, config=configured(gates=GATES_1_37))


def test_every_event_that_is_named_wakes_the_pod_and_no_other_does() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", cpu="8")
        world.change_node("n", labels={"colour": "red"})
        await world.settle()
        assert world.place_of("p") == "unschedulable"
        world.add_node("m", cpu="16")
        await world.settle()
        assert world.node_of("p") == "m"

    live(story)


def test_what_preemption_does_is_told() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low", terminationGracePeriodSeconds=30)
        await world.add_pod("high", priority=100)
        found = explained(world, "high")
        assert found.attempt is not None
        assert found.attempt.preemption is not None
        assert found.attempt.preemption.document() == {
            "node": "n",
            "victims": ["d/low"],
            "candidates": 1,
            "message": "preemption: found a potential placement for pod on node n, preempting 1 victims",
            "nodes": 1,
            "funnel": [],
            "chosenBy": {"criterion": "only", "text": "the only candidate"},
            "spared": {"pods": [], "count": 0},
            "headline": "Why pods of n were evicted",
        }
        assert "Preemption: victims on n: d/low (1 candidate node)." in found.text()

    live(story, config=configured(gates=GATES_1_37))


class Hold(Plugin):
    """Keeps every pod waiting."""

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Wait:
        return Wait(60)


def test_a_pod_at_permit_says_whom_it_waits_for() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        now = explained(world, "p").state
        assert (now.place, now.node, list(now.held_by)) == ("waiting", "n", ["Hold"])
        assert "Successfully assigned" not in explained(world, "p").text()

    live(story, plugins=[Hold])


def test_a_gated_pod_says_who_holds_it_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p", schedulingGates=[{"name": "later"}])
        found = explained(world, "p")
        assert found.state.place == "gated"
        assert found.state.held_by == {"SchedulingGates": "waiting for scheduling gates: [later]"}
        assert [one.actions for one in found.state.wakers] == [("UpdatePodSchedulingGatesEliminated",)]
        assert found.attempt is None
        assert "No scheduling attempt is recorded." in found.text()

    live(story)


def test_an_attempt_that_went_wrong_says_so_and_until_when_it_waits() -> None:
    class Broken(Plugin):
        def filter_node(self, cycle: Cycle, pod: PodInfo, node: object) -> None:
            raise LookupError("no map")

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        found = explained(world, "p")
        assert found.state.place == "backoff"
        assert found.state.until is not None
        assert found.attempt is not None
        assert found.attempt.outcome == "error"
        assert found.attempt.decision is None
        assert "LookupError: no map" in found.text()

    live(story, plugins=[Broken])


def test_nothing_is_known_of_a_pod_that_never_was() -> None:
    async def story(world: World) -> None:
        assert world.scheduler.explain("d/nobody") is None

    live(story)


@pytest.mark.parametrize(("kept", "remembered"), [(0, []), (2, ["b", "c"])])
def test_only_so_many_decisions_are_kept(kept: int, remembered: list[str]) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        for name in "abc":
            await world.add_pod(name)
        assert [name for name in "abc" if explained(world, name).attempt is not None] == remembered

    live(story, kept_decisions=kept)
