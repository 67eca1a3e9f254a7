"""Tables go back to what the living objects need: nothing only grows."""

import gc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.api.decode import convert
from stowplan.api.meta import Namespace
from stowplan.api.pod import Volume
from stowplan.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from stowplan.api.workloads import PodDisruptionBudget, Service
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster, node, pod
from stowplan.testing.builders import NodeBuilder, PodBuilder
from stowplan.testing.clusters import Cluster

ROWS = ("row capacity", "rows ever in use")
"""Rows are used again, not given back."""


def sizes(world: Cluster) -> dict[str, int]:
    """Table sizes once nothing is kept for reuse. Plugins may keep the last pod: it is always the same."""
    with suppress(PluginError):
        world.decide(LAST)
    for frame in world.frameworks.values():
        frame.forget_classes()
    gc.collect()
    found = {name: size for name, size in world.table.sizes().items() if name not in ROWS}
    for frame in world.frameworks.values():
        found |= {name: size for name, size in frame.sizes().items() if name != "classes remembered"}
    return found


def some_node(number: int, tag: int) -> NodeBuilder:
    made = node(f"n{number}").zone(f"z{tag % 3}").labels({f"key-{tag}": str(tag), "rack": str(tag % 2)})
    made = made.capacity({"memory": "8Gi", f"example.com/r{tag}": "4"}).taint(
        "since", str(tag), "PreferNoSchedule"
    )
    return made.image(f"image-{tag}:1", 10**9).features(f"F{tag}")


def some_pod(number: int, tag: int) -> PodBuilder:
    made = pod(f"p{number}").labels({"app": f"a{tag}"}).requests({"cpu": "1m", f"example.com/r{tag}": "1"})
    made = made.port(80, host_port=1000 + tag).image(f"image-{tag}")
    match tag % 5:
        case 0:
            return made.anti_affinity(f"key-{tag}", {"app": f"a{tag}"})
        case 1:
            return made.spread("rack", selects={"app": f"a{tag}"})
        case 2:
            return made.affinity("rack", {"app": f"a{tag + 1}"}, weight=3)
        case 3:
            return made.node_affinity(f"key-{tag}", "In", str(tag), weight=2)
        case _:
            claim = {"name": "v", "persistentVolumeClaim": {"claimName": f"c{tag}"}}
            return made.spec(volumes=(msgspec.convert(claim, Volume),))


LAST = some_pod(99, 4)


def around(tag: int) -> list[Any]:
    meta = {"namespace": "default"}
    labels = {"app": f"a{tag}"}
    return [
        convert({"metadata": {"name": f"ns{tag}", "labels": labels}}, Namespace),
        convert({"metadata": {"name": f"s{tag}", **meta}, "spec": {"selector": labels}}, Service),
        convert(
            {"metadata": {"name": f"b{tag}", **meta}, "spec": {"selector": {"matchLabels": labels}}},
            PodDisruptionBudget,
        ),
        convert(
            {
                "metadata": {"name": f"c{tag}", **meta},
                "spec": {"volumeName": f"v{tag}", "storageClassName": "", "accessModes": ["ReadWriteOnce"]},
            },
            PersistentVolumeClaim,
        ),
        convert(
            {
                "metadata": {"name": f"v{tag}"},
                "spec": {
                    "csi": {"driver": f"driver-{tag}", "volumeHandle": f"h{tag}"},
                    "capacity": {"storage": "1Gi"},
                    "claimRef": {"namespace": "default", "name": f"c{tag}"},
                },
            },
            PersistentVolume,
        ),
        convert(
            {
                "metadata": {"name": f"n{tag % 5}"},
                "spec": {"drivers": [{"name": f"driver-{tag}", "nodeID": "x", "allocatable": {"count": 3}}]},
            },
            CSINode,
        ),
        convert(
            {
                "metadata": {"name": f"at{tag}"},
                "spec": {
                    "attacher": f"driver-{tag}",
                    "nodeName": f"n{tag % 5}",
                    "source": {"persistentVolumeName": f"v{tag}"},
                },
            },
            VolumeAttachment,
        ),
    ]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["node", "node", "no node", "place", "try", "try", "no pod", "around", "not around"]),
        st.integers(0, 4),
        st.integers(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=examples(10))
@given(STEPS)
def test_when_all_objects_are_gone_every_table_is_as_it_began(steps: list[tuple[str, int, int]]) -> None:
    world = cluster()
    fresh = sizes(world)
    there: dict[str, Any] = {}
    for what, number, tag in steps:
        match what:
            case "node":
                world.add(some_node(number, tag))
            case "no node" if world.table.row_of(f"n{number}") is not None:
                world.table.remove_node(f"n{number}")
            case "place":
                world.add(some_pod(number, tag).on(f"n{(number + tag) % 6}"))
            case "try":
                with suppress(PluginError):
                    world.schedule(some_pod(10 + number, tag))
            case "no pod":
                for uid in [uid for uid, info in world.table.pods.items() if info.name == f"p{number}"]:
                    world.table.remove_pod(uid)
            case "around":
                for obj in around(tag):
                    there[f"{type(obj).__name__}/{obj.key}"] = obj
                    world.table.put(obj)
            case "not around":
                for obj in around(tag):
                    there.pop(f"{type(obj).__name__}/{obj.key}", None)
                    world.table.discard(obj)
    for uid in list(world.table.pods):
        world.table.remove_pod(uid)
    for held in [n.name for n in world.table.nodes if n is not None]:
        world.table.remove_node(held)
    for obj in there.values():
        world.table.discard(obj)
    assert sizes(world) == fresh


def test_taint_sets_and_labels_that_came_and_went_leave_nothing_behind() -> None:
    world = cluster(nodes=[node("n")])
    before = sizes(world)
    for number in range(5000):
        world.add(node("n").taint("since", str(number)).labels({f"key-{number}": "x"}).features(f"F{number}"))
        if number % 1000 == 0:
            world.decide(pod("p").labels(app=str(number)).node_affinity(f"key-{number}", "Exists"))
    world.add(node("n"))
    assert sizes(world) == before


def test_keys_that_no_node_has_get_no_column_and_of_others_few_are_kept() -> None:
    world = cluster(nodes=[node(f"n{n}").labels({f"key-{k}": "x" for k in range(300)}) for n in range(40)])
    world.decide(pod("p").node_selector({f"none-{number}": "x" for number in range(1000)}))
    assert world.table.sizes()["label columns not held"] == 0
    assert world.decide(pod("p").node_selector({f"key-{number}": "x" for number in range(300)})).scheduled
    assert world.table.sizes()["label columns not held"] <= 64
    spread = pod("p").labels(app="a")
    for number in range(200):
        spread = spread.spread(f"none-{number}")
    assert world.decide(spread).node is None
    assert world.table.sizes()["label columns held"] <= 1
    for number in range(200):
        world.add(node("n0").labels({f"none-{number}": "x" for number in range(number + 1)}))
    assert world.decide(spread).node == "n0"


def test_a_set_that_is_new_under_an_old_id_is_judged_anew() -> None:
    world = cluster(nodes=[node("a"), node("b").taint("x")])
    assert world.decide(pod("p")).node == "a"
    world.add(node("b").taint("y"), node("a").taint("x"))
    assert world.decide(pod("p").tolerates("y")).node == "b"
    assert world.decide(pod("p").tolerates("x")).node == "a"
    world.add(node("b").taint("x"), node("a").taint("y"))
    assert world.decide(pod("p").tolerates("y")).node == "a"
    assert world.decide(pod("p")).node is None


def test_a_pod_that_only_waits_has_no_line_for_its_resources() -> None:
    world = cluster(nodes=[node("n").capacity({"example.com/r7": "1"})])
    before = world.table.sizes()
    many = pod("p").requests({f"example.com/r{number}": "1" for number in range(20_000)})
    assert world.decide(many).node is None
    assert world.table.sizes()["resource lines"] == before["resource lines"] == 4


@pytest.mark.parametrize("kinds", [59, 61, 200])
@pytest.mark.parametrize("reuse", [True, False])
def test_a_pod_may_request_any_number_of_kinds_of_resources(kinds: int, reuse: bool) -> None:
    names = sorted(f"example.com/r{number}" for number in range(kinds))
    offered = dict.fromkeys(names, 5)
    world = cluster(
        nodes=[
            node("full").capacity(offered),
            node("room").capacity(offered),
            node("lacks").capacity({**offered, names[2]: 0}),
            node("none"),
        ],
        reuse=reuse,
    )
    world.add(pod("there").requests(dict.fromkeys(names[:2], 3)).on("full"))
    asks = pod("asks").requests(dict.fromkeys(names, 3))
    for _ in range(2):
        decision = world.decide(asks)
        assert decision.node == "room"
        reasons = {rejection.reasons: (rejection.code, rejection.examples) for rejection in decision.funnel}
        assert reasons == {
            tuple(f"Insufficient {name}" for name in names[:2]): ("Unschedulable", ("full",)),
            (f"Insufficient {names[2]}",): ("UnschedulableAndUnresolvable", ("lacks",)),
            tuple(f"Insufficient {name}" for name in names): ("UnschedulableAndUnresolvable", ("none",)),
        }
        world.add(pod("other").on("full"))
    world.add(pod("more").requests({names[0]: 3}).on("room"))
    assert world.decide(asks).node is None
    world.add(node("new").capacity(offered))
    assert world.decide(asks).node == "new"


def test_what_pods_take_counts_when_a_node_begins_to_offer_it_and_ceases() -> None:
    table = ClusterTable()
    table.put_node(node("a").obj())
    table.put_node(node("b").obj())
    table.put_pod(pod("p").requests({"example.com/x": "3"}).on("a").obj())
    assert table.sizes()["resource lines"] == 3
    table.put_node(node("b").capacity({"example.com/x": "9"}).obj())
    table.put_pod(pod("q").requests({"example.com/x": "2"}).on("a").obj())
    assert table.requested_of("example.com/x")[:2].tolist() == [5, 0]
    table.put_node(node("b").obj())
    assert table.sizes()["resource lines"] == 3
    assert table.requested_of("example.com/x")[:2].tolist() == [5, 0]
    for uid in list(table.pods):
        table.remove_pod(uid)
    assert table.sizes()["resources without a line"] == 0
