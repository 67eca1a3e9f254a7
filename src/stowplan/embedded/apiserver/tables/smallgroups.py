"""Tables of groups with few kinds: storage, policy, scheduling, coordination, discovery, resource, RBAC."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, field_cell, spec_of, status_of

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _class_name(obj: Json, now: float) -> str:
    name: str = obj["metadata"]["name"]
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


STORAGE_CLASSES: Final = (
    Column("Name", _class_name, format="name"),
    Column("Provisioner", field_cell("provisioner", "")),
    Column("ReclaimPolicy", field_cell("reclaimPolicy", "Delete")),
    Column("VolumeBindingMode", field_cell("volumeBindingMode", "Immediate")),
    Column("AllowVolumeExpansion", lambda obj, now: bool(obj.get("allowVolumeExpansion")), "boolean"),
    AGE,
)
CSI_NODES: Final = (
    NAME,
    Column("Drivers", lambda obj, now: len(spec_of(obj).get("drivers") or ()), "integer"),
    AGE,
)
CSI_DRIVERS: Final = (
    NAME,
    Column("AttachRequired", lambda obj, now: spec_of(obj).get("attachRequired", True), "boolean"),
    Column("PodInfoOnMount", lambda obj, now: bool(spec_of(obj).get("podInfoOnMount")), "boolean"),
    Column("StorageCapacity", lambda obj, now: bool(spec_of(obj).get("storageCapacity")), "boolean"),
    AGE,
)
ATTACHMENTS: Final = (
    NAME,
    Column("Attacher", lambda obj, now: spec_of(obj).get("attacher", "")),
    Column("PV", lambda obj, now: (spec_of(obj).get("source") or {}).get("persistentVolumeName") or ""),
    Column("Node", lambda obj, now: spec_of(obj).get("nodeName", "")),
    Column("Attached", lambda obj, now: bool(status_of(obj).get("attached")), "boolean"),
    AGE,
)


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


def _addresses(slice_: Json, now: float) -> str:
    found = [address for end in slice_.get("endpoints") or () for address in end.get("addresses") or ()]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or "<unset>"


ENDPOINT_SLICES: Final = (
    NAME,
    Column("AddressType", field_cell("addressType", "")),
    Column(
        "Ports",
        lambda obj, now: ",".join(str(port.get("port")) for port in obj.get("ports") or ()) or "<unset>",
    ),
    Column("Endpoints", _addresses),
    AGE,
)


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
ROLES: Final = (
    NAME,
    Column("Created At", lambda obj, now: obj["metadata"]["creationTimestamp"], "date"),
)


def _role(binding: Json, now: float) -> str:
    role = binding["roleRef"]
    return f"{role['kind']}/{role['name']}"


def _subjects(kind: str) -> Any:
    """The cell with the subjects of one kind; service accounts with their namespaces."""

    def cell(binding: Json, now: float) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject['name']}" for subject in found)
        return ", ".join(subject["name"] for subject in found)

    return cell


BINDINGS: Final = (
    NAME,
    Column("Role", _role),
    AGE,
    Column("Users", _subjects("User"), usual=False),
    Column("Groups", _subjects("Group"), usual=False),
    Column("ServiceAccounts", _subjects("ServiceAccount"), usual=False),
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.STORAGE_CLASSES: STORAGE_CLASSES,
    catalogue.CSI_NODES: CSI_NODES,
    catalogue.CSI_DRIVERS: CSI_DRIVERS,
    catalogue.VOLUME_ATTACHMENTS: ATTACHMENTS,
    catalogue.POD_DISRUPTION_BUDGETS: BUDGETS,
    catalogue.PRIORITY_CLASSES: PRIORITY_CLASSES,
    catalogue.LEASES: LEASES,
    catalogue.ENDPOINT_SLICES: ENDPOINT_SLICES,
    catalogue.RESOURCE_CLAIMS: RESOURCE_CLAIMS,
    catalogue.RESOURCE_SLICES: RESOURCE_SLICES,
    catalogue.ROLES: ROLES,
    catalogue.ROLE_BINDINGS: BINDINGS,
    catalogue.CLUSTER_ROLES: ROLES,
    catalogue.CLUSTER_ROLE_BINDINGS: BINDINGS,
}
