"""Tables of storage.k8s.io and storagemigration.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    TableColumn,
    field_cell,
    spec_of,
    status_of,
)

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _class_name(obj: Json, now: float) -> str:
    name: str = obj["metadata"]["name"]
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


STORAGE_CLASSES: Final = (
    TableColumn("Name", _class_name, format="name"),
    TableColumn("Provisioner", field_cell("provisioner", "")),
    TableColumn("ReclaimPolicy", field_cell("reclaimPolicy", "Delete")),
    TableColumn("VolumeBindingMode", field_cell("volumeBindingMode", "Immediate")),
    TableColumn("AllowVolumeExpansion", lambda obj, now: bool(obj.get("allowVolumeExpansion"))),
    AGE,
)
CSI_NODES: Final = (
    NAME,
    TableColumn("Drivers", lambda obj, now: len(spec_of(obj).get("drivers") or ()), "integer"),
    AGE,
)


def _audiences(driver: Json, now: float) -> str:
    requests = spec_of(driver).get("tokenRequests")
    return "<unset>" if requests is None else ",".join(each.get("audience", "") for each in requests)


CSI_DRIVERS: Final = (
    NAME,
    TableColumn("AttachRequired", lambda obj, now: spec_of(obj).get("attachRequired", True), "boolean"),
    TableColumn("PodInfoOnMount", lambda obj, now: bool(spec_of(obj).get("podInfoOnMount")), "boolean"),
    TableColumn("StorageCapacity", lambda obj, now: bool(spec_of(obj).get("storageCapacity")), "boolean"),
    TableColumn("TokenRequests", _audiences),
    TableColumn("RequiresRepublish", lambda obj, now: bool(spec_of(obj).get("requiresRepublish")), "boolean"),
    TableColumn(
        "Modes", lambda obj, now: ",".join(spec_of(obj).get("volumeLifecycleModes") or ()) or "<none>"
    ),
    AGE,
)
ATTACHMENTS: Final = (
    NAME,
    TableColumn("Attacher", lambda obj, now: spec_of(obj).get("attacher", ""), format="name"),
    TableColumn("PV", lambda obj, now: (spec_of(obj).get("source") or {}).get("persistentVolumeName") or ""),
    TableColumn("Node", lambda obj, now: spec_of(obj).get("nodeName", "")),
    TableColumn("Attached", lambda obj, now: bool(status_of(obj).get("attached")), "boolean"),
    AGE,
)
ATTRIBUTES_CLASSES: Final = (NAME, TableColumn("DriverName", field_cell("driverName", "")), AGE)


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
    TableColumn("Resource", _migrated),
    TableColumn("Status", _migration_state),
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.STORAGE_CLASSES: STORAGE_CLASSES,
    catalogue.CSI_NODES: CSI_NODES,
    catalogue.CSI_DRIVERS: CSI_DRIVERS,
    catalogue.VOLUME_ATTACHMENTS: ATTACHMENTS,
    catalogue.VOLUME_ATTRIBUTES_CLASSES: ATTRIBUTES_CLASSES,
    catalogue.STORAGE_VERSION_MIGRATIONS: MIGRATIONS,
}
