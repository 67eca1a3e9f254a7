"""Defaults of storage.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_DRIVER: Final = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def default_storage_class(obj: Json) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in _DRIVER.items():
        spec.setdefault(field, value)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.STORAGE_CLASSES: default_storage_class,
    catalogue.CSI_DRIVERS: default_csi_driver,
}
