"""Defaults of scheduling.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def default_priority_class(obj: Json) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_group(obj: Json) -> None:
    """Pods of a group are disrupted one by one unless it says otherwise."""
    if isinstance(obj.get("spec"), dict):
        obj["spec"].setdefault("disruptionMode", {"single": {}})


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.PRIORITY_CLASSES: default_priority_class,
    catalogue.POD_GROUPS: default_group,
    catalogue.COMPOSITE_POD_GROUPS: default_group,
}
