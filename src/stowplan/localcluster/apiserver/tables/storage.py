"""Tables of storage.k8s.io and storagemigration.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import AGE, NAME, Column, field_cell, spec_of, status_of

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
    Column("AllowVolumeExpansion", lambda obj, now: bool(obj.get("allowVolumeExpansion"))),
    AGE,
)
CSI_NODES: Final = (
    NAME,
    Column("Drivers", lambda obj, now: len(spec_of(obj).get("drivers") or ()), "integer"),
    AGE,
)


def _audiences(driver: Json, now: float) -> str:
    requests = spec_of(driver).get("tokenRequests")
    return "<unset>" if requests is None else ",".join(each.get("audience", "") for each in requests)


CSI_DRIVERS: Final = (
    NAME,
    Column("AttachRequired", lambda obj, now: spec_of(obj).get("attachRequired", True), "boolean"),
    Column("PodInfoOnMount", lambda obj, now: bool(spec_of(obj).get("podInfoOnMount")), "boolean"),
    Column("StorageCapacity", lambda obj, now: bool(spec_of(obj).get("storageCapacity")), "boolean"),
    Column("TokenRequests", _audiences),
    Column("RequiresRepublish", lambda obj, now: bool(spec_of(obj).get("requiresRepublish")), "boolean"),
    Column("Modes", lambda obj, now: ",".join(spec_of(obj).get("volumeLifecycleModes") or ()) or "<none>"),
    AGE,
)
ATTACHMENTS: Final = (
    NAME,
    Column("Attacher", lambda obj, now: spec_of(obj).get("attacher", ""), format="name"),
    Column("PV", lambda obj, now: (spec_of(obj).get("source") or {}).get("persistentVolumeName") or ""),
    Column("Node", lambda obj, now: spec_of(obj).get("nodeName", "")),
    Column("Attached", lambda obj, now: bool(status_of(obj).get("attached")), "boolean"),
    AGE,
)
ATTRIBUTES_CLASSES: Final = (NAME, Column("DriverName", field_cell("driverName", "")), AGE)


def _migrated(migration: Json, now: float) -> str:
    resource = spec_of(migration).get("resource") or {}
    name, group = str(resource.get("resource", "")), resource.get("group")
    return f"{name}.{group}" if group else name


def _migration_state(migration: Json, now: float) -> str:
    states = [
        condition["type"]
        for condition in status_of(migration).get("conditions") or ()
        if condition.get("status") == "True" and condition.get("type") in ("Running", "Failed", "Succeeded")
    ]
    return states[-1] if states else "Unknown"


MIGRATIONS: Final = (
    NAME._replace(format=""),
    Column("Resource", _migrated),
    Column("Status", _migration_state),
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.STORAGE_CLASSES: STORAGE_CLASSES,
    catalogue.CSI_NODES: CSI_NODES,
    catalogue.CSI_DRIVERS: CSI_DRIVERS,
    catalogue.VOLUME_ATTACHMENTS: ATTACHMENTS,
    catalogue.VOLUME_ATTRIBUTES_CLASSES: ATTRIBUTES_CLASSES,
    catalogue.STORAGE_VERSION_MIGRATIONS: MIGRATIONS,
}
