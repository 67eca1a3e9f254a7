"""The recorded scenarios a to d in one life of a scheduler, and the log of it."""

from runtime.logs.reading import Line, entries
from scheduler.comparable_writes import RECORDED
from scheduler.live_scheduler import World, live
from stowplan.runtime.logs import LogSettings, logger_for

LATENCY = 0.006
ZONE = {"topology.kubernetes.io/zone": "z1"}


def said(verbosity: int) -> list[Line]:
    """Log lines of a scheduler in the scenarios."""
    return entries(log_of(LogSettings(verbosity=verbosity)))


def log_of(settings: LogSettings) -> str:
    """The log of the scenarios."""
    written: list[bytes] = []

    async def story(world: World) -> None:
        await _bound(world)
        await _fits_nowhere(world)
        await _no_nodes(world)
        await _fits_later(world)
        await _preempts(world)

    with logger_for(settings, now=lambda: 1794771556.25, stderr=written.append, pid=4321) as logger:
        live(story, latency=LATENCY, logger=logger, config=RECORDED)
    return b"".join(written).decode()


async def _bound(world: World) -> None:
    world.namespace = "obs-a"
    world.add_node("node-a1", labels=ZONE)
    world.put_pod("plain")
    await world.settle(1)
    await _removed(world, "plain")
    world.remove_node("node-a1")


async def _fits_nowhere(world: World) -> None:
    world.namespace = "obs-b"
    world.add_node("node-b1", cpu="2", labels=ZONE)
    world.add_node("node-b2", labels=ZONE, taints=[_taint("0")])
    world.put_pod("big", cpu="4")
    await world.settle(2)
    world.change_node("node-b2", labels=ZONE, taints=[_taint("1")])
    await world.settle(2)
    await _removed(world, "big")
    world.remove_node("node-b1")
    world.remove_node("node-b2")
    await world.settle(1)


async def _no_nodes(world: World) -> None:
    world.put_pod("nonodes")
    await world.settle(2.5)
    await _removed(world, "nonodes")


async def _fits_later(world: World) -> None:
    world.namespace = "obs-c"
    world.add_node("node-c1", cpu="2", labels=ZONE)
    world.put_pod("waiter", cpu="4")
    await world.settle(1)
    world.add_node("node-c2", cpu="8", labels=ZONE)
    await world.settle(1)
    await _removed(world, "waiter")
    world.remove_node("node-c1")
    world.remove_node("node-c2")


async def _preempts(world: World) -> None:
    world.namespace = "obs-d"
    world.add_node("node-d1", labels=ZONE)
    for name in ("low-1", "low-2"):
        world.put_pod(name, cpu="2", priority=10)
        await world.settle(0.2)
        world.patch_pod(name, {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}, "status")
    await world.settle(1)
    world.put_pod("high", cpu="3", priority=1000)
    await world.settle(3)
    for name in ("low-1", "low-2"):
        world.delete_pod(name)
        await world.settle(0.03)
    await world.settle(1)
    world.put_pod("never", cpu="3", priority=1000, preemptionPolicy="Never")
    await world.settle(1)
    await _removed(world, "high")
    await world.settle(1)
    await _removed(world, "never")
    world.remove_node("node-d1")
    await world.settle(1)


async def _removed(world: World, name: str) -> None:
    """Deleted as a user would, then by the simulated kubelet."""
    world.delete_pod(name, now=False)
    await world.settle(0.05)
    if world.has_pod(name):
        world.delete_pod(name)
    await world.settle(0.05)


def _taint(value: str) -> dict[str, str]:
    return {"key": "example.com/mine", "value": value, "effect": "NoSchedule"}
