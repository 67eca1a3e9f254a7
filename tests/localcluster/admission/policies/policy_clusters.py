"""A store with admission, and short ways to write policies, bindings and objects into it."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from stowplan.api import catalogue as c
from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission
from stowplan.localcluster.auth.users import User
from stowplan.localcluster.store import FieldManager, Store
from stowplan.localcluster.store.attempts import WriteAttempts
from stowplan.localcluster.store.storage import LogEntry, SavedState
from stowplan.localcluster.store.writer import API_SERVER, WriteContext
from stowplan.runtime.clock import RealClock

Json = dict[str, Any]


class Result(NamedTuple):
    """Result of a write: the object, or the error; warnings and audit annotations."""

    object: Json
    error: ApiError | None
    warnings: list[str]
    annotations: dict[str, str]

    @property
    def message(self) -> str:
        return "" if self.error is None else self.error.message

    @property
    def denied(self) -> str:
        """Why a policy denied the request, without its name; empty if none did."""
        return self.message.partition(" denied request: ")[2]


class PolicyCluster:
    """The namespaces `prod` (labels environment=prod) and `test`, and policies as they are written."""

    def __init__(self, *disabled: str) -> None:
        admission = ClusterAdmission(disabled=["ServiceAccount", *disabled])
        self.store = Store(RealClock(), random.Random(0), admission=admission, fields=FieldManager())
        for name in ("prod", "test"):
            metadata = {"name": name, "labels": {"environment": name}}
            self.store.create(c.NAMESPACES, {"metadata": metadata})

    @classmethod
    def restored_from(cls, other: "PolicyCluster") -> "PolicyCluster":
        """Another process that goes on with the objects of a cluster."""
        cluster = cls.__new__(cls)
        admission = ClusterAdmission(disabled=["ServiceAccount"])
        cluster.store = Store(RealClock(), random.Random(0), admission=admission, fields=FieldManager())
        kinds = (
            c.NAMESPACES,
            c.VALIDATING_ADMISSION_POLICIES,
            c.VALIDATING_ADMISSION_POLICY_BINDINGS,
        )
        entries = [
            LogEntry(kind, ("", obj["metadata"]["name"]), int(obj["metadata"]["resourceVersion"]), obj)
            for kind in kinds
            for obj in other.store.all(kind)
        ]
        cluster.store.restore(SavedState(other.store.version, objects=entries))
        return cluster

    def validating(
        self, name: str = "p", *, rule: Json | None = None, binding: Json | None = None, **spec: Any
    ) -> None:
        """Write a ValidatingAdmissionPolicy for deployments, and a binding of it that denies."""
        given = {"matchConstraints": {"resourceRules": [rule or RULE]}, **spec}
        self.store.create(c.VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": given})
        self.bind(name, **(binding or {}))

    def bind(self, policy: str, name: str = "", **spec: Any) -> None:
        given = {"policyName": policy, "validationActions": ["Deny"], **spec}
        metadata = {"name": name or f"{policy}-binding"}
        self.store.create(c.VALIDATING_ADMISSION_POLICY_BINDINGS, {"metadata": metadata, "spec": given})

    def mutating(
        self, name: str, *mutations: str, rule: Json | None = None, binding: Json | None = None, **spec: Any
    ) -> None:
        """Write a MutatingAdmissionPolicy; expressions that make a list are JSON patches."""
        rules = {"resourceRules": [rule or {**RULE, "apiGroups": [""], "resources": ["pods"]}]}
        given = {
            "matchConstraints": rules,
            "reinvocationPolicy": "Never",
            "mutations": [mutation(text) for text in mutations],
            **spec,
        }
        self.store.create(c.MUTATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": given})
        bound = {"metadata": {"name": f"{name}-binding"}, "spec": {"policyName": name, **(binding or {})}}
        self.store.create(c.MUTATING_ADMISSION_POLICY_BINDINGS, bound)

    def create(self, resource: Resource, obj: Json, user: User | None = None) -> Result:
        return self.attempt(lambda by: self.store.create(resource, obj, by=by), user)

    def patch(self, resource: Resource, name: str, change: Json, namespace: str = "prod") -> Result:
        return self.attempt(lambda by: self.store.patch(resource, namespace, name, change, by=by))

    def delete(self, resource: Resource, name: str, namespace: str = "prod") -> Result:
        return self.attempt(lambda by: self.store.delete(resource, namespace, name, by=by))

    def deploy(
        self, replicas: int = 1, namespace: str = "prod", user: User | None = None, **metadata: Any
    ) -> Result:
        return self.create(c.DEPLOYMENTS, deployment(replicas, namespace, **metadata), user)

    def attempt(self, write: Callable[[WriteContext], Json], user: User | None = None) -> Result:
        attempts = WriteAttempts()
        by = API_SERVER._replace(attempts=attempts, user=user or API_SERVER.user)
        obj, failure = {}, None
        try:
            obj = write(by)
        except ApiError as error:
            failure = error
        return Result(obj, failure, attempts.warnings, attempts.annotations)


RULE: Json = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["deployments"],
}
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def mutation(expression: str) -> Json:
    if expression.startswith("["):
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def deployment(replicas: int = 1, namespace: str = "prod", **metadata: Any) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    return {"metadata": {"name": "web", "namespace": namespace, **metadata}, "spec": spec}


def pod(spec: Json | None = None, namespace: str = "prod", **metadata: Any) -> Json:
    content = {"containers": [{"name": "main", "image": "nginx"}], **(spec or {})}
    return {"metadata": {"name": "web", "namespace": namespace, **metadata}, "spec": content}


def config_map(name: str, data: Json, namespace: str = "prod", **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": data}
