"""NodePorts: host ports by address and protocol."""

from scheduler.plugins.answers import PASSES, verdicts
from stowplan.scheduler.framework.status import unschedulable
from stowplan.testing import cluster, node, pod


def test_a_host_port_is_taken_once_per_node_address_and_protocol() -> None:
    holder = pod("old").port(80, host_port=8080, host_ip="10.0.0.1").on("a")
    world = cluster(nodes=[node("a"), node("b")], pods=[holder])
    taken = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")
    assert verdicts(world, pod("p").port(80, host_port=8080)) == {"a": taken, "b": PASSES}
    assert verdicts(world, pod("p").port(80, host_port=8080, protocol="UDP"))["a"] == PASSES
    assert verdicts(world, pod("p").port(80, host_port=8080, host_ip="10.0.0.2"))["a"] == PASSES
    assert verdicts(world, pod("p").port(8080))["a"] == PASSES
