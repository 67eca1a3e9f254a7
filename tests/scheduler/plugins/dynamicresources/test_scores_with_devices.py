"""Scores by a resource that the arguments of NodeResourcesFit list, where nodes answer it with devices."""

from typing import Any

import pytest

from stowplan.api.decode import convert
from stowplan.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.config import default_profile
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFitArgs
from stowplan.scheduler.plugins.noderesources.resource_allocation import ResourceSpec, ScoringStrategy
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

DRIVER = "d.example.com"
GPU = "example.com/gpu"


def slice_for(where: dict[str, Any], name: str, count: int, model: str = "a") -> ResourceSlice:
    devices = [{"name": f"g{number}", "attributes": {"model": {"string": model}}} for number in range(count)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": devices, **where}
    return convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def held(name: str, pool: str, *devices: str) -> ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": one} for one in devices]
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    status = {"allocation": {"devices": {"results": results}}}
    return convert({"metadata": metadata, "status": status}, ResourceClaim)


def cluster() -> ClusterTable:
    """Four devices on n0, two of them in use; two on n1; a device plugin on n2; another model on n3."""
    table = ClusterTable()
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "a"'}}
    spec = {"selectors": [selector], "extendedResourceName": GPU}
    table.put(convert({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass))
    for number in range(4):
        capacity = {"cpu": "10", "memory": "10Gi", "pods": "110"}
        if number == 2:
            capacity[GPU] = "10"
        table.put_node(node(f"n{number}").capacity(**capacity).obj())
    table.put(slice_for({"nodeName": "n0"}, "n0", 4))
    table.put(slice_for({"nodeName": "n1"}, "n1", 2))
    table.put(slice_for({"nodeName": "n3"}, "n3", 1, model="b"))
    table.put(held("h", "n0", "g0", "g1"))
    return table


def framework(table: ClusterTable, kind: str) -> Framework:
    profile = default_profile()
    strategy = ScoringStrategy(type=kind, resources=(ResourceSpec(name=GPU, weight=1),))
    args = {**profile.args, "NodeResourcesFit": NodeResourcesFitArgs(scoring_strategy=strategy)}
    spec = ProfileSpec(profile.scheduler_name, plugins=profile.plugins, args=args)
    return Framework(spec, table, in_tree_registry())


def scores(framework: Framework, table: ClusterTable) -> dict[str, int]:
    asking = pod("p").requests(cpu="1", **{GPU: "1"}).obj()
    evaluation = framework.evaluate(table.info(asking))
    rows = evaluation.feasible_rows
    found = evaluation.scores(rows)["NodeResourcesFit"]
    return dict(zip(map(table.name_of, rows.tolist()), found, strict=True))


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("MostAllocated", {"n0": 75, "n1": 50, "n2": 10}), ("LeastAllocated", {"n0": 25, "n1": 50, "n2": 90})],
)
def test_devices_of_the_class_count_where_the_node_has_none_of_the_resource(
    kind: str, wanted: dict[str, int]
) -> None:
    table = cluster()
    assert scores(framework(table, kind), table) == wanted


def test_scores_follow_devices_that_are_taken_given_back_and_published() -> None:
    table = cluster()
    made = framework(table, "MostAllocated")
    assert scores(made, table)["n0"] == 75
    table.put(held("i", "n0", "g2"))
    assert scores(made, table)["n0"] == 100
    table.discard(held("h", "n0", "g0", "g1"))
    assert scores(made, table)["n0"] == 50
    table.put(slice_for({"nodeName": "n1"}, "n1", 4))
    assert scores(made, table)["n1"] == 25
    table.put(slice_for({"allNodes": True}, "everywhere", 4))
    assert scores(made, table) == {"n0": 25, "n1": 12, "n2": 10, "n3": 25}
