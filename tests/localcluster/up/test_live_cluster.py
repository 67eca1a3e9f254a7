"""`stowplan.testing.live_cluster` as a test of an operator uses it: from a thread that is not asyncio's."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazily import Lazily
from stowplan.framework import Plugin, Status, unschedulable
from stowplan.testing import LiveCluster, live_cluster

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster(nodes=2) as running:
        yield running
        assert not running.problems


def test_kubectl_and_the_official_client_use_it(cluster: LiveCluster) -> None:
    kubectl = shutil.which("kubectl") or ""
    subprocess.run([kubectl, "apply", "-f", "-"], input=WEB, text=True, env=cluster.env, check=True)
    cluster.wait_until_ready()
    with cluster.api_client() as api:
        pods: Any = (
            Lazily("kubernetes.client")
            .CoreV1Api(api)
            .list_namespaced_pod("default", label_selector="app=web")
            .items
        )
    assert [pod.status.phase for pod in pods] == ["Running"] * 3
    assert {pod.spec.node_name for pod in pods} == {"node-0", "node-1"}


def test_what_is_not_ready_is_told_with_the_reason(cluster: LiveCluster) -> None:
    huge: Any = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "huge"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}]},
    }
    with cluster.api_client() as api:
        Lazily("kubernetes.client").CoreV1Api(api).create_namespaced_pod("default", huge)
        with pytest.raises(TimeoutError, match="Pod default/huge: Pending: 0/2 nodes are available"):
            cluster.wait_until_ready(timeout=1)
        assert "Insufficient cpu" in cluster.explain("default/huge")
        Lazily("kubernetes.client").CoreV1Api(api).delete_namespaced_pod("huge", "default")
    with pytest.raises(LookupError, match="the scheduler knows no pod default/nobody"):
        cluster.explain("default/nobody")


class OnlyLast(Plugin):
    def filter_node(self, cycle: object, pod: object, node: object) -> Status | None:
        return None if getattr(node, "name", "") == "pool-1" else unschedulable("node(s) were not the last")


def test_manifests_shapes_plugins_and_behaviour_are_given_as_arguments(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    pretend = {"pods": [{"selector": {"matchLabels": {"app": "web"}}, "readySeconds": 0.5}]}
    began = time.monotonic()
    with live_cluster(
        [{"name": "pool", "count": 2, "cpu": 4}],
        load=[tmp_path / "web.yaml"],
        plugins=[OnlyLast],
        pretend=pretend,
    ) as cluster:
        assert cluster.not_ready()
        cluster.wait_until_ready()
        assert time.monotonic() - began > 0.5
        with cluster.api_client() as api:
            pods: Any = Lazily("kubernetes.client").CoreV1Api(api).list_namespaced_pod("default").items
        assert {pod.spec.node_name for pod in pods} == {"pool-1"}
    assert not Path(cluster.kubeconfig).exists()


def test_what_is_wrong_is_raised_where_the_cluster_is_made() -> None:
    with (
        pytest.raises(ValueError, match=r"nodes\[0\]\.count: expected at least 1"),
        live_cluster([{"count": 0}]),
    ):
        pass
