"""What the news of an object means for the scheduling queue and for the table of the cluster.

Nothing is done here: each function returns what is to be done, in order, and whoever hosts the queue does it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
)
from stowplan.queue.changes import node_events, pod_events


class PutNode(NamedTuple):
    """The table takes in a node, new or changed."""

    node: Node


class RemoveNode(NamedTuple):
    """The table forgets a node."""

    node: Node


class PutPod(NamedTuple):
    """The table takes in a pod that is on a node, new or changed; if it was assumed, it is confirmed."""

    pod: Pod


class RemovePod(NamedTuple):
    """The table forgets a pod, if it knows it."""

    pod: Pod


class Abandon(NamedTuple):
    """An assumed pod is being deleted: its wait at Permit ends with `removed`, else the table forgets it."""

    pod: Pod


class AddToQueue(NamedTuple):
    """The queue takes in a new pod."""

    pod: Pod


class UpdateInQueue(NamedTuple):
    """The queue takes in a pod's new state."""

    old: Pod
    new: Pod


class DeleteFromQueue(NamedTuple):
    """The queue forgets a pod."""

    pod: Pod


class MoveAll(NamedTuple):
    """The queue tries pods again that the event may help, if their priority is at most the one given."""

    event: ClusterEvent
    old: Object | None = None
    new: Object | None = None
    at_most_priority: int | None = None


Call = (
    PutNode
    | RemoveNode
    | PutPod
    | RemovePod
    | Abandon
    | AddToQueue
    | UpdateInQueue
    | DeleteFromQueue
    | MoveAll
)


class Handlers:
    """The handlers of a scheduler.

    `is_ours` says whether a pod asks for one of its profiles. `assumed` finds a pod that was put on a node
    ahead of the API server's word, as it stands there. `gangs` is the feature gate GangScheduling,
    `declared_features` the gate NodeDeclaredFeatures.
    """

    def __init__(
        self,
        is_ours: Callable[[Pod], bool],
        assumed: Callable[[Pod], Pod | None],
        *,
        gangs: bool = False,
        declared_features: bool = True,
    ) -> None:
        self.is_ours = is_ours
        self._assumed = assumed
        self._gangs = gangs
        self._declared_features = declared_features

    # Nodes

    def node_added(self, node: Node) -> list[Call]:
        return [PutNode(node), MoveAll(NODE_ADD, None, node)]

    def node_updated(self, old: Node, new: Node) -> list[Call]:
        events = node_events(old, new, declared_features=self._declared_features)
        return [PutNode(new), *(MoveAll(event, old, new) for event in events)]

    def node_deleted(self, node: Node) -> list[Call]:
        return [MoveAll(NODE_DELETE, node), RemoveNode(node)]

    # Pods

    def pod_added(self, pod: Pod) -> list[Call]:
        if pod.spec.node_name:
            return _arrival(pod)
        if not self.is_ours(pod):
            return []
        calls: list[Call] = [AddToQueue(pod)]
        if self._gangs:
            calls.append(MoveAll(UNSCHEDULED_POD_ADD, None, pod))
        return calls

    def pod_updated(self, old: Pod, new: Pod) -> list[Call]:
        if old.spec.node_name:
            return [PutPod(new), *(MoveAll(event, old, new) for event in pod_events(old, new))]
        if new.spec.node_name:
            calls = _arrival(new)
            return [*calls, DeleteFromQueue(old)] if self.is_ours(old) else calls
        return self._waiting_pod_updated(old, new) if self.is_ours(old) else []

    def pod_deleted(self, pod: Pod) -> list[Call]:
        if pod.spec.node_name:
            return _departure(pod)
        if not self.is_ours(pod):
            return []
        assumed = self._assumed(pod)
        if assumed is not None:
            return [DeleteFromQueue(pod), *_abandonment(assumed)]
        return [DeleteFromQueue(pod), *_nomination_ends(pod)]

    def pod_vanished(self, pod: Pod) -> list[Call]:
        """A pod is gone, and what we know of it may be out of date: it is taken away wherever it may be."""
        calls = _departure(pod)
        return [*calls, DeleteFromQueue(pod), *_nomination_ends(pod)] if self.is_ours(pod) else calls

    def _waiting_pod_updated(self, old: Pod, new: Pod) -> list[Call]:
        if old.metadata.resource_version == new.metadata.resource_version:
            return []
        assumed = self._assumed(new)
        if assumed is not None:
            return _abandonment(assumed) if new.is_terminating and not old.is_terminating else []
        calls: list[Call] = [UpdateInQueue(old, new)]
        if old.status.nominated_node_name != new.status.nominated_node_name:
            calls += _nomination_ends(old)
        return calls


def object_changed(
    resource: str, old: Object | None, new: Object | None, watched: Mapping[str, Action]
) -> list[Call]:
    """What the news of any other kind of object means: `watched` says whose news anybody wants to hear."""
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    if not watched.get(resource, Action(0)) & action:
        return []
    return [MoveAll(ClusterEvent(resource, action), old, new)]


def _arrival(pod: Pod) -> list[Call]:
    return [PutPod(pod), MoveAll(ASSIGNED_POD_ADD, None, pod)]


def _departure(pod: Pod) -> list[Call]:
    return [RemovePod(pod), MoveAll(ASSIGNED_POD_DELETE, pod)]


def _abandonment(assumed: Pod) -> list[Call]:
    return [Abandon(assumed), MoveAll(ASSIGNED_POD_DELETE, assumed)]


def _nomination_ends(pod: Pod) -> list[Call]:
    """Room that was promised to the pod is free for pods that are no more important."""
    if not pod.status.nominated_node_name:
        return []
    return [MoveAll(ASSIGNED_POD_DELETE, pod, None, pod.priority)]
