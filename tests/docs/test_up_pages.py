"""docs/up.md, docs/shapes.md and docs/pretend.md: their files work, and they name everything there is."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml

from docs.pages import ROOT, blocks, write_files
from lazily import Lazily
from stowplan.localcluster.kubelets import NodeShape, named_nodes, read_pretend, read_shapes
from stowplan.localcluster.kubelets.config import ShapeDriver, ShapeImage, ShapeTaint
from stowplan.localcluster.kubelets.devices import (
    ShapeCapacity,
    ShapeDevices,
    ShapeDeviceTaint,
    ShapePartition,
    classes_of,
    slices_of,
)
from stowplan.localcluster.kubelets.pretend import FAILURES, NODE_ANNOTATIONS, POD_ANNOTATIONS
from stowplan.testing import live_cluster
from waiting import PATIENCE

UP, SHAPES, PRETEND = (ROOT / "docs" / name for name in ("up.md", "shapes.md", "pretend.md"))


def test_the_shapes_shown_are_read_and_every_field_is_named(tmp_path: Path) -> None:
    write_files(SHAPES, tmp_path)
    shapes = read_shapes(tmp_path / "pools.yaml")
    assert [one.name for one in named_nodes(shapes)] == ["web-0", "web-1", "web-2", "gpu-0", "gpu-1"]
    named = re.findall(r"^\| `(\w+)` \|", SHAPES.read_text(), re.MULTILINE)
    assert set(named) == {field.encode_name for field in msgspec.structs.fields(NodeShape)}
    for part in (ShapeTaint, ShapeImage, ShapeDriver, ShapeCapacity, ShapeDeviceTaint):
        for field in msgspec.structs.fields(part):
            assert f"`{field.encode_name}`" in SHAPES.read_text()


def test_the_devices_shown_are_read_and_every_field_is_named(tmp_path: Path) -> None:
    write_files(SHAPES, tmp_path)
    nodes = named_nodes(read_shapes(tmp_path / "gpus.yaml"))
    owner = {"metadata": {"name": "n", "uid": "u"}}
    slices = [slices_of(owner, node.shape.devices) for node in nodes]
    devices = [sum(len(one["spec"].get("devices", ())) for one in found) for found in slices]
    assert devices == [8, 2 * (1 + 7 + 2), 2]
    classes = classes_of(group for node in nodes for group in node.shape.devices)
    assert [one["metadata"]["name"] for one in classes] == [
        "gpu.example.com",
        "mig.example.com",
        "shared.example.com",
    ]
    text = SHAPES.read_text()
    assert all(f"`devices[].{field.encode_name}`" in text for field in msgspec.structs.fields(ShapeDevices))
    for field in msgspec.structs.fields(ShapePartition):
        assert f"`devices[].partitions[].{field.encode_name}`" in text or f", `{field.encode_name}`" in text


def test_a_cluster_of_the_shapes_shown_takes_the_node_shown(tmp_path: Path) -> None:
    write_files(SHAPES, tmp_path)
    shapes = yaml.safe_load((tmp_path / "pools.yaml").read_text())["nodes"]
    with live_cluster(shapes, load=[tmp_path / "node.yaml"]) as cluster, cluster.api_client() as api:
        cluster.wait_until_ready()
        found: Any = Lazily("kubernetes.client").CoreV1Api(api).list_node().items
    cpus = {node.metadata.name: node.status.allocatable["cpu"] for node in found}
    assert len(cpus) == 6
    assert (cpus["gpu-0"], cpus["big"]) == ("63500m", "96")


def test_every_annotation_is_named_and_no_other() -> None:
    named = set(re.findall(r"`(pretend\.stowplan\.io/[\w-]+)`", PRETEND.read_text()))
    assert named == {*POD_ANNOTATIONS, *NODE_ANNOTATIONS}
    assert all(f"`{failure}`" in PRETEND.read_text() for failure in FAILURES)


def test_the_rules_shown_are_read_and_every_field_is_named(tmp_path: Path) -> None:
    write_files(PRETEND, tmp_path)
    pretend = read_pretend(tmp_path / "pretend.yaml")
    assert (len(pretend.pods), len(pretend.nodes), pretend.backoff.initial) == (3, 1, 1.0)
    with live_cluster(load=[tmp_path / "flaky.yaml"], pretend={}) as cluster:
        cluster.wait_until_ready()


def test_the_workflow_shown_runs(tmp_path: Path) -> None:
    write_files(UP, tmp_path)
    write_files(SHAPES, tmp_path)
    steps = yaml.safe_load((tmp_path / "e2e.yaml").read_text())["jobs"]["schedulable"]["steps"]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("stowplan ")]
    assert len(commands) == 2
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ready after" in done.stdout


def test_the_test_shown_passes(tmp_path: Path) -> None:
    write_files(UP, tmp_path)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_operator.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_blocks_are_there() -> None:
    assert {block.file for block in blocks(UP)} >= {
        "app.yaml",
        "e2e.yaml",
        "packing.yaml",
        "test_operator.py",
    }
