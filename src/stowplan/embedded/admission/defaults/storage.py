"""Defaults of storage.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_storage_class(obj: Json) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.STORAGE_CLASSES: default_storage_class,
}
