"""NodeName: pods that name their node."""

from scheduler.plugins.answers import PASSES, verdicts
from stowplan.scheduler.framework.status import unresolvable
from stowplan.testing import cluster, node, pod


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    by_filter = unresolvable("node(s) didn't match the requested node name").by("NodeName")
    by_pre_filter = unresolvable("node(s) didn't satisfy plugin(s) [NodeName]")
    for release, elsewhere in (("1.36", by_filter), ("1.37", by_pre_filter)):
        world = cluster(nodes=[node("a"), node("b")], release=release)
        assert verdicts(world, pod("p").spec(node_name="b")) == {"a": elsewhere, "b": PASSES}
