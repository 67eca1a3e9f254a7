"""Beginning with files: manifests, and what `kubectl get -o yaml` wrote."""

import json
import random
from pathlib import Path

import pytest
import yaml

from stowplan.api.catalogue import (
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission import ClusterAdmission
from stowplan.localcluster.store import Store
from stowplan.localcluster.up.loading import LoadReport, load_cluster
from stowplan.localcluster.up.manifests import LoadError, read_manifests
from stowplan.runtime.clock import RealClock

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeName: n
  containers: [{name: c, image: i}]
status: {phase: Running, startTime: 2026-01-01T00:00:00Z}
---
---
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "4", pods: "10"}}
"""

UID = "0b0d5a0a-52d1-4f0f-93e6-94ad5b8f3b11"
DUMPED: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "q",
        "namespace": "team",
        "uid": UID,
        "resourceVersion": "77",
        "generation": 3,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1"}],
    },
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Running", "podIP": "10.0.0.9"},
}

BARE = {field: DUMPED[field] for field in ("metadata", "spec", "status")}


def loaded(tmp_path: Path, *texts: str, nodes: tuple[str, ...] = ()) -> tuple[Store, LoadReport]:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    store = Store(RealClock(), random.Random(0), admission=ClusterAdmission())
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    return store, load_cluster(store, read_manifests(paths), nodes)


def test_objects_come_with_their_status_and_what_others_need_comes_first(tmp_path: Path) -> None:
    store, report = loaded(tmp_path, MANIFEST)
    pod = store.get(PODS, "default", "p")
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["startTime"] == "2026-01-01T00:00:00Z"
    assert store.get(NODES, "", "n")["status"]["allocatable"] == {"cpu": "4", "pods": "10"}
    assert report.lines() == ["loaded 2 objects"]


def test_a_dumped_object_keeps_its_uid_times_status_and_managed_fields(tmp_path: Path) -> None:
    store, _ = loaded(tmp_path, json.dumps(DUMPED))
    pod = store.get(PODS, "team", "q")
    kept = {field: value for field, value in pod["metadata"].items() if field != "resourceVersion"}
    assert kept == {field: value for field, value in DUMPED["metadata"].items() if field != "resourceVersion"}
    assert pod["metadata"]["resourceVersion"] != "77"
    assert pod["status"] == DUMPED["status"]


def test_fields_of_a_gate_that_is_off_are_left_out_of_what_people_wrote_and_noted(tmp_path: Path) -> None:
    request = {"deviceClassName": "gpu", "derivedAttributes": [{"name": "a.b/c", "expression": "1"}]}
    body: Json = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    body["spec"] = {
        "devices": {
            "requests": [{"name": "r", "exactly": request}],
            "constraints": [{"matchAttribute": "a.b/c"}],
        }
    }
    store, report = loaded(tmp_path, json.dumps(body))
    [shown] = store.get(RESOURCE_CLAIMS, "default", "c")["spec"]["devices"]["requests"]
    assert "derivedAttributes" not in shown["exactly"]
    assert report.lines() == [
        "loaded 1 object",
        "note: ResourceClaim c: spec.devices.requests[0].exactly.derivedAttributes: dropped, it needs the "
        "feature gate DRADerivedAttributes of Kubernetes 1.37",
    ]
    body["metadata"] = {"name": "d", "namespace": "default", "uid": UID}
    store, report = loaded(tmp_path, json.dumps(body))
    [kept] = store.get(RESOURCE_CLAIMS, "default", "d")["spec"]["devices"]["requests"]
    assert kept["exactly"]["derivedAttributes"] == request["derivedAttributes"]


def test_namespaces_that_are_missing_are_created(tmp_path: Path) -> None:
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: mine}}"
    store, report = loaded(tmp_path, json.dumps(DUMPED), text)
    assert {"team", "mine"} <= {one["metadata"]["name"] for one in store.list(NAMESPACES).items}
    assert report.loaded == 2


def test_a_dumped_namespace_comes_instead_of_the_one_that_every_cluster_has(tmp_path: Path) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": UID}}
    store, _ = loaded(tmp_path, json.dumps(space))
    assert store.get(NAMESPACES, "", "default")["metadata"]["uid"] == UID


@pytest.mark.parametrize(
    "text",
    [
        "---\n".join(yaml.safe_dump(one) for one in ({"kind": "List", "items": [DUMPED]}, {"kind": "x"})),
        json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [{**DUMPED, "kind": "Pod"}]}),
        json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [BARE]}),
        json.dumps({"kind": "List", "items": []}) + "\n" + json.dumps(DUMPED),
    ],
    ids=["a list in YAML", "a list of a kind", "items without a kind", "JSON after JSON"],
)
def test_lists_and_several_documents_are_taken_apart(tmp_path: Path, text: str) -> None:
    store, report = loaded(tmp_path, text)
    assert store.get(PODS, "team", "q")["metadata"]["uid"] == UID
    assert report.loaded == 1


def test_a_directory_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFEST)
    (tmp_path / "b.json").write_text(json.dumps(DUMPED))
    (tmp_path / "notes.txt").write_text("{")
    assert [one.kind for one in read_manifests([tmp_path])] == ["Pod", "Node", "Pod"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(LoadError, match=r"expected files that end in \.yaml, \.yml, \.json"):
        read_manifests([tmp_path / "empty"])


def test_stdin_is_a_file_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(MANIFEST)
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert [one.place for one in read_manifests([Path("-")])] == [
            "stdin: document 1",
            "stdin: document 3",
        ]


def test_what_exists_already_stays(tmp_path: Path) -> None:
    store, report = loaded(tmp_path, MANIFEST, MANIFEST)
    assert store.count(PODS) == 1
    assert report.lines() == ["loaded 2 objects", "  2 objects existed already and stayed"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- 1", "FILE: document 1: expected apiVersion and kind"),
        ("kind: Pod", "FILE: document 1: expected apiVersion and kind"),
        ("{apiVersion: v1, kind: Wish, metadata: {name: w}}", "Wish w: v1 Wish is not served here"),
        ("{apiVersion: v1, kind: Pod, metadata: 3}", "FILE: document 1: metadata: expected a map"),
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}",
            "FILE: document 1: items[0]: expected apiVersion and kind",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: UP}, spec: {containers: [{name: c, image: i}]}}",
            'Pod UP: Pod "UP" is invalid: metadata.name: ',
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u, namespace: x}, spec: {}}",
            'Pod x/p: Pod "p" is invalid: spec.containers: Required value',
        ),
    ],
)
def test_what_cannot_be_loaded_is_left_out_with_a_reason_and_the_rest_is_loaded(
    tmp_path: Path, text: str, line: str
) -> None:
    store, report = loaded(tmp_path, text, MANIFEST)
    assert store.count(PODS) == 1
    first, skipped = report.lines()
    assert first == "loaded 2 objects, skipped 1:"
    assert skipped.startswith("  " + line.replace("FILE", str(tmp_path / "0.yaml")))


def test_many_objects_with_one_reason_are_one_line(tmp_path: Path) -> None:
    text = "---\n".join(f"{{apiVersion: v1, kind: Wish, metadata: {{name: w{n}}}}}\n" for n in range(9))
    _, report = loaded(tmp_path, text)
    assert report.lines()[1] == "  Wish w0, Wish w1, Wish w2 and 6 more: v1 Wish is not served here"


@pytest.mark.parametrize("text", ["{", "\udcff"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LoadError, match="f: not YAML or JSON: ") as told:
        read_manifests([tmp_path / "f"])
    assert "\n" not in str(told.value)


def test_an_object_whose_owner_is_not_loaded_loses_the_reference_and_stays(tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r", "controller": True}
    foreign = {"apiVersion": "example.com/v1", "kind": "Wish", "name": "w", "uid": "w"}
    pod = {**DUMPED, "metadata": {**DUMPED["metadata"], "ownerReferences": [owner, foreign]}}
    store, report = loaded(tmp_path, json.dumps(pod), nodes=("n",))
    assert store.get(PODS, "team", "q")["metadata"]["ownerReferences"] == [foreign]
    assert report.lines()[1].startswith("note: Pod team/q: the owner was not loaded")
    spec = {"selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "team", "uid": "r"},
        "spec": {**spec, "template": template},
    }
    store, report = loaded(tmp_path, json.dumps(pod), json.dumps(replica_set), nodes=("n",))
    assert store.count(REPLICA_SETS) == 1
    assert store.get(PODS, "team", "q")["metadata"]["ownerReferences"] == [owner, foreign]
    assert report.lines() == ["loaded 2 objects"]


def test_nodes_and_volumes_that_are_missing_are_noted(tmp_path: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "team", "uid": "c"},
        "spec": {
            "volumeName": "v",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    _, report = loaded(tmp_path, json.dumps(DUMPED), json.dumps(claim))
    assert [line.partition(",")[0] for line in report.lines()[1:]] == [
        "note: Pod team/q: the node was not loaded",
        "note: PersistentVolumeClaim team/c: the volume was not loaded",
    ]


def test_definitions_come_before_the_objects_they_define(tmp_path: Path) -> None:
    gear = {
        "apiVersion": "example.com/v1beta1",
        "kind": "Gear",
        "metadata": {
            "name": "g",
            "namespace": "team",
            "uid": UID,
            "creationTimestamp": "2025-01-01T00:00:00Z",
        },
        "spec": {"a": 1},
    }
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "c"}},
    }
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
        }
        for name in ("v1", "v1beta1")
    ]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": versions,
        },
    }
    store, report = loaded(tmp_path, json.dumps(gear), json.dumps(definition))
    assert (report.loaded, report.skipped) == (2, {})
    gears = store.catalogue.named("gears.v1.example.com")
    assert gears is not None
    (found,) = store.all(gears)
    assert (found["apiVersion"], found["metadata"]["uid"], found["spec"]) == (
        "example.com/v1",
        UID,
        {"a": 1, "b": "c"},
    )


def test_an_object_in_an_older_version_is_stored_as_others_of_its_kind(tmp_path: Path) -> None:
    request = "{name: r, deviceClassName: gpu.example.com}"
    claim = f"{{metadata: {{name: c}}, spec: {{devices: {{requests: [{request}]}}}}}}"
    scaled = "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}}"
    dumped = f"{{metadata: {{name: h, namespace: default, uid: u}}, spec: {scaled}}}"
    texts = [
        f"{{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, {claim[1:]}",
        f"{{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, {dumped[1:]}",
    ]
    store, report = loaded(tmp_path, *texts)
    assert report.lines() == ["loaded 2 objects"]
    found = store.get(RESOURCE_CLAIMS, "default", "c")
    assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"
    assert store.get(HORIZONTAL_POD_AUTOSCALERS, "default", "h")["spec"]["metrics"]
