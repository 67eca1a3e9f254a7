"""The parts of the manifests fit each other, the configuration and the package."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.manifests import DEPLOY, NAMESPACE, OVERLAYS, built, config, of_kind, pod_spec
from stowplan import __version__
from stowplan.config import load_file
from stowplan.server.flags.parser import parse
from stowplan.server.flags.table import GROUPS

NAMES = {"beside": ("stowplan", "stowplan"), "instead": ("default-scheduler", "kube-scheduler")}
"""schedulerName and lease of each overlay."""
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")
PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def static_pod() -> Any:
    return yaml.safe_load((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_configuration_names_the_scheduler_and_its_lease(overlay: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config(overlay))
    loaded = load_file(file).config
    election = loaded.leader_election
    assert ([profile.scheduler_name for profile in loaded.profiles], election.resource_name) == (
        [NAMES[overlay][0]],
        NAMES[overlay][1],
    )
    assert election.leader_elect
    assert election.resource_namespace == NAMESPACE


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_in_one_namespace_and_carries_one_label(overlay: str) -> None:
    for found in built(overlay):
        metadata = found["metadata"]
        expected = None if found["kind"] in CLUSTER_WIDE else NAMESPACE
        assert metadata.get("namespace") == expected, metadata
        assert metadata["labels"] == {"app.kubernetes.io/name": "stowplan"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_deployment_finds_its_account_configuration_and_pods(overlay: str) -> None:
    spec = pod_spec(overlay)
    assert spec["serviceAccountName"] in of_kind(overlay, "ServiceAccount")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["config"]["configMap"]["name"] in of_kind(overlay, "ConfigMap")
    (container,) = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"--config={mounts['config']}/config.yaml" in container["args"]
    deployment = of_kind(overlay, "Deployment")["stowplan"]["spec"]
    budget = of_kind(overlay, "PodDisruptionBudget")["stowplan"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == budget["selector"]["matchLabels"] == labels
    assert budget["minAvailable"] < deployment["replicas"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_overlays_differ_in_rights_and_configuration_only(overlay: str) -> None:
    kinds = {"Role", "ClusterRole", "ClusterRoleBinding", "ConfigMap"}
    same = [found for found in built(overlay) if found["kind"] not in kinds]
    assert same == [found for found in built("beside") if found["kind"] not in kinds]


@pytest.fixture(params=[*OVERLAYS, "static pod"])
def spec(request: pytest.FixtureRequest) -> Any:
    return static_pod()["spec"] if request.param == "static pod" else pod_spec(request.param)


def test_the_kubelet_asks_the_secure_port(spec: Any) -> None:
    (container,) = spec["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == 10259
    for probe, path in PROBES.items():
        asked = container[probe]["httpGet"]
        assert (asked["path"], asked["scheme"], asked["port"]) == (path, "HTTPS", port["name"])


def test_the_image_is_that_of_this_version(spec: Any) -> None:
    assert spec["containers"][0]["image"] == f"stowplan:{__version__}"


def test_its_arguments_are_flags_that_have_an_effect(spec: Any) -> None:
    parsed = parse(spec["containers"][0]["args"], GROUPS)
    assert parsed.rest == []
    assert list(parsed.ignored) == []


def test_it_runs_with_as_little_power_as_possible(spec: Any) -> None:
    guarded = spec["containers"][0]["securityContext"]
    assert guarded["allowPrivilegeEscalation"] is False
    assert guarded["readOnlyRootFilesystem"] is True
    assert guarded["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert all(mount["readOnly"] for mount in spec["containers"][0]["volumeMounts"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_in_the_cluster_it_is_not_root(overlay: str) -> None:
    security = pod_spec(overlay)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0


def test_the_static_pod_reads_what_kubeadm_wrote_and_keeps_its_labels() -> None:
    pod = static_pod()
    assert pod["metadata"]["labels"] == {"component": "kube-scheduler", "tier": "control-plane"}
    (container,) = pod["spec"]["containers"]
    written = "/etc/kubernetes/scheduler.conf"
    given = dict(flag.removeprefix("--").split("=") for flag in container["args"])
    kubeconfigs = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    assert [given[flag] for flag in kubeconfigs] == [written] * 3
    assert given["bind-address"] == container["livenessProbe"]["httpGet"]["host"] == "127.0.0.1"
    (volume,) = (volume for volume in pod["spec"]["volumes"] if "hostPath" in volume)
    assert volume["hostPath"]["path"] == written
