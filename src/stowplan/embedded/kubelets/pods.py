"""Simulated pods: what a kubelet does with a pod next and writes then, and the controller that does it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import timestamp
from stowplan.api.requests import DeleteOptions, Json, PatchType, Selection
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import (
    annotations_of,
    condition_of,
    finalizers_of,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    time_of,
    uid_of,
)
from stowplan.embedded.kubelets.config import KubeletSettings
from stowplan.embedded.kubelets.nodes import pod_address

RUN_SECONDS: Final = "pretend.stowplan.io/run-seconds"
"""How long the pod runs before it ends by itself."""

START_SECONDS: Final = "pretend.stowplan.io/start-seconds"
"""How long the pod takes to start."""

OUTCOME: Final = "pretend.stowplan.io/outcome"
"""How a pod that ends by itself ends: Succeeded or Failed."""


class Action(Enum):
    """What happens to a pod."""

    START = auto()
    SUCCEED = auto()
    FAIL = auto()
    RESTART = auto()
    STOP = auto()
    REMOVE = auto()


class Step(NamedTuple):
    """What happens next, and when."""

    action: Action
    at: float


@dataclass(slots=True)
class Memory:
    """What a kubelet remembers of a pod: when it first saw it, when it first saw that it is to go."""

    uid: str
    first: float
    jitter: float
    ending: float | None = None
    running: float | None = None


def next_step(pod: Json, memory: Memory, settings: KubeletSettings) -> Step | None:
    """What happens to a pod next, None if nothing does by itself."""
    if is_deleting(pod):
        begun = memory.first if memory.ending is None else memory.ending
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        at = begun + min(_stop_sleep(pod) + settings.stop_delay, grace)
        stopped = is_finished(pod) or not finalizers_of(pod)
        return Step(Action.REMOVE if stopped else Action.STOP, at)
    if is_finished(pod):
        return None
    if phase_of(pod) != "Running":
        delay = _seconds(pod, START_SECONDS)
        return Step(
            Action.START, memory.first + (settings.start_delay + memory.jitter if delay is None else delay)
        )
    if not is_ready(pod):
        return Step(Action.START, memory.first)
    return _end(pod, memory, settings)


def _stop_sleep(pod: Json) -> float:
    """How long the containers want to sleep before they stop; they do so side by side."""
    hooks = ((one.get("lifecycle") or {}).get("preStop") or {} for one in _containers(pod))
    return max((float((hook.get("sleep") or {}).get("seconds") or 0) for hook in hooks), default=0.0)


def _end(pod: Json, memory: Memory, settings: KubeletSettings) -> Step | None:
    """How a running pod ends by itself: one that is to be restarted always, never."""
    policy = spec_of(pod).get("restartPolicy") or "Always"
    asked = _seconds(pod, RUN_SECONDS)
    if policy == "Always":
        return None
    begun = time_of(status_of(pod).get("startTime")) if memory.running is None else memory.running
    at = begun + (settings.run_seconds if asked is None else asked)
    if annotations_of(pod).get(OUTCOME) != "Failed":
        return Step(Action.SUCCEED, at)
    return Step(Action.FAIL if policy == "Never" else Action.RESTART, at)


def _seconds(pod: Json, annotation: str) -> float | None:
    try:
        seconds = float(annotations_of(pod)[annotation])
    except (KeyError, ValueError):
        return None
    return seconds if 0 <= seconds < 1e9 else None


# What is written


def started(pod: Json, host: str, ip: str, now: float) -> Json:
    """The status of a pod that runs: it has begun to, or its node has come back."""
    stamp = timestamp(now)
    return {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": status_of(pod).get("startTime") or stamp,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "conditions": _conditions(pod, dict.fromkeys(_STARTED, "True"), "", stamp),
        "initContainerStatuses": [
            _init_status(container, pod, stamp) for container in spec_of(pod).get("initContainers") or ()
        ],
        "containerStatuses": [
            _container(one, pod, {"running": {"startedAt": stamp}}, ready=True) for one in _containers(pod)
        ],
    }


def ended(pod: Json, phase: str, now: float, exit_code: int) -> Json:
    """The status of a pod that has ended."""
    stamp = timestamp(now)
    reason = "Completed" if exit_code == 0 else "Error"
    over = {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": status_of(pod).get("startTime") or stamp,
            "finishedAt": stamp,
        }
    }
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    values = {**dict.fromkeys(_STARTED, "False"), "Initialized": "True"}
    return {
        "phase": phase,
        "conditions": _conditions(pod, values, why, stamp),
        "containerStatuses": [_container(one, pod, over, ready=False) for one in _containers(pod)],
    }


def restarted(pod: Json, now: float) -> Json:
    """The status of a pod whose containers have failed and run again."""
    stamp = timestamp(now)
    running = {"running": {"startedAt": stamp}}
    return {
        "containerStatuses": [
            _container(one, pod, running, ready=True, restarts=1) for one in _containers(pod)
        ]
    }


_STARTED: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def _conditions(pod: Json, values: dict[str, str], reason: str, stamp: str) -> list[Json]:
    found: list[Json] = []
    for kind, value in values.items():
        old = condition_of(pod, kind) or {}
        since = old.get("lastTransitionTime", stamp) if old.get("status") == value else stamp
        one: Json = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
        found.append({**one, "reason": reason} if reason else one)
    return found


def _containers(pod: Json) -> Iterable[Json]:
    return spec_of(pod).get("containers") or ()


def _container(container: Json, pod: Json, state: Json, *, ready: bool, restarts: int = 0) -> Json:
    name, image = container.get("name", ""), container.get("image", "")
    statuses = status_of(pod).get("containerStatuses") or ()
    before: Json = next((one for one in statuses if one.get("name") == name), {})
    return {
        "name": name,
        "image": image,
        "imageID": f"pretend://{image}",
        "containerID": f"pretend://{uid_of(pod)}/{name}",
        "lastState": {},
        "ready": ready,
        "started": ready,
        "restartCount": int(before.get("restartCount") or 0) + restarts,
        "state": state,
    }


def _init_status(container: Json, pod: Json, stamp: str) -> Json:
    if container.get("restartPolicy") == "Always":
        return _container(container, pod, {"running": {"startedAt": stamp}}, ready=True)
    over = {"exitCode": 0, "reason": "Completed", "startedAt": stamp, "finishedAt": stamp}
    return {**_container(container, pod, {"terminated": over}, ready=True), "started": False}


def host_of(node: Json) -> str:
    """The address of a node."""
    for one in status_of(node).get("addresses") or ():
        if one.get("type") == "InternalIP":
            return str(one.get("address", ""))
    return name_of(node)


class PodAddresses:
    """Gives every pod of a node an address of its own for as long as it is there."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._slots: dict[str, dict[str, int]] = {}

    def of(self, node: str, key: str) -> str:
        number = self._numbers.setdefault(node, len(self._numbers))
        slots = self._slots.setdefault(node, {})
        slot = slots.get(key)
        if slot is None:
            taken = set(slots.values())
            slot = slots[key] = next(free for free in range(len(slots) + 1) if free not in taken)
        return pod_address(number, slot)

    def release(self, node: str, key: str) -> None:
        self._slots.get(node, {}).pop(key, None)


BOUND = Selection.parse(fields="spec.nodeName!=")


class PodController(Controller):
    """Deals with every pod on a node that is ours and up; `is_up` says which are."""

    name: ClassVar[str] = "kubelet"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context, settings: KubeletSettings, is_up: Callable[[str], bool]) -> None:
        super().__init__(context)
        self.settings = settings
        self._is_up = is_up
        self._memories: dict[str, Memory] = {}
        self._addresses = PodAddresses()
        self.pods = context.informers.of(PODS, BOUND)
        self.nodes = self.informer(NODES)
        self.pods.add_handler(self._on_change)

    def wake(self, node: str) -> None:
        """A node is up again: look at all its pods."""
        for key in self.pods.on_node[node]:
            self.queue.add(key)

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._forget(key_of(old), node_of(old))
            return
        key = key_of(new)
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid_of(new):
            jitter = self.context.rng.random() * self.settings.start_jitter
            memory = self._memories[key] = Memory(uid_of(new), self.monotonic(), jitter)
        if is_deleting(new) and memory.ending is None:
            memory.ending = self.monotonic()
        if phase_of(new) == "Running" and memory.running is None:
            memory.running = self.monotonic()
        if next_step(new, memory, self.settings) is not None:
            self.queue.add(key)

    def _forget(self, key: str, node: str) -> None:
        self._memories.pop(key, None)
        self._addresses.release(node, key)
        self.queue.forget(key)

    async def sync(self, key: str) -> None:
        pod, memory = self.pods.get(key), self._memories.get(key)
        if pod is None or memory is None or not self._is_up(node_of(pod)):
            return
        step = next_step(pod, memory, self.settings)
        if step is None:
            return
        left = step.at - self.monotonic()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            await self._do(step.action, pod, memory)

    async def _do(self, action: Action, pod: Json, memory: Memory) -> None:
        now = self.now()
        if action is Action.START:
            await self._write(pod, self._started(pod, now))
        elif action is Action.SUCCEED:
            await self._write(pod, ended(pod, "Succeeded", now, 0))
        elif action is Action.FAIL:
            await self._write(pod, ended(pod, "Failed", now, 1))
        elif action is Action.RESTART:
            await self._write(pod, restarted(pod, now))
            memory.running = self.monotonic()
            self.queue.add(key_of(pod))
        elif action is Action.STOP:
            await self._write(pod, ended(pod, "Failed", now, 143))
        else:
            await self.delete(PODS, pod, DeleteOptions(grace_period_seconds=0))

    def _started(self, pod: Json, now: float) -> Json:
        name = node_of(pod)
        node = self.nodes.get(name)
        host = name if node is None else host_of(node)
        if spec_of(pod).get("hostNetwork"):
            return started(pod, host, host, now)
        return started(pod, host, self._addresses.of(name, key_of(pod)), now)

    async def _write(self, pod: Json, status: Json) -> None:
        """Write a status for exactly this pod; conditions of others stay."""
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        namespace = pod["metadata"].get("namespace", "")
        answer = await self.client.patch(
            PODS, namespace, name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(PODS, answer)
