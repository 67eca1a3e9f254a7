"""`stowplan up` as a person runs it: a real process, real sockets, real signals."""

import json
import os
import re
import signal
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from localcluster.up.clusters import STOWPLAN, up
from stowplan.cli.main import stowplan
from waiting import PATIENCE, until


def ask(kubeconfig: Path, path: str, token: str | None = "") -> dict[str, object]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(cluster["server"] + path)
    request.add_header("Authorization", f"Bearer {token or user['token']}")
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def test_it_says_how_to_get_in_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "4") as cluster:
        until(lambda: len(ask(cluster.kubeconfig, "/api/v1/nodes")["items"]) == 4)  # type: ignore[arg-type]
        assert os.stat(cluster.kubeconfig).st_mode & 0o077 == 0
        cluster.process.send_signal(signal.SIGINT)
        said = cluster.rest()
        assert cluster.process.returncode == 0, cluster.errors
        assert f"export KUBECONFIG={cluster.kubeconfig}" in said
        assert said.rstrip().endswith("stopping")
        assert "Traceback" not in cluster.errors


def test_the_demo_tells_its_story_to_the_end(tmp_path: Path) -> None:
    with up(tmp_path, "--demo", "--until-done", "--seed", "3") as cluster:
        said = cluster.rest()
        assert cluster.process.returncode == 0, cluster.errors
    assert re.search(r"web  node-0 2, node-1 2, node-2 2", said)
    assert "report  4 of 4 done" in said
    assert "giant is pending: 0/3 nodes are available: 3 Insufficient cpu." in said
    assert re.search(r"urgent runs on node-\d; \d+ low-priority pods were preempted", said)
    assert "default/giant is pending: larger than any node (cpu 1000, largest 8)" in said
    assert re.search(r"default/urgent is on node-\d", said)


def test_what_is_loaded_is_there_and_goes_on(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(
        """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: mine}
  status:
    allocatable: {cpu: "4", memory: 8Gi, pods: "10"}
    conditions: [{type: Ready, status: "True"}]
- apiVersion: v1
  kind: Pod
  metadata: {name: waiting}
  spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""
    )
    with up(tmp_path, "--load", str(manifest)) as cluster:
        deadline = time.monotonic() + PATIENCE
        while True:
            pod = ask(cluster.kubeconfig, "/api/v1/namespaces/default/pods/waiting")
            if pod["status"].get("phase") == "Running":  # type: ignore[attr-defined]
                break
            assert time.monotonic() < deadline, pod
            time.sleep(0.05)
        assert pod["spec"]["nodeName"] == "mine"  # type: ignore[index]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--nodes", "3", "--shapes", "S"], "--nodes and --shapes exclude each other"),
        (["--until-done"], "--until-done needs --demo"),
        (["--nodes", "-1"], "--nodes"),
        (["--shapes", "S"], "count"),
        (["--load", "L"], "expected apiVersion and kind"),
        (["--config", "C"], "Object 'Kind' is missing"),
        (["--feature-gates", "Nonsense=true"], "Nonsense"),
        (["--plugin", "nowhere:Nothing"], "nowhere"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, options: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "S").write_text("- count: many\n")
    (tmp_path / "L").write_text("x: 1\n")
    (tmp_path / "C").write_text("apiVersion: v1\n")
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(stowplan, ["up", *options])
    assert run.exit_code in (1, 2)
    assert isinstance(run.exception, SystemExit)
    assert problem in run.stderr
    assert len([line for line in run.stderr.splitlines() if line.startswith("Error")]) == 1


def test_a_mistake_ends_the_process(tmp_path: Path) -> None:
    run = subprocess.run(
        [*STOWPLAN, "--nodes", "-1"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("Error: --nodes: ")
    assert len(run.stderr.splitlines()) == 1
