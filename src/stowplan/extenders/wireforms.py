"""Pods and nodes as extenders know them: without what a scheduler drops, with what is always there.

Extenders are written against the JSON that kube-scheduler sends. Some of its fields are there even when they
are empty, and quantities have one spelling; whoever made the object need not have kept to that.
"""

from collections.abc import Callable, Mapping
from typing import Any

from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.requests import Json

_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_CONTAINER_STATUS: Json = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
_Change = Callable[[Any], Any]


def pod_form(data: Mapping[str, Any]) -> Json:
    """A pod as an extender gets it."""
    return _object(data, _pod_spec, _pod_status)


def node_form(data: Mapping[str, Any]) -> Json:
    """A node as an extender gets it."""
    return _object(data, dict, _node_status)


def _object(data: Mapping[str, Any], spec: _Change, status: _Change) -> Json:
    """Kind and version are not sent, nor who manages which field."""
    metadata = {key: value for key, value in (data.get("metadata") or {}).items() if key != "managedFields"}
    rest = {key: value for key, value in data.items() if key not in ("apiVersion", "kind")}
    return {
        **rest,
        "metadata": metadata,
        "spec": spec(data.get("spec") or {}),
        "status": status(data.get("status") or {}),
    }


def _pod_spec(spec: Json) -> Json:
    changed = {"containers": None, **spec}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        _each(changed, group, _container)
    _at(changed, "resources", _requirements)
    _at(changed, "overhead", _quantities)
    return changed


def _container(container: Json) -> Json:
    return {**container, "resources": _requirements(container.get("resources") or {})}


def _requirements(resources: Json) -> Json:
    changed = dict(resources)
    _at(changed, "requests", _quantities)
    _at(changed, "limits", _quantities)
    return changed


def _pod_status(status: Json) -> Json:
    changed = dict(status)
    _each(changed, "conditions", lambda each: {"lastProbeTime": None, "lastTransitionTime": None, **each})
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _each(changed, group, lambda each: {**_CONTAINER_STATUS, **each})
    return changed


def _node_status(status: Json) -> Json:
    changed = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, **status}
    changed["nodeInfo"] = {**_NODE_INFO, **(status.get("nodeInfo") or {})}
    _at(changed, "capacity", _quantities)
    _at(changed, "allocatable", _quantities)
    _each(changed, "conditions", lambda each: {"lastHeartbeatTime": None, "lastTransitionTime": None, **each})
    return changed


def _quantities(amounts: Json) -> Json:
    return {name: _quantity(amount) for name, amount in amounts.items()}


def _quantity(amount: Any) -> Any:
    """The canonical spelling; what is no quantity is left for the extender to judge."""
    try:
        return quantity_of(amount).canonical()
    except (QuantityError, TypeError):
        return amount


def _at(data: Json, key: str, change: _Change) -> None:
    """Change the map in a field, if there is one."""
    if isinstance(data.get(key), dict):
        data[key] = change(data[key])


def _each(data: Json, key: str, change: _Change) -> None:
    """Change the maps in a list, if there is one."""
    if isinstance(data.get(key), list | tuple):
        data[key] = [change(each) if isinstance(each, dict) else each for each in data[key]]
