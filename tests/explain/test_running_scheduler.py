"""`stowplan explain` and `pending` where a stowplan runs: it says what really happened."""

import asyncio
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from localcluster.up.clusters import up
from stowplan.api.catalogue import PODS
from stowplan.cli.main import stowplan
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE, until

APP = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: app, resources: {requests: {cpu: "5"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers: [{name: main, image: app, resources: {requests: {cpu: "20"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: held}
spec:
  schedulingGates: [{name: example.com/quota}]
  containers: [{name: main, image: app}]
---
apiVersion: v1
kind: Pod
metadata: {name: unclaimed}
spec:
  containers: [{name: main, image: app}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
"""

VICTIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "victim", "namespace": "default"},
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "node-0"},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("running")
    manifest = folder / "app.yaml"
    urgent: dict[str, Any] = yaml.safe_load(yaml.safe_dump(VICTIM))
    urgent["metadata"]["name"] = "urgent"
    urgent["spec"] |= {"priorityClassName": "high"}
    urgent["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "7"
    manifest.write_text(APP + "---\n" + yaml.safe_dump(VICTIM))
    with up(folder, "--load", str(manifest), "--nodes", "2") as running:
        until(lambda: explain(running.kubeconfig, "victim", "-o", "json").get("state") == "placed")
        asyncio.run(create(running.kubeconfig, urgent))
        until(lambda: explain(running.kubeconfig, "urgent", "-o", "json").get("state") == "placed")
        yield running.kubeconfig


async def create(kubeconfig: Path, pod: dict[str, Any]) -> None:
    server = load_kubeconfig(kubeconfig)
    async with HttpClient(server, clock=RealClock(), rng=random.Random(0)) as client:
        await client.create(PODS, pod, namespace="default")


def run(kubeconfig: Path, *arguments: str) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(stowplan, [command, "--kubeconfig", str(kubeconfig), *rest])


def explain(kubeconfig: Path, *arguments: str) -> Any:
    result = run(kubeconfig, "explain", *arguments)
    return json.loads(result.stdout) if result.exit_code == 0 else {}


def test_the_running_scheduler_says_where_the_pod_is_and_what_wakes_it(kubeconfig: Path) -> None:
    lines = run(kubeconfig, "explain", "pod/huge").stdout.splitlines()
    assert lines[0] == "default/huge is pending: larger than any node (cpu 20, largest 8)"
    assert lines[1].startswith("attempt ")
    assert re.search("at the latest in [45]m", lines[1])
    assert "source: the running scheduler" in lines[2]
    assert "Wakes it: a pod with cpu leaves" in "\n".join(lines)
    found = explain(kubeconfig, "huge", "-o", "json")
    assert found["queue"]["place"] == "unschedulable"
    assert found["tooLarge"] == [{"resource": "cpu", "wanted": "20", "largest": "8"}]
    assert found["attempts"][0]["number"] >= 1


def test_offline_decides_here_and_says_so(kubeconfig: Path) -> None:
    found = explain(kubeconfig, "--offline", "huge", "-o", "json")
    assert found["source"].startswith("the API server at 127.0.0.1:")
    assert found["queue"] is None
    assert found["wakes"] == explain(kubeconfig, "huge", "-o", "json")["wakes"]


def test_a_configuration_of_ones_own_is_asked_and_not_the_scheduler(kubeconfig: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    found = explain(kubeconfig, "--config", str(config), "huge", "-o", "json")
    assert found["source"].startswith("the API server")


@pytest.mark.parametrize("offline", [(), ("--offline",)])
def test_a_gate_is_said_first(kubeconfig: Path, offline: tuple[str, ...]) -> None:
    text = run(kubeconfig, "explain", *offline, "held").stdout
    assert text.startswith("default/held is pending: held by scheduling gate example.com/quota\n")
    assert "Without its gates it would go to node-" in text


@pytest.mark.parametrize("offline", [(), ("--offline",)])
def test_a_missing_claim_is_named(kubeconfig: Path, offline: tuple[str, ...]) -> None:
    text = run(kubeconfig, "explain", *offline, "unclaimed").stdout
    assert text.startswith("default/unclaimed is pending: claim data does not exist\n")
    assert "a PersistentVolumeClaim is added" in text


def test_who_was_evicted_for_whom(kubeconfig: Path) -> None:
    text = run(kubeconfig, "explain", "urgent").stdout
    assert text.startswith("default/urgent is on node-0\n")
    assert "evicted default/" in text
    done = explain(kubeconfig, "urgent", "-o", "json")["evictions"]
    assert done["preemption"]["chosenBy"] == {"criterion": "only", "text": "the only candidate"}
    assert done["preemption"]["node"] == done["node"] == "node-0"
    assert "Why pods of node-0 were evicted\n" in text
    victims = done["victims"]
    gone = [name for name in victims if name == "default/victim" or "/web-" in name]
    assert gone == victims
    name = victims[0].partition("/")[2]
    text = run(kubeconfig, "explain", name).stdout
    assert text.startswith(f"default/{name} is gone: evicted from node-0 for default/urgent")
    assert "Why pods of node-0 were evicted\n" in text
    text = run(kubeconfig, "explain", "--offline", name).stdout
    assert text.startswith(f"default/{name} is gone: evicted from node-0 for default/urgent")


def test_a_deployment_stands_for_its_pods(kubeconfig: Path) -> None:
    text = run(kubeconfig, "explain", "deployment/web").stdout
    assert "default/web-" in text
    assert "source: the running scheduler" in text


def test_causes_come_from_the_running_scheduler(kubeconfig: Path) -> None:
    here = json.loads(run(kubeconfig, "pending", "--offline", "-o", "json").stdout)
    there = json.loads(run(kubeconfig, "pending", "-o", "json").stdout)
    assert there["source"] == "the running scheduler"

    def shown(document: Any) -> set[tuple[str, int, str]]:
        return {(cause["name"], cause["count"], cause["reason"]) for cause in document["causes"]}

    assert shown(here) == shown(there)
    assert ("default/huge", 1, "larger than any node (cpu 20, largest 8)") in shown(there)
    assert json.loads(run(kubeconfig, "pending", "-n", "other", "-o", "json").stdout)["pods"] == 0


def test_no_line_is_longer_than_a_hundred_columns(kubeconfig: Path) -> None:
    for arguments in (["explain", "huge"], ["explain", "urgent"], ["explain", "-l", "app=web"], ["pending"]):
        for line in run(kubeconfig, *arguments).stdout.splitlines():
            assert len(line) <= 100 or line.startswith("    kubectl "), line


def test_top_shows_lanes_and_causes(kubeconfig: Path) -> None:
    text = run(kubeconfig, "top").stdout
    assert "source: the running scheduler" in text
    assert "  gated                 1" in text
    assert "larger than any node (cpu 20, largest 8)" in text
    found = json.loads(run(kubeconfig, "top", "--offline", "-o", "json").stdout)
    assert found["lanes"]["gated"] == 1
    assert found["waiting"] == sum(found["lanes"].values()) > 1


def follow(kubeconfig: Path, command: str, wanted: bytes) -> bytes:
    """Output of a command on a terminal until it contains some text."""
    ours, theirs = pty.openpty()
    program = "from stowplan.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command.split(), "--kubeconfig", str(kubeconfig)],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(theirs)
    shown = b""
    try:
        end = time.monotonic() + PATIENCE
        while wanted not in shown:
            assert time.monotonic() < end, shown
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):
            while more := os.read(ours, 65536):
                shown += more
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown


def test_top_is_live_on_a_terminal_and_leaves_it_as_it_was(kubeconfig: Path) -> None:
    shown = follow(kubeconfig, "top --interval 0.2", b"waiting longest")
    assert shown.startswith(b"\x1b[?1049h")
    assert shown.rstrip().endswith(b"\x1b[?1049l")
    assert b"\x1b[1m" in shown


def test_pending_follows(kubeconfig: Path) -> None:
    shown = follow(kubeconfig, "pending --watch --every 0.2", b"source: the running scheduler")
    assert shown.count(b"larger than any node") == 1
