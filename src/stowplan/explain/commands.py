"""Commands to copy: kubectl as it is typed, on the object where a change lasts."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stowplan.explain.document.pod import Change, PodDocument

Patch = Mapping[str, Any]

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Workloads of Kubernetes by kind, with the place of their pod template."""
_GROUPS: Final = ("apps", "batch")
_KEEP_PODS: Final = ("ReplicaSet", "StatefulSet")
"""Controllers that do not replace a waiting pod when their template changes: a StatefulSet in order waits for
the old pod to become ready."""
_DEFAULT_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_SECONDS: Final = 300
"""Tolerations that the API server adds to every pod."""
_GENERATED: Final[Patch] = {
    "spec": {
        "selector": None,
        "template": {
            "metadata": {"labels": {"batch.kubernetes.io/controller-uid": None, "controller-uid": None}}
        },
    }
}
"""Fields of a Job that the API server fills in: a new one must not have those of the old."""


class Owner(NamedTuple):
    """A controller of a pod, or one above that."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def argument(self) -> str:
        """The object as kubectl takes it: `deployment/web`, `rollout.argoproj.io/web`."""
        kind, group = self.kind.lower(), self._group
        return f"{kind}/{self.name}" if self.is_workload or not group else f"{kind}.{group}/{self.name}"

    @property
    def is_workload(self) -> bool:
        """True for the kinds of Kubernetes whose pod template is at a known place."""
        return self.kind in _TEMPLATES and self._group in _GROUPS

    @property
    def _group(self) -> str:
        return self.api_version.rpartition("/")[0]


def with_commands(found: PodDocument, owner: Owner | None) -> PodDocument:
    """The document of a pod with a command for each change that has none yet."""
    changes = tuple(
        one if one.command else replace(one, command=_command_of(one, found.pod, owner))
        for one in found.changes
    )
    return replace(found, changes=changes)


def _command_of(change: Change, pod: str, owner: Owner | None) -> str:
    """The command for a change of a pod or of the cluster; "" for one that no command stands for."""
    if change.patch is not None and not change.claim:
        return changing_pod(pod, owner, change.patch)
    if change.patch is not None:
        return _changing_claim(change, pod, owner)
    for verb, name in (change.action or {}).items():
        if verb == "uncordon":
            return kubectl("uncordon", name)
        if verb == "deleteClaim":
            namespace, _, claim = name.partition("/")
            return kubectl("delete", f"resourceclaim/{claim}", "-n", namespace)
        if verb == "delete":
            namespace, _, victim = name.partition("/")
            return kubectl("delete", f"pod/{victim}", "-n", namespace)
    return ""


def _only_tolerates(patch: Patch) -> bool:
    """True for a patch that adds tolerations, as an existing pod may get them."""
    return patch.keys() == {"spec"} and patch["spec"].keys() == {"tolerations"}


def _without_defaults(patch: Patch) -> dict[str, Any]:
    """A patch of a pod for its template, which does not need the tolerations that every pod is given."""
    spec = patch.get("spec") or {}
    if "tolerations" not in spec:
        return dict(patch)
    left = [one for one in spec["tolerations"] if not _is_default(one)]
    return {**patch, "spec": {**spec, "tolerations": left}}


def _is_default(toleration: Mapping[str, Any]) -> bool:
    return (
        toleration.get("key") in _DEFAULT_TOLERATIONS
        and toleration.get("tolerationSeconds") == _DEFAULT_SECONDS
    )


def _changing_claim(change: Change, pod: str, owner: Owner | None) -> str:
    """The command that changes a ResourceClaim, or its template: neither can be changed, so it is replaced.

    A claim made from a template belongs to its pod, so the pod is made again too.
    """
    assert change.patch is not None
    namespace, _, name = change.claim.partition("/")
    if not change.template:
        return replacing(f"resourceclaim/{name}", namespace, change.patch)
    argument = f"resourceclaimtemplate/{change.template}"
    command = replacing(argument, namespace, {"spec": change.patch})
    again = (
        replacing(f"pod/{pod.partition('/')[2]}", namespace, {})
        if owner is None
        else kubectl("delete", f"pod/{pod.partition('/')[2]}", "-n", namespace)
    )
    return f"{command} && {again}"


def changing_pod(pod: str, owner: Owner | None, patch: Patch) -> str:
    """The command that changes a pod by its key, lastingly: the template of `owner`, if it has one.

    `patch` is a strategic merge patch of a pod. Most fields of a pod cannot be changed, so one without owner
    is replaced, unless it only gets more tolerations. "" for a pod of a controller whose template is at a
    place that is not known.
    """
    namespace, _, name = pod.partition("/")
    if owner is None and _only_tolerates(patch):
        return patching(f"pod/{name}", namespace, patch)
    if owner is None:
        return replacing(f"pod/{name}", namespace, patch)
    if not owner.is_workload:
        return ""
    within = patch_of_template(owner.kind, patch)
    if owner.kind == "Job":
        return replacing(owner.argument, namespace, joined_patches(within, _GENERATED))
    command = patching(owner.argument, namespace, within)
    if owner.kind in _KEEP_PODS:
        command += f" && {kubectl('delete', f'pod/{name}', '-n', namespace)}"
    return command


def patch_of_template(kind: str, patch: Patch) -> dict[str, Any]:
    """A patch of a pod as one of its own manifest (kind `Pod`), or of the workload with its template."""
    within = _without_defaults(patch)
    for step in reversed(_TEMPLATES.get(kind, ())):
        within = {step: within}
    return within


def patching(argument: str, namespace: str, patch: Patch | list[Any], kind: str = "") -> str:
    """The command that patches an object; `kind` is `merge` or `json`, strategic if empty."""
    types = ["--type", kind] if kind else []
    return kubectl("patch", argument, *_within(namespace), *types, "-p", compact(patch))


def replacing(argument: str, namespace: str, patch: Patch) -> str:
    """The command that deletes an object and creates it with a patch applied."""
    get = kubectl("get", argument, *_within(namespace), "-o", "json")
    local = kubectl("patch", "--local", "-f", "-", "-o", "json", "-p", compact(patch))
    return f"{get} | {local} | {kubectl('replace', '--force', '-f', '-')}"


def creating(obj: Mapping[str, Any]) -> str:
    """The command that creates an object."""
    return f"kubectl apply -f - <<'EOF'\n{json.dumps(obj, indent=2)}\nEOF"


def kubectl(*words: str) -> str:
    """A command of kubectl, quoted for a shell."""
    return shlex.join(("kubectl", *words))


def compact(value: object) -> str:
    """JSON as short as it is typed."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def joined_patches(one: Patch, other: Patch) -> dict[str, Any]:
    """Both patches in one; neither has lists that the other has."""
    found = dict(one)
    for key, value in other.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = joined_patches(old, value) if both and old is not None else value
    return found


def _within(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []
