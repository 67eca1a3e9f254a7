"""Which kinds are watched for whom, and life without those that the server forbids or lacks."""

import asyncio
from typing import Any

import pytest

from releases import GATES_1_36
from scheduler.live_scheduler import World
from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.config import load
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.watched import AROUND_PODS, DEVICES, STORAGE, Watched

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
SPREADING = {"services", "replicationcontrollers", "replicasets", "statefulsets"}
ALWAYS = {"namespaces", "csinodes", "resourceclaims", "resourceslices", "deviceclasses"}
BUDGETS = {"poddisruptionbudgets"}
VOLUMES = {
    "persistentvolumes",
    "persistentvolumeclaims",
    "storageclasses",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
}
VOLUME_PLUGINS = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")


def profile(disabled: tuple[str, ...] = (), args: str = "") -> str:
    named = "".join(f"\n      - name: {name}" for name in disabled) or " []"
    return f"- plugins:\n    multiPoint:\n      disabled:{named}\n{args}"


LIST_DEFAULTING = """\
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
"""
ONE_DEFAULT = """\
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
"""


@pytest.mark.parametrize(
    ("text", "watched"),
    [
        (profile(), ALWAYS | SPREADING | BUDGETS | VOLUMES),
        (profile(("PodTopologySpread",)), ALWAYS | BUDGETS | VOLUMES),
        (profile(args=LIST_DEFAULTING), ALWAYS | BUDGETS | VOLUMES),
        (profile(args=ONE_DEFAULT), ALWAYS | SPREADING | BUDGETS | VOLUMES),
        (profile(("DefaultPreemption",)), ALWAYS | SPREADING | VOLUMES),
        (profile(("NodeVolumeLimits",)), ALWAYS | SPREADING | BUDGETS | VOLUMES - {"volumeattachments"}),
        (
            profile(("VolumeBinding",)),
            ALWAYS | SPREADING | BUDGETS | VOLUMES - {"csistoragecapacities"},
        ),
        (profile(VOLUME_PLUGINS), ALWAYS | SPREADING | BUDGETS),
        (
            profile(VOLUME_PLUGINS) + "  schedulerName: a\n" + profile() + "  schedulerName: b\n",
            ALWAYS | SPREADING | BUDGETS | VOLUMES,
        ),
    ],
)
def test_a_kind_is_watched_if_a_plugin_of_any_profile_looks_it_up(text: str, watched: set[str]) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, config=load(HEADER + text, GATES_1_36))
        assert {one.resource.plural for one in world.scheduler.informers.others} == watched

    run(main)


class Gate:
    """Refuses kinds in front of a world's server until they are allowed."""

    def __init__(self, world: World, refused: set[str], code: int = 403) -> None:
        self.refused = refused
        listing: Any = world.wire.list

        async def refusing(resource: Resource, *args: Any, **options: Any) -> Any:
            if resource.plural in self.refused:
                raise ApiError(code, "Forbidden", f"{resource.qualified} is forbidden")
            return await listing(resource, *args, **options)

        world.wire.list = refusing  # type: ignore[method-assign]


OPTIONAL = (*AROUND_PODS, *STORAGE, *DEVICES)


@pytest.mark.parametrize("code", [403, 404])
@pytest.mark.parametrize("kind", OPTIONAL, ids=lambda kind: kind.served.plural)
def test_a_refused_kind_is_told_once_with_what_suffers_and_holds_nobody_up(kind: Watched, code: int) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        gate = Gate(world, {kind.served.plural}, code)
        name = kind.served.qualified
        async with world.scheduler.running():
            assert world.now == 0
            world.add_node("n")
            await world.add_pod("p")
            assert world.node_of("p") == "n"
            await world.settle(300)
            assert world.problems == [f"cannot watch {name}: {name} is forbidden; {kind.without}"]
            gate.refused.clear()
            await world.settle(61)
            assert f"{name} can be watched now" in [message for _, _, message, _ in world.told]
            assert all(one.has_synced for one in world.scheduler.informers.all)

    assert kind.without
    run(main)


@pytest.mark.parametrize("plural", ["nodes", "pods"])
def test_without_nodes_and_pods_nothing_begins(plural: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        gate = Gate(world, {plural})
        asyncio.get_running_loop().call_later(100, gate.refused.clear)
        async with world.scheduler.running():
            assert 100 <= world.now < 200
            assert len(world.problems) > 3
            assert set(world.problems) == {f"cannot watch {plural}: {plural} is forbidden"}

    run(main)


def test_a_server_that_refuses_everything_while_it_starts_is_waited_for() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        kinds = {one.resource.plural for one in world.scheduler.informers.all}
        gate = Gate(world, kinds)
        asyncio.get_running_loop().call_later(10, gate.refused.clear)
        async with world.scheduler.running():
            assert all(one.has_synced for one in world.scheduler.informers.all)

    run(main)
