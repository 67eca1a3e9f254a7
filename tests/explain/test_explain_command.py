"""`stowplan explain` and `stowplan pending` on a dump, as kubectl writes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan.api.requests import Json
from stowplan.cli.main import stowplan
from stowplan.explain.commands import compact, kubectl

NODES = [
    {"name": "a-1", "cpu": "4", "zone": "a"},
    {"name": "a-2", "cpu": "4", "zone": "a"},
    {"name": "b-1", "cpu": "8", "zone": "b", "taint": "dedicated=infer:NoSchedule"},
]


def node(name: str, cpu: str, zone: str, taint: str = "") -> dict[str, Any]:
    spec = {}
    if taint:
        pair, _, effect = taint.partition(":")
        key, _, value = pair.partition("=")
        spec = {"taints": [{"key": key, "value": value, "effect": effect}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
        },
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str, on: str = "", **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": {"app": name[:3]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [main],
            "schedulerName": "default-scheduler",
            **({"nodeName": on} if on else {}),
            **spec,
        },
    }


TOLERATION: Json = {"key": "dedicated", "operator": "Equal", "value": "infer", "effect": "NoSchedule"}


def replaced(spec: dict[str, Any]) -> str:
    """The command that makes the pod web-1 again with a patch."""
    local = kubectl("patch", "--local", "-f", "-", "-o", "json", "-p", compact({"spec": spec}))
    return f"kubectl get pod/web-1 -n shop -o json | {local} | kubectl replace --force -f -"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    items = [
        *(node(**one) for one in NODES),
        pod("low-1", "3", "a-1", priority=5),
        pod("low-2", "2", "a-2"),
        pod("web-1", "3"),
        pod("web-2", "3"),
        pod("new-1", "1", schedulingGates=[{"name": "example.com/quota"}]),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}},
    ]
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stowplan, list(arguments))


def test_a_pending_pod_is_explained_from_the_answer_to_what_would_help(dump: Path) -> None:
    result = run("explain", "--from", str(dump), "-n", "shop", "pod/web-1")
    assert result.exit_code == 0, result.output
    tolerating = {"tolerations": [TOLERATION]}
    assert result.stdout.splitlines() == [
        "shop/web-1 is pending: at least 1 cpu short on 2 nodes",
        f"source: {dump}",
        "",
        "Any one of these would place it (each tried on this state)",
        "  request 2 cpu (now 3)                → a-2",
        f"    {replaced({'containers': [{'name': 'main', 'resources': {'requests': {'cpu': '2'}}}]})}",
        "  one more node like a-2               → the new node",
        "  shop/low-2 ends                      → a-2",
        "    kubectl delete pod/low-2 -n shop",
        "  tolerate dedicated=infer:NoSchedule  → b-1",
        f"    {kubectl('patch', 'pod/web-1', '-n', 'shop', '-p', compact({'spec': tolerating}))}",
        "",
        "Other nodes with one thing in the way",
        "  b-1  taint dedicated=infer:NoSchedule",
        "",
        " 3 nodes",
        "-2  NodeResourcesFit  Insufficient cpu",
        "-1  TaintToleration   node(s) had untolerated taint(s)",
        "= 0",
        "",
        "Preemption does not help",
        "   3 nodes",
        "  -2  no pod of lower priority than 0 (a-1, a-2)",
        "  -1  evicting pods would not help: node(s) had untolerated taint(s) (b-1)",
        "",
        "Wakes it: a pod with cpu leaves · a node is added or changes allocatable or taints",
        "          the pod itself changes",
    ]
    assert result.stderr == "note: not needed for scheduling: 1 ConfigMap\n"


@pytest.mark.parametrize("form", [("-o", "json"), ("--json",)])
def test_the_json_form_has_the_documented_fields(dump: Path, form: tuple[str, ...]) -> None:
    result = run("explain", "--from", str(dump), "-n", "shop", "web-1", *form)
    found = json.loads(result.stdout)
    assert found["pod"] == "shop/web-1"
    assert (found["state"], found["nodes"], found["feasible"]) == ("pending", 3, 0)
    assert [(line["plugin"], line["nodes"]) for line in found["funnel"]] == [
        ("NodeResourcesFit", 2),
        ("TaintToleration", 1),
    ]
    assert [miss["node"] for miss in found["nearMisses"]] == ["a-2", "b-1", "a-1"]
    smaller = found["changes"][0]
    assert (smaller["kind"], smaller["node"]) == ("requests", "a-2")
    assert smaller["patch"] == {
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    }
    assert found["attempts"] == []
    events = {(one["plugin"], one["resource"]): one["actions"] for one in found["wakes"]}
    assert events["NodeResourcesFit", "Node"] == ["Add", "UpdateNodeAllocatable"]
    assert events["TaintToleration", "TargetPod"] == ["UpdatePodToleration"]


def test_a_placed_pod_is_explained_by_scores_and_by_what_would_happen_now(dump: Path) -> None:
    result = run("explain", "--from", str(dump), "-n", "shop", "low-1", "-o", "json")
    found = json.loads(result.stdout)
    assert (found["state"], found["node"], found["wouldGoTo"]) == ("placed", "a-1", "a-1")
    result = run("explain", "--from", str(dump), "-n", "shop", "-l", "app=low")
    assert result.stdout.startswith("shop/low-1 is on a-1\n")
    assert "It would be placed there again now." in result.stdout
    assert "shop/low-2 is on a-2" in result.stdout


def test_something_that_does_not_exist_yet_is_explained(dump: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "app.yaml"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", "2")["spec"]}
    manifest.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "app"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
            }
        )
    )
    result = run("explain", "--from", str(dump), "-f", str(manifest))
    assert result.stdout.startswith("default/app would go to a-2: 1 node of 3 fit\n")


def test_waiting_pods_are_grouped_by_cause(dump: Path) -> None:
    result = run("pending", "--from", str(dump))
    assert result.stdout.splitlines() == [
        "3 pods wait on 2 causes",
        "",
        " 2  shop/web-*  at least 1 cpu short on 2 nodes",
        "                helped by: request 2 cpu (now 3), or one more node like a-2",
        " 1  shop/new-1  held by scheduling gate example.com/quota",
        "                helped by: the owner of gate example.com/quota removes it when its condition is met",
        "",
        f"source: {dump}",
    ]
    found = json.loads(run("pending", "--from", str(dump), "-o", "json").stdout)
    assert [cause["count"] for cause in found["causes"]] == [2, 1]
    assert run("pending", "--from", str(dump), "-n", "other").stdout == "No pod waits.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pod/nobody"], 'Error: pods "nobody" not found in namespace shop'),
        (
            ["service/x"],
            "Error: service/x: expected a pod, podgroup, deployment, replicaset, statefulset, "
            "daemonset, job or cronjob",
        ),
        (["job/x"], 'Error: jobs "x" not found in namespace shop'),
        (["-l", "a in (b"], "Error: --selector: "),
    ],
)
def test_what_cannot_be_explained_is_one_line(dump: Path, arguments: list[str], message: str) -> None:
    result = run("explain", "--from", str(dump), "-n", "shop", *arguments)
    assert result.exit_code != 0
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not YAML or JSON"),
        ("- 1", "expected an object with apiVersion and kind"),
        ("kind: Pod\nspec: 3", "bad.yaml:2: spec: expected `object`, got `int`"),
        ("kind: List\nitems: [3]", "items[0]: expected an object with apiVersion and kind"),
    ],
)
def test_a_bad_dump_is_one_line_that_names_the_place(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    result = run("explain", "--from", str(path), "pod/x")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {path}")
    assert expected in result.stderr


def test_without_a_cluster_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    result = CliRunner().invoke(stowplan, ["pending"])
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {tmp_path}/.kube/config: no such file or directory (name a cluster with --kubeconfig or "
        "KUBECONFIG, or start one: stowplan up)\n"
    )


def test_a_configuration_that_is_refused_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: apps/v1\nkind: Deployment\n")
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("nodes: [{count: 1}]\n")
    arguments = ["explain", "pod/p", "--from", str(nodes), "--config", str(wrong)]
    result = CliRunner().invoke(stowplan, arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f'Error: {wrong}: no kind "Deployment" is registered')


def test_pods_of_a_daemon_set_are_one_cause_with_what_helps_all_of_them(tmp_path: Path) -> None:
    """Each waits for its own node, on which something else is free."""

    def daemon(number: int, target: str) -> dict[str, Any]:
        field = {"key": "metadata.name", "operator": "In", "values": [target]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        made = pod(f"agent-{number}", "3", affinity=affinity)
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": "d",
            "controller": True,
        }
        made["metadata"]["ownerReferences"] = [owner]
        return made

    items = [node("a-1", "4", "a"), node("a-2", "4", "a"), node("a-3", "4", "b")]
    items += [pod("one", "1500m", "a-1"), pod("two", "3", "a-2"), pod("three", "2", "a-3")]
    items += [daemon(number, f"a-{number}") for number in (1, 2, 3)]
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump_all(items))
    result = CliRunner().invoke(stowplan, ["pending", "--from", str(dump), "--json"])
    assert result.exit_code == 0, result.output
    [cause] = json.loads(result.stdout)["causes"]
    assert (cause["name"], cause["count"]) == ("shop/agent-*", 3)
    assert cause["reason"] == "2 cpu short on a-2, and as much or less on 2 other nodes"
    assert "request 1 cpu (now 3)" in cause["help"]
