"""Simulated pods: what a kubelet does with a pod next, and the controller that does it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import NODES, PODS, RESOURCE_CLAIMS
from stowplan.api.requests import DeleteOptions, Json, PatchType, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.kubelets.config import KubeletSettings
from stowplan.localcluster.kubelets.nodes import pod_address
from stowplan.localcluster.kubelets.podstatus import (
    about_container,
    containers_of,
    crashed,
    creating,
    ended,
    has_changed,
    made_ready,
    observed,
    restarted,
    started,
    statuses_of,
    unmet_gates,
)
from stowplan.localcluster.kubelets.pretend import (
    PodBehaviour,
    PretendProblem,
    StartFailure,
    pod_behaviour,
)
from stowplan.localcluster.objects.fields import (
    annotations_of,
    finalizers_of,
    is_controlled_by,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.localcluster.objects.groupclaims import is_group, is_owned_by_group_of, is_reserved_for

CRASHES_FORGOTTEN_AFTER: Final = 600.0
"""Seconds of running after which a container is restarted without delay again."""


CLAIM_PERIOD: Final = 10.0
"""Seconds after which claims that could not be prepared are tried again in any case."""


class KubeletAction(Enum):
    """Action on a pod."""

    START = auto()
    READY = auto()
    END = auto()
    RESTART = auto()
    OBSERVE = auto()
    STOP = auto()
    REMOVE = auto()


class KubeletStep(NamedTuple):
    """Next action, and its time."""

    action: KubeletAction
    at: float


@dataclass(slots=True)
class PodMemory:
    """A kubelet's state of a pod.

    `first` is when it first saw it, `ending` when it first saw its deletion. `running` is when the containers
    last started; `ready`, `run` and `exit_code` were drawn for that run. `found`: it was there before the
    kubelet and stays as it is. After `crashes` in a row the containers are restarted at `restart`.
    """

    uid: str
    first: float
    behaviour: PodBehaviour
    annotations: dict[str, str]
    start: float = 0.0
    stop: float = 0.0
    found: bool = False
    ending: float | None = None
    running: float | None = None
    ready: float = 0.0
    run: float = 0.0
    exit_code: int = 0
    crashes: int = 0
    restart: float | None = None

    def behave(self, behaviour: PodBehaviour, rng: Random) -> None:
        """Behave so from now on."""
        self.behaviour = behaviour
        self.start, self.stop = behaviour.start.draw(rng), behaviour.stop.draw(rng)
        if self.running is not None:
            self.begin_run(self.running, rng)

    @property
    def begun(self) -> float:
        """When the containers last started."""
        return self.first if self.running is None else self.running

    def begin_run(self, now: float, rng: Random) -> None:
        """The containers run from now on."""
        behaviour = self.behaviour
        self.running, self.restart = now, None
        self.ready, self.run = behaviour.ready.draw(rng), behaviour.run.draw(rng)
        self.exit_code = behaviour.draw_exit_code(rng)


def next_step(pod: Json, memory: PodMemory) -> KubeletStep | None:
    """Next step of a pod, None if there is none without an event."""
    if is_deleting(pod):
        return _leave(pod, memory)
    if is_finished(pod):
        return None
    if phase_of(pod) != "Running":
        return KubeletStep(KubeletAction.START, memory.first + memory.start)
    if has_changed(pod):
        return KubeletStep(KubeletAction.OBSERVE, memory.first)
    if _has_ready_containers(pod) and is_ready(pod) == bool(unmet_gates(pod)):
        return KubeletStep(KubeletAction.READY, memory.first)
    if memory.found and not memory.behaviour.ends:
        return None
    if memory.restart is not None:
        return KubeletStep(KubeletAction.RESTART, memory.restart)
    end = _end(pod, memory)
    if is_ready(pod) or _has_ready_containers(pod):
        return end
    ready = memory.begun + memory.ready
    return end if end is not None and end.at < ready else KubeletStep(KubeletAction.READY, ready)


def _leave(pod: Json, memory: PodMemory) -> KubeletStep:
    begun = memory.first if memory.ending is None else memory.ending
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    at = begun + min(_stop_sleep(pod) + memory.stop, grace)
    stopped = is_finished(pod) or not finalizers_of(pod)
    return KubeletStep(KubeletAction.REMOVE if stopped else KubeletAction.STOP, at)


def _stop_sleep(pod: Json) -> float:
    """How long the containers want to sleep before they stop; they do so side by side."""
    hooks = ((one.get("lifecycle") or {}).get("preStop") or {} for one in containers_of(pod))
    return max((float((hook.get("sleep") or {}).get("seconds") or 0) for hook in hooks), default=0.0)


def _end(pod: Json, memory: PodMemory) -> KubeletStep | None:
    """End of a running pod by itself: if it is always restarted, only with an explicit setting."""
    if restart_policy(pod) == "Always" and not memory.behaviour.ends:
        return None
    return KubeletStep(KubeletAction.END, memory.begun + memory.run)


def _has_ready_containers(pod: Json) -> bool:
    """True if its containers are ready: then it is not ready only because its node has been away, or because
    of its readiness gates."""
    statuses = list(statuses_of(pod))
    return bool(statuses) and all(one.get("ready") for one in statuses)


def _waits_with(pod: Json, reason: str) -> bool:
    """True if all its containers wait for this reason."""
    states = [(one.get("state") or {}).get("waiting") or {} for one in statuses_of(pod)]
    return bool(states) and all(one.get("reason") == reason for one in states)


def restart_policy(pod: Json) -> str:
    return str(spec_of(pod).get("restartPolicy") or "Always")


def host_of(node: Json) -> str:
    """The address of a node."""
    for one in status_of(node).get("addresses") or ():
        if one.get("type") == "InternalIP":
            return str(one.get("address", ""))
    return name_of(node)


class PodAddresses:
    """Assigns every pod of a node an address for as long as it exists."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._taken: dict[str, dict[str, str]] = {}

    def of(self, node: str, key: str, block: str = "") -> str:
        """The address of a pod, from its node's `block` of addresses if it has one (`spec.podCIDR`)."""
        taken = self._taken.setdefault(node, {})
        found = taken.get(key)
        if found is None:
            used = set(taken.values())
            candidates = (self._address(node, block, slot) for slot in range(len(taken) + 1))
            found = next((one for one in candidates if one not in used), "")
            found = taken[key] = found or self._address(node, block, len(taken))
        return found

    def keep(self, node: str, key: str, address: str) -> None:
        """A pod has its address already."""
        self._taken.setdefault(node, {})[key] = address

    def release(self, node: str, key: str) -> None:
        self._taken.get(node, {}).pop(key, None)

    def _address(self, node: str, block: str, slot: int) -> str:
        first, _, bits = block.partition("/")
        if bits == "24" and first.endswith(".0"):
            return f"{first.removesuffix('.0')}.{slot % 253 + 2}"
        return pod_address(self._numbers.setdefault(node, len(self._numbers)), slot)


BOUND = Selection.parse(fields="spec.nodeName!=")


class PodController(Controller):
    """Deals with every pod on a node that is ours and up; `is_up` says which are."""

    name: ClassVar[str] = "kubelet"
    workers: ClassVar[int] = 8

    def __init__(
        self, context: ControllerContext, settings: KubeletSettings, is_up: Callable[[str], bool]
    ) -> None:
        super().__init__(context)
        self.settings = settings
        self.has_begun = False
        """True if everything that existed at the start has been seen."""
        self._default = settings.pod_behaviour
        self._is_up = is_up
        self._memories: dict[str, PodMemory] = {}
        self._problems: dict[str, list[PretendProblem]] = {}
        self._addresses = PodAddresses()
        self.pods = context.informers.of(PODS, BOUND)
        self.nodes = self.informer(NODES)
        self.claims = self.informer(RESOURCE_CLAIMS)
        self._waiting: dict[str, str] = {}
        """Pods that wait for claims, each with what it waits for."""
        self.pods.add_handler(self._on_change)
        self.claims.add_handler(self._on_claim)

    def wake(self, node: str) -> None:
        """A node is up again: look at all its pods."""
        for key in self.pods.on_node[node]:
            self.queue.add(key)

    def _on_claim(self, old: Json | None, new: Json | None) -> None:
        """A claim that is reserved for a pod, or for its group, may be the one it waits for."""
        if new is not None and self._waiting:
            for consumer in status_of(new).get("reservedFor") or ():
                if is_group(consumer):
                    for key in self._waiting:
                        self.queue.add(key)
                key = f"{namespace_of(new)}/{consumer.get('name', '')}"
                if key in self._waiting:
                    self.queue.add(key)

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._forget(key_of(old), node_of(old))
            return
        key = key_of(new)
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid_of(new):
            memory = self._memories[key] = self._first_seen(key, new)
        elif annotations_of(new) != memory.annotations:
            memory.annotations = annotations_of(new)
            memory.behave(self._behaviour(key, new), self.context.rng)
        if is_deleting(new) and memory.ending is None:
            memory.ending = self.monotonic()
        if phase_of(new) == "Running" and memory.running is None:
            memory.begin_run(self.monotonic(), self.context.rng)
            if any("waiting" in (one.get("state") or {}) for one in statuses_of(new)):
                memory.restart = self.monotonic() + self.settings.pretend.backoff.initial
        if key in self._problems or next_step(new, memory) is not None:
            self.queue.add(key)

    def _first_seen(self, key: str, pod: Json) -> PodMemory:
        if status_of(pod).get("podIP"):
            self._addresses.keep(node_of(pod), key, status_of(pod)["podIP"])
        behaviour = self._behaviour(key, pod)
        memory = PodMemory(uid_of(pod), self.monotonic(), behaviour, annotations_of(pod))
        memory.found = self.settings.as_found and not self.has_begun and phase_of(pod) == "Running"
        memory.behave(behaviour, self.context.rng)
        return memory

    def _behaviour(self, key: str, pod: Json) -> PodBehaviour:
        behaviour, problems = pod_behaviour(pod, self.settings.pretend, self._default)
        if problems:
            self._problems[key] = problems
        return behaviour

    def _forget(self, key: str, node: str) -> None:
        self._memories.pop(key, None)
        self._problems.pop(key, None)
        self._waiting.pop(key, None)
        self._addresses.release(node, key)
        self.queue.forget(key)

    async def sync(self, key: str) -> None:
        pod, memory = self.pods.get(key), self._memories.get(key)
        if pod is None or memory is None or not self._is_up(node_of(pod)):
            return
        for problem in self._problems.pop(key, ()):
            note = f"{problem.annotation}: {problem.message}"
            await self.record_event(pod, "InvalidAnnotation", note, WARNING)
        step = next_step(pod, memory)
        if step is None:
            return
        left = step.at - self.monotonic()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            await self._do(step.action, pod, memory)

    async def _do(self, action: KubeletAction, pod: Json, memory: PodMemory) -> None:
        now = self.now()
        if action is KubeletAction.START:
            if has_claims(pod) and not await self._prepare(pod):
                return
            if memory.behaviour.start_failure is not None:
                await self._fail_to_start(pod, memory.behaviour.start_failure)
                return
            memory.begin_run(self.monotonic(), self.context.rng)
            await self._write(pod, self._started(pod, now, ready=memory.ready == 0))
        elif action is KubeletAction.READY:
            await self._write(pod, made_ready(pod, now))
        elif action is KubeletAction.OBSERVE:
            await self._write(pod, observed(pod, now))
        elif action is KubeletAction.END:
            await self._end(pod, memory, now)
        elif action is KubeletAction.RESTART:
            await self._restart(pod, memory, now)
        elif action is KubeletAction.STOP:
            await self._write(pod, ended(pod, "Failed", now, 143))
        else:
            await self.delete(PODS, pod, DeleteOptions(grace_period_seconds=0))

    async def _prepare(self, pod: Json) -> bool:
        """Have drivers prepare the claims of a pod, and say so in them. Without them it cannot start."""
        key = key_of(pod)
        try:
            claims = prepared_claims(pod, self.claims.get)
        except NotPreparedError as problem:
            await self._wait_for_claims(pod, str(problem))
            return False
        self._waiting.pop(key, None)
        for claim in claims:
            devices = reported_devices(claim, pod, self.stamp())
            if devices is not None:
                await self.change(
                    RESOURCE_CLAIMS, claim, {"status": {"devices": devices}}, subresource="status"
                )
        return True

    async def _wait_for_claims(self, pod: Json, problem: str) -> None:
        """Try again when the claim has changed, or after a while; say once what is missing."""
        key = key_of(pod)
        if self._waiting.get(key) != problem:
            note = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            await self.record_event(pod, "FailedPrepareDynamicResources", note, WARNING)
            if not any(True for _ in statuses_of(pod)):
                node = self.nodes.get(node_of(pod))
                await self._write(pod, creating(pod, "" if node is None else host_of(node), self.now()))
        self._waiting[key] = problem
        self.queue.add_after(key, CLAIM_PERIOD)

    async def _fail_to_start(self, pod: Json, failure: StartFailure) -> None:
        """The containers wait with a reason until the annotation is another one; said once for each."""
        node = self.nodes.get(node_of(pod))
        host = "" if node is None else host_of(node)
        # A kubelet that cannot mount has no reason to give: the container is still being created.
        reason = failure.reason if failure.message else "ContainerCreating"
        if not _waits_with(pod, reason):
            await self._write(pod, creating(pod, host, self.now(), reason, failure.message))
            for one in containers_of(pod):
                await self.record_event(pod, failure.event, about_container(failure.note, one, pod), WARNING)

    async def _end(self, pod: Json, memory: PodMemory, now: float) -> None:
        """The containers of a pod end by themselves: so does the pod, or they are restarted."""
        code, policy = memory.exit_code, restart_policy(pod)
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            await self._write(pod, ended(pod, "Failed" if code else "Succeeded", now, code))
            return
        ran = self.monotonic() - memory.begun
        memory.crashes = 1 if ran >= CRASHES_FORGOTTEN_AFTER else memory.crashes + 1
        wait = self.settings.pretend.backoff.after(memory.crashes)
        memory.restart = self.monotonic() + wait
        if not wait:
            await self._restart(pod, memory, now)
            return
        await self._write(pod, crashed(pod, now, code, wait))
        name = f"{name_of(pod)}_{pod['metadata'].get('namespace', '')}({uid_of(pod)})"
        for one in containers_of(pod):
            note = f"Back-off restarting failed container {one.get('name')} in pod {name}"
            await self.record_event(pod, "BackOff", note, WARNING)

    async def _restart(self, pod: Json, memory: PodMemory, now: float) -> None:
        code, due = memory.exit_code, memory.restart
        memory.begin_run(self.monotonic(), self.context.rng)
        try:
            await self._write(pod, restarted(pod, now, code, ready=memory.ready == 0))
        except ApiError:
            memory.restart = due
            raise

    def _started(self, pod: Json, now: float, *, ready: bool) -> Json:
        name = node_of(pod)
        node = self.nodes.get(name)
        host = name if node is None else host_of(node)
        if spec_of(pod).get("hostNetwork"):
            return started(pod, host, host, now, ready=ready)
        block = "" if node is None else str(spec_of(node).get("podCIDR") or "")
        return started(pod, host, self._addresses.of(name, key_of(pod), block), now, ready=ready)

    async def _write(self, pod: Json, status: Json) -> None:
        """Write a status for exactly this pod; conditions of others stay."""
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        namespace = pod["metadata"].get("namespace", "")
        answer = await self.client.patch(
            PODS, namespace, name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(PODS, answer)


PREPARED: Final = "Prepared"
_DEVICE: Final = ("driver", "pool", "device", "shareID")


class NotPreparedError(Exception):
    """A claim that cannot be prepared; the text is the kubelet's."""


def has_claims(pod: Json) -> bool:
    return bool(spec_of(pod).get("resourceClaims") or status_of(pod).get("extendedResourceClaimStatus"))


def prepared_claims(pod: Json, find: Callable[[str], Json | None]) -> list[Json]:
    """The claims of a pod, allocated and reserved for it. Raises NotPreparedError if one is not."""
    found: list[Json] = []
    for name, is_made in _claims_of(pod):
        claim = find(f"{namespace_of(pod)}/{name}")
        if claim is None:
            missing = f'resourceclaims.resource.k8s.io "{name}" not found'
            raise NotPreparedError(f"fetch ResourceClaim {name}: {missing}")
        if is_made and not is_controlled_by(claim, pod) and not is_owned_by_group_of(claim, pod):
            both = f"{namespace_of(pod)}/{name} was not created for Pod {namespace_of(pod)}/{name_of(pod)}"
            raise NotPreparedError(f"ResourceClaim {both} (Pod is not owner)")
        if not is_reserved_for(claim, pod):
            which = f"ResourceClaim {name} ({uid_of(claim)})"
            raise NotPreparedError(f"pod {name_of(pod)} ({uid_of(pod)}) is not allowed to use {which}")
        if not status_of(claim).get("allocation"):
            raise NotPreparedError(f"ResourceClaim {name}: not allocated")
        found.append(claim)
    return found


def _claims_of(pod: Json) -> Iterator[tuple[str, bool]]:
    """The names of a pod's claims, and whether each was made for it from a template."""
    statuses = {one.get("name"): one for one in status_of(pod).get("resourceClaimStatuses") or ()}
    for asked in spec_of(pod).get("resourceClaims") or ():
        if asked.get("resourceClaimName"):
            yield asked["resourceClaimName"], False
            continue
        status = statuses.get(asked.get("name"))
        if status is None:
            raise NotPreparedError(f'pod "{namespace_of(pod)}/{name_of(pod)}": ResourceClaim not created yet')
        if status.get("resourceClaimName"):
            yield status["resourceClaimName"], True
    extended = status_of(pod).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"], False


def reported_devices(claim: Json, pod: Json, stamp: str) -> list[Json] | None:
    """The devices of a claim as their drivers report them once prepared, None if they do already."""
    known = list(status_of(claim).get("devices") or ())
    there = {tuple(one.get(part) for part in _DEVICE) for one in known}
    results = (status_of(claim)["allocation"].get("devices") or {}).get("results") or ()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": PREPARED,
        "message": f"prepared on node {node_of(pod)}",
        "lastTransitionTime": stamp,
    }
    added: list[Json] = []
    for result in results:
        device = {part: result[part] for part in _DEVICE if part in result}
        if tuple(device.get(part) for part in _DEVICE) not in there:
            added.append({**device, "conditions": [ready]})
    return [*known, *added] if added else None
