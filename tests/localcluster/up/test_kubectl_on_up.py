"""Real kubectl on a whole cluster: what people do all day, from a manifest to running pods and back."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.up.clusters import up
from waiting import KUBECTL_PATIENCE, PATIENCE

Run = Callable[..., "subprocess.CompletedProcess[str]"]

KUBECTL = shutil.which("kubectl")

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
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "nginx:1", resources: {requests: {cpu: 100m}}}
"""

BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder: Path = tmp_path_factory.mktemp("up")
    assert KUBECTL is not None, "kubectl is not installed; `make test` installs it"
    with up(folder, "--nodes", "4") as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}

        def run(*words: str, text: str | None = None, ok: bool = True) -> "subprocess.CompletedProcess[str]":
            done = subprocess.run(
                [KUBECTL or "", *words],
                input=text,
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
                check=False,
            )
            assert (done.returncode == 0) is ok, done.stdout + done.stderr
            return done

        run("wait", "node", "--all", "--for=condition=Ready", KUBECTL_PATIENCE)
        yield run


def pods(kubectl: Run, selector: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json").stdout)[
        "items"
    ]
    return found


def until(kubectl: Run, what: str, path: str, value: str) -> None:
    """Wait for a field to have a value, in a way that old versions of kubectl know too."""
    deadline = time.monotonic() + PATIENCE
    while (found := kubectl("get", what, "-o", f"jsonpath={path}").stdout) != value:
        assert time.monotonic() < deadline, f"{what} {path}: expected {value}, got {found}"
        time.sleep(0.2)


def test_a_deployment_is_rolled_out_scaled_changed_and_taken_back(kubectl: Run) -> None:
    kubectl("apply", "-f", "-", text=WEB)
    assert (
        "successfully rolled out" in kubectl("rollout", "status", "deployment/web", KUBECTL_PATIENCE).stdout
    )
    kubectl("scale", "deployment/web", "--replicas=5")
    until(kubectl, "deployment/web", "{.status.readyReplicas}", "5")
    assert {pod["status"]["phase"] for pod in pods(kubectl, "app=web")} == {"Running"}
    kubectl("set", "image", "deployment/web", "main=nginx:2")
    kubectl("rollout", "status", "deployment/web", KUBECTL_PATIENCE)
    images = {pod["spec"]["containers"][0]["image"] for pod in pods(kubectl, "app=web") if _stays(pod)}
    assert images == {"nginx:2"}
    assert kubectl("rollout", "history", "deployment/web").stdout.count("<none>") == 2
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", KUBECTL_PATIENCE)
    images = {pod["spec"]["containers"][0]["image"] for pod in pods(kubectl, "app=web") if _stays(pod)}
    assert images == {"nginx:1"}


def _stays(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def test_a_drain_waits_for_what_a_budget_allows(kubectl: Run) -> None:
    kubectl("apply", "-f", "-", text=WEB)
    kubectl("scale", "deployment/web", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", KUBECTL_PATIENCE)
    kubectl("apply", "-f", "-", text=BUDGET)
    until(kubectl, "pdb/web", "{.status.currentHealthy}", "3")
    node = next(pod for pod in pods(kubectl, "app=web") if _stays(pod))["spec"]["nodeName"]
    drain = ("drain", node, "--ignore-daemonsets", "--timeout=3s")
    blocked = kubectl(*drain, ok=False)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in blocked.stderr
    kubectl("scale", "deployment/web", "--replicas=4")
    until(kubectl, "pdb/web", "{.status.disruptionsAllowed}", "1")
    kubectl("drain", node, "--ignore-daemonsets", KUBECTL_PATIENCE)
    assert all(pod["spec"].get("nodeName") != node for pod in pods(kubectl, "app=web") if _stays(pod))
    kubectl("delete", "pdb", "web")
    kubectl("uncordon", node)


def test_a_pod_that_fits_nowhere_says_why_and_runs_when_it_fits(kubectl: Run) -> None:
    kubectl("run", "large", "--image=nginx", "--overrides", _wanting("100"))
    kubectl("wait", "pod/large", "--for=condition=PodScheduled=false", KUBECTL_PATIENCE)
    assert "4 Insufficient cpu" in kubectl("describe", "pod", "large").stdout
    assert "FailedScheduling" in kubectl("get", "events").stdout
    kubectl("delete", "pod", "large", "--now")
    kubectl("run", "small", "--image=nginx", "--overrides", _wanting("1"))
    kubectl("wait", "pod/small", "--for=condition=Ready", KUBECTL_PATIENCE)
    kubectl("delete", "pod", "small", "--grace-period=1")
    assert "NotFound" in kubectl("get", "pod", "small", ok=False).stderr


def _wanting(cpu: str) -> str:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return json.dumps({"apiVersion": "v1", "spec": {"containers": [container]}})


def test_jobs_end_and_what_they_made_goes_with_them(kubectl: Run) -> None:
    kubectl("create", "job", "once", "--image=busybox")
    kubectl("wait", "job/once", "--for=condition=complete", KUBECTL_PATIENCE)
    kubectl("delete", "job", "once", "--cascade=foreground", KUBECTL_PATIENCE)
    assert pods(kubectl, "job-name=once") == []


def test_a_namespace_takes_what_is_in_it_along(kubectl: Run) -> None:
    kubectl("create", "namespace", "team")
    kubectl("-n", "team", "create", "deployment", "d", "--image=nginx", "--replicas=2")
    kubectl("-n", "team", "rollout", "status", "deployment/d", KUBECTL_PATIENCE)
    kubectl("delete", "namespace", "team", KUBECTL_PATIENCE)
    assert "NotFound" in kubectl("get", "namespace", "team", ok=False).stderr


OLD = """
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 1
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: "nginx:1"}
"""


def test_a_replication_controller_of_the_early_designs_is_scaled(kubectl: Run) -> None:
    kubectl("apply", "-f", "-", text=OLD)
    until(kubectl, "rc/old", "{.status.readyReplicas}", "1")
    kubectl("scale", "rc", "old", "--replicas=3")
    until(kubectl, "rc/old", "{.status.readyReplicas}", "3")
    assert kubectl("get", "rc", "old", "--no-headers").stdout.split()[:4] == ["old", "3", "3", "3"]
    kubectl("delete", "rc", "old", "--cascade=foreground", KUBECTL_PATIENCE)
    assert pods(kubectl, "app=old") == []


def test_a_cron_job_makes_jobs_by_hand_too_and_finished_ones_say_complete(kubectl: Run) -> None:
    kubectl("create", "cronjob", "tick", "--image=busybox", "--schedule=0 0 1 1 *", "--", "true")
    kubectl("create", "job", "now", "--from=cronjob/tick")
    kubectl("wait", "job/now", "--for=condition=Complete", KUBECTL_PATIENCE)
    assert kubectl("get", "job", "now", "--no-headers").stdout.split()[:3] == ["now", "Complete", "1/1"]
    assert "Job completed" in kubectl("describe", "job", "now").stdout
    until(kubectl, "cronjob/tick", "{.status.active}", "")
    assert kubectl("get", "cronjob", "tick", "-o", "jsonpath={.status.lastSuccessfulTime}").stdout
    refused = kubectl("create", "cronjob", "bad", "--image=busybox", "--schedule=bad", ok=False)
    assert "expected exactly 5 fields, found 1: [bad]" in refused.stderr
    kubectl("delete", "cronjob", "tick")


BACK = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: back, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: back}}
  template:
    metadata:
      labels: {app: back}
      annotations: {pretend.stowplan.io/cpu-usage: 80m}
    spec:
      containers:
      - {name: main, image: "nginx:1", resources: {requests: {cpu: 100m, memory: 64Mi}}}
---
apiVersion: v1
kind: Service
metadata: {name: back, namespace: shop}
spec: {selector: {app: back}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods, namespace: shop}
spec: {hard: {pods: "2"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_a_namespace_with_a_service_a_quota_and_a_claim_without_a_class(kubectl: Run) -> None:
    kubectl("create", "namespace", "shop")
    kubectl("apply", "-f", "-", text=BACK)
    kubectl("rollout", "status", "-n", "shop", "deployment/back", KUBECTL_PATIENCE)
    slices = "-n=shop", "get", "endpointslices", "-l", "kubernetes.io/service-name=back"
    ports = kubectl(
        *slices, "-o", "jsonpath={.items[*].ports[*].port} {.items[*].endpoints[*].targetRef.kind}"
    )
    assert ports.stdout == "8080 Pod Pod"
    assert "8080" in kubectl("get", "endpoints", "-n", "shop", "back").stdout
    used = kubectl("get", "quota", "-n", "shop", "pods", "-o", "jsonpath={.status.used.pods}").stdout
    assert used == "2"
    claim = kubectl("get", "pvc", "-n", "shop", "data", "-o", "jsonpath={.spec.storageClassName}").stdout
    assert claim == "standard"
    assert kubectl("get", "cm", "-n", "shop", "kube-root-ca.crt", "-o", "name").stdout
    top = kubectl("top", "pods", "-n", "shop").stdout.splitlines()[1:]
    assert [line.split()[1:] for line in top] == [["80m", "32Mi"]] * 2
    assert len(kubectl("top", "nodes").stdout.splitlines()) == 5
    kubectl("delete", "namespace", "shop", KUBECTL_PATIENCE)


def test_what_nothing_acts_on_is_stored_with_a_warning(kubectl: Run) -> None:
    names = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\n"
    policy = names + "spec: {podSelector: {}}\n"
    made = kubectl("apply", "-f", "-", text=policy)
    assert made.stdout == "networkpolicy.networking.k8s.io/web created\n"
    assert made.stderr == "Warning: stored only: nothing acts on NetworkPolicy here\n"
    assert "web" in kubectl("get", "networkpolicy", "web").stdout
    scaled = kubectl("create", "quota", "few", "--hard=pods=100")
    assert "Warning" not in scaled.stderr


def test_what_simulated_pods_cannot_do_is_said_in_one_line(kubectl: Run) -> None:
    kubectl("run", "shell", "--image=busybox")
    kubectl("wait", "pod/shell", "--for=condition=Ready", KUBECTL_PATIENCE)
    assert "shell/shell: this pod is simulated" in kubectl("logs", "shell").stdout
    refusals = {
        "exec": ("exec", "shell", "--", "ls"),
        "attach": ("attach", "shell"),
        "portforward": ("port-forward", "pod/shell", ":80"),
    }
    for what, words in refusals.items():
        told = kubectl(*words, ok=False).stderr
        assert f"{what} is not possible: pod shell is simulated and runs no processes" in told
    assert "exec is not possible" in kubectl("cp", "shell:/etc/hosts", "hosts", ok=False).stderr
    debugged = kubectl("debug", "shell", "-i", "--image=busybox", "--container=look")
    assert "shell/look: this pod is simulated" in debugged.stdout
    kubectl("delete", "pod", "shell", "--now")


def test_an_exposed_deployment_gets_an_external_address(kubectl: Run) -> None:
    kubectl("create", "deployment", "edge", "--image=nginx")
    kubectl("expose", "deployment", "edge", "--port=80", "--type=LoadBalancer")
    until(kubectl, "service/edge", "{.status.loadBalancer.ingress[0].ip}", "10.96.255.1")
    assert "10.96.255.1" in kubectl("get", "service", "edge").stdout
    kubectl("delete", "service,deployment", "edge")


SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: %s, labels: {app: settings}}
data: {color: %s}
"""


def test_a_diff_shows_what_an_apply_would_change_and_prune_deletes_the_rest(kubectl: Run) -> None:
    two = SETTINGS % ("one", "red") + "---" + SETTINGS % ("two", "red")
    kubectl("apply", "-f", "-", text=two)
    assert kubectl("diff", "-f", "-", text=two).stdout == ""
    one = SETTINGS % ("one", "blue")
    changes = kubectl("diff", "-f", "-", text=one, ok=False).stdout.splitlines()
    assert [line for line in changes if line[:3] in ("-  ", "+  ")] == ["-  color: red", "+  color: blue"]
    prune = "apply", "--prune", "-l", "app=settings", "--prune-allowlist=core/v1/ConfigMap", "-f", "-"
    assert kubectl(*prune, text=one).stdout == "configmap/one configured\nconfigmap/two pruned\n"
    kubectl("delete", "cm", "-l", "app=settings")
