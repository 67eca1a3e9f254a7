"""Pods whose requests add up to more than 64 bits hold, in front of a living scheduler."""

from typing import Any

from scheduler.live_scheduler import World, live

HUGE = [{"name": "c", "image": "i", "resources": {"requests": {"memory": "7Ei"}}}]
NOTHING = [{"name": "c", "image": "i"}]


def _only(*names: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_pods_bound_to_two_overfull_nodes_by_affinity_are_bound_to_no_other() -> None:
    async def story(world: World) -> None:
        for number in range(6):
            world.add_node(f"n{number}")
        for number in range(4):
            world.put_pod(f"huge-{number}", containers=HUGE, nodeName=f"n{number % 2}")
        await world.settle()
        for number in range(4):
            await world.add_pod(f"p{number}", containers=NOTHING, affinity=_only("n0", "n1"))
        await world.settle(30)
        assert {world.node_of(f"p{number}") for number in range(4)} <= {"n0", "n1"}
        await world.add_pod("plain")
        assert world.node_of("plain") in {f"n{number}" for number in range(2, 6)}
        assert world.problems == []

    live(story)
