"""The shapes that are measured."""

from itertools import chain

import pytest

from stowplan.api.pod import Pod
from stowplan.lab.bench.engine.workloads import HOSTNAME, WORKLOADS, ZONE, node
from stowplan.scheduler.table.table import ClusterTable, load


def test_nodes_are_alike_but_for_hostname_and_zone() -> None:
    nodes = [node(number) for number in range(6)]
    assert [n.metadata.labels[ZONE] for n in nodes] == ["zone1", "zone2", "zone3"] * 2
    assert all(n.metadata.labels[HOSTNAME] == n.name for n in nodes)
    assert all(n.status.allocatable == {"cpu": "32", "memory": "256Gi", "pods": "110"} for n in nodes)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_pod_asks_for_what_it_is_limited_to_and_has_one_port_without_host_port(name: str) -> None:
    workload = WORKLOADS[name]
    for pod in chain((workload.pod(number) for number in range(10)), workload.existing(0, 3)):
        (container,) = pod.spec.containers
        assert container.resources.requests == container.resources.limits
        assert container.resources.requests["memory"] == "500Mi"
        (port,) = container.ports
        assert (port.container_port, port.host_port) == (80, 0)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "many-classes"])
def test_every_pod_asks_for_a_tenth_of_a_cpu(name: str) -> None:
    assert {WORKLOADS[name].pod(n).spec.containers[0].resources.requests["cpu"] for n in range(20)} == {
        "100m"
    }


def wish(pod: Pod) -> str:
    """Kind of a pod, by its spec."""
    affinity = pod.spec.affinity
    if pod.spec.topology_spread_constraints:
        return "spread"
    if affinity is None:
        return "basic"
    if affinity.node_affinity is not None:
        return "node-affinity"
    return "anti-affinity" if affinity.pod_anti_affinity is not None else "preferred-affinity"


FIVE = ["basic", "spread", "anti-affinity", "preferred-affinity", "node-affinity"]


@pytest.mark.parametrize("name", FIVE)
def test_a_workload_has_pods_of_its_own_kind(name: str) -> None:
    assert {wish(WORKLOADS[name].pod(number)) for number in range(10)} == {name}


@pytest.mark.parametrize("name", ["mixed", "many-classes"])
def test_the_five_kinds_come_in_turn(name: str) -> None:
    assert [wish(WORKLOADS[name].pod(number)) for number in range(10)] == FIVE * 2


@pytest.mark.parametrize("name", FIVE)
def test_the_first_pod_on_a_node_is_of_the_workloads_kind_and_the_others_are_basic(name: str) -> None:
    kinds = [wish(pod) for pod in WORKLOADS[name].existing(7, 4)]
    assert kinds == ["basic" if name == "node-affinity" else name, "basic", "basic", "basic"]
    assert all(pod.spec.node_name == "node-7" for pod in WORKLOADS[name].existing(7, 4))


def test_anti_affinity_groups_are_of_a_hundred() -> None:
    workload = WORKLOADS["anti-affinity"]
    assert [workload.pod(n).metadata.labels["group"] for n in (0, 99, 100)] == ["g0", "g0", "g1"]
    (first, *_) = workload.existing(250, 1)
    assert first.metadata.labels["group"] == "g2"


def test_with_many_classes_no_two_pods_share_a_template() -> None:
    table = ClusterTable()
    workload = WORKLOADS["many-classes"]
    infos = [table.info(workload.pod(number)) for number in range(100)]
    assert len({id(info.template) for info in infos}) == 100
    shared = [table.info(WORKLOADS["mixed"].pod(number)) for number in range(100)]
    assert len({id(info.template) for info in shared}) == 5


def test_a_bound_pod_is_the_same_pod_and_shares_nothing_with_it() -> None:
    workload = WORKLOADS["spread"]
    pending, bound = workload.pod(3), workload.pod(3, "node-1")
    assert pending.metadata == bound.metadata
    assert pending.metadata is not bound.metadata
    assert pending.spec.containers[0] is not bound.spec.containers[0]
    assert (pending.spec.node_name, bound.spec.node_name) == ("", "node-1")


def test_a_cluster_is_built_from_them() -> None:
    table = ClusterTable()
    load(table, [node(number) for number in range(5)])
    load(table, [pod for number in range(5) for pod in WORKLOADS["mixed"].existing(number, 10)])
    assert (table.node_count, len(table.pods)) == (5, 50)
    assert table.requested[0][:5].tolist() == [1000] * 5
