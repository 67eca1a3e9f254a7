"""The manifests as kubectl builds them, and what they allow."""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = ("beside", "instead")
NAMESPACE = "kube-system"
ACCOUNT = {"kind": "ServiceAccount", "name": "stowplan", "namespace": NAMESPACE}

Object = dict[str, Any]


class Right(NamedTuple):
    """One right. No namespace: everywhere. No name: with all objects."""

    namespace: str
    verb: str
    group: str
    resource: str
    name: str


@cache
def built(overlay: str) -> tuple[Object, ...]:
    """Objects that `kubectl apply -k` would apply. They must not be changed."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "kubectl is not installed; `make test` installs it"
    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "overlays" / overlay)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> dict[str, Object]:
    """The objects of a kind by name."""
    return {found["metadata"]["name"]: found for found in built(overlay) if found["kind"] == kind}


def pod_spec(overlay: str) -> Any:
    return of_kind(overlay, "Deployment")["stowplan"]["spec"]["template"]["spec"]


def config(overlay: str) -> str:
    """The text of the configuration that the scheduler is started with."""
    text: str = of_kind(overlay, "ConfigMap")["stowplan-config"]["data"]["config.yaml"]
    return text


def rights(rules: Iterable[Any], namespace: str = "") -> Iterator[Right]:
    """Rules taken apart."""
    for rule in rules:
        for verb, group, resource, name in product(
            rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""]
        ):
            yield Right(namespace, verb, group, resource, name)


def granted(overlay: str) -> set[Right]:
    """Rights that the roles of an overlay grant its account."""
    found: set[Right] = set()
    for binding in of_kind(overlay, "ClusterRoleBinding").values():
        role = of_kind(overlay, "ClusterRole")[binding["roleRef"]["name"]]
        found.update(rights(role["rules"]))
    for binding in of_kind(overlay, "RoleBinding").values():
        role = of_kind(overlay, "Role").get(binding["roleRef"]["name"], {})
        found.update(rights(role.get("rules", ()), NAMESPACE))
    return found
