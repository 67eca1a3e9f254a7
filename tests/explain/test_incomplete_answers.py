"""Answers say what they did not look at: in their first lines, in JSON, and with --strict by exit code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.live_scheduler import node, pod
from stowplan.cli.main import stowplan

STRICT = 3
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NODE = {"apiVersion": "v1", "kind": "Node", **node("n"), "spec": {}}
WEB = {"apiVersion": "v1", "kind": "Pod", **pod("web", cpu="40")}
EXTENDER = {"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}


def written(folder: Path, *items: Mapping[str, Any]) -> str:
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stowplan, list(arguments))


def test_an_empty_dump_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    result = run("pending", "--from", str(empty))
    assert result.exit_code == 1
    assert "no objects: expected what `kubectl get" in result.output


def test_a_dump_without_pods_is_not_one_in_which_no_pod_waits(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE)
    result = run("pending", "--from", dump, "--strict")
    assert result.stdout.splitlines()[0] == "No waiting pod is known: the dump has no pods"
    assert result.exit_code == STRICT
    assert run("pending", "--from", dump).exit_code == 0


def test_a_dump_of_pods_alone_explains_no_placement(tmp_path: Path) -> None:
    dump = written(tmp_path, WEB)
    missing = "the dump has no nodes: placement cannot be explained"
    result = run("explain", "--from", dump, "-n", "d", "web", "--strict")
    assert result.stdout.splitlines()[:2] == [f"d/web is pending: {missing}", f"incomplete: {missing}"]
    assert result.exit_code == STRICT
    found = json.loads(run("pending", "--from", dump, "-o", "json").stdout)
    assert found["incomplete"] == [missing]
    assert found["causes"][0]["reason"] == missing


def test_extenders_are_not_called_and_the_answer_says_so(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE, WEB)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**KIND, "extenders": [EXTENDER]}))
    said = "extender http://127.0.0.1:1/ is not called: it may reject nodes"
    result = run("explain", "--from", dump, "--config", str(config), "-n", "d", "web", "--strict")
    assert result.stdout.splitlines()[1] == f"incomplete: {said}"
    assert result.exit_code == STRICT
    result = run("explain", "--from", dump, "-n", "d", "web", "--strict")
    assert result.exit_code == 0
    assert "incomplete" not in result.stdout


def test_an_extender_of_a_resource_matters_only_to_pods_that_ask_for_it(tmp_path: Path) -> None:
    asks = {"containers": [{"name": "main", "image": "app", "resources": {"limits": {"e.com/card": "1"}}}]}
    other = {**WEB, "metadata": {"name": "card", "namespace": "d", "uid": "card"}, "spec": asks}
    dump = written(tmp_path, NODE, WEB, other)
    config = tmp_path / "config.yaml"
    managed = {**EXTENDER, "managedResources": [{"name": "e.com/card"}]}
    config.write_text(yaml.safe_dump({**KIND, "extenders": [managed]}))
    arguments = ("--from", dump, "--config", str(config), "-n", "d", "-o", "json")
    web, card = json.loads(run("explain", *arguments, "web", "card").stdout)["items"]
    assert (len(web["incomplete"]), len(card["incomplete"])) == (0, 1)


@pytest.mark.parametrize(("claims", "lines"), [((), ("the dump has no persistentvolumeclaims",)), ((1,), ())])
def test_a_claim_that_was_not_dumped_is_not_one_that_does_not_exist(
    tmp_path: Path, claims: tuple[int, ...], lines: tuple[str, ...]
) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    wants = {**WEB, "spec": {**WEB["spec"], "volumes": [volume]}}
    some = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"c{one}", "namespace": "d"},
        }
        for one in claims
    ]
    found = json.loads(
        run("explain", "--from", written(tmp_path, NODE, wants, *some), "-n", "d", "web", "-o", "json").stdout
    )
    assert tuple(line for line in found["incomplete"] if "claims" in line) == lines
