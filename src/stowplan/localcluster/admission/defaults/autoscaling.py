"""Defaults of autoscaling/v2. Autoscalers of autoscaling/v1 get theirs when they are converted."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_UTILIZATION: Final = 80
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_PODS: Final = {"type": "Pods", "value": 4, "periodSeconds": 15}


def default_autoscaler(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _UTILIZATION}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        up: dict[str, Any] = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
        up["policies"] = [dict(_PODS), dict(_PERCENT)]
        down = {"selectPolicy": "Max", "policies": [dict(_PERCENT)]}
        behavior["scaleUp"] = up | (behavior.get("scaleUp") or {})
        behavior["scaleDown"] = down | (behavior.get("scaleDown") or {})


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.HORIZONTAL_POD_AUTOSCALERS: default_autoscaler,
}
