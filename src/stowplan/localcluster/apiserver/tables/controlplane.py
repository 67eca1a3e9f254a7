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
    TableColumn,
    duration,
    selector_text,
    spec_of,
    status_of,
)

_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
WEBHOOKS: Final = (
    NAME,
    TableColumn("Webhooks", lambda obj, now: len(obj.get("webhooks") or ()), "integer"),
    AGE,
)


def _param_kind(policy: Json, now: float) -> str:
    kind = spec_of(policy).get("paramKind")
    return _UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Json, now: float) -> str:
    given = spec_of(binding).get("paramRef") or {}
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return selector_text(given["selector"]) if "selector" in given else _UNSET


def _policy(name: str, field: str) -> Sequence[TableColumn]:
    count = TableColumn(name, lambda obj, now: len(spec_of(obj).get(field) or ()), "integer")
    return NAME, count, TableColumn("ParamKind", _param_kind), AGE


POLICY_BINDINGS: Final = (
    NAME,
    TableColumn("PolicyName", lambda obj, now: spec_of(obj).get("policyName", "")),
    TableColumn("ParamRef", _param_ref),
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


API_SERVICES: Final = (NAME, TableColumn("Service", _service), TableColumn("Available", _available), AGE)


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
    TableColumn("SignerName", lambda obj, now: spec_of(obj).get("signerName") or _NONE),
    TableColumn("Requestor", lambda obj, now: spec_of(obj).get("username", "")),
    TableColumn("RequestedDuration", _requested_duration),
    TableColumn("Condition", _request_state),
)


def _dangling(schema: Json, now: float) -> str:
    for condition in status_of(schema).get("conditions") or ():
        if condition.get("type") == "Dangling":
            return str(condition.get("status"))
    return "?"


FLOW_SCHEMAS: Final = (
    NAME,
    TableColumn("PriorityLevel", lambda obj, now: spec_of(obj)["priorityLevelConfiguration"]["name"]),
    TableColumn("MatchingPrecedence", lambda obj, now: spec_of(obj).get("matchingPrecedence") or 0),
    TableColumn(
        "DistinguisherMethod",
        lambda obj, now: (spec_of(obj).get("distinguisherMethod") or {}).get("type", _NONE),
    ),
    AGE,
    TableColumn("MissingPL", _dangling),
)


def _queuing(field: str) -> Any:
    """The cell with a number of the queues of a priority level."""

    def cell(level: Json, now: float) -> Any:
        limited = spec_of(level).get("limited") or {}
        return ((limited.get("limitResponse") or {}).get("queuing") or {}).get(field, _NONE)

    return cell


PRIORITY_LEVELS: Final = (
    NAME,
    TableColumn("Type", lambda obj, now: spec_of(obj).get("type", "")),
    TableColumn(
        "NominalConcurrencyShares",
        lambda obj, now: (spec_of(obj).get("limited") or {}).get("nominalConcurrencyShares", _NONE),
    ),
    TableColumn("Queues", _queuing("queues")),
    TableColumn("HandSize", _queuing("handSize")),
    TableColumn("QueueLengthLimit", _queuing("queueLengthLimit")),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
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
