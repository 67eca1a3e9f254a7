"""Tables of storage.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

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

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.STORAGE_CLASSES: STORAGE_CLASSES,
    catalogue.CSI_NODES: CSI_NODES,
    catalogue.CSI_DRIVERS: CSI_DRIVERS,
    catalogue.VOLUME_ATTACHMENTS: ATTACHMENTS,
}
