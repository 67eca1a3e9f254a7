"""Simulated pods: what a kubelet does with a pod next, and the controller that does it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from random import Random
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import NODES, PODS, RESOURCE_CLAIMS
from stowplan.api.requests import DeleteOptions, Json, PatchType, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.kubelets.claims import (
    NotPreparedError,
    has_claims,
    prepared_claims,
    reported_devices,
)
from stowplan.localcluster.kubelets.config import KubeletSettings
from stowplan.localcluster.kubelets.containerevents import ContainerEvents
from stowplan.localcluster.kubelets.images import (
    FAILURE_SHOWN,
    SLOW_SECONDS,
    NodeImages,
    Pull,
    PullMode,
    backoff_message,
    error_message,
)
from stowplan.localcluster.kubelets.nodes import pod_address
from stowplan.localcluster.kubelets.podstatus import (
    ContainerMessage,
    about_container,
    containers_of,
    crashed,
    creating,
    ended,
    has_changed,
    made_ready,
    observed,
    rejected,
    restarted,
    started,
    statuses_of,
    unmet_gates,
)
from stowplan.localcluster.kubelets.pretend import (
    IMAGE_PULL,
    PodBehaviour,
    PretendProblem,
    StartFailure,
    node_behaviour,
    pod_behaviour,
)
from stowplan.localcluster.kubelets.probes import ALL_PASS, ProbeResults, probe_results
from stowplan.localcluster.kubelets.rejections import rejection_of
from stowplan.localcluster.objects.fields import (
    annotations_of,
    finalizers_of,
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
from stowplan.localcluster.objects.groupclaims import is_group

CRASHES_FORGOTTEN_AFTER: Final = 600.0
"""Seconds of running after which a container is restarted without delay again."""


CLAIM_PERIOD: Final = 10.0
"""Seconds after which claims that could not be prepared are tried again in any case."""


KILLED: Final = 137
"""Exit code of a container that was killed because of its probe."""


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
    kubelet and stays as it is. After `crashes` in a row the containers are restarted at `restart`. Images are
    pulled again at `pull_due` after `pulls` failures; `backing_off`: the failure has been shown.
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
    probes: ProbeResults = ALL_PASS
    pulls: int = 0
    pull_due: float = 0.0
    pulling: bool = False
    backing_off: bool = False

    def behave(self, pod: Json, behaviour: PodBehaviour, rng: Random) -> None:
        """Behave so from now on."""
        self.behaviour = behaviour
        self.probes = probe_results(pod, behaviour.probes)
        self.forget_pulls()
        self.start, self.stop = behaviour.start.draw(rng), behaviour.stop.draw(rng)
        if self.running is not None:
            self.begin_run(self.running, rng)

    def forget_pulls(self) -> None:
        """Images are pulled anew, at once."""
        self.pulls, self.pull_due, self.pulling, self.backing_off = 0, 0.0, False, False

    @property
    def begun(self) -> float:
        """When the containers last started."""
        return self.first if self.running is None else self.running

    def begin_run(self, now: float, rng: Random) -> None:
        """The containers run from now on."""
        behaviour = self.behaviour
        self.running, self.restart = now, None
        self.ready, self.run = behaviour.ready.draw(rng), behaviour.run.draw(rng)
        if behaviour.start.high and not behaviour.ready.high:
            # Pods that start at once, as in tests, and those with a given time are not delayed by probes.
            self.ready = self.probes.delay
        self.exit_code = behaviour.draw_exit_code(rng)
        killed = self.probes.killed
        if killed is not None and (not behaviour.ends or killed.seconds < self.run):
            self.run, self.exit_code = killed.seconds, KILLED


def next_step(pod: Json, memory: PodMemory) -> KubeletStep | None:
    """Next step of a pod, None if there is none without an event."""
    if is_deleting(pod):
        return _leave(pod, memory)
    if is_finished(pod):
        return None
    if phase_of(pod) != "Running":
        due = max(memory.first + memory.start, memory.pull_due)
        return KubeletStep(KubeletAction.START, due) if memory.pull_due < inf else None
    if has_changed(pod):
        return KubeletStep(KubeletAction.OBSERVE, memory.first)
    if memory.probes.unready:
        if _is_to_be_unready(pod, memory.probes):
            return KubeletStep(KubeletAction.READY, memory.first)
    elif _has_ready_containers(pod) and is_ready(pod) == bool(unmet_gates(pod)):
        return KubeletStep(KubeletAction.READY, memory.first)
    if memory.found and not memory.behaviour.ends:
        return None
    if memory.restart is not None:
        return KubeletStep(KubeletAction.RESTART, memory.restart)
    end = _end(pod, memory)
    if is_ready(pod) or _has_ready_containers(pod) or _is_as_probed(pod, memory.probes):
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
    if restart_policy(pod) == "Always" and not memory.behaviour.ends and memory.probes.killed is None:
        return None
    return KubeletStep(KubeletAction.END, memory.begun + memory.run)


def _has_ready_containers(pod: Json) -> bool:
    """True if its containers are ready: then it is not ready only because its node has been away, or because
    of its readiness gates."""
    statuses = list(statuses_of(pod))
    return bool(statuses) and all(one.get("ready") for one in statuses)


def _is_to_be_unready(pod: Json, probes: ProbeResults) -> bool:
    """True if a pod or a container is ready whose probe fails."""
    return is_ready(pod) or any(
        one.get("ready") and one.get("name") in probes.unready for one in statuses_of(pod)
    )


def _is_as_probed(pod: Json, probes: ProbeResults) -> bool:
    """True if exactly those containers are ready whose probes pass, and some do not."""
    flags = {one.get("name"): bool(one.get("ready")) for one in statuses_of(pod)}
    return bool(probes.unready) and all(
        ready == (name not in probes.unready) for name, ready in flags.items()
    )


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
        self,
        context: ControllerContext,
        settings: KubeletSettings,
        is_up: Callable[[str], bool],
        drivers: Collection[str] = (),
    ) -> None:
        """`drivers`: simulated ones, which report the devices of claims."""
        super().__init__(context)
        self._drivers = drivers
        self._images = NodeImages(settings.missing_images)
        self._container_events = ContainerEvents(context)
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
        self.nodes.add_handler(self._on_node)
        self.claims.add_handler(self._on_claim)

    def wake(self, node: str) -> None:
        """A node is up again: look at all its pods."""
        for key in self.pods.on_node[node]:
            self.queue.add(key)

    def _on_node(self, old: Json | None, new: Json | None) -> None:
        """Images are pulled anew if the annotation of their node has changed."""
        if old is None or new is None:
            return
        if annotations_of(old).get(IMAGE_PULL) != annotations_of(new).get(IMAGE_PULL):
            for key in self.pods.on_node[name_of(new)]:
                memory = self._memories.get(key)
                if memory is not None:
                    memory.forget_pulls()
            self.wake(name_of(new))

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
            memory.behave(new, self._behaviour(key, new), self.context.rng)
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
        memory.behave(pod, behaviour, self.context.rng)
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
            await self._start(pod, memory, now)
        elif action is KubeletAction.READY:
            await self._write(pod, made_ready(pod, now, memory.probes.unready))
            await self._tell_unready(pod, memory)
        elif action is KubeletAction.OBSERVE:
            await self._write(pod, observed(pod, now))
        elif action is KubeletAction.END:
            await self._end(pod, memory, now)
        elif action is KubeletAction.RESTART:
            await self._restart(pod, memory, now)
        elif action is KubeletAction.STOP:
            if phase_of(pod) == "Running":
                await self._container_events.stopping(pod)
            await self._write(pod, ended(pod, "Failed", now, 143))
        else:
            if phase_of(pod) == "Running":
                await self._container_events.stopping(pod)
            await self.delete(PODS, pod, DeleteOptions(grace_period_seconds=0))

    async def _start(self, pod: Json, memory: PodMemory, now: float) -> None:
        """Admit a pod, prepare its claims, pull its images, and start it: unless one of these fails."""
        node = self.nodes.get(node_of(pod))
        if not status_of(pod).get("startTime"):
            rejection = rejection_of(pod, node, self.pods.on_node[node_of(pod)].values())
            if rejection is not None:
                await self.record_event(pod, rejection.reason, rejection.message, WARNING)
                await self._write(pod, rejected(pod, rejection.reason, rejection.message, now))
                return
        if has_claims(pod) and not await self._prepare(pod):
            return
        if memory.behaviour.start_failure is not None:
            await self._fail_to_start(pod, memory.behaviour.start_failure)
            return
        of_node = node_behaviour(node, self.settings.pretend, 0)[0].image_pull if node is not None else None
        pulls = self._images.pulls(pod, node, memory.behaviour.image_pull, of_node)
        if not await self._pull(pod, memory, pulls):
            return
        seconds = SLOW_SECONDS if memory.pulling else memory.start
        self._images.keep(node_of(pod), (pull.image for pull in pulls))
        memory.begin_run(self.monotonic(), self.context.rng)
        await self._container_events.starting(pod, pulls, seconds)
        ready = memory.ready == 0
        await self._write(pod, self._started(pod, now, ready=ready, unready=memory.probes.unready))
        memory.forget_pulls()
        if ready:
            await self._tell_unready(pod, memory)

    async def _pull(self, pod: Json, memory: PodMemory, pulls: list[Pull]) -> bool:
        """Pull images; False while one of them is not there."""
        failed = [pull for pull in pulls if pull.mode is PullMode.ERROR]
        if failed:
            await self._fail_to_pull(pod, memory, failed)
            return False
        waiting = [pull for pull in pulls if pull.mode in (PullMode.SLOW, PullMode.NEVER)]
        if not waiting or (memory.pulling and all(pull.mode is PullMode.SLOW for pull in waiting)):
            return True
        ends = not any(pull.mode is PullMode.NEVER for pull in waiting)
        memory.pulling, memory.pull_due = True, self.monotonic() + SLOW_SECONDS if ends else inf
        if not ends:
            await self._container_events.pulling(pod, waiting)
        await self._write(pod, self._creating(pod, "ContainerCreating", "", waiting))
        if ends:
            self.queue.add_after(key_of(pod), SLOW_SECONDS)
        return False

    async def _fail_to_pull(self, pod: Json, memory: PodMemory, failed: list[Pull]) -> None:
        """Show that images cannot be pulled: first the error, then that it is tried again later."""
        memory.pulls += not memory.backing_off
        # The first retry is not immediate, other than that of a crash.
        wait = self.settings.pretend.backoff.after(memory.pulls + 1)
        shown = min(FAILURE_SHOWN, wait)
        if memory.backing_off:
            memory.backing_off, memory.pull_due = False, self.monotonic() + wait - shown
            await self._container_events.backing_off(pod, failed)
            await self._write(pod, self._creating(pod, "ImagePullBackOff", backoff_message, failed))
        else:
            memory.backing_off, memory.pull_due = True, self.monotonic() + shown
            await self._container_events.pulling(pod, failed)
            await self._container_events.failed_pulls(pod, failed)
            await self._write(pod, self._creating(pod, "ErrImagePull", error_message, failed))
        self.queue.add_after(key_of(pod), memory.pull_due - self.monotonic())

    def _creating(self, pod: Json, reason: str, message: ContainerMessage, pulls: list[Pull]) -> Json:
        node = self.nodes.get(node_of(pod))
        only = [str(pull.container.get("name")) for pull in pulls]
        host = "" if node is None else host_of(node)
        return creating(pod, host, self.now(), reason, message, only=only)

    async def _tell_unready(self, pod: Json, memory: PodMemory) -> None:
        for name, kind in memory.probes.unready.items():
            await self._container_events.unhealthy(pod, name, kind)

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
            devices = reported_devices(claim, pod, self._drivers, self.stamp())
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
        killed = memory.probes.killed
        if killed is not None and code == KILLED:
            await self._container_events.killed(pod, killed)
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
            await self._container_events.restarting(pod)
            status = restarted(pod, now, code, ready=memory.ready == 0, unready=memory.probes.unready)
            await self._write(pod, status)
        except ApiError:
            memory.restart = due
            raise

    def _started(self, pod: Json, now: float, *, ready: bool, unready: Collection[str]) -> Json:
        name = node_of(pod)
        node = self.nodes.get(name)
        host = name if node is None else host_of(node)
        if spec_of(pod).get("hostNetwork"):
            return started(pod, host, host, now, ready=ready, unready=unready)
        block = "" if node is None else str(spec_of(node).get("podCIDR") or "")
        address = self._addresses.of(name, key_of(pod), block)
        return started(pod, host, address, now, ready=ready, unready=unready)

    async def _write(self, pod: Json, status: Json) -> None:
        """Write a status for exactly this pod; conditions of others stay."""
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        namespace = pod["metadata"].get("namespace", "")
        answer = await self.client.patch(
            PODS, namespace, name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(PODS, answer)
