"""NodeUnschedulable: cordoned nodes."""

from scheduler.plugins.answers import PASSES, verdicts
from stowplan.scheduler.framework.status import unresolvable
from stowplan.testing import cluster, node, pod

CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")


def test_a_cordoned_node_takes_only_pods_that_tolerate_its_taint() -> None:
    world = cluster(nodes=[node("on"), node("off").unschedulable()])
    assert verdicts(world, pod("p")) == {"on": PASSES, "off": CORDONED}
    tolerant = pod("p").tolerates("node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert verdicts(world, tolerant) == {"on": PASSES, "off": PASSES}
