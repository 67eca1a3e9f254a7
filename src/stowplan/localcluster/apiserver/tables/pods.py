"""The table of pods: what state a pod is in, in a word."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import AGE, NAME, TableColumn, age_of, spec_of, status_of

_NONE: Final = "<none>"
_ENDED: Final = ("Succeeded", "Failed")


class Summary(NamedTuple):
    """A pod in short. `last_restart` is empty if no container has ended yet."""

    ready: int
    total: int
    reason: str
    restarts: int
    last_restart: str


class _Restarts:
    """Counts restarts, and keeps the time of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, container: Json) -> None:
        self.count += container.get("restartCount") or 0
        ended = (container.get("lastState") or {}).get("terminated") or {}
        self.last = max(self.last, ended.get("finishedAt") or "")


def summary(pod: Json) -> Summary:
    """Summary of a pod's containers in a table: the first problem, or its phase."""
    spec, status = spec_of(pod), status_of(pod)
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    ready, restarts, of_sidecars, waiting_for = _initialization(pod, sidecars)
    if waiting_for:
        reason = waiting_for
    if not waiting_for or _is_true(status, "Initialized"):
        restarts = of_sidecars
        running, reason = _containers(status, reason, restarts)
        ready += running
    return Summary(ready, total, _ending(pod, reason), restarts.count, restarts.last)


def _initialization(pod: Json, sidecars: set[Any]) -> tuple[int, _Restarts, _Restarts, str]:
    """Sidecars that are ready, restarts of init containers and of sidecars, what is being waited for."""
    ready, restarts, of_sidecars = 0, _Restarts(), _Restarts()
    for number, container in enumerate(status_of(pod).get("initContainerStatuses") or ()):
        restarts.add(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            of_sidecars.add(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if ended is not None:
            return ready, restarts, of_sidecars, f"Init:{_end_of(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return ready, restarts, of_sidecars, f"Init:{waiting}"
        total = len(spec_of(pod).get("initContainers") or ())
        return ready, restarts, of_sidecars, f"Init:{number}/{total}"
    return ready, restarts, of_sidecars, ""


def _containers(status: Json, reason: str, restarts: _Restarts) -> tuple[int, str]:
    """Number of containers that run and are ready, and the state of the first that does not."""
    running, error = 0, ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts.add(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended is not None:
            reason = _end_of(ended)
            error = reason if ended.get("exitCode") else error
        elif container.get("ready") and state.get("running") is not None:
            running += 1
    if reason == "Completed":
        if running and _is_true(status, "Ready"):
            reason = "Running"
        elif error:
            reason = error
        elif running:
            reason = "NotReady"
    return running, reason


def _ending(pod: Json, reason: str) -> str:
    if "deletionTimestamp" not in pod["metadata"]:
        return reason
    status = status_of(pod)
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in _ENDED else "Terminating"


def _end_of(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_true(status: Json, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _ready(pod: Json, now: float) -> str:
    found = summary(pod)
    return f"{found.ready}/{found.total}"


def _restarts(pod: Json, now: float) -> str:
    found = summary(pod)
    if found.restarts and found.last_restart:
        return f"{found.restarts} ({age_of(found.last_restart, now)} ago)"
    return str(found.restarts)


def _address(pod: Json, now: float) -> str:
    addresses = status_of(pod).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or _NONE


def _gates(pod: Json, now: float) -> str:
    gates = spec_of(pod).get("readinessGates")
    if not gates:
        return _NONE
    met = sum(1 for gate in gates if _is_true(status_of(pod), str(gate.get("conditionType"))))
    return f"{met}/{len(gates)}"


_COMPLETED: Final[Mapping[str, Json]] = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


def conditions(pod: Json) -> list[Json]:
    """Conditions of a pod's row: its end, and how it ended."""
    found = _COMPLETED.get(status_of(pod).get("phase") or "")
    return [] if found is None else [found]


COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.PODS: (
        NAME,
        TableColumn("Ready", _ready),
        TableColumn("Status", lambda pod, now: summary(pod).reason),
        TableColumn("Restarts", _restarts),
        AGE,
        TableColumn("IP", _address, usual=False),
        TableColumn("Node", lambda pod, now: spec_of(pod).get("nodeName") or _NONE, usual=False),
        TableColumn(
            "Nominated Node", lambda pod, now: status_of(pod).get("nominatedNodeName") or _NONE, usual=False
        ),
        TableColumn("Readiness Gates", _gates, usual=False),
    ),
}
