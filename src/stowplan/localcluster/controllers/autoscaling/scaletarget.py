"""Targets of autoscalers: built-in workloads, and custom resources with a scale subresource."""

from typing import Any, NamedTuple

import msgspec

from stowplan.api.catalogue import REPLICATION_CONTROLLERS, Resource
from stowplan.api.labels import Selector, compile_selector, parse_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.customkinds import resource_of
from stowplan.localcluster.objects.fields import spec_of


class ScalePaths(NamedTuple):
    """Where objects of a kind say how many pods they are to have, and which these are."""

    replicas: str = ".spec.replicas"
    selector: str = ""


class ScaleTarget(NamedTuple):
    """Target of an autoscaler. Without a path the selector is that of a built-in workload."""

    resource: Resource
    object: Json
    paths: ScalePaths = ScalePaths()

    @property
    def replicas(self) -> int:
        found = _at(self.object, self.paths.replicas)
        if found is None:
            return 0 if self.resource.custom else 1
        return int(found)

    def scaled_to(self, replicas: int) -> Json:
        """The change that sets its replicas."""
        change: Any = replicas
        for part in reversed(self.paths.replicas.strip(".").split(".")):
            change = {part: change}
        return dict(change)

    def selector(self) -> Selector | None:
        """Which pods are its own, None if it does not say. Raises SelectorError."""
        if self.resource.custom:
            text = _at(self.object, self.paths.selector) if self.paths.selector else None
            return parse_selector(text) if text else None
        given = spec_of(self.object).get("selector") or {}
        if self.resource == REPLICATION_CONTROLLERS:
            given = {"matchLabels": given}
        return compile_selector(msgspec.convert(given, LabelSelector))


def _at(obj: Any, path: str) -> Any:
    """Value at a path such as `.spec.replicas`, None if there is none."""
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def custom_target(definition: Json, kind: str) -> tuple[Resource, ScalePaths] | None:
    """The resource of a definition and its scale, None if it has none or defines another kind."""
    resource = resource_of(definition)
    if resource is None or (definition["spec"].get("names") or {}).get("kind") != kind:
        return None
    for version in definition["spec"].get("versions") or ():
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == resource.version and scale:
            return resource, ScalePaths(scale["specReplicasPath"], scale.get("labelSelectorPath") or "")
    return None
