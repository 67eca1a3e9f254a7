"""The table of pods: how many containers are ready, what state they are in, how often they were restarted."""

from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, age_of

_NONE: Final = "<none>"


def _ready(pod: Json, now: float) -> str:
    statuses = _statuses(pod, "containerStatuses")
    total = len(pod.get("spec", {}).get("containers") or ())
    return f"{sum(1 for told in statuses if told.get('ready'))}/{total}"


def _state(pod: Json, now: float) -> str:
    """What state a pod is in, in a word: the first trouble, or its phase."""
    told = pod.get("status") or {}
    reason: str = told.get("reason") or told.get("phase") or ""
    for condition in told.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    preparing = _preparing(pod)
    if preparing:
        reason = preparing
    else:
        reason = _containers_state(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if told.get("reason") == "NodeLost" else "Terminating"
    return reason


def _preparing(pod: Json) -> str:
    """The state of the container that prepares the pod at present, empty if none does."""
    statuses = _statuses(pod, "initContainerStatuses")
    for number, told in enumerate(statuses):
        state = told.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if told.get("started") and told.get("ready") and not ended:
            continue
        if ended:
            return f"Init:{_ending(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(statuses)}"
    return ""


def _containers_state(pod: Json, reason: str) -> str:
    running = False
    for told in reversed(_statuses(pod, "containerStatuses")):
        state = told.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _ending(state["terminated"])
        elif told.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in (pod.get("status") or {}).get("conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


def _ending(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(pod: Json, now: float) -> str:
    statuses = _statuses(pod, "containerStatuses")
    count = sum(told.get("restartCount") or 0 for told in statuses)
    last = max(
        (
            ((told.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
            for told in statuses
        ),
        default="",
    )
    return f"{count} ({age_of(last, now)} ago)" if count and last else str(count)


def _gates(pod: Json, now: float) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates")
    if not gates:
        return _NONE
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in (pod.get("status") or {}).get("conditions") or ()
    }
    met = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{met}/{len(gates)}"


def _statuses(pod: Json, field: str) -> Any:
    return (pod.get("status") or {}).get(field) or []


PODS: Final = (
    NAME,
    Column("Ready", _ready),
    Column("Status", _state),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", lambda pod, now: (pod.get("status") or {}).get("podIP") or _NONE, usual=False),
    Column("Node", lambda pod, now: (pod.get("spec") or {}).get("nodeName") or _NONE, usual=False),
    Column(
        "Nominated Node",
        lambda pod, now: (pod.get("status") or {}).get("nominatedNodeName") or _NONE,
        usual=False,
    ),
    Column("Readiness Gates", _gates, usual=False),
)
