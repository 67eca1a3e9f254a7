"""The status that a simulated kubelet writes of a pod."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    condition_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

_STARTED: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
ContainerMessage = str | Callable[[Json], str]
"""Message of a waiting container, or what makes it."""

_READINESS: Final = ("ContainersReady", "Ready")


def started(
    pod: Json, host: str, ip: str, now: float, *, ready: bool = True, unready: Collection[str] = ()
) -> Json:
    """The status of a pod that runs: it has begun to, or its node has come back.

    `unready`: containers whose probes fail.
    """
    stamp, is_ready = timestamp(now), ready and not unready
    return {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": status_of(pod).get("startTime") or stamp,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "conditions": [
            *_conditions(pod, dict.fromkeys(_STARTED[:2], "True"), "", stamp),
            *(_ready(pod, stamp) if is_ready else _unready(pod, stamp, unready if ready else ())),
        ],
        "initContainerStatuses": [
            _init_status(container, pod, stamp) for container in spec_of(pod).get("initContainers") or ()
        ],
        "containerStatuses": [
            _container(
                one,
                pod,
                {"running": {"startedAt": stamp}},
                ready=ready and one.get("name") not in unready,
            )
            for one in containers_of(pod)
        ],
    }


def creating(
    pod: Json,
    host: str,
    now: float,
    reason: str = "ContainerCreating",
    message: ContainerMessage = "",
    *,
    only: Collection[str] | None = None,
) -> Json:
    """The status of a pod whose containers cannot be created yet, or not at all.

    A `message` that is text may name the image and the container: `{image}`, `{container}`. `only`: the
    containers that this is about; the others run, unless an initial one of them is stuck.
    """
    stamp = timestamp(now)
    initial = spec_of(pod).get("initContainers") or ()
    stuck = [] if only is None else [str(one.get("name")) for one in initial if one.get("name") in only]
    values = {"PodReadyToStartContainers": "False" if only is None else "True"}
    status: Json = {
        "phase": "Pending",
        "startTime": status_of(pod).get("startTime") or stamp,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "conditions": [
            *_conditions(pod, values, "", stamp),
            *_initialized(pod, stuck, stamp),
            *_unready(pod, stamp, () if stuck or only is None else only),
        ],
        "containerStatuses": [
            _container(one, pod, {"running": {"startedAt": stamp}}, ready=True)
            if only is not None and not stuck and one.get("name") not in only
            else _waiting(one, "PodInitializing" if stuck else reason, "" if stuck else message)
            for one in containers_of(pod)
        ],
    }
    if stuck:
        status["initContainerStatuses"] = [
            _waiting(one, reason, message) if one.get("name") in stuck else _init_status(one, pod, stamp)
            for one in initial
        ]
    return {**status, "hostIP": host, "hostIPs": [{"ip": host}]} if host else status


def _waiting(container: Json, reason: str, message: ContainerMessage) -> Json:
    """The status of a container that has not been created."""
    return {
        "name": container.get("name", ""),
        "image": container.get("image", ""),
        "imageID": "",
        "lastState": {},
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, **_message_of(message, container)}},
    }


def _initialized(pod: Json, stuck: Sequence[str], stamp: str) -> list[Json]:
    if not stuck:
        return _conditions(pod, {"Initialized": "True"}, "", stamp)
    message = f"containers with incomplete status: [{' '.join(stuck)}]"
    return _conditions(pod, {"Initialized": "False"}, "ContainersNotInitialized", stamp, message)


def rejected(pod: Json, reason: str, message: str, now: float) -> Json:
    """The status of a pod that its node does not admit."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": timestamp(now),
        "observedGeneration": pod["metadata"].get("generation", 1),
    }


def about_container(text: str, container: Json, pod: Json) -> str:
    """A text about a container with its image, its name, and the names of its volumes."""
    volumes = " ".join(str(one.get("name")) for one in spec_of(pod).get("volumes") or ())
    image, name = f'"{container.get("image", "")}"', str(container.get("name", ""))
    return text.replace("{image}", image).replace("{container}", name).replace("{volumes}", volumes)


def _message_of(message: ContainerMessage, container: Json) -> Json:
    if not isinstance(message, str):
        return {"message": message(container)}
    return {"message": about_container(message, container, {})} if message else {}


def made_ready(pod: Json, now: float, unready: Collection[str] = ()) -> Json:
    """The status of a running pod that is ready from now on, but for containers whose probes fail."""
    stamp = timestamp(now)
    running = {"running": {"startedAt": stamp}}
    return {
        "conditions": [
            *_conditions(pod, dict.fromkeys(_STARTED[:2], "True"), "", stamp),
            *(_unready(pod, stamp, unready) if unready else _ready(pod, stamp)),
        ],
        "containerStatuses": [
            {**_container(one, pod, running, ready=one.get("name") not in unready), **_kept(one, pod)}
            for one in containers_of(pod)
        ],
    }


def ended(pod: Json, phase: str, now: float, exit_code: int) -> Json:
    """The status of a pod that has ended."""
    stamp = timestamp(now)
    over = {"terminated": _terminated(pod, exit_code, stamp)}
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    values = {**dict.fromkeys(_STARTED, "False"), "Initialized": "True"}
    status = {
        "phase": phase,
        "conditions": _conditions(pod, values, why, stamp),
        "containerStatuses": [_container(one, pod, over, ready=False) for one in containers_of(pod)],
    }
    ephemeral = [_ephemeral_status(one, pod, over) for one in _ephemeral_of(pod)]
    return {**status, "ephemeralContainerStatuses": ephemeral} if ephemeral else status


def crashed(pod: Json, now: float, exit_code: int, wait: float) -> Json:
    """The status of a pod whose containers have ended and wait to be restarted."""
    stamp = timestamp(now)
    name = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
    last = {"lastState": {"terminated": _terminated(pod, exit_code, stamp)}}
    statuses: list[Json] = []
    for one in containers_of(pod):
        message = f"back-off {_duration(wait)} restarting failed container={one.get('name')} pod={name}"
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        statuses.append({**_container(one, pod, waiting, ready=False), **last})
    return {"conditions": _unready(pod, stamp), "containerStatuses": statuses}


def restarted(pod: Json, now: float, exit_code: int, *, ready: bool, unready: Collection[str] = ()) -> Json:
    """The status of a pod whose containers have ended and run again."""
    stamp = timestamp(now)
    running = {"running": {"startedAt": stamp}}
    last = {"terminated": _terminated(pod, exit_code, stamp)}
    statuses = [
        {
            **_container(one, pod, running, ready=ready and one.get("name") not in unready, restarts=1),
            "lastState": _last(one, pod) or last,
        }
        for one in containers_of(pod)
    ]
    is_ready = ready and not unready
    conditions = _ready(pod, stamp) if is_ready else _unready(pod, stamp, unready if ready else ())
    return {"conditions": conditions, "containerStatuses": statuses}


def observed(pod: Json, now: float) -> Json:
    """The status of a running pod whose spec was changed: other resources, images, ephemeral containers."""
    stamp = timestamp(now)
    status: Json = {
        "observedGeneration": pod["metadata"].get("generation", 1),
        "containerStatuses": [_observed_container(one, pod, stamp) for one in containers_of(pod)],
    }
    known = {one.get("name"): one for one in status_of(pod).get("ephemeralContainerStatuses") or ()}
    running = {"running": {"startedAt": stamp}}
    ephemeral = [
        known.get(one.get("name")) or _ephemeral_status(one, pod, running) for one in _ephemeral_of(pod)
    ]
    return {**status, "ephemeralContainerStatuses": ephemeral} if ephemeral else status


def has_changed(pod: Json) -> bool:
    """True if the spec of a running pod was changed since the status was written."""
    seen = status_of(pod).get("observedGeneration")
    return seen is not None and pod["metadata"].get("generation", 0) > seen


def containers_of(pod: Json) -> Iterable[Json]:
    return spec_of(pod).get("containers") or ()


def statuses_of(pod: Json) -> Iterable[Json]:
    """Container statuses."""
    return status_of(pod).get("containerStatuses") or ()


def _conditions(pod: Json, values: dict[str, str], reason: str, stamp: str, message: str = "") -> list[Json]:
    """Conditions with such values; what an earlier one said more than the new one does is taken back."""
    found: list[Json] = []
    generation = pod["metadata"].get("generation", 1)
    for kind, value in values.items():
        old = condition_of(pod, kind) or {}
        since = old.get("lastTransitionTime", stamp) if old.get("status") == value else stamp
        one: Json = {
            "type": kind,
            "status": value,
            "observedGeneration": generation,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
        for field, text in (("reason", reason), ("message", message)):
            if text or field in old:
                one[field] = text or None
        found.append(one)
    return found


def unmet_gates(pod: Json) -> str:
    """The readiness gates of a pod that keep it from being ready, in a kubelet's words; "" if none does."""
    found = []
    for gate in spec_of(pod).get("readinessGates") or ():
        kind = gate.get("conditionType", "")
        condition = condition_of(pod, kind)
        if condition is None:
            found.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.get("status") != "True":
            found.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}'
            )
    return ", ".join(found)


def _ready(pod: Json, stamp: str) -> list[Json]:
    """The conditions of a pod whose containers are ready: its readiness gates decide about the pod."""
    unmet = unmet_gates(pod)
    containers = _conditions(pod, {"ContainersReady": "True"}, "", stamp)
    if not unmet:
        return [*containers, *_conditions(pod, {"Ready": "True"}, "", stamp)]
    return [*containers, *_conditions(pod, {"Ready": "False"}, "ReadinessGatesNotReady", stamp, unmet)]


def _unready(pod: Json, stamp: str, only: Collection[str] = ()) -> list[Json]:
    """The conditions of a pod of which some containers are not ready, by default all."""
    names = " ".join(
        str(one.get("name")) for one in containers_of(pod) if not only or one.get("name") in only
    )
    message = f"containers with unready status: [{names}]"
    return _conditions(pod, dict.fromkeys(_READINESS, "False"), "ContainersNotReady", stamp, message)


def _terminated(pod: Json, exit_code: int, stamp: str) -> Json:
    return {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": _running_since(pod) or status_of(pod).get("startTime") or stamp,
        "finishedAt": stamp,
    }


def _running_since(pod: Json) -> str:
    """When its containers last started, "" if none runs."""
    states = (one.get("state") or {} for one in statuses_of(pod))
    return next((str(state["running"].get("startedAt") or "") for state in states if "running" in state), "")


def _status_of(container: Json, pod: Json) -> Json:
    return next((one for one in statuses_of(pod) if one.get("name") == container.get("name")), {})


def _last(container: Json, pod: Json) -> Json:
    """How a container that waits ended."""
    before = _status_of(container, pod)
    return before.get("lastState") or {} if "waiting" in (before.get("state") or {}) else {}


def _kept(container: Json, pod: Json) -> Json:
    """Parts of a container's status that stay when it becomes ready."""
    before = _status_of(container, pod)
    return {field: before[field] for field in ("state", "lastState") if field in before}


def _observed_container(container: Json, pod: Json, stamp: str) -> Json:
    """The status of a container with its resources. One that has got another image is restarted with it."""
    before = _status_of(container, pod)
    status = before
    if before.get("image") != container.get("image"):
        running, ready = {"running": {"startedAt": stamp}}, bool(before.get("ready"))
        status = _container(container, pod, running, ready=ready, restarts=1)
        status["lastState"] = {"terminated": _terminated(pod, 0, stamp)}
    return {**status, **_resources_of(container)}


_RESOURCES: Final = ("allocatedResources", "resources")


def _resources_of(container: Json) -> Json:
    """The resources of a running container; a server that finds none refuses to resize it."""
    resources = container.get("resources") or {}
    found: Json = {
        "resources": {part: resources[part] for part in ("limits", "requests") if part in resources}
    }
    return {**found, "allocatedResources": resources["requests"]} if resources.get("requests") else found


def _container(container: Json, pod: Json, state: Json, *, ready: bool, restarts: int = 0) -> Json:
    name, image = container.get("name", ""), container.get("image", "")
    before = _status_of(container, pod)
    kept: Json = {field: before[field] for field in _RESOURCES if field in before}
    return {
        **(kept or _resources_of(container)),
        "name": name,
        "image": image,
        "imageID": f"pretend://{image}",
        "containerID": f"pretend://{uid_of(pod)}/{name}",
        "lastState": {},
        "ready": ready,
        "started": "running" in state,
        "restartCount": int(before.get("restartCount") or 0) + restarts,
        "state": state,
    }


def _ephemeral_of(pod: Json) -> Sequence[Json]:
    found: Sequence[Json] = spec_of(pod).get("ephemeralContainers") or ()
    return found


def _ephemeral_status(container: Json, pod: Json, state: Json) -> Json:
    """The status of an ephemeral container, which has no probes and so is never ready."""
    status = _container(container, pod, state, ready=False)
    del status["started"]
    return status


def _init_status(container: Json, pod: Json, stamp: str) -> Json:
    if container.get("restartPolicy") == "Always":
        return _container(container, pod, {"running": {"startedAt": stamp}}, ready=True)
    over = {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}
    return _container(container, pod, {"terminated": over}, ready=True)


def _duration(seconds: float) -> str:
    """Seconds as the kubelet writes a duration."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
