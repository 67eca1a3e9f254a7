"""Why a group of pods waits: what is said is true, and what is said to help does."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stowplan.api.decode import convert_any
from stowplan.api.gates.feature_gates import gates_with
from stowplan.api.meta import Object
from stowplan.api.pod_groups import GATES
from stowplan.cli.explain.explain import explain, pending
from stowplan.config import default_config
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.terminal.group import render_group
from stowplan.scheduler.settings import Settings
from stowplan.simulate import Cluster
from stowplan.simulate.snapshot import Snapshot

Json = dict[str, Any]
RACK = "example.com/rack"
KEY = "podgroup/default/g"


def node(name: str, rack: str, cpu: str = "4") -> Json:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: rack, "kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room},
    }


def racks(count: int = 2, each: int = 2) -> list[Json]:
    return [node(f"{rack}{number}", rack) for rack in "abcdefgh"[:count] for number in range(each)]


def group(minimum: int, name: str = "g", **spec: Any) -> Json:
    policy = {"gang": {"minCount": minimum}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


IN_ONE_RACK: Json = {"schedulingConstraints": {"topology": [{"key": RACK}]}}


def pods(count: int, cpu: str = "2", of: str = "g", on: str = "", **spec: Any) -> list[Json]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    more = {"nodeName": on} if on else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{of}-{on}{number}", "namespace": "default", "uid": f"{of}-{on}{number}"},
            "spec": {"containers": [container], "schedulingGroup": {"podGroupName": of}, **more, **spec},
        }
        for number in range(count)
    ]


def engine(*documents: Json | list[Json]) -> Cluster:
    flat = [one for some in documents for one in (some if isinstance(some, list) else [some])]
    objects = [obj for obj in map(convert_any, flat) if isinstance(obj, Object)]
    snapshot = Snapshot(objects, "a test")
    return Cluster.load(snapshot, settings=Settings.of(default_config(gates_with(GATES))))


def explained(*documents: Json | list[Json], key: str = KEY) -> GroupDocument:
    made = engine(*documents)
    before = made.table.requested.copy()
    found = made.explain_group(key)
    assert found is not None
    assert (made.table.requested == before).all()
    return found


def test_it_is_told_how_many_fit_where_and_who_stops_the_group() -> None:
    busy = pods(1, "3", of="other", on="a0")
    found = explained(racks(), group(4, **IN_ONE_RACK), pods(4, "3"), busy)
    assert (found.state, found.fits, found.reason) == (
        "waiting",
        2,
        "2 of 4 needed members would fit in b",
    )
    assert [(one.domain, one.fits, one.enough) for one in found.domains] == [
        ("a", 1, False),
        ("b", 2, False),
    ]
    stop = found.stopped_by
    assert stop is not None
    assert (stop.pod, stop.domain, stop.asks) == ("default/g-2", "b", "cpu 3")
    assert [(line.plugin, line.reason, line.nodes) for line in stop.funnel] == [
        ("NodeResourcesFit", "Insufficient cpu", 2)
    ]
    text = render_group(found)
    assert "PodGroup default/g is waiting: 2 of 4 needed members would fit in b" in text
    assert "What stops it in b: default/g-2 (asks for cpu 3)" in text
    # Commands stay on one line, to be copied.
    assert all(len(line) <= 100 for line in text.splitlines() if "kubectl" not in line)


def test_what_a_group_lacks_besides_room_has_its_remedy() -> None:
    found = explained(racks(), pods(2))
    assert found.headline == "PodGroup default/g does not exist; 2 pods name it"
    assert found.remedy == "create PodGroup g, or correct schedulingGroup of its pods"
    found = explained(racks(), group(3), pods(2))
    assert found.remedy == "create 1 more pod, or lower minCount to 2"
    found = explained(racks(), group(2), pods(2, priority=7))
    assert found.remedy == "the same priorityClassName in the PodGroup and all its pods"


def test_more_nodes_are_of_a_shape_that_the_members_can_use() -> None:
    tainted = [node(f"{rack}-first{number}", rack) for rack in "ab" for number in range(4)]
    for one in tainted:
        one["metadata"]["labels"]["shape"] = one["metadata"]["name"][-1]
        one["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    found = explained(tainted, racks(), pods(4, "3"), group(4, **IN_ONE_RACK))
    change = next(one for one in found.changes if one.kind == "nodes")
    assert "first" not in change.text
    assert (change.action or {}).keys() == {"addNode"}


def test_a_lower_minimum_is_a_command_unless_a_controller_owns_the_group() -> None:
    def command(**about: Any) -> str:
        own = group(4, **IN_ONE_RACK)
        own["metadata"].update(about)
        found = explained(racks(), pods(4, "3"), own)
        return next(one.command for one in found.changes if one.kind == "minimum")

    assert command().startswith("kubectl patch podgroup/g -n default --type merge")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    assert not command(ownerReferences=[owner])


def test_what_is_said_to_help_does() -> None:
    given = [racks(), pods(4, "3")]
    found = explained(*given, group(4, **IN_ONE_RACK))
    changes = {change.kind: change for change in found.changes}
    assert changes.keys() == {"topology", "nodes", "minimum"}
    assert explained(*given, group(4)).state == "fits"
    assert changes["minimum"].text == "minCount 2 instead of 4"
    assert explained(*given, group(2, **IN_ONE_RACK)).state == "fits"
    assert changes["nodes"].text == f"2 more nodes like {changes['nodes'].domain}0"
    more = [node(f"more{number}", changes["nodes"].domain) for number in range(2)]
    assert explained(*given, more[:1], group(4, **IN_ONE_RACK)).state == "waiting"
    assert explained(*given, more, group(4, **IN_ONE_RACK)).state == "fits"


@pytest.mark.parametrize(
    ("documents", "state", "reason"),
    [
        ([pods(2)], "incomplete", "2 pods name it"),
        ([group(3), pods(2)], "incomplete", "2 of 3 pods exist"),
        ([group(2), pods(2, on="a0", cpu="1")], "placed", "2 of 2 pods have a node"),
        (
            [group(2), pods(2, schedulingGates=[{"name": "hold"}])],
            "incomplete",
            "2 pods are held by scheduling gates, default/g-0 is the first",
        ),
        (
            [group(1, parentCompositePodGroupName="p", workloadRef={}), pods(1)],
            "incomplete",
            "its parent p does not exist",
        ),
        ([group(2), pods(2)], "fits", "2 of 2 waiting members would fit"),
        (
            [group(2), pods(2, priority=7)],
            "waiting",
            "its pods must have its priority, 0: default/g-0 has 7",
        ),
        (
            [group(1, schedulingConstraints={"topology": [{"key": "zone"}]}), pods(1)],
            "waiting",
            "no node has the label zone",
        ),
    ],
)
def test_what_a_group_waits_for_besides_room(documents: list[Any], state: str, reason: str) -> None:
    found = explained(racks(), *documents)
    assert (found.state, found.reason) == (state, reason)
    assert reason.split()[0] in render_group(found)


def test_members_that_run_count() -> None:
    found = explained(racks(1), group(3, **IN_ONE_RACK), pods(1, on="a0", cpu="4"), pods(2, "3"))
    assert (found.scheduled, found.fits, found.reason) == (
        1,
        1,
        "1 of 2 needed members would fit in a",
    )


def test_of_a_composite_group_its_parts_are_told() -> None:
    composite = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    parent: Json = {"parentCompositePodGroupName": "all", "workloadRef": {}}
    found = explained(
        racks(1),
        composite,
        group(1, **parent),
        group(3, "h", **parent),
        pods(1),
        pods(3, "3", of="h"),
        key="compositepodgroup/default/all",
    )
    assert [(part.group, part.state) for part in found.parts] == [
        ("default/g", "fits"),
        ("default/h", "waiting"),
    ]
    assert found.reason == ("1 of 2 groups would fit; default/h: 2 of 3 needed members would fit")
    assert "  h  waiting  2 of 3 needed members would fit" in render_group(found)


def test_commands_explain_groups_and_their_pods(tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    documents = [*racks(), group(4, **IN_ONE_RACK), *pods(4, "3")]
    dump.write_text("---\n".join(yaml.safe_dump(one) for one in documents), "utf-8")
    runner = CliRunner()
    shown = runner.invoke(explain, ["--from", str(dump), "podgroup/g"])
    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (
        0,
        "PodGroup default/g is waiting: 2 of 4 needed members would fit in a",
    )
    one = runner.invoke(explain, ["--from", str(dump), "g-0"])
    assert "PodGroup default/g is waiting" in one.stdout
    assert "The pod alone would fit: 4 nodes of 4 would take it." in one.stdout
    both = runner.invoke(explain, ["--from", str(dump), "podgroup/g", "pod/g-0", "-o", "json"])
    assert [item.get("kind", "Pod") for item in json.loads(both.stdout)["items"]] == ["PodGroup", "Pod"]
    causes = runner.invoke(pending, ["--from", str(dump), "-o", "json"])
    (cause,) = json.loads(causes.stdout)["causes"]
    assert cause["count"] == 4
    assert (cause["name"], cause["group"]["kind"]) == ("default/g", "PodGroup")
    assert cause["reason"] == "PodGroup: 2 of 4 needed members would fit in a"
    assert cause["help"] == "2 more nodes like a0 in a, or minCount 2 instead of 4 in a"
    missing = runner.invoke(explain, ["--from", str(dump), "podgroup/none"])
    assert (missing.exit_code, missing.stderr) == (
        1,
        'Error: podgroups "none" not found in namespace default\n',
    )
    single = runner.invoke(
        explain, ["--from", str(dump), "podgroup/g", "--feature-gates", "GenericWorkload=false"]
    )
    assert single.exit_code == 1
    assert "groups need --feature-gates GenericWorkload=true" in single.stderr
