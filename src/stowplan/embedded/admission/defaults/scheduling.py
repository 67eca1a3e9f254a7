"""Defaults of scheduling.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_priority_class(obj: Json) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.PRIORITY_CLASSES: default_priority_class,
}
