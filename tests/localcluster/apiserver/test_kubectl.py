"""The real kubectl against the server alone: nothing runs behind it, so statuses are written by hand."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.apiserver.served import MERGE, PODS, STRATEGIC, Served, serving
from releases import GATES_1_36
from waiting import KUBECTL_PATIENCE, PATIENCE, until

Run = Callable[..., "subprocess.CompletedProcess[str]"]

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, node-role.kubernetes.io/worker: ""}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
  nodeInfo:
    architecture: amd64
    bootID: ""
    containerRuntimeVersion: pretend://1
    kernelVersion: "6"
    kubeProxyVersion: ""
    kubeletVersion: v1.36.4
    machineID: ""
    operatingSystem: linux
    osImage: pretend
    systemUUID: ""
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: registry.example/web:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 1, selector: {matchLabels: {app: g}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
"""


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(plain=False, gates=GATES_1_36) as served:
        yield served


@pytest.fixture(scope="module")
def kubectl(api: Served, tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("home")
    config = home / "kubeconfig"
    config.write_text(api.server.kubeconfig())
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)}

    def run(*words: str, text: str = "", fails: bool = False) -> "subprocess.CompletedProcess[str]":
        result = subprocess.run(
            ["kubectl", *words],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (result.returncode != 0) == fails, result.stdout + result.stderr
        return result

    return run


def test_it_finds_out_whom_it_talks_to(kubectl: Run) -> None:
    found = json.loads(kubectl("version", "-o", "json").stdout)
    assert found["serverVersion"]["gitVersion"].startswith("v1.36")
    listed = kubectl("api-resources").stdout
    assert "deployments" in listed
    assert "poddisruptionbudgets" in listed
    assert "apps/v1" in kubectl("api-versions").stdout
    assert kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_pods_are_made_shown_and_deleted(kubectl: Run, api: Served) -> None:
    kubectl("run", "p1", "--image=registry.example/app:1", "--labels=app=p")
    assert kubectl("get", "pods").stdout.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    wide = kubectl("get", "pods", "-o", "wide").stdout
    assert "NOMINATED NODE" in wide
    assert "Pending" in wide
    assert kubectl("get", "pod", "p1", "-o", "jsonpath={.spec.schedulerName}").stdout == "default-scheduler"
    assert json.loads(kubectl("get", "pod", "p1", "-o", "json").stdout)["kind"] == "Pod"
    assert "kind: Pod" in kubectl("get", "pod", "p1", "-o", "yaml").stdout
    assert kubectl("get", "pods", "-l", "app=p", "-o", "name").stdout == "pod/p1\n"
    assert kubectl("get", "pods", "--field-selector=spec.nodeName=", "--no-headers").stdout.startswith("p1")
    assert "No resources found" in kubectl("get", "pods", "--field-selector=status.phase=Running").stderr
    custom = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name").stdout
    assert custom.split() == ["N", "p1"]
    kubectl("label", "pod", "p1", "tier=front")
    kubectl("annotate", "pod", "p1", "note=x")
    assert "front" in kubectl("get", "pods", "-L", "tier").stdout
    kubectl("get", "pods", "--sort-by=.metadata.name", "--show-labels")
    patch = '{"metadata":{"labels":{"tier":"back"}}}'
    kubectl("patch", "pod", "p1", "-p", patch)
    assert "tier=back" in kubectl("get", "pods", "--show-labels").stdout
    api.ask("POST", f"{PODS}/p1/binding", {"target": {"kind": "Node", "name": "n1"}})
    kubectl("delete", "pod", "p1", "--wait=false")
    assert "Terminating" in kubectl("get", "pods").stdout
    kubectl("delete", "pod", "p1", "--grace-period=0", "--force")
    assert "NotFound" in kubectl("get", "pod", "p1", fails=True).stderr


def test_changes_are_shown_as_they_come(kubectl: Run, api: Served, tmp_path: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "HOME": str(tmp_path)}
    (tmp_path / "kubeconfig").write_text(api.server.kubeconfig())
    with subprocess.Popen(
        ["kubectl", "get", "pods", "-w", f"--request-timeout={PATIENCE:.0f}s"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        until(lambda: api.run(lambda store: any(found.watchers for found in store._collections.values())))
        kubectl("run", "seen", "--image=x")
        assert watching.stdout.readline().split()[:2] == ["NAME", "READY"]
        assert watching.stdout.readline().split()[:3] == ["seen", "0/1", "Pending"]
        api.ask("PATCH", f"{PODS}/seen/status", {"status": {"phase": "Running"}}, Content_Type=MERGE)
        assert watching.stdout.readline().split()[:3] == ["seen", "0/1", "Running"]
        watching.terminate()
    kubectl("delete", "pod", "seen", "--now")


def test_things_are_described_with_their_events(kubectl: Run, api: Served) -> None:
    kubectl("create", "-f", "-", text=NODE)
    nodes = kubectl("get", "nodes").stdout.splitlines()
    assert nodes[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1].split()[:3] == ["n1", "Ready", "worker"]
    kubectl("run", "told", "--image=x")
    found = json.loads(kubectl("get", "pod", "told", "-o", "json").stdout)["metadata"]
    event = {
        "metadata": {"name": "told.1", "namespace": "default"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "told", "uid": found["uid"]},
        "reason": "FailedScheduling",
        "note": "0/1 nodes are available",
        "type": "Warning",
        "action": "Scheduling",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-1",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert api.ask("POST", path, event).code == 201
    described = kubectl("describe", "pod", "told").stdout
    assert "0/1 nodes are available" in described
    assert "FailedScheduling" in described
    assert "Taints:" in kubectl("describe", "node", "n1").stdout
    events = kubectl("get", "events").stdout
    assert "pod/told" in events
    assert "FailedScheduling" in events
    kubectl("delete", "pod", "told", "--now")


def test_nodes_are_tainted_cordoned_and_drained(kubectl: Run, api: Served) -> None:
    kubectl("apply", "-f", "-", text=NODE.replace("n1", "n2"))
    kubectl("taint", "node", "n2", "k=v:NoSchedule")
    assert "k=v:NoSchedule" in kubectl("describe", "node", "n2").stdout
    kubectl("taint", "node", "n2", "k-")
    kubectl("cordon", "n2")
    assert "SchedulingDisabled" in kubectl("get", "node", "n2").stdout
    kubectl("uncordon", "n2")
    kubectl("run", "guarded", "--image=x", "--labels=app=g")
    api.ask("POST", f"{PODS}/guarded/binding", {"target": {"kind": "Node", "name": "n2"}})
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.ask("PATCH", f"{PODS}/guarded/status", ready, Content_Type=STRATEGIC)
    kubectl("create", "-f", "-", text=BUDGET)
    budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status"
    told = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    api.ask("PATCH", budget, {"status": told}, Content_Type=MERGE)
    blocked = kubectl("drain", "n2", "--force", "--grace-period=0", "--timeout=2s", fails=True)
    assert "violate the pod's disruption budget" in blocked.stderr
    api.ask("PATCH", budget, {"status": {"disruptionsAllowed": 1}}, Content_Type=MERGE)
    assert (
        "pod/guarded evicted"
        in kubectl("drain", "n2", "--force", "--grace-period=0", KUBECTL_PATIENCE).stdout
    )
    assert "NotFound" in kubectl("get", "pod", "guarded", fails=True).stderr


@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_a_manifest_is_applied_twice_with_a_change(kubectl: Run, how: tuple[str, ...]) -> None:
    name = f"web-{len(how)}"
    text = WEB.replace("NAME", name)
    kubectl("apply", "-f", "-", *how, text=text)
    kubectl("apply", "-f", "-", *how, text=text)
    changed = text.replace("web:1", "web:2").replace('[{name: A, value: "1"}]', '[{name: B, value: "2"}]')
    kubectl("apply", "-f", "-", *how, text=changed)
    found = json.loads(kubectl("get", "deployment", name, "-o", "json").stdout)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/web:2"
    assert container["env"] == [{"name": "B", "value": "2"}]
    assert found["metadata"]["generation"] == 2
    diff = kubectl("diff", "-f", "-", *how, text=changed)
    assert diff.stdout == ""


def test_what_another_manages_is_a_conflict(kubectl: Run) -> None:
    text = WEB.replace("NAME", "contested")
    kubectl("apply", "--server-side", "-f", "-", text=text)
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    refused = kubectl(*other, text=text.replace("web:1", "web:3"), fails=True)
    assert 'conflict with "kubectl": .spec.template.spec.containers[name="main"].image' in refused.stderr
    kubectl(*other, "--force-conflicts", text=text.replace("web:1", "web:3"))


def test_deployments_are_scaled_and_waited_for(kubectl: Run, api: Served) -> None:
    kubectl("create", "deployment", "d", "--image=x:1", "--replicas=2")
    kubectl("scale", "deployment", "d", "--replicas=3")
    assert "0/3" in kubectl("get", "deploy", "d").stdout
    kubectl("set", "image", "deployment/d", "x=x:2")
    kubectl("rollout", "restart", "deployment/d")
    generation = json.loads(kubectl("get", "deploy", "d", "-o", "json").stdout)["metadata"]["generation"]
    told = {
        "observedGeneration": generation,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "conditions": [{"type": "Available", "status": "True"}],
    }
    path = "/apis/apps/v1/namespaces/default/deployments/d/status"
    assert api.ask("PATCH", path, {"status": told}, Content_Type=MERGE).code == 200
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/d", KUBECTL_PATIENCE).stdout
    kubectl("wait", "--for=condition=Available", "deployment/d", KUBECTL_PATIENCE)
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}").stdout == "3"
    kubectl("delete", "deployment", "d", "--wait=true")
    assert "NotFound" in kubectl("get", "deployment", "d", fails=True).stderr


def test_objects_of_many_kinds_are_created_and_listed(kubectl: Run) -> None:
    kubectl("create", "namespace", "room")
    for words in (
        ("configmap", "c", "--from-literal=a=b"),
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("service", "clusterip", "svc", "--tcp=80:80"),
        ("job", "j", "--image=x"),
        ("quota", "q", "--hard=pods=2"),
        ("serviceaccount", "sa"),
        ("priorityclass", "pc", "--value=5"),
    ):
        kubectl("create", *words, "-n", "room")
    assert "10.96." in kubectl("get", "svc", "-n", "room").stdout
    listed = kubectl("get", "all,cm,secret,sa,quota,pc", "-n", "room").stdout
    assert "job.batch/j" in listed
    assert "Running" in listed


def test_questions_about_the_api_are_answered(kubectl: Run) -> None:
    assert kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert kubectl("auth", "can-i", "create", "pods", "--as=bob", fails=True).stdout == "no\n"
    explained = kubectl("explain", "pod.spec").stdout
    assert "containers" in explained
    assert "-required-" in explained
    assert "FIELD" in kubectl("explain", "deployment.spec.strategy.rollingUpdate").stdout


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (("get", "pod", "none"), "", 'Error from server (NotFound): pods "none" not found'),
        (("create", "namespace", "default"), "", "Error from server (AlreadyExists)"),
        (("get", "pods", "--as=bob"), "", "Error from server (Forbidden): pods is forbidden"),
        (("get", "pods", "--token=wrong"), "", "You must be logged in to the server (Unauthorized)"),
        (("run", "x", "--image=x", "-n", "none"), "", 'namespaces "none" not found'),
        (("delete", "namespace", "default"), "", "Error from server (Forbidden)"),
        (
            ("create", "-f", "-"),
            POD.replace("spec:", "spec:\n  priorityClassName: none"),
            "no PriorityClass with name none was found",
        ),
        (
            ("create", "-f", "-"),
            POD.replace("name: p", "name: P"),
            'The Pod "P" is invalid: metadata.name: Invalid value',
        ),
        (
            ("apply", "-f", "-"),
            POD.replace("spec:", "spec:\n  color: red"),
            "unknown field",
        ),
        (
            ("replace", "-f", "-"),
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-public, resourceVersion: '1'}",
            "Error from server (Conflict)",
        ),
    ],
)
def test_errors_are_those_people_know(kubectl: Run, words: tuple[str, ...], text: str, said: str) -> None:
    result = kubectl(*words, text=text, fails=True)
    assert said in result.stderr
    assert result.returncode == 1
