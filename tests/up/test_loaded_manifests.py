"""Beginning with files: manifests, and what `kubectl get -o yaml` wrote."""

import random
from pathlib import Path

import pytest

from stowplan.api.catalogue import NODES, PODS
from stowplan.clock import RealClock
from stowplan.embedded.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.embedded.store import Store
from stowplan.up.manifests import LoadError, create_manifests, read_manifests

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
metadata: {name: n, uid: old, resourceVersion: "77", creationTimestamp: 2025-01-01T00:00:00Z}
status: {allocatable: {cpu: "4", pods: "10"}}
"""

FROM_KUBECTL = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: v1, kind: Node, metadata: {name: m}}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: going, namespace: team, deletionTimestamp: 2026-01-01T00:00:00Z}
  spec: {containers: [{name: c, image: i}]}
- metadata: {name: q, namespace: team}
  spec: {containers: [{name: c, image: i}]}
"""


def a_store() -> Store:
    store = Store(RealClock(), random.Random(0), admission=ClusterAdmission())
    create_bootstrap_objects(store)
    return store


def loaded(tmp_path: Path, *texts: str) -> Store:
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text)
    store = a_store()
    create_manifests(store, read_manifests(paths))
    return store


def test_objects_come_with_their_status_and_what_others_need_comes_first(tmp_path: Path) -> None:
    store = loaded(tmp_path, MANIFEST)
    pod = store.get(PODS, "default", "p")
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["startTime"] == "2026-01-01T00:00:00Z"
    node = store.get(NODES, "", "n")
    assert node["status"]["allocatable"] == {"cpu": "4", "pods": "10"}
    assert node["metadata"]["uid"] != "old"


def test_lists_as_kubectl_writes_them_are_taken_apart_and_what_is_going_is_left_out(tmp_path: Path) -> None:
    store = loaded(tmp_path, FROM_KUBECTL)
    assert [pod["metadata"]["name"] for pod in store.list(PODS, "team").items] == ["q"]


def test_what_exists_already_stays(tmp_path: Path) -> None:
    store = loaded(tmp_path, MANIFEST, MANIFEST)
    assert store.count(PODS) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- 1", "0.yaml: document 1: expected an object, got list"),
        ("kind: Pod", "0.yaml: document 1: expected apiVersion and kind"),
        ("apiVersion: v1\nkind: Wish\nmetadata: {}", "0.yaml: document 1: kind: v1 Wish is not served here"),
        ("apiVersion: v1\nkind: Pod\nmetadata: 3", "0.yaml: document 1: metadata: expected a map"),
        ("{", "0.yaml: not YAML or JSON: "),
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}",
            "0.yaml: document 1: items[0]: expected apiVersion and kind",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: UP}, spec: {containers: [{name: c, image: i}]}}",
            '0.yaml: document 1: Pod "UP" is invalid: metadata.name: ',
        ),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(LoadError) as told:
        loaded(tmp_path, text)
    assert problem in str(told.value)
    assert "\n" not in str(told.value)
