"""The manifests applied with real kubectl to a cluster in one process: accepted, and their pods are
created."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.manifests import DEPLOY, NAMESPACE, OVERLAYS, ROOT, Object, built, of_kind
from deploy.test_chart import everything
from localcluster.up.clusters import up
from waiting import KUBECTL_PATIENCE, PATIENCE

Run = Callable[..., str]
PAGE = ROOT / "docs" / "deploy.md"
RUN_HERE = re.compile(r"^\$ (kubectl .*(?: -k | rollout ).*)$", re.MULTILINE)
ROLES = "clusterroles,clusterrolebindings,roles,rolebindings"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("deploy")
    with up(folder, "--nodes", "3") as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}

        def run(*words: str, ok: bool = True) -> str:
            done = subprocess.run(
                ["kubectl", *words],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
                check=False,
            )
            assert (done.returncode == 0) is ok, done.stdout + done.stderr
            return done.stdout if ok else done.stderr

        run("wait", "node", "--all", "--for=condition=Ready", KUBECTL_PATIENCE)
        yield run


def folder_of(overlay: str) -> str:
    return f"deploy/overlays/{overlay}"


def stored(kubectl: Run, overlay: str) -> dict[tuple[str, str], Any]:
    """The objects of the manifests as the API server has them, by kind and name."""
    found = json.loads(kubectl("get", "-k", folder_of(overlay), "-o", "json"))["items"]
    return {named(one): one for one in found}


def named(found: dict[str, Any]) -> tuple[str, str]:
    return found["kind"], found["metadata"]["name"]


def versions(kept: dict[tuple[str, str], Any]) -> dict[tuple[str, str], str]:
    """Versions of objects that status writes do not change."""
    return {
        (kind, name): found["metadata"]["resourceVersion"]
        for (kind, name), found in kept.items()
        if kind not in ("Deployment", "PodDisruptionBudget")
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_taken_as_it_is_written(kubectl: Run, overlay: str) -> None:
    first = kubectl("apply", "-k", folder_of(overlay)).splitlines()
    assert [line.split()[-1] for line in first] == ["created"] * len(built(overlay))
    kept = stored(kubectl, overlay)
    for found in built(overlay):
        for field in ("rules", "roleRef", "subjects", "data", "automountServiceAccountToken"):
            assert kept[named(found)].get(field) == found.get(field)
    kubectl("apply", "-k", folder_of(overlay))
    assert versions(stored(kubectl, overlay)) == versions(kept)
    assert kubectl("diff", "-k", folder_of(overlay)) == ""
    kubectl("delete", "-k", folder_of(overlay))
    assert "NotFound" in kubectl("get", "clusterrole", "stowplan", ok=False)


def test_the_server_can_apply_it_too(kubectl: Run) -> None:
    for _ in range(2):
        applied = kubectl("apply", "--server-side", "-k", folder_of("instead")).splitlines()
        assert [line.split()[-1] for line in applied] == ["serverside-applied"] * len(built("instead"))
    kubectl("delete", "-k", folder_of("instead"))


def test_two_pods_run_on_two_nodes_and_one_of_them_may_be_evicted(kubectl: Run) -> None:
    kubectl("apply", "-k", folder_of("beside"))
    kubectl("-n", NAMESPACE, "rollout", "status", "deployment/stowplan", KUBECTL_PATIENCE)
    wanted = ("-l", "app.kubernetes.io/name=stowplan", "-o", "json")
    pods = json.loads(kubectl("-n", NAMESPACE, "get", "pods", *wanted))["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    assert {pod["spec"]["priority"] for pod in pods} == {2_000_000_000}
    first, second = (pod["metadata"]["name"] for pod in pods)
    node = pods[0]["spec"]["nodeName"]
    drained = kubectl("drain", node, "--ignore-daemonsets", KUBECTL_PATIENCE)
    assert f"pod/{first} evicted" in drained
    assert second in kubectl("-n", NAMESPACE, "get", "pods", second, "-o", "name")
    kubectl("uncordon", node)
    kubectl("delete", "-k", folder_of("beside"))


def test_people_see_who_may_what(kubectl: Run) -> None:
    kubectl("apply", "-k", folder_of("instead"))
    shown = kubectl("-n", NAMESPACE, "get", ROLES, "-o", "wide")
    assert re.search(r"^NAME +CREATED AT$", shown, re.MULTILINE)
    assert re.search(r"^NAME +ROLE +AGE +USERS +GROUPS +SERVICEACCOUNTS$", shown, re.MULTILINE)
    assert re.search(r"stowplan-lease +Role/stowplan-lease +\d+s +kube-system/stowplan$", shown, re.MULTILINE)
    assert "persistentvolumeclaims" in kubectl("describe", "clusterrole", "stowplan-volumes")
    changed = of_kind("instead", "RoleBinding")["stowplan-lease"]["roleRef"] | {"name": "other"}
    patch = json.dumps({"roleRef": changed})
    refused = kubectl(
        "-n", NAMESPACE, "patch", "rolebinding", "stowplan-lease", "--type=merge", "-p", patch, ok=False
    )
    assert "cannot change roleRef" in refused
    kubectl("delete", "-k", folder_of("instead"))


def test_the_static_pod_is_one_the_api_server_would_take(kubectl: Run) -> None:
    file = str(DEPLOY / "static-pod" / "kube-scheduler.yaml")
    assert kubectl("apply", "-f", file) == "pod/kube-scheduler created\n"
    kubectl("delete", "-f", file, "--now")


def test_the_commands_of_the_page_work_in_their_order(kubectl: Run) -> None:
    commands = RUN_HERE.findall(PAGE.read_text())
    assert len(commands) >= 6
    for command in commands:
        kubectl(*shlex.split(command)[1:])
    assert "NotFound" in kubectl("-n", NAMESPACE, "get", "deployment", "stowplan", ok=False)


def operator_kind(kind: str) -> Object:
    """A definition as the Prometheus operator brings it, but for its schema."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def test_what_the_chart_renders_is_applied_and_runs(kubectl: Run, tmp_path: Path) -> None:
    """With all that docs/deploy.md shows, by the server, which refuses fields it does not know."""
    definitions, chart = tmp_path / "definitions.json", tmp_path / "chart.json"
    kinds = [operator_kind(kind) for kind in ("ServiceMonitor", "PrometheusRule")]
    definitions.write_text("".join(json.dumps(each) + "\n" for each in kinds))
    chart.write_text("".join(json.dumps(each) + "\n" for each in everything()))
    kubectl("apply", "-f", str(definitions))
    kubectl("wait", "crd", "--all", "--for=condition=Established", KUBECTL_PATIENCE)
    applied = kubectl("apply", "--server-side", "--validate=true", "-f", str(chart)).splitlines()
    assert [line.split()[-1] for line in applied] == ["serverside-applied"] * len(everything())
    kubectl("-n", NAMESPACE, "rollout", "status", "deployment/stowplan", KUBECTL_PATIENCE)
    deployment = json.loads(kubectl("-n", NAMESPACE, "get", "deployment", "stowplan", "-o", "json"))
    (rendered,) = (each for each in everything() if each["kind"] == "Deployment")
    kept = deployment["spec"]["template"]["spec"]
    assert kept["containers"][0]["args"] == rendered["spec"]["template"]["spec"]["containers"][0]["args"]
    assert kept["volumes"][1]["configMap"]["name"].startswith("stowplan-plugins-")
    kubectl("delete", "-f", str(chart), "-f", str(definitions))
