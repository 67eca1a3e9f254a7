"""Gangs that compete for nodes: none holds room in part, none waits for room that is free."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import POD_GROUPS, PODS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.config import default_config

NODES = 4
CPUS = 4
GATES = FeatureGates({"GenericWorkload": True}, release("1.37"))


class Gang:
    """A gang of equal pods: how many there are, how many are needed, and what each takes."""

    def __init__(self, name: str, size: int, minimum: int, cpu: int, priority: int = 0) -> None:
        self.name = name
        self.size = size
        self.minimum = min(minimum, size)
        self.cpu = cpu
        self.priority = priority

    def __repr__(self) -> str:
        return f"{self.name}: {self.minimum} of {self.size} with {self.cpu} CPU, priority {self.priority}"

    def create(self, world: World) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": self.minimum}}, "priority": self.priority}
        meta = {"name": self.name, "namespace": world.namespace}
        world.store.create(POD_GROUPS, {"metadata": meta, "spec": spec})
        for number in range(self.size):
            group = {"podGroupName": self.name}
            world.put_pod(
                f"{self.name}-{number}", str(self.cpu), schedulingGroup=group, priority=self.priority
            )

    def placed(self, world: World) -> int:
        pods = world.store.list(PODS).items
        mine = [pod for pod in pods if pod["spec"]["schedulingGroup"]["podGroupName"] == self.name]
        return sum(bool(pod["spec"].get("nodeName")) for pod in mine)

    def fits(self, free: list[int]) -> bool:
        """True if the minimum of the gang fits into the free room of nodes; its pods are equal."""
        return sum(room // self.cpu for room in free) >= self.minimum


def free(world: World) -> list[int]:
    """Free CPUs of every node."""
    left = dict.fromkeys((f"n{number}" for number in range(NODES)), CPUS)
    for pod in world.store.list(PODS).items:
        node = pod["spec"].get("nodeName")
        if node:
            left[node] -= int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    return list(left.values())


def play(gangs: list[Gang], pauses: list[float], deleted: list[bool], **options: Any) -> None:
    """Let gangs come one after the other, some go again, and look at what there is when nothing moves."""

    async def story(world: World) -> None:
        for number in range(NODES):
            world.add_node(f"n{number}", str(CPUS))
        for gang, pause in zip(gangs, pauses, strict=True):
            gang.create(world)
            await world.settle(pause)
        await world.settle(100)
        _check(world, gangs)
        for gang, goes in zip(gangs, deleted, strict=True):
            if goes:
                for number in range(gang.size):
                    world.delete_pod(f"{gang.name}-{number}")
        await world.settle(400)
        _check(world, [gang for gang, goes in zip(gangs, deleted, strict=True) if not goes])

    live(story, config=default_config(GATES), **options)


def _check(world: World, gangs: list[Gang]) -> None:
    context = world.scheduler.context
    assert not context.cache.assumed
    assert not len(context.waiting)
    room = free(world)
    assert min(room) >= 0
    for gang in gangs:
        placed = gang.placed(world)
        assert placed == 0 or placed >= gang.minimum, f"{gang} holds room for {placed}"
        if placed == 0:
            assert not gang.fits(room), f"{gang} waits though {room} is free"


GANGS = st.lists(
    st.builds(
        Gang,
        st.just(""),
        st.integers(1, 10),
        st.integers(1, 10),
        st.sampled_from((1, 1, 2, 3)),
    ),
    min_size=1,
    max_size=5,
)


PAUSES = st.lists(st.sampled_from((0.0, 0.0, 0.5, 3.0)), min_size=5, max_size=5)


@settings(max_examples=examples(20), deadline=None)
@given(GANGS, PAUSES, st.integers(0, 31), st.booleans())
def test_no_gang_holds_room_in_part_and_none_waits_for_room_that_is_free(
    gangs: list[Gang], pauses: list[float], deleted: int, wakes: bool
) -> None:
    for number, gang in enumerate(gangs):
        gang.name = f"g{number}"
    goes = [bool(deleted >> number & 1) for number in range(len(gangs))]
    play(gangs, pauses[: len(gangs)], goes, wake_failed_groups=wakes)


def test_of_two_gangs_that_need_more_than_half_one_is_placed_and_the_other_holds_nothing() -> None:
    play([Gang("a", 10, 10, 1), Gang("b", 10, 10, 1)], [0.0, 0.0], [False, True])
