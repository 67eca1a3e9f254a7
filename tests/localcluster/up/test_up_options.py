"""The options of `stowplan up` as a person uses them: load, wait, run a command, fail nodes, schedulers."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from localcluster.up.clusters import STOWPLAN, Up, up
from localcluster.up.dumps import comparable, differences
from stowplan.cli.hosts.up import up as up_command
from stowplan.testing.ports import free_port
from waiting import KUBECTL_PATIENCE, PATIENCE, until

NODE = [*STOWPLAN[:-1], "node"]
KUBECTL = shutil.which("kubectl") or ""
KINDS = (
    "all,pv,pvc,nodes,ns,sa,cm,secrets,pdb,endpoints,endpointslices,controllerrevisions,csinodes,"
    "priorityclasses,storageclasses,clusterroles,clusterrolebindings,roles,rolebindings,leases,crd,wishes"
)

APP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: pg, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report, namespace: shop}
spec:
  template:
    metadata: {annotations: {pretend.stowplan.io/run-seconds: "0.5"}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: report}]
"""

HUGE = """
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers: [{name: c, image: x, resources: {requests: {cpu: "100"}}}]
"""

WISH = """
apiVersion: example.com/v1
kind: Wish
metadata: {name: w, namespace: dreams}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wishes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: wishes, singular: wish, kind: Wish}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
"""

MINE = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}})


def stowplan(folder: Path, *words: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=folder, input=stdin, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )


def kubectl(cluster: Up, *words: str, stdin: str | None = None) -> str:
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "HOME": str(cluster.kubeconfig.parent),
    }
    done = subprocess.run(
        [KUBECTL, *words],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def roll_out_another(cluster: Up, namespace: str) -> None:
    """A Deployment in a new namespace. Once it runs, everything that was there before has been dealt with:
    controllers, scheduler and kubelets take objects in their order."""
    kubectl(cluster, "create", "namespace", namespace)
    kubectl(cluster, "create", "deployment", "another", "--image=i", "--namespace", namespace)
    kubectl(cluster, "rollout", "status", "deployment/another", "--namespace", namespace, KUBECTL_PATIENCE)


def test_until_ready_waits_for_every_workload_and_runs_a_command_then(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    code = "import os, sys; print(open(os.environ['KUBECONFIG']).read()[:14]); sys.exit(3)"
    done = stowplan(
        tmp_path, *STOWPLAN, "--load", "app.yaml", "--until", "ready", "--", sys.executable, "-c", code
    )
    assert done.returncode == 3, done.stderr
    assert "ready after " in done.stdout
    assert done.stdout.rstrip().endswith("apiVersion: v1")
    assert done.stderr.strip() == "loaded 3 objects"


def test_until_ready_says_what_is_not_ready_and_why(tmp_path: Path) -> None:
    wish = "---\n{apiVersion: example.com/v1, kind: Wish, metadata: {name: w}}\n"
    done = stowplan(
        tmp_path, *STOWPLAN, "--load", "-", "--until", "ready", "--timeout", "2s", stdin=HUGE + wish
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "loaded 1 object, skipped 1:\n  Wish w: example.com/v1 Wish is not served here\n"
        "not ready after 2 s:\n"
        "  Pod default/huge: Pending: 0/3 nodes are available: 3 Insufficient cpu."
    )


def test_what_kubectl_dumps_is_loaded_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP + "---" + HUGE + "---" + WISH)
    dumping = ("get", KINDS, "-A", "-o", "yaml", "--show-managed-fields")
    with up(tmp_path, "--load", str(tmp_path / "app.yaml"), "--seed", "5") as cluster:
        kubectl(cluster, "wait", "-n", "shop", "job/report", "--for=condition=complete", KUBECTL_PATIENCE)
        kubectl(cluster, "rollout", "status", "-n", "shop", "statefulset/db", KUBECTL_PATIENCE)
        kubectl(cluster, "rollout", "status", "-n", "shop", "deployment/web", KUBECTL_PATIENCE)
        roll_out_another(cluster, "earlier")
        before = kubectl(cluster, *dumping)
    (tmp_path / "dump.yaml").write_text(before)
    with up(tmp_path, "--load", str(tmp_path / "dump.yaml")) as cluster:
        roll_out_another(cluster, "later")
        after = kubectl(cluster, *dumping)
        assert cluster.errors.startswith("loaded ")
        assert "\n" not in cluster.errors.strip()
    first, second = (comparable(yaml.load(text, yaml.CSafeLoader)["items"]) for text in (before, after))
    second = {key: obj for key, obj in second.items() if "later" not in key[2:]}
    ours = ("Endpoints", "EndpointSlice", "Service")
    found = [
        line
        for line in differences(first, second)
        if not any(f"'{kind}', 'default', 'kubernetes'" in line for kind in ours)
    ]
    assert not found, "\n".join(found)


def test_a_node_that_kubectl_creates_takes_pods_fails_and_recovers(tmp_path: Path) -> None:
    with up(
        tmp_path, "--nodes", "0", "--node-monitor-period", "1s", "--node-monitor-grace-period", "2s"
    ) as cluster:
        kubectl(cluster, "create", "-f", "-", stdin=MINE)
        kubectl(cluster, "run", "web", "--image=nginx")
        kubectl(cluster, "wait", "pod/web", "--for=condition=Ready", KUBECTL_PATIENCE)
        at = ("--kubeconfig", str(cluster.kubeconfig))
        failed = stowplan(tmp_path, *NODE, "fail", "mine", *at)
        assert (failed.returncode, failed.stdout) == (0, "node/mine fails: Silent\n")

        def ready() -> str:
            path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
            return kubectl(cluster, "get", "node", "mine", "-o", path)

        until(lambda: ready() == "Unknown")
        assert stowplan(tmp_path, *NODE, "recover", "mine", *at).stdout == "node/mine recovers\n"
        until(lambda: ready() == "True")
        kubectl(cluster, "wait", "pod/web", "--for=condition=Ready", KUBECTL_PATIENCE)
        assert stowplan(tmp_path, *NODE, "fail", "mine", "--as", "NotReady", *at).returncode == 0
        until(lambda: ready() == "False")
        unknown = stowplan(tmp_path, *NODE, "fail", "nobody", *at)
        assert (unknown.returncode, unknown.stderr) == (1, 'Error: nodes "nobody" not found\n')


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Picky}]}}
"""
PICKY = """
from stowplan.framework import Plugin, unschedulable


class Picky(Plugin):
    def filter_node(self, cycle, pod, node):
        if node.name not in %r:
            return unschedulable("node(s) were not to its liking")
"""


def ask(cluster: Up, port: str, path: str) -> str:
    token = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    request.add_header("Authorization", f"Bearer {token}")
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text


def pod(name: str, scheduler: str) -> str:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_two_schedulers_a_port_a_log_and_a_plugin_that_is_read_again(tmp_path: Path) -> None:
    port = str(free_port())
    (tmp_path / "picky.yaml").write_text(CONFIG)
    (tmp_path / "picky.py").write_text(PICKY % ["node-1"])
    options = ("--scheduler", f"picky={tmp_path}/picky.yaml", "--plugin", f"{tmp_path}/picky.py:Picky")
    with up(tmp_path, *options, "--scheduler-port", port, "-v", "2") as cluster:
        kubectl(cluster, "create", "-f", "-", stdin=pod("p", "picky"))
        kubectl(cluster, "create", "-f", "-", stdin=pod("q", "default-scheduler"))
        kubectl(cluster, "wait", "pod/p", "pod/q", "--for=condition=Ready", KUBECTL_PATIENCE)
        assert kubectl(cluster, "get", "pod", "p", "-o", "jsonpath={.spec.nodeName}") == "node-1"
        assert ask(cluster, port, "/healthz") == "ok"
        assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1' in ask(
            cluster, port, "/metrics"
        )
        assert "default-scheduler" in ask(cluster, port, "/configz")
        assert "Successfully bound pod to node" in cluster.errors
        (tmp_path / "picky.py").write_text(PICKY % ["node-2"])
        until(lambda: "scheduler picky: reloaded" in cluster.errors)
        kubectl(cluster, "create", "-f", "-", stdin=pod("r", "picky"))
        kubectl(cluster, "wait", "pod/r", "--for=condition=Ready", KUBECTL_PATIENCE)
        assert kubectl(cluster, "get", "pod", "r", "-o", "jsonpath={.spec.nodeName}") == "node-2"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--scheduler", "x"], "--scheduler: expected NAME=FILE, got 'x'"),
        (["--scheduler", "default-scheduler=C"], "there are two schedulers for 'default-scheduler'"),
        (["--scheduler", "x=nowhere"], "nowhere"),
        (["--pretend", "P"], "P: pods[0].runSeconds: expected seconds"),
        (["--until", "done"], "--until: expected one of ready, got 'done'"),
        (["--timeout", "soon"], "--timeout: expected a duration"),
        (["--load", "W"], "nothing could be loaded: Wish w: example.com/v1 Wish is not served here"),
        (["--", "no-such-command"], "no-such-command: No such file or directory"),
        (["--demo", "--", "true"], "--demo and a command exclude each other"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "C").write_text(CONFIG.replace("Picky", "NodeName"))
    (tmp_path / "P").write_text("pods: [{runSeconds: x}]")
    (tmp_path / "W").write_text("{apiVersion: example.com/v1, kind: Wish, metadata: {name: w}}")
    done = CliRunner().invoke(up_command, options)
    assert done.exit_code in (1, 2)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    assert problem in line
