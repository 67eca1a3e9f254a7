"""Tables of kinds that extend or guard the API server.

admissionregistration.k8s.io, apiregistration.k8s.io, certificates.k8s.io and flowcontrol.apiserver.k8s.io;
CustomResourceDefinitions have no columns of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    Column,
    duration,
    selector_text,
    spec_of,
    status_of,
)

_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
WEBHOOKS: Final = (NAME, Column("Webhooks", lambda obj, now: len(obj.get("webhooks") or ()), "integer"), AGE)


def _param_kind(policy: Json, now: float) -> str:
    kind = spec_of(policy).get("paramKind")
    return _UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Json, now: float) -> str:
    given = spec_of(binding).get("paramRef") or {}
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return selector_text(given["selector"]) if "selector" in given else _UNSET


def _policy(name: str, field: str) -> Sequence[Column]:
    count = Column(name, lambda obj, now: len(spec_of(obj).get(field) or ()), "integer")
    return NAME, count, Column("ParamKind", _param_kind), AGE


POLICY_BINDINGS: Final = (
    NAME,
    Column("PolicyName", lambda obj, now: spec_of(obj).get("policyName", "")),
    Column("ParamRef", _param_ref),
    AGE,
)


def _service(api: Json, now: float) -> str:
    service = spec_of(api).get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(api: Json, now: float) -> str:
    for condition in status_of(api).get("conditions") or ():
        if condition.get("type") == "Available":
            status, reason = str(condition.get("status")), condition.get("reason")
            return status if status == "True" else f"{status} ({reason})"
    return "Unknown"


API_SERVICES: Final = (NAME, Column("Service", _service), Column("Available", _available), AGE)


def _requested_duration(request: Json, now: float) -> str:
    seconds = spec_of(request).get("expirationSeconds")
    return _NONE if seconds is None else duration(seconds)


def _request_state(request: Json, now: float) -> str:
    status = status_of(request)
    types = {condition.get("type") for condition in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    return state + (",Failed" if "Failed" in types else "") + (",Issued" if status.get("certificate") else "")


SIGNING_REQUESTS: Final = (
    NAME,
    AGE,
    Column("SignerName", lambda obj, now: spec_of(obj).get("signerName") or _NONE),
    Column("Requestor", lambda obj, now: spec_of(obj).get("username", "")),
    Column("RequestedDuration", _requested_duration),
    Column("Condition", _request_state),
)


def _dangling(schema: Json, now: float) -> str:
    for condition in status_of(schema).get("conditions") or ():
        if condition.get("type") == "Dangling":
            return str(condition.get("status"))
    return "?"


FLOW_SCHEMAS: Final = (
    NAME,
    Column("PriorityLevel", lambda obj, now: spec_of(obj)["priorityLevelConfiguration"]["name"]),
    Column("MatchingPrecedence", lambda obj, now: spec_of(obj).get("matchingPrecedence") or 0),
    Column(
        "DistinguisherMethod",
        lambda obj, now: (spec_of(obj).get("distinguisherMethod") or {}).get("type", _NONE),
    ),
    AGE,
    Column("MissingPL", _dangling),
)


def _queuing(field: str) -> Any:
    """The cell with a number of the queues of a priority level."""

    def cell(level: Json, now: float) -> Any:
        limited = spec_of(level).get("limited") or {}
        return ((limited.get("limitResponse") or {}).get("queuing") or {}).get(field, _NONE)

    return cell


PRIORITY_LEVELS: Final = (
    NAME,
    Column("Type", lambda obj, now: spec_of(obj).get("type", "")),
    Column(
        "NominalConcurrencyShares",
        lambda obj, now: (spec_of(obj).get("limited") or {}).get("nominalConcurrencyShares", _NONE),
    ),
    Column("Queues", _queuing("queues")),
    Column("HandSize", _queuing("handSize")),
    Column("QueueLengthLimit", _queuing("queueLengthLimit")),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS: WEBHOOKS,
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS: WEBHOOKS,
    catalogue.MUTATING_ADMISSION_POLICIES: _policy("Mutations", "mutations"),
    catalogue.VALIDATING_ADMISSION_POLICIES: _policy("Validations", "validations"),
    catalogue.MUTATING_ADMISSION_POLICY_BINDINGS: POLICY_BINDINGS,
    catalogue.VALIDATING_ADMISSION_POLICY_BINDINGS: POLICY_BINDINGS,
    catalogue.API_SERVICES: API_SERVICES,
    catalogue.CERTIFICATE_SIGNING_REQUESTS: SIGNING_REQUESTS,
    catalogue.FLOW_SCHEMAS: FLOW_SCHEMAS,
    catalogue.PRIORITY_LEVEL_CONFIGURATIONS: PRIORITY_LEVELS,
}
