"""Tables of policy, scheduling.k8s.io, coordination.k8s.io, resource.k8s.io and node.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    TableColumn,
    age_of,
    field_cell,
    spec_of,
    status_of,
)


def _limit(budget: Json, field: str) -> str:
    value = spec_of(budget).get(field)
    return "N/A" if value is None else str(value)


BUDGETS: Final = (
    NAME,
    TableColumn("Min Available", lambda obj, now: _limit(obj, "minAvailable")),
    TableColumn("Max Unavailable", lambda obj, now: _limit(obj, "maxUnavailable")),
    TableColumn(
        "Allowed Disruptions", lambda obj, now: status_of(obj).get("disruptionsAllowed") or 0, "integer"
    ),
    AGE,
)
PRIORITY_CLASSES: Final = (
    NAME,
    TableColumn("Value", lambda obj, now: obj.get("value") or 0, "integer"),
    TableColumn("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), "boolean"),
    AGE,
    TableColumn("PreemptionPolicy", field_cell("preemptionPolicy", "PreemptLowerPriority")),
)
LEASES: Final = (NAME, TableColumn("Holder", lambda obj, now: spec_of(obj).get("holderIdentity") or ""), AGE)
LEASE_CANDIDATES: Final = (
    NAME,
    TableColumn("LeaseName", lambda obj, now: spec_of(obj).get("leaseName", "")),
    TableColumn("BinaryVersion", lambda obj, now: spec_of(obj).get("binaryVersion", "")),
    TableColumn("EmulationVersion", lambda obj, now: spec_of(obj).get("emulationVersion", "")),
    AGE,
)


def _claim_state(claim: Json, now: float) -> str:
    status, is_deleted = status_of(claim), "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if is_deleted else []
    if status.get("allocation"):
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


RESOURCE_CLAIMS: Final = (NAME, TableColumn("State", _claim_state), AGE)
RESOURCE_SLICES: Final = (
    NAME,
    TableColumn("Node", lambda obj, now: spec_of(obj).get("nodeName") or ""),
    TableColumn("Driver", lambda obj, now: spec_of(obj).get("driver", "")),
    TableColumn("Pool", lambda obj, now: (spec_of(obj).get("pool") or {}).get("name", "")),
    AGE,
)


def _taint(field: str) -> TableColumn:
    shown = f"{field[:1].upper()}{field[1:]}"
    return TableColumn(shown, lambda obj, now: (spec_of(obj).get("taint") or {}).get(field) or "")


def _tainted_since(rule: Json, now: float) -> str:
    added = (spec_of(rule).get("taint") or {}).get("timeAdded")
    return age_of(added, now) if added else ""


DEVICE_TAINT_RULES: Final = (
    NAME,
    _taint("key"),
    _taint("value"),
    _taint("effect"),
    TableColumn("TimeAdded", _tainted_since),
    AGE,
)
RUNTIME_CLASSES: Final = (NAME, TableColumn("Handler", field_cell("handler", "")), AGE)
PLAIN: Final = (NAME, AGE)


def _policy(group: Json, now: float) -> str:
    return "Gang" if "gang" in (spec_of(group).get("schedulingPolicy") or {}) else "Basic"


def _workload(group: Json, now: float) -> str:
    reference = spec_of(group).get("workloadRef")
    return "<none>" if reference is None else str(reference.get("workloadName", ""))


def _group_state(group: Json, now: float) -> str:
    conditions = {each.get("type"): each for each in status_of(group).get("conditions") or ()}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].get("reason"))
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


POD_GROUPS: Final = (
    NAME,
    TableColumn("Policy", _policy),
    TableColumn("Workload", _workload),
    TableColumn("Status", _group_state),
    AGE,
)
COMPOSITE_POD_GROUPS: Final = (NAME, TableColumn("Policy", _policy), TableColumn("Workload", _workload), AGE)

_DEVICES: Final[Mapping[str, Sequence[TableColumn]]] = {
    "resourceclaims": RESOURCE_CLAIMS,
    "resourceclaimtemplates": PLAIN,
    "resourceslices": RESOURCE_SLICES,
    "deviceclasses": PLAIN,
    "devicetaintrules": DEVICE_TAINT_RULES,
}
"""The kinds of resource.k8s.io, which look the same in every version."""

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.POD_DISRUPTION_BUDGETS: BUDGETS,
    catalogue.PRIORITY_CLASSES: PRIORITY_CLASSES,
    catalogue.LEASES: LEASES,
    catalogue.LEASE_CANDIDATES: LEASE_CANDIDATES,
    **{resource: _DEVICES[resource.plural] for resource in catalogue.BUILT_IN if resource.plural in _DEVICES},
    catalogue.RUNTIME_CLASSES: RUNTIME_CLASSES,
    catalogue.WORKLOADS: PLAIN,
    catalogue.WORKLOADS_V1ALPHA3: PLAIN,
    catalogue.POD_GROUPS: POD_GROUPS,
    catalogue.POD_GROUPS_V1ALPHA3: POD_GROUPS,
    catalogue.COMPOSITE_POD_GROUPS: COMPOSITE_POD_GROUPS,
}
