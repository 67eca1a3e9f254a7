"""Tables of policy, scheduling.k8s.io, coordination.k8s.io and resource.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, field_cell, spec_of, status_of


def _limit(budget: Json, field: str) -> str:
    value = spec_of(budget).get(field)
    return "N/A" if value is None else str(value)


BUDGETS: Final = (
    NAME,
    Column("Min Available", lambda obj, now: _limit(obj, "minAvailable")),
    Column("Max Unavailable", lambda obj, now: _limit(obj, "maxUnavailable")),
    Column("Allowed Disruptions", lambda obj, now: status_of(obj).get("disruptionsAllowed") or 0, "integer"),
    AGE,
)
PRIORITY_CLASSES: Final = (
    NAME,
    Column("Value", lambda obj, now: obj.get("value") or 0, "integer"),
    Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), "boolean"),
    AGE,
    Column("PreemptionPolicy", field_cell("preemptionPolicy", "PreemptLowerPriority")),
)
LEASES: Final = (NAME, Column("Holder", lambda obj, now: spec_of(obj).get("holderIdentity") or ""), AGE)


def _device_state(claim: Json, now: float) -> str:
    status = status_of(claim)
    states = [
        word
        for word, shown in (("allocated", status.get("allocation")), ("reserved", status.get("reservedFor")))
        if shown
    ]
    if "deletionTimestamp" in claim["metadata"]:
        states.insert(0, "deleted")
    return ",".join(states) or "pending"


RESOURCE_CLAIMS: Final = (NAME, Column("State", _device_state), AGE)
RESOURCE_SLICES: Final = (
    NAME,
    Column("Node", lambda obj, now: spec_of(obj).get("nodeName") or "<none>"),
    Column("Driver", lambda obj, now: spec_of(obj).get("driver", "")),
    Column("Pool", lambda obj, now: (spec_of(obj).get("pool") or {}).get("name", "")),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.POD_DISRUPTION_BUDGETS: BUDGETS,
    catalogue.PRIORITY_CLASSES: PRIORITY_CLASSES,
    catalogue.LEASES: LEASES,
    catalogue.RESOURCE_CLAIMS: RESOURCE_CLAIMS,
    catalogue.RESOURCE_SLICES: RESOURCE_SLICES,
}
