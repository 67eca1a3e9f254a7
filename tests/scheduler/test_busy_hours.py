"""An hour of a busy cluster in a moment, and the same hour every time."""

import hashlib
import os
import subprocess
import sys
from functools import lru_cache

from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import NODES

PODS = 2000
HOUR = 3600


@lru_cache
def busy_hour(seed: int) -> tuple[str, World]:
    """A digest of everything that was written in an hour of thousands of pods."""

    async def story(world: World) -> None:
        for number in range(40):
            world.add_node(f"n{number}", cpu="8", labels={"topology.kubernetes.io/zone": f"z{number % 3}"})
        alive: list[str] = []
        for number in range(PODS):
            name = f"p{number}"
            priority = 10 if number % 17 == 0 else 0
            spread = {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
            world.put_pod(
                name,
                cpu="1" if number % 400 else "100",
                priority=priority,
                metadata={"labels": {"app": "a"}},
                topologySpreadConstraints=[spread],
            )
            alive.append(name)
            if len(alive) > 200:
                world.delete_pod(alive.pop(0))
            if number % 100 == 0:
                world.change_node(f"n{number // 100}", cpu="9")
            await world.settle(HOUR / PODS)
        world.store.delete(NODES, "", "n1")

    world = live(story, seed=seed)
    written = "\n".join(repr(request) for request in world.wire.writes)
    return hashlib.sha256(written.encode()).hexdigest(), world


def test_an_hour_with_thousands_of_pods_passes_in_virtual_time() -> None:
    _, world = busy_hour(7)
    assert world.now >= HOUR
    assert world.scheduler.context.queue.cycle >= PODS


def test_another_seed_is_another_hour() -> None:
    assert busy_hour(7)[0] != busy_hour(8)[0]


def test_the_same_seed_repeats_it_bit_for_bit_whatever_the_order_of_sets() -> None:
    code = "from scheduler.test_busy_hours import busy_hour; print(busy_hour(7)[0])"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == busy_hour(7)[0]
