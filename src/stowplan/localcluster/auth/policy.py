"""The roles and bindings that every cluster begins with (kube-apiserver's bootstrap policy).

They are kept in `policy.txt`, one object a line, rules below it:

    ClusterRole view from=view                  rules come from roles labelled aggregate-to-view
    ClusterRole system:aggregate-to-view to=view
      get,list,watch core pods,services         verbs, API groups, resources, names if it is for some only
      get urls /healthz                         verbs on paths
    RoleBinding kube-system/name Role/name User/name Group/name ServiceAccount/namespace/name

A role `system:controller:NAME` is bound to the service account NAME of kube-system.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from stowplan.api.catalogue import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.localcluster.store import Store

AGGREGATE_TO: Final = f"{RBAC}/aggregate-to-"
_RESOURCES: Final = {
    resource.kind: resource for resource in (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
}
_CONTROLLER: Final = "system:controller:"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def create_bootstrap_policy(store: Store) -> None:
    """Create the roles and bindings that are not there yet."""
    for resource, obj in bootstrap_policy():
        metadata = obj["metadata"]
        if store.find(resource, metadata.get("namespace", ""), metadata["name"]) is None:
            store.create(resource, obj)


@cache
def bootstrap_policy() -> tuple[tuple[Resource, Json], ...]:
    """Every role and binding, roles first. They are shared and must not be changed."""
    text = files(__package__).joinpath("policy.txt").read_text(encoding="utf-8")
    return tuple(_objects([line for line in text.splitlines() if line and not line.startswith("#")]))


def _objects(lines: list[str]) -> Iterator[tuple[Resource, Json]]:
    number = 0
    while number < len(lines):
        kind, name, *rest = lines[number].split()
        number += 1
        rules: list[Json] = []
        while number < len(lines) and lines[number].startswith(" "):
            rules.append(_rule(lines[number].split()))
            number += 1
        resource = _RESOURCES[kind]
        if resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            yield resource, _binding(name, rest)
            continue
        yield resource, _role(name, rest, rules)
        if resource == CLUSTER_ROLES and name.startswith(_CONTROLLER):
            account = f"ServiceAccount/kube-system/{name.removeprefix(_CONTROLLER)}"
            yield CLUSTER_ROLE_BINDINGS, _binding(name, [f"ClusterRole/{name}", account])


def _metadata(name: str, **labels: str) -> Json:
    namespace, slash, short = name.rpartition("/")
    metadata: Json = {"name": short, "labels": {**_LABELS, **labels}, "annotations": _ANNOTATIONS}
    return {**metadata, "namespace": namespace} if slash else metadata


def _role(name: str, words: list[str], rules: list[Json]) -> Json:
    given = dict(word.split("=") for word in words)
    labels = {f"{AGGREGATE_TO}{given['to']}": "true"} if "to" in given else {}
    role: Json = {"metadata": _metadata(name, **labels), "rules": rules}
    if "from" in given:
        selector = {"matchLabels": {f"{AGGREGATE_TO}{given['from']}": "true"}}
        role |= {"aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": None}
    return role


def _rule(words: list[str]) -> Json:
    verbs, what, *rest = (word.split(",") for word in words)
    if what == ["urls"]:
        return {"verbs": verbs, "nonResourceURLs": rest[0]}
    rule: Json = {"verbs": verbs, "apiGroups": ["" if group == "core" else group for group in what]}
    rule["resources"] = rest[0]
    return {**rule, "resourceNames": rest[1]} if len(rest) > 1 else rule


def _binding(name: str, words: list[str]) -> Json:
    kind, _, role = words[0].partition("/")
    binding: Json = {
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [_subject(word) for word in words[1:]],
    }
    return binding


def _subject(word: str) -> Json:
    kind, _, name = word.partition("/")
    if kind != "ServiceAccount":
        return {"kind": kind, "apiGroup": RBAC, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}
