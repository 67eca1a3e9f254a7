"""The table of nodes: whether they are ready, what they are for."""

from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column

_ROLE: Final = "node-role.kubernetes.io/"


def _state(node: Json, now: float) -> str:
    states: list[str] = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            states.append("Ready" if condition.get("status") == "True" else "NotReady")
    if not states:
        states.append("Unknown")
    if (node.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(node: Json, now: float) -> str:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE) and key != _ROLE:
            roles.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or "<none>"


def _info(node: Json, field: str, unknown: str = "<unknown>") -> Any:
    return ((node.get("status") or {}).get("nodeInfo") or {}).get(field) or unknown


def _address(node: Json, kind: str) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address"))
    return "<none>"


NODES: Final = (
    NAME,
    Column("Status", _state),
    Column("Roles", _roles),
    AGE,
    Column("Version", lambda node, now: _info(node, "kubeletVersion", "")),
    Column("Internal-IP", lambda node, now: _address(node, "InternalIP"), usual=False),
    Column("External-IP", lambda node, now: _address(node, "ExternalIP"), usual=False),
    Column("OS-Image", lambda node, now: _info(node, "osImage"), usual=False),
    Column("Kernel-Version", lambda node, now: _info(node, "kernelVersion"), usual=False),
    Column("Container-Runtime", lambda node, now: _info(node, "containerRuntimeVersion"), usual=False),
)
