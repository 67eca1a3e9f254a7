"""Resources of assumed pods."""

from scheduler.plugins.answers import PASSES, verdicts
from stowplan.scheduler.framework.status import unschedulable
from stowplan.testing import cluster, node, pod


def test_an_assumed_pod_takes_its_room_until_it_is_forgotten() -> None:
    world = cluster(nodes=[node("a").capacity(cpu="1")])
    wanting = pod("q").requests(cpu="600m")
    assumed = world.table.info(pod("p").requests(cpu="600m").obj())
    world.table.assume(assumed, "a")
    full = unschedulable("Insufficient cpu").by("NodeResourcesFit")
    assert verdicts(world, wanting) == {"a": full}
    world.table.confirm(pod("p").requests(cpu="600m").on("a").obj())
    assert verdicts(world, wanting) == {"a": full}
    world.table.forget(assumed.uid)
    assert verdicts(world, wanting) == {"a": PASSES}
