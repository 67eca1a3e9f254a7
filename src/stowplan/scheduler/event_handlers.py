"""Event handlers: what a watch event means for the cache and the queue.

Informers call `added`, `updated` and `deleted` of one handler per resource (at the end of this module). The
cache is updated before the queue, so a requeued pod sees the state that triggered the requeue.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from stowplan.api.catalogue import Resource as Served
from stowplan.api.devices import DeviceTaintRule
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject, PodGroup
from stowplan.api.quantity import QuantityError
from stowplan.api.rules.resources import is_resize_deferred
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.context import Context
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
    pod_resources,
)
from stowplan.scheduler.framework.held_pods import AwaitedDeletions, is_going
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.queue.cluster_events import UpdateEvents

_LOGGED: Final = 3
"""From this verbosity on the log has a line for every watch event."""


class CacheUpdates(Protocol):
    """The part of a cache that event handlers use."""

    def put_node(self, node: Node, /) -> None: ...

    def remove_node(self, node: Node, /) -> None: ...

    def put_pod(self, pod: Pod, /) -> None:
        """A pod that has a node is new or changed; if it was assumed, it is confirmed."""

    def put_pods(self, pods: Sequence[Pod], /) -> None:
        """The same for many, as when the cluster is listed."""

    def remove_pod(self, pod: Pod, /) -> None: ...

    def put(self, obj: Object, /) -> None:
        """Any other object is new or changed."""

    def remove(self, obj: Object, /) -> None: ...

    def assumed_pod(self, pod: Pod, /) -> Pod | None:
        """The pod on the node it was assumed on; None if it is not assumed."""

    def remove_assumed(self, uid: str, /) -> bool:
        """An assumed pod is being deleted."""

    def put_unscheduled(self, pod: Pod, /) -> None:
        """A pod of ours without a node is new or changed. Told only if there are groups."""

    def remove_unscheduled(self, pod: Pod, /) -> None: ...

    def root_of(self, group: GroupObject, /) -> str | None:
        """The key of the topmost group above a group."""

    def skip(self, problem: str, /) -> None:
        """An object cannot be read and is left out."""


class QueueUpdates(Protocol):
    """The part of a scheduling queue that event handlers use."""

    @property
    def has_waiting_or_in_flight(self) -> bool:
        """True if there are pods that an event could concern."""

    def add(self, pod: Pod, /) -> None: ...

    def update(self, old: Pod, new: Pod, /) -> None: ...

    def delete(self, pod: Pod, /) -> None: ...

    def add_group(self, group: GroupObject, /) -> None: ...

    def update_group(self, group: GroupObject, /) -> None: ...

    def delete_group(self, group: GroupObject, root: str | None, /) -> None:
        """A group is gone that was below (or at) a root."""

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        at_most_priority: int | None = None,
        /,
    ) -> None:
        """Requeue pods that the event may help, if their priority is at most the one given."""


class EventHandlers:
    """Turns watch events into updates of the cache and the queue.

    `profiles` are the names of our profiles: pods with one of them as schedulerName are ours. `watched` has
    the registered actions for every other kind of object. `timed` receives the duration of each event's
    handling. Instruments are notified of pods that get a node.
    """

    def __init__(
        self,
        cache: CacheUpdates,
        queue: QueueUpdates,
        profiles: Container[str],
        waiting: WaitingPods,
        *,
        gates: FeatureGates = DEFAULT_GATES,
        watched: Mapping[str, Action] | None = None,
        timer: Callable[[], float] = lambda: 0.0,
        timed: Mapping[Any, Any] | None = None,
        context: Context | None = None,
    ) -> None:
        self._context = context
        self._deletions = AwaitedDeletions() if context is None else context.deletions
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._waiting = waiting
        self._gangs = gates.coscheduling or gates[gates.behaviour.queueing.new_pods_wake_with]
        self._groups = gates.pod_groups
        self._resizes = gates[RESIZE_PREEMPTION]
        self._update_events = UpdateEvents(gates)
        self._pod_added = pod_resources(gates.behaviour).added
        self._watched: Mapping[str, Action] = {} if watched is None else watched
        self._timer = timer
        self._timed: Mapping[Any, Any] = _Untimed() if timed is None else timed

    @classmethod
    def of(cls, context: Context, watched: Mapping[str, Action], gates: FeatureGates) -> "EventHandlers":
        """The event handlers of a scheduler."""
        return cls(
            context.cache,
            context.queue,
            context.profiles,
            context.waiting,
            gates=gates,
            watched=watched,
            timer=context.timer,
            timed=context.metrics.handling,
            context=context,
        )

    def is_ours(self, pod: Pod) -> bool:
        """True if a pod names one of our profiles."""
        return pod.spec.scheduler_name in self._profiles

    # Nodes

    def add_node(self, node: Node) -> None:
        self._cache.put_node(node)
        self._move_all(NODE_ADD, None, node)

    def update_node(self, old: Node, new: Node) -> None:
        self._cache.put_node(new)
        for event in self._update_events.of_node(old, new):
            self._move_all(event, old, new)

    def delete_node(self, node: Node) -> None:
        self._move_all(NODE_DELETE, node, None)
        self._cache.remove_node(node)

    # Pods

    def add_pod(self, pod: Pod, *, is_cached: bool = False) -> None:
        """A pod is new; one that `is_cached` is new to the queue only."""
        placed = bool(pod.spec.node_name)
        if pod.spec.scheduler_name in self._profiles and (
            not placed or (self._resizes and is_resize_deferred(pod))
        ):
            began = self._timer()
            if self._groups and not placed:
                self._cache.put_unscheduled(pod)
            try:
                self._queue.add(pod)
            except QuantityError as error:
                self._cache.skip(f"pod {pod.key}: {error}")
            self._timed[self._pod_added.label,].observe(self._timer() - began)
            if self._gangs:
                self._move_all(self._pod_added, None, pod)
        if placed and not is_cached:
            self._add_to_cache(pod)

    def add_pods(self, pods: Sequence[Pod]) -> None:
        """Add many pods, as when the cluster is listed: the result of `add_pod` for each in turn, only
        faster.

        Consecutive pods with a node go into the cache together, as long as no pod waits for that.
        """
        queue, profiles = self._queue, self._profiles
        together: list[Pod] = []
        for pod in pods:
            spec = pod.spec
            if spec.node_name and not (
                self._resizes and spec.scheduler_name in profiles and is_resize_deferred(pod)
            ):
                together.append(pod)
                continue
            self._add_all_to_cache(together)
            together = []
            self.add_pod(pod)
        if queue.has_waiting_or_in_flight:
            for pod in together:
                self.add_pod(pod)
        else:
            self._add_all_to_cache(together)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if self._deletions and new.is_terminating and is_going(new):
            self._deletions.seen(new.key)
        if old.spec.node_name:
            if self._resizes:
                self._follow_resize(old, new)
            self._cache.put_pod(new)
            for event in self._update_events.of_pod(old, new):
                self._move_all(event, old, new)
        elif new.spec.node_name:
            self._add_to_cache(new)
            if old.spec.scheduler_name in self._profiles:
                self._queue.delete(old)
        elif self.is_ours(old):
            self._update_in_queue(old, new)

    def delete_pod(self, pod: Pod) -> None:
        self._deletions.seen(pod.key)
        if pod.spec.node_name:
            self._remove_from_cache(pod)
            if self._resizes and is_resize_deferred(pod) and self.is_ours(pod):
                self._remove_resize(pod)
        elif self.is_ours(pod):
            assumed = self._cache.assumed_pod(pod)
            self._queue.delete(pod)
            if assumed is None:
                self._remove_unscheduled(pod)
                return
            if self._groups:
                self._cache.remove_unscheduled(pod)
            self._remove_assumed(assumed)

    # Pods on nodes whose resize waits for room there

    def _follow_resize(self, old: Pod, new: Pod) -> None:
        """A pod is in the queue as long as its resize is deferred: preemption may make room for it."""
        if not self.is_ours(new):
            return
        waited, waits = is_resize_deferred(old), is_resize_deferred(new)
        if waits and not waited:
            self._log_resize(new, "Assigned pod transitioned to deferred resize, adding to scheduling queue")
            self.add_pod(new, is_cached=True)
        elif waited and not waits:
            self._log_resize(new, "Assigned pod is no longer deferred, removing from scheduling queue")
            self._remove_resize(old)
        elif waited:
            self._log_resize(new, "Assigned pod spec changed while deferred, updating scheduling queue")
            try:
                self._queue.update(old, new)
            except QuantityError as error:
                self._cache.skip(f"pod {new.key}: {error}")

    def _log_resize(self, pod: Pod, message: str) -> None:
        if self._context is not None:
            self._context.logger.info(_LOGGED, message, pod=Ref(pod.key))

    def _remove_resize(self, pod: Pod) -> None:
        self._queue.delete(pod)
        self._nomination_ends(pod)

    def delete_pod_of_unknown_state(self, pod: Pod) -> None:
        """Remove a pod that is gone and whose last known state may be out of date from cache and queue."""
        self._deletions.seen(pod.key)
        self._remove_from_cache(pod)
        if self.is_ours(pod):
            self._queue.delete(pod)
            self._remove_unscheduled(pod)

    def _update_in_queue(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if self._groups:
            self._cache.put_unscheduled(new)
        assumed = self._cache.assumed_pod(new)
        if assumed is None:
            try:
                self._queue.update(old, new)
            except QuantityError as error:
                self._cache.skip(f"pod {new.key}: {error}")
            if old.status.nominated_node_name != new.status.nominated_node_name:
                self._nomination_ends(old)
        elif new.is_terminating and not old.is_terminating:
            self._remove_assumed(assumed)

    def _add_to_cache(self, pod: Pod) -> None:
        if self._context is not None and self._context.hooks.assigned is not None:
            self._context.hooks.assigned(pod)
        self._cache.put_pod(pod)
        self._move_all(ASSIGNED_POD_ADD, None, pod)

    def _add_all_to_cache(self, pods: Sequence[Pod]) -> None:
        """Add pods with nodes to the cache. The events are counted; no pod waits for them."""
        if self._queue.has_waiting_or_in_flight or (
            self._context is not None and self._context.hooks.assigned is not None
        ):
            for pod in pods:
                self._add_to_cache(pod)
        elif pods:
            self._cache.put_pods(pods)
            self._timed[ASSIGNED_POD_ADD.label,].take([0.0] * len(pods))

    def _remove_from_cache(self, pod: Pod) -> None:
        self._cache.remove_pod(pod)
        self._move_all(ASSIGNED_POD_DELETE, pod, None)

    def _remove_assumed(self, assumed: Pod) -> None:
        """An assumed pod is being deleted: its wait at Permit ends, or else the cache forgets it."""
        waiting = self._waiting.get(assumed.metadata.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._cache.remove_assumed(assumed.metadata.uid)
        self._move_all(ASSIGNED_POD_DELETE, assumed, None)

    def _remove_unscheduled(self, pod: Pod) -> None:
        """A pod is gone that was neither assigned nor assumed."""
        if self._groups:
            self._cache.remove_unscheduled(pod)
        self._nomination_ends(pod)

    def _nomination_ends(self, pod: Pod) -> None:
        """The nominated node has room again for pods of at most the same priority."""
        if pod.status.nominated_node_name:
            self._move_all(ASSIGNED_POD_DELETE, pod, None, pod.priority)

    # Groups

    def add_group(self, group: GroupObject) -> None:
        self._cache.put(group)
        self._queue.add_group(group)
        self._move_all(_group_event(group, Action.ADD), None, group)

    def update_group(self, old: GroupObject, new: GroupObject) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        self._cache.put(new)
        self._queue.update_group(new)
        self._move_all(_group_event(new, Action.UPDATE), old, new)

    def delete_group(self, group: GroupObject) -> None:
        root = self._cache.root_of(group)
        self._cache.remove(group)
        self._queue.delete_group(group, root)
        self._move_all(_group_event(group, Action.DELETE), group, None)

    # Everything else

    def change_object(self, resource: str, old: Object | None, new: Object | None) -> None:
        """An object that is neither a pod nor a node was added, updated or deleted."""
        if new is not None:
            self._cache.put(new)
        elif old is not None:
            self._cache.remove(old)
        event = event_of(resource, old, new, self._watched)
        if event is not None:
            self._move_all(event, old, new)

    def _move_all(
        self, event: ClusterEvent, old: Object | None, new: Object | None, at_most_priority: int | None = None
    ) -> None:
        began = self._timer()
        self._queue.move_all(event, old, new, at_most_priority)
        self._timed[event.label,].observe(self._timer() - began)


def _group_event(group: GroupObject, action: Action) -> ClusterEvent:
    kind = Resource.POD_GROUP if isinstance(group, PodGroup) else Resource.COMPOSITE_POD_GROUP
    return ClusterEvent(kind, action)


def event_of(
    resource: str, old: Object | None, new: Object | None, watched: Mapping[str, Action]
) -> ClusterEvent | None:
    """The cluster event of a changed object; None if no plugin registered for it.

    A taint rule that comes or goes is an update of the slices whose devices it taints.
    """
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    if isinstance(new or old, DeviceTaintRule):
        action = Action.UPDATE
    return ClusterEvent(resource, action) if watched.get(resource, Action(0)) & action else None


class _Untimed(dict[Any, Any]):
    """Discards durations that are not measured."""

    def __missing__(self, label: object) -> "_Untimed":
        return self

    def observe(self, seconds: float) -> None:
        """Drop it."""

    def take(self, seconds: Sequence[float]) -> None:
        """Drop them."""


# Handlers for informers


class Dispatcher:
    """Runs event handlers: logs events, waits while the table is frozen, survives a handler that fails."""

    def __init__(
        self, context: Context, handlers: EventHandlers, took: Callable[[float], None] | None = None
    ) -> None:
        self.handlers = handlers
        self._took = took
        self._context = context
        self._freeze = context.freeze
        self._wake = context.wake
        self._logger = context.logger
        self._log = _EventLog(handlers, context.logger)

    def dispatch(self, handler: Callable[..., None], *objects: Any) -> None:
        """Log and handle a watch event now, or when the table is released."""
        if self._freeze.held:
            self._freeze.defer(partial(self.dispatch, handler, *objects))
            return
        if self._logger.level >= _LOGGED:
            self._log.log(handler, objects)
        began = 0.0 if self._took is None else self._context.timer()
        try:
            handler(*objects)
        except CacheCorruptedError:
            raise
        except Exception as error:  # noqa: BLE001 - one object must not stop the scheduler
            key = next((one.key for one in objects if isinstance(one, Object)), "")
            self._context.unexpected(
                "Event handler failed; the event is skipped",
                error,
                source="event_handler",
                handler=handler.__name__,
                object=Ref(key),
            )
        if self._took is not None:
            self._took(self._context.timer() - began)
        self._wake()

    def dispatch_all(
        self, one: Callable[[Any], None], many: Callable[[Sequence[Any]], None], objects: Sequence[Any]
    ) -> None:
        """Handle the addition of many objects, as `dispatch` does for each of them with the handler of one.

        If the handler of many fails, all are handled one by one: those that it took in already are known.
        """
        if self._freeze.held or self._logger.level >= _LOGGED:
            for obj in objects:
                self.dispatch(one, obj)
            return
        began = 0.0 if self._took is None else self._context.timer()
        try:
            many(objects)
        except CacheCorruptedError:
            raise
        except Exception:  # noqa: BLE001 - found and told of below, where it is clear which object it is about
            for obj in objects:
                self.dispatch(one, obj)
            return
        if self._took is not None:
            each = (self._context.timer() - began) / len(objects)
            for _ in objects:
                self._took(each)
        self._wake()

    def of(self, resource: Served) -> "Dispatcher":
        """A dispatcher for one informer, which times events in releases that have a metric for that."""
        took = self._context.metrics.processing(resource.group, resource.version, resource.plural)
        return self if took is None else Dispatcher(self._context, self.handlers, took)


class PodEventHandler:
    """Handles watch events of pods."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatch = dispatcher.dispatch
        self._dispatch_all = dispatcher.dispatch_all
        self._handlers = dispatcher.handlers

    def added(self, new: Pod) -> None:
        self._dispatch(self._handlers.add_pod, new)

    def added_all(self, new: Sequence[Pod]) -> None:
        self._dispatch_all(self._handlers.add_pod, self._handlers.add_pods, new)

    def updated(self, old: Pod, new: Pod) -> None:
        self._dispatch(self._handlers.update_pod, old, new)

    def deleted(self, last: Pod) -> None:
        self._dispatch(self._handlers.delete_pod, last)


class NodeEventHandler:
    """Handles watch events of nodes."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatch = dispatcher.dispatch
        self._handlers = dispatcher.handlers

    def added(self, new: Node) -> None:
        self._dispatch(self._handlers.add_node, new)

    def updated(self, old: Node, new: Node) -> None:
        self._dispatch(self._handlers.update_node, old, new)

    def deleted(self, last: Node) -> None:
        self._dispatch(self._handlers.delete_node, last)


class GroupEventHandler:
    """Handles watch events of PodGroups and CompositePodGroups."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatch = dispatcher.dispatch
        self._handlers = dispatcher.handlers

    def added(self, new: GroupObject) -> None:
        self._dispatch(self._handlers.add_group, new)

    def updated(self, old: GroupObject, new: GroupObject) -> None:
        self._dispatch(self._handlers.update_group, old, new)

    def deleted(self, last: GroupObject) -> None:
        self._dispatch(self._handlers.delete_group, last)


class ObjectEventHandler:
    """Handles watch events of one other kind of objects, called `resource` in cluster events."""

    def __init__(self, dispatcher: Dispatcher, resource: str) -> None:
        self._dispatch = dispatcher.dispatch
        self._change = dispatcher.handlers.change_object
        self._resource = resource

    def added(self, new: Object) -> None:
        self._dispatch(self._change, self._resource, None, new)

    def updated(self, old: Object, new: Object) -> None:
        self._dispatch(self._change, self._resource, old, new)

    def deleted(self, last: Object) -> None:
        self._dispatch(self._change, self._resource, last, None)


class _EventLog:
    """Log lines of watch events of pods, nodes and groups.

    Additions and deletions are at level 3, updates at level 4.
    """

    def __init__(self, handlers: EventHandlers, logger: Logger) -> None:
        self._is_ours = handlers.is_ours
        self._logger = logger
        self._by_handler: dict[Any, Callable[..., None]] = {
            handlers.add_pod: lambda pod: self._pod(3, "Add", pod),
            handlers.update_pod: self._pod_updated,
            handlers.delete_pod: lambda pod: self._pod(3, "Delete", pod),
            handlers.add_node: lambda node: self._node(3, "Add", node),
            handlers.update_node: lambda old, new: self._node(4, "Update", new),
            handlers.delete_node: lambda node: self._node(3, "Delete", node),
            handlers.add_group: lambda group: self._group(3, "Add", group),
            handlers.update_group: self._group_updated,
            handlers.delete_group: lambda group: self._group(3, "Delete", group),
        }

    def log(self, handler: Callable[..., Any], objects: tuple[Any, ...]) -> None:
        write = self._by_handler.get(handler)
        if write is not None:
            write(*objects)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name:
            self._pod(4, "Update", old)
        elif new.spec.node_name:
            self._pod(3, "Add", new)
            self._pod(3, "Delete", old)
        elif old.metadata.resource_version != new.metadata.resource_version:
            self._pod(4, "Update", new)

    def _pod(self, level: int, what: str, pod: Pod) -> None:
        if pod.spec.node_name:
            self._logger.info(level, f"{what} event for scheduled pod", pod=Ref(pod.key))
        elif self._is_ours(pod):
            self._logger.info(level, f"{what} event for unscheduled pod", pod=Ref(pod.key))

    def _node(self, level: int, what: str, node: Node) -> None:
        self._logger.info(level, f"{what} event for node", node=Ref(node.name))

    def _group_updated(self, old: GroupObject, new: GroupObject) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            self._group(4, "Update", new)

    def _group(self, level: int, what: str, group: GroupObject) -> None:
        if isinstance(group, PodGroup):
            self._logger.info(level, f"{what} event for pod group", podGroup=Ref(group.key))
        else:
            text = f"{what} event for composite pod group"
            self._logger.info(level, text, compositePodGroup=Ref(group.key))
