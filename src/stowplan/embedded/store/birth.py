"""The status an object has when it is created, whatever its creator wrote there."""

from typing import Final

from stowplan.api.catalogue import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.embedded.store.conditions import pod_condition

_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_PHASES: Final = {
    PODS: "Pending",
    NAMESPACES: "Active",
    PERSISTENT_VOLUMES: "Pending",
    PERSISTENT_VOLUME_CLAIMS: "Pending",
}


def give_first_status(resource: Resource, obj: Json, stamp: str) -> None:
    """Give a new object the status that is the server's to give.

    Only for kinds with a status subresource: others keep what they came with. So do nodes, which register
    themselves with their capacity.
    """
    if resource == NODES:
        return
    obj.pop("status", None)
    phase = _PHASES.get(resource)
    if phase is None:
        return
    obj["status"] = {"phase": phase}
    if resource == PODS and obj.get("spec", {}).get("schedulingGates"):
        held = pod_condition("PodScheduled", "False", stamp, reason="SchedulingGated", message=_GATED)
        obj["status"]["conditions"] = [held]
