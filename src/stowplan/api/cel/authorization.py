"""The variable `authorizer`: what may be asked of it, and the checks that are built up step by step.

authorizer.group('apps').resource('deployments').namespace('test').check('create').allowed()
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from stowplan.api.cel import types, values
from stowplan.api.cel.values import EvaluationFailure, Value
from stowplan.api.names import dns_label_problems, subdomain_problems


class AccessQuery(NamedTuple):
    """A question to the authorizer: a verb on a resource or, if `path` is given, on a path.

    `service_account` is asked about instead of the user of the request, as `namespace/name`.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    service_account: str = ""


class Decision(NamedTuple):
    """Answer of the authorizer."""

    allowed: bool
    reason: str = ""
    error: str = ""


Authorize = Callable[[AccessQuery], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The value of `authorizer`."""

    authorize: Authorize
    service_account: str = ""


@dataclass(frozen=True, slots=True)
class PathCheck:
    authorizer: Authorizer
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


for _kind, _declared in (
    (Authorizer, types.AUTHORIZER),
    (PathCheck, types.PATH_CHECK),
    (GroupCheck, types.GROUP_CHECK),
    (ResourceCheck, types.RESOURCE_CHECK),
    (Decision, types.DECISION),
):
    values.register(_kind, _declared)


def _path(authorizer: Authorizer, path: str) -> Value:
    return PathCheck(authorizer, path) if path.strip() else EvaluationFailure("path must not be empty")


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Value:
    if subdomain_problems(name):
        return EvaluationFailure("Invalid service account name")
    if dns_label_problems(namespace):
        return EvaluationFailure("Invalid service account namespace")
    return replace(authorizer, service_account=f"{namespace}/{name}")


def _resource(check: GroupCheck, resource: str) -> Value:
    if not resource.strip():
        return EvaluationFailure("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _check_path(check: PathCheck, verb: str) -> Value:
    query = AccessQuery(verb, path=check.path, service_account=check.authorizer.service_account)
    return check.authorizer.authorize(query)


def _check_resource(check: ResourceCheck, verb: str) -> Value:
    query = AccessQuery(
        verb,
        check.group,
        check.resource,
        check.subresource,
        check.namespace,
        check.name,
        service_account=check.authorizer.service_account,
    )
    return check.authorizer.authorize(query)


IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": lambda check, subresource: replace(check, subresource=subresource),
    "resourcecheck_namespace": lambda check, namespace: replace(check, namespace=namespace),
    "resourcecheck_name": lambda check, name: replace(check, name=name),
    # Role-based access control ignores selectors: they only ever restrict a request.
    "authorizer_fieldselector": lambda check, selector: check,
    "authorizer_labelselector": lambda check, selector: check,
    "pathcheck_check": _check_path,
    "resourcecheck_check": _check_resource,
    "decision_allowed": lambda decision: decision.allowed,
    "decision_reason": lambda decision: decision.reason,
    "decision_errored": lambda decision: bool(decision.error),
    "decision_error": lambda decision: decision.error,
}
