"""Previews of rollouts: StatefulSets pod by pod, manifests with their own strategy, and the report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan.api.pod import Pod
from stowplan.cli.main import stowplan
from stowplan.simulate import Cluster
from stowplan.simulate.rollout import restarted, strategy_for
from stowplan.testing import node, pod

APP = """
apiVersion: apps/v1
kind: KIND
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web, resources: {requests: {cpu: CPU}}}]}
"""


def members(kind: str, count: int, cpu: str = "1") -> list[Pod]:
    """Pods of `web`, one per node."""
    return [
        pod(f"web-{number}")
        .labels(app="web")
        .requests(cpu=cpu)
        .owned_by(kind, "web" if kind == "StatefulSet" else "web-1")
        .on(f"n{number}")
        .obj()
        for number in range(count)
    ]


def written(folder: Path, kind: str, cpu: str, spec: str = "") -> Path:
    """A manifest of `web` with these further lines of its spec."""
    path = folder / "web.yaml"
    own = spec + ("  serviceName: web\n" if kind == "StatefulSet" else "")
    path.write_text(
        APP.replace("KIND", kind).replace("CPU", cpu).replace("  replicas: 4\n", f"  replicas: 4\n{own}")
    )
    return path


def cluster_of(pods: Sequence[Pod], nodes: int = 4, cpu: str = "2") -> Cluster:
    return Cluster([*(node(f"n{number}").capacity(cpu=cpu).obj() for number in range(nodes)), *pods])


def test_pods_of_a_stateful_set_are_replaced_from_the_last_to_the_first() -> None:
    cluster = cluster_of(members("StatefulSet", 3))
    with cluster.fork():
        found = restarted(cluster, "statefulset/web", "default", strategy_for(3, "0", "1"))
        assert sorted(cluster.placements) == ["default/web-0", "default/web-1", "default/web-2"]
    assert [step.removed for step in found.steps] == [["default/web-2"], ["default/web-1"], ["default/web-0"]]
    assert [(step.old, step.new) for step in found.steps] == [(2, 1), (1, 2), (0, 3)]
    assert found.complete


def dumped(folder: Path, kind: str, count: int, cpu: str = "1") -> Path:
    """A dump of a cluster with four nodes of 2 CPUs, and pods of `web` on them."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}"},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}},
        }
        for number in range(4)
    ]
    owner = {"apiVersion": "apps/v1", "kind": kind, "uid": "u", "controller": True}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"web-{number}",
                "namespace": "default",
                "labels": {"app": "web", "pod-template-hash": "1"},
                "ownerReferences": [{**owner, "name": "web" if kind == "StatefulSet" else "web-1"}],
            },
            "spec": {
                "nodeName": f"n{number}",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            },
        }
        for number in range(count)
    ]
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump_all([*nodes, *pods]))
    return path


def rollout(folder: Path, kind: str, cpu: str, *more: str) -> Result:
    manifest = written(folder, kind, cpu)
    owner = "StatefulSet" if kind == "StatefulSet" else "ReplicaSet"
    dump = dumped(folder, owner, 4)
    arguments = ["whatif", "rollout", f"{kind.lower()}/web", "-f", str(manifest), "--from", str(dump), *more]
    return CliRunner().invoke(stowplan, arguments)


def test_a_manifest_is_rolled_out_with_its_own_strategy(tmp_path: Path) -> None:
    """25 % of four may be surplus, and 25 % missing: five pods at most, three at least."""
    done = rollout(tmp_path, "Deployment", "500m", "--json")
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    assert (document["complete"], document["maxSurge"], document["maxUnavailable"]) == (True, 1, 1)
    assert all(3 <= step["old"] + step["new"] <= 5 for step in document["steps"])
    assert len(document["placed"]) == 4
    assert not document["pending"]


def test_a_strategy_of_recreate_ends_all_pods_first(tmp_path: Path) -> None:
    manifest = written(tmp_path, "Deployment", "2", "  strategy: {type: Recreate}\n")
    dump = dumped(tmp_path, "ReplicaSet", 4, cpu="2")
    done = CliRunner().invoke(
        stowplan,
        ["whatif", "rollout", "deployment/web", "-f", str(manifest), "--from", str(dump), "--json"],
    )
    assert done.exit_code == 0, done.output
    first, *others = json.loads(done.stdout)["steps"]
    assert (first["old"], first["new"], len(first["removed"])) == (0, 0, 4)
    assert sum(len(step["created"]) for step in others) == 4


@pytest.mark.parametrize(
    ("kind", "cpu", "code", "summary"),
    [
        ("StatefulSet", "500m", 0, "The rollout of statefulset/web completes after 4 steps."),
        ("StatefulSet", "4", 1, "The rollout of statefulset/web gets stuck after 1 steps."),
        ("Deployment", "4", 1, "The rollout of deployment/web gets stuck after "),
    ],
)
def test_the_report_says_how_it_ends_and_what_is_pending(
    kind: str, cpu: str, code: int, summary: str, tmp_path: Path
) -> None:
    done = rollout(tmp_path, kind, cpu)
    assert done.exit_code == code, done.output
    assert summary in done.stdout
    assert "step by step" in done.stdout
    assert ("is pending" in done.stdout and "Insufficient cpu" in done.stdout) == bool(code)


def test_a_file_without_the_workload_is_refused(tmp_path: Path) -> None:
    manifest = written(tmp_path, "Deployment", "1")
    dump = dumped(tmp_path, "ReplicaSet", 1)
    arguments = ["whatif", "rollout", "statefulset/web", "-f", str(manifest), "--from", str(dump)]
    done = CliRunner().invoke(stowplan, arguments)
    assert done.exit_code == 1
    assert "web.yaml: expected statefulset/web" in done.stderr
