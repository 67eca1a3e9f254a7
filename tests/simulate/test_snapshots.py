"""Snapshots as files: nothing is lost, damage is reported, a redacted one has no names and the same
decisions."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.api.catalogue import (
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    Resource,
)
from stowplan.api.status import ApiError
from stowplan.cli.simulate.snapshot import snapshot as command
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.simulate import Cluster
from stowplan.simulate.snapshot import (
    Redactor,
    Snapshot,
    SnapshotError,
    read_cluster,
    read_files,
    read_snapshot,
    write_snapshot,
)
from stowplan.testing.cluster_strategies import any_node, around, pods

DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: acme-1, labels: {team: payments}}
  status: {allocatable: {cpu: "4", pods: "9"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: invoices, namespace: acme, annotations: {owner: joe}}
  spec: {containers: [{name: c, image: "acme/pay:7"}]}
- {apiVersion: v1, kind: Secret, metadata: {name: key}}
"""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.yaml"
    path.write_text(DUMP)
    return path


def test_a_snapshot_is_read_as_it_was_written(dump: Path, tmp_path: Path) -> None:
    written = read_files([dump])
    write_snapshot(written, tmp_path / "cluster.snap")
    again = read_files([tmp_path / "cluster.snap"])
    assert {obj.key: obj for obj in again.objects} == {obj.key: obj for obj in written.objects}
    assert again.notes == written.notes == ["not needed for scheduling: 1 Secret"]


def test_a_tar_archive_is_read_as_its_files(dump: Path, tmp_path: Path) -> None:
    archive = tmp_path / "dump.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(dump, "cluster/dump.yaml")
    assert read_files([archive]).objects == read_files([dump]).objects


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "damaged or cut off: expected a whole snapshot"),
        (lambda data: data.replace(b"format 1", b"format 9"), "snapshot format 9: expected 1"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    damage: Callable[[bytes], bytes], message: str, dump: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.snap"
    write_snapshot(read_files([dump]), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SnapshotError, match=f"cluster.snap: {message}"):
        read_snapshot(path)


def test_the_command_writes_and_redacts(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "cluster.snap"
    result = CliRunner().invoke(command, ["--from", str(dump), "-o", str(path), "--redact"])
    assert result.exit_code == 0, result.output
    assert "1 Node, 1 Pod" in result.output
    text = str([msgspec.to_builtins(obj) for obj in read_snapshot(path).objects])
    assert not [word for word in ("acme", "payments", "invoices", "joe", "team") if word in text]


def feasible(cluster: Cluster, key: str) -> list[str]:
    evaluation = cluster.evaluate(cluster.pending[key])
    return [cluster.table.names[row] for row in evaluation.feasible_rows.tolist()]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_redacted_cluster_decides_the_same(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(any_node, min_size=1, max_size=5, unique_by=lambda one: one.name))
    objects = data.draw(st.lists(around, max_size=4, unique_by=lambda one: (type(one), one.key)))
    waiting = []
    for number, one in enumerate(data.draw(st.lists(pods(), min_size=1, max_size=5))):
        metadata = replace(one.metadata, name=f"pod-{number}", uid=f"uid-{number}", annotations={})
        on = data.draw(st.sampled_from(["", *[each.name for each in nodes]])) if number else ""
        waiting.append(replace(one, metadata=metadata, spec=replace(one.spec, node_name=on)))
    nodes = [replace(one, metadata=replace(one.metadata, annotations={})) for one in nodes]
    snapshot = Snapshot([*nodes, *objects, *waiting], "here")
    redactor = Redactor(b"key")
    before, after = Cluster(snapshot.objects), Cluster(redactor.snapshot(snapshot).objects)
    name = redactor.text
    for key in before.pending:
        other = "/".join(map(name, key.split("/")))
        assert sorted(feasible(after, other)) == sorted(map(name, feasible(before, key)))


def test_replacements_depend_on_the_key_and_images_keep_latest() -> None:
    one, other = Redactor(b"1"), Redactor(b"2")
    assert one.text("web") == Redactor(b"1").text("web") != other.text("web")
    assert one.image("db:latest") == f"{one.text('db')}:latest"
    assert one.key("topology.kubernetes.io/zone") == "topology.kubernetes.io/zone"
    assert one.key("acme.com/team") != "acme.com/team"


LIMITED = """
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: acme}
spec: {limits: [{type: Container, default: {cpu: "3"}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: acme}
spec:
  hard: {"gold.storageclass.storage.k8s.io/requests.storage": 1Gi, pods: "3"}
  scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: "2"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 7
"""


def test_what_admission_reads_is_kept_and_redacted(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(LIMITED)
    written = read_files([path])
    assert not written.notes
    write_snapshot(written, tmp_path / "cluster.snap")
    again = read_files([tmp_path / "cluster.snap"])
    assert {obj.key: obj for obj in again.objects} == {obj.key: obj for obj in written.objects}
    redacted = Redactor(b"key")
    text = msgspec.json.encode(redacted.snapshot(written).objects).decode()
    assert not [name for name in ("acme", "gold", "kata", "team") if name in text]
    assert f"{redacted.text('gold')}.storageclass.storage.k8s.io/requests.storage" in text


def test_kinds_that_may_not_be_read_are_noted_and_the_others_are_read() -> None:
    class Refused(InProcessClient):
        async def list(self, resource: Resource, *arguments: Any, **options: Any) -> Any:
            if resource in (LIMIT_RANGES, RESOURCE_QUOTAS, RUNTIME_CLASSES):
                raise ApiError(403, "Forbidden", f"{resource.plural} is forbidden")
            return await super().list(resource, *arguments, **options)

    async def read(clock: VirtualClock) -> Snapshot:
        store = Store(clock, Random(1))
        store.create(PRIORITY_CLASSES, {"metadata": {"name": "gold"}, "value": 7})
        return await read_cluster(Refused(store), "a test")

    found = run(read)
    assert [obj.key for obj in found.objects] == ["gold"]
    assert [note.partition(":")[0] for note in found.notes] == [
        "limitranges could not be read",
        "resourcequotas could not be read",
        "runtimeclasses could not be read",
    ]
