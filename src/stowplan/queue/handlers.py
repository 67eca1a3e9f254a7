"""What the news of an object means for the scheduling queue and for the table of the cluster.

Nothing is done here: each function has its host do what is to be done, in order.
"""

from collections.abc import Callable, Container, Mapping
from typing import Protocol

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


class Host(Protocol):
    """Who has the table and the queue, and changes them."""

    def put_node(self, node: Node, /) -> None:
        """The table takes in a node, new or changed."""

    def remove_node(self, node: Node, /) -> None:
        """The table forgets a node."""

    def put_pod(self, pod: Pod, /) -> None:
        """The table takes in a pod that is on a node, new or changed; if it was assumed, it is confirmed."""

    def remove_pod(self, pod: Pod, /) -> None:
        """The table forgets a pod, if it knows it."""

    def abandon(self, pod: Pod, /) -> None:
        """An assumed pod is being deleted: its wait at Permit ends, or else the table forgets it."""

    def add_to_queue(self, pod: Pod, /) -> None:
        """The queue takes in a new pod."""

    def update_in_queue(self, old: Pod, new: Pod, /) -> None:
        """The queue takes in a pod's new state."""

    def delete_from_queue(self, pod: Pod, /) -> None:
        """The queue forgets a pod."""

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        at_most_priority: int | None = None,
        /,
    ) -> None:
        """The queue tries pods again that the event may help, if their priority is at most the one given."""


class Handlers:
    """The handlers of a scheduler.

    `ours` are the names of its profiles: pods that ask for one of them are its own. `assumed` finds a pod
    that was put on a node ahead of the API server's word, as it stands there. `gangs` is the feature gate
    GangScheduling, `declared_features` the gate NodeDeclaredFeatures.
    """

    def __init__(
        self,
        host: Host,
        ours: Container[str],
        assumed: Callable[[Pod], Pod | None],
        *,
        gangs: bool = False,
        declared_features: bool = True,
    ) -> None:
        self._host = host
        self._ours = ours
        self._assumed = assumed
        self._gangs = gangs
        self._declared_features = declared_features

    def is_ours(self, pod: Pod) -> bool:
        """Whether a pod asks for one of our profiles."""
        return pod.spec.scheduler_name in self._ours

    # Nodes

    def node_added(self, node: Node) -> None:
        self._host.put_node(node)
        self._host.move_all(NODE_ADD, None, node)

    def node_updated(self, old: Node, new: Node) -> None:
        self._host.put_node(new)
        for event in node_events(old, new, declared_features=self._declared_features):
            self._host.move_all(event, old, new)

    def node_deleted(self, node: Node) -> None:
        self._host.move_all(NODE_DELETE, node, None)
        self._host.remove_node(node)

    # Pods

    def pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._arrived(pod)
        elif pod.spec.scheduler_name in self._ours:
            self._host.add_to_queue(pod)
            if self._gangs:
                self._host.move_all(UNSCHEDULED_POD_ADD, None, pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name:
            self._host.put_pod(new)
            for event in pod_events(old, new):
                self._host.move_all(event, old, new)
        elif new.spec.node_name:
            self._arrived(new)
            if old.spec.scheduler_name in self._ours:
                self._host.delete_from_queue(old)
        elif self.is_ours(old):
            self._waiting_pod_updated(old, new)

    def pod_deleted(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._departed(pod)
        elif self.is_ours(pod):
            assumed = self._assumed(pod)
            self._host.delete_from_queue(pod)
            if assumed is not None:
                self._abandoned(assumed)
            else:
                self._nomination_ends(pod)

    def pod_vanished(self, pod: Pod) -> None:
        """A pod is gone, and what we know of it may be out of date: it is taken away wherever it may be."""
        self._departed(pod)
        if self.is_ours(pod):
            self._host.delete_from_queue(pod)
            self._nomination_ends(pod)

    def _waiting_pod_updated(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        assumed = self._assumed(new)
        if assumed is None:
            self._host.update_in_queue(old, new)
            if old.status.nominated_node_name != new.status.nominated_node_name:
                self._nomination_ends(old)
        elif new.is_terminating and not old.is_terminating:
            self._abandoned(assumed)

    def _arrived(self, pod: Pod) -> None:
        self._host.put_pod(pod)
        self._host.move_all(ASSIGNED_POD_ADD, None, pod)

    def _departed(self, pod: Pod) -> None:
        self._host.remove_pod(pod)
        self._host.move_all(ASSIGNED_POD_DELETE, pod, None)

    def _abandoned(self, assumed: Pod) -> None:
        self._host.abandon(assumed)
        self._host.move_all(ASSIGNED_POD_DELETE, assumed, None)

    def _nomination_ends(self, pod: Pod) -> None:
        """Room that was promised to the pod is free for pods that are no more important."""
        if pod.status.nominated_node_name:
            self._host.move_all(ASSIGNED_POD_DELETE, pod, None, pod.priority)


def event_of(
    resource: str, old: Object | None, new: Object | None, watched: Mapping[str, Action]
) -> ClusterEvent | None:
    """The event that the news of any other kind of object are: `watched` says whose news anybody wants."""
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    return ClusterEvent(resource, action) if watched.get(resource, Action(0)) & action else None
