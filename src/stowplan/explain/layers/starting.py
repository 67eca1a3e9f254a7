"""The layers after the decision: the volumes of a pod on its node, and its containers.

The words are those of the component that stopped the pod: the provisioner's and the kubelet's events, and the
kubelet's reasons in the container statuses.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stowplan.api.meta import seconds_of
from stowplan.api.node import Node
from stowplan.api.pod import ContainerStatus, ContainerWaiting, Pod
from stowplan.api.storage import PersistentVolumeClaim
from stowplan.api.writes import Event
from stowplan.explain.document.layers import Stage
from stowplan.explain.layout import span
from stowplan.explain.states import NOT_READY
from stowplan.scheduler.plugins.volumebinding.claims import claim_name
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.volumepools import class_of

PATIENCE: Final = 60.0
"""Seconds that containers may take to be created or to become ready before that counts as stopped."""
_BEGINNING: Final = ("", "ContainerCreating", "PodInitializing")
_VOLUME_REASONS: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed")
_IMAGE_REASONS: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_RESTARTING: Final = re.compile(r" restarting failed container=\S+ pod=\S+")
"""The part of a message that only repeats which container it is about."""
_GATES_NOT_READY: Final = "ReadinessGatesNotReady"
_GATE: Final = re.compile(r'readiness gate "([^"]+)"')
_NAMED: Final = re.compile(r'(configmap|secret) "([^"]+)" not found', re.IGNORECASE)
_CONFIG_KINDS: Final = {"configmap": "ConfigMap", "secret": "Secret"}
_WARNING: Final = "Warning"


def may_be_stopped(pod: Pod) -> bool:
    """True if a pod with a node may be one that does not run; quick, for all pods of a cluster."""
    phase = pod.status.phase
    if phase == "Running":
        return any(one.type == "Ready" and one.status != "True" for one in pod.status.conditions)
    return phase == "Pending" and not pod.is_terminating


def late_stages(
    pod: Pod,
    node: str,
    table: ClusterTable,
    now: float | None,
    events: Sequence[Event] = (),
    claim_events: Mapping[str, Sequence[Event]] = {},
    unread: Mapping[str, str] = {},
) -> tuple[Stage, ...]:
    """The layers `volumes` and `started` of a pod on a node, up to the one that stops it.

    `events` are those about the pod, `claim_events` those about each of its claims, by name. Nothing is said
    of pods without a status: those of manifests and of simulations.
    """
    if not pod.status.phase or pod.is_finished:
        return ()
    if pod.spec.node_name and table.row_of(node) is None and "nodes" not in unread:
        text = f"it is bound to {node}, which does not exist, so no kubelet starts it"
        return (Stage("bound", "stopped", text, f"delete the pod, or add node {node}"),)
    stopped = next(_volumes(pod, table, events, claim_events, unread), None)
    if stopped is not None:
        return (stopped,)
    done = Stage("volumes", "done")
    if not pod.spec.node_name:
        return (done,)
    stopped = next(_started(pod, node, table, now, events, unread), None)
    if stopped is not None:
        return (done, stopped)
    return (done, Stage("started", "unknown" if may_be_stopped(pod) else "done"))


# Volumes


def _volumes(
    pod: Pod,
    table: ClusterTable,
    events: Sequence[Event],
    claim_events: Mapping[str, Sequence[Event]],
    unread: Mapping[str, str],
) -> Iterator[Stage]:
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        if name is None or "persistentvolumeclaims" in unread:
            continue
        claim = table.storage.claim(f"{pod.namespace}/{name}")
        if claim is None:
            yield Stage(
                "volumes", "stopped", f"claim {name} does not exist", f"create PersistentVolumeClaim {name}"
            )
        elif not claim.spec.volume_name:
            yield _unbound(name, claim, table, claim_events.get(name, ()))
    if pod.status.phase == "Pending":
        failed = _last_warning(events, _VOLUME_REASONS)
        if failed is not None:
            yield Stage("volumes", "stopped", _said(failed), _volume_remedy(failed))


def _volume_remedy(failed: Event) -> str:
    named = _NAMED.search(failed.note)
    if named is not None:
        return f"create {_CONFIG_KINDS[named[1].lower()]} {named[2]}; the kubelet tries again by itself"
    return "see the volume's driver on that node"


def _unbound(name: str, claim: PersistentVolumeClaim, table: ClusterTable, events: Sequence[Event]) -> Stage:
    of_class = class_of(claim)
    known = table.storage.classes.get(of_class)
    text = f"no volume has been made for claim {name}"
    if known is None:
        named = f"class {of_class}" if of_class else "a class"
        return Stage(
            "volumes", "stopped", f"{text}: there is no StorageClass {of_class}".rstrip(), f"create {named}"
        )
    provisioner = known.provisioner
    text += f" of class {of_class} by provisioner {provisioner}"
    # Once a node is chosen for the pod, the claim no longer waits for its first consumer.
    since = [one for one in events if one.reason != "WaitForFirstConsumer"]
    said = _last_warning(events) or max(since, key=lambda one: one.time, default=None)
    if said is not None:
        text += f": {_said(said)}"
    return Stage("volumes", "stopped", text, f"check that provisioner {provisioner} runs, and what it logs")


# Containers


def _started(
    pod: Pod,
    node: str,
    table: ClusterTable,
    now: float | None,
    events: Sequence[Event],
    unread: Mapping[str, str],
) -> Iterator[Stage]:
    if not may_be_stopped(pod):
        return
    row = table.row_of(node)
    known = None if row is None else table.nodes[row]
    yield from _containers(pod)
    failed = _last_warning(events) if pod.status.phase == "Pending" else None
    if failed is not None:
        yield Stage("started", "stopped", _said(failed), f"see the kubelet of node {node}")
    yield from _unwell(node, known)
    if pod.status.phase == "Running":
        yield _unready(pod, now)
        return
    since = _since(pod)
    if now is not None and since is not None and now - since >= PATIENCE:
        text = f"the kubelet of node {node} has not started its containers"
        yield Stage("started", "stopped", text, f"see the kubelet of node {node}")


def _unready(pod: Pod, now: float | None) -> Stage:
    """A pod that runs and is not ready. Soon after its start that says little."""
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    if ready is not None and ready.reason == _GATES_NOT_READY:
        named = ", ".join(dict.fromkeys(_GATE.findall(ready.message)))
        text = f"{NOT_READY}readiness gate {named} is not True"
        return Stage("started", "stopped", text, f"whoever sets the condition {named} of the pod")
    unready = [one.name for one in pod.status.container_statuses if not one.ready]
    listed = _listed(unready) if unready else "the pod"
    since = _since(pod)
    age = "" if now is None or since is None else f" for {span(now - since)}"
    text = f"{NOT_READY}{listed} {'is' if len(unready) < 2 else 'are'} running and not ready{age}"
    soon = now is not None and since is not None and now - since < PATIENCE
    remedy = f"its readiness probe; kubectl logs -n {pod.namespace} {pod.name} may say more"
    return Stage("started", "unknown" if soon else "stopped", text, remedy)


def _containers(pod: Pod) -> Iterator[Stage]:
    """Messages of the kubelet about containers that do not run."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = None if status.state is None else status.state.waiting
        if waiting is None or waiting.reason in _BEGINNING:
            continue
        message = _RESTARTING.sub("", waiting.message)
        said = f"{waiting.reason}: {message}" if message else waiting.reason
        text = f"container {status.name}: {said}{_last_end(status)}"
        yield Stage("started", "stopped", text, _container_remedy(pod, status, waiting))


def _last_end(status: ContainerStatus) -> str:
    """How a container that is restarted ended."""
    ended = None if status.last_state is None else status.last_state.terminated
    if ended is None:
        return ""
    said = f" ({ended.reason})" if ended.reason else ""
    return f"; it ended with exit code {ended.exit_code}{said}, {status.restart_count} restarts"


def _container_remedy(pod: Pod, status: ContainerStatus, waiting: ContainerWaiting) -> str:
    reason = waiting.reason
    if reason in _IMAGE_REASONS:
        images = {one.name: one.image for one in (*pod.spec.init_containers, *pod.spec.containers)}
        return f"an image that can be pulled instead of {images.get(status.name, '')}, or its pull secret"
    if reason == "CrashLoopBackOff":
        return f"kubectl logs -n {pod.namespace} {pod.name} -c {status.name} --previous says why it ends"
    if reason == "CreateContainerConfigError":
        named = _NAMED.search(waiting.message)
        if named is None:
            return "create the ConfigMap or Secret that it names"
        return f"create {_CONFIG_KINDS[named[1].lower()]} {named[2]}; the kubelet tries again by itself"
    return f"kubectl describe pod -n {pod.namespace} {pod.name} has the kubelet's events"


def _unwell(node: str, known: Node | None) -> Iterator[Stage]:
    ready = (
        None if known is None else next((one for one in known.status.conditions if one.type == "Ready"), None)
    )
    if ready is not None and ready.status != "True":
        why = f" ({ready.reason})" if ready.reason else ""
        yield Stage("started", "stopped", f"node {node} is not ready{why}", f"recover node {node}")


def _since(pod: Pod) -> float | None:
    """When the pod came to its present state, in seconds since 1970."""
    times = [
        one.last_transition_time
        for one in pod.status.conditions
        if one.type in ("Ready", "PodScheduled") and one.last_transition_time
    ]
    try:
        return max(map(seconds_of, times), default=None)
    except ValueError:
        return None


def _last_warning(events: Sequence[Event], reasons: Sequence[str] = ()) -> Event | None:
    """The latest warning that is not the scheduler's."""
    found = [
        one
        for one in events
        if one.type == _WARNING
        and one.reason != "FailedScheduling"
        and (not reasons or one.reason in reasons)
    ]
    return max(found, key=lambda one: one.time) if found else None


def _said(event: Event) -> str:
    return f"{event.reason}: {event.note}".rstrip(": ")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'container' if len(names) == 1 else 'containers'} {shown}{more}"
