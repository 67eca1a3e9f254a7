"""Nodes by shape: what a file may say, what it gets told when it is wrong, what nodes it makes."""

from pathlib import Path
from typing import Any

import pytest

from stowplan.localcluster.kubelets import NodeShape, ShapeError, named_nodes, read_shapes
from stowplan.localcluster.kubelets.config import shapes_of
from stowplan.localcluster.kubelets.nodes import address, csi_node, node_object, pod_address
from stowplan.localcluster.kubelets.pods import PodAddresses

FULL = """
nodes:
- count: 3
  name: gpu-{}
  cpu: 64
  memory: 256Gi
  pods: 250
  resources: {example.com/gpu: 8}
  allocatable: {cpu: 63500m}
  labels: {pool: gpu}
  taints: [{key: gpu, value: "yes", effect: NoExecute}]
  zones: [a, b]
  region: r
  images: [{names: [registry.example/app:1], sizeBytes: 1000}]
  csi: [{name: csi.example, limit: 25, topologyKeys: [topology.kubernetes.io/zone]}]
- count: 2
"""


def test_a_file_describes_nodes_in_full(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(FULL)
    nodes = named_nodes(read_shapes(path))
    assert [node.name for node in nodes] == ["gpu-0", "gpu-1", "gpu-2", "node-3", "node-4"]
    made = node_object(nodes[1], "v1.36.4", 0.0)
    assert made["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert made["metadata"]["labels"]["pool"] == "gpu"
    assert made["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoExecute"}]
    status = made["status"]
    assert status["capacity"] == {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "250",
        "ephemeral-storage": "100Gi",
        "example.com/gpu": "8",
    }
    assert status["allocatable"]["cpu"] == "63500m"
    assert status["images"] == [{"names": ["registry.example/app:1"], "sizeBytes": 1000}]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    drivers = csi_node(nodes[1], {"metadata": {"name": "gpu-1", "uid": "u"}})
    assert drivers is not None
    assert drivers["spec"]["drivers"][0]["allocatable"] == {"count": 25}
    assert csi_node(nodes[3], {"metadata": {"name": "node-3", "uid": "u"}}) is None


def devices(**fields: Any) -> Any:
    return [{"devices": [fields]}]


def shared(**capacity: Any) -> Any:
    return devices(shared=True, capacity={"m": capacity})


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "nodes: expected a list of at least one shape"),
        ({"shapes": []}, "nodes: expected a list of at least one shape"),
        ([{"cpus": 4}], "nodes[0]: object contains unknown field `cpus`"),
        ([{"count": "x"}], "nodes[0].count: expected `int`, got `str`"),
        ([{"count": 0}], "nodes[0].count: expected at least 1, got 0"),
        ([{"cpu": "much"}], "nodes[0].cpu: expected a quantity such as 4, 500m or 16Gi, got 'much'"),
        ([{"memory": "-1Gi"}], "nodes[0].memory: expected a quantity of at least 0, got '-1Gi'"),
        ([{"pods": -1}], "nodes[0].pods: expected at least 0, got -1"),
        ([{}, {"name": "Node"}], "nodes[1].name: expected lower case letters"),
        ([{"resources": {"gpu": 1}}], "nodes[0].resources.gpu: expected the name of an extended resource"),
        ([{"labels": {"a b": "c"}}], "nodes[0].labels.a b: name part must consist of"),
        ([{"labels": {"a": "b c"}}], "nodes[0].labels.a: a valid label must be"),
        (
            [{"taints": [{"key": "k", "effect": "No"}]}],
            "nodes[0].taints[0].effect: expected one of NoSchedule",
        ),
        ([{"csi": [{"name": "d", "limit": -1}]}], "nodes[0].csi[0].limit: expected at least 0, got -1"),
        ([{"name": "n"}, {"name": "n"}], "nodes[1].name: two nodes would be called 'n'"),
        ([{"count": 10**9}], "nodes: expected at most 100000 altogether"),
        ([{"devices": [{"counts": 1}]}], "nodes[0].devices[0]: object contains unknown field `counts`"),
        ([{"devices": [{"count": 0}]}], "nodes[0].devices[0].count: expected at least 1, got 0"),
        ([{"devices": [{"count": 2000}]}], "nodes[0].devices[0].count: expected at most 1024 devices of"),
        ([{"devices": [{"driver": "GPU"}]}], "nodes[0].devices[0].driver: expected a DNS subdomain"),
        ([{"devices": [{"name": "gpu_{}"}]}], "nodes[0].devices[0].name: expected lower case letters"),
        ([{"devices": [{}, {}]}], "nodes[0].devices[1].name: two devices would be called 'gpu-0'"),
        (devices(attributes={"a-b": 1}), "nodes[0].devices[0].attributes.a-b: expected a name such as model"),
        (devices(attributes={"a": 1.5}), "nodes[0].devices[0].attributes[...]: expected `bool | int | str"),
        (devices(attributes={"v": {"version": "1"}}), "nodes[0].devices[0].attributes.v.version: expected a"),
        (
            devices(attributes={f"a{n}": n for n in range(31)}),
            "nodes[0].devices[0].attributes: expected at most",
        ),
        (devices(capacity={"m": "x"}), "nodes[0].devices[0].capacity.m: expected a quantity such as"),
        (
            devices(capacity={"m": {"value": 8, "step": 1}}),
            "nodes[0].devices[0].capacity.m: expected one quantity",
        ),
        (shared(value=8, step=1), "nodes[0].devices[0].capacity.m.default: expected a quantity"),
        (shared(value=8, default=9, min=1), "nodes[0].devices[0].capacity.m: expected min <= default <= max"),
        (shared(value=8, default=1, values=[2]), "nodes[0].devices[0].capacity.m.values: expected ascending"),
        (devices(groups={"nvlink": 0}), "nodes[0].devices[0].groups.nvlink: expected at least 1, got 0"),
        (
            devices(taints=[{"key": "a", "effect": "No"}]),
            "nodes[0].devices[0].taints[0].effect: expected one of",
        ),
        (devices(counters={"m": 1}), "nodes[0].devices[0].counters: expected partitions that consume them"),
        (
            devices(partitions=[{"profile": "p", "consumes": {"x": 1}}], capacity={"m": 1}),
            "nodes[0].devices[0].partitions[0].consumes.x: expected one of the counters m",
        ),
        (
            devices(partitions=[{"profile": "p", "capacity": {"m": 2}}], capacity={"m": 1}),
            "nodes[0].devices[0].partitions[0].consumes.m: expected at most 1",
        ),
        (devices(extendedResource="gpu"), "nodes[0].devices[0].extendedResource: expected the name of"),
        (
            [{"devices": [{"extendedResource": "a.b/c"}]}, {"devices": [{"extendedResource": "a.b/d"}]}],
            "nodes[1].devices[0].extendedResource: expected 'a.b/c' as for other devices of class",
        ),
    ],
)
def test_a_wrong_shape_gets_one_line_that_names_the_field(data: Any, told: str) -> None:
    with pytest.raises(ShapeError) as error:
        shapes_of(data)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "told"), [("a: [", "not YAML"), ("- cpus: 1", "nodes[0]: object contains")])
def test_a_wrong_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(ShapeError, match=r"nodes\.yaml: ") as error:
        read_shapes(path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(ShapeError, match="No such file"):
        read_shapes(tmp_path / "none.yaml")


def test_nodes_and_pods_have_addresses_of_their_own() -> None:
    assert address(0) == "10.128.0.1"
    assert len({address(number) for number in range(5000)}) == 5000
    assert len({pod_address(node, slot) for node in range(600) for slot in range(110)}) == 66_000
    assert named_nodes([NodeShape(count=2, name="n")])[1].name == "n-1"


def test_an_address_is_free_again_when_its_pod_is_gone() -> None:
    addresses = PodAddresses()
    first, second = addresses.of("n", "a"), addresses.of("n", "b")
    assert first != second
    assert addresses.of("n", "a") == first
    addresses.release("n", "a")
    assert addresses.of("n", "c") == first
    assert addresses.of("m", "c") not in (first, second)
