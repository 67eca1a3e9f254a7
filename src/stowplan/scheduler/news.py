"""Taking in what the API server tells: the table and the queue follow, pods are woken."""

from collections.abc import Callable, Mapping
from typing import Any

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError
from stowplan.framework.events import UNSCHEDULED_POD_ADD, Action
from stowplan.queue.handlers import (
    Abandon,
    AddToQueue,
    Call,
    DeleteFromQueue,
    Handlers,
    MoveAll,
    PutNode,
    PutPod,
    RemoveNode,
    RemovePod,
    UpdateInQueue,
    object_changed,
)
from stowplan.scheduler.context import Context
from stowplan.scheduler.sampler import Sampler
from stowplan.scheduler.telling import NewsTelling


class News:
    """Does what the queue's handlers say, unless an attempt holds the table; then a little later.

    `watched` says for every kind of object which changes plugins want to hear of.
    """

    def __init__(
        self, handlers: Handlers, context: Context, sampler: Sampler, watched: Mapping[str, Action]
    ) -> None:
        self.handlers = handlers
        self._cache = cache = context.cache
        self._queue = queue = context.queue
        self._waiting = context.waiting
        self._sampler = sampler
        self._still = context.still
        self._metrics = context.metrics
        self._timer = context.timer
        self._watched = watched
        self._stir = context.stir
        self._journal = context.journal
        self._telling = NewsTelling(handlers, context.journal)
        self._doing: dict[type[Call], Callable[[Any], None]] = {
            PutNode: self._put_node,
            RemoveNode: self._remove_node,
            PutPod: lambda call: cache.put_pod(call.pod),
            RemovePod: lambda call: cache.remove_pod(call.pod),
            Abandon: self._abandon,
            AddToQueue: self._add,
            UpdateInQueue: self._update,
            DeleteFromQueue: lambda call: queue.delete(call.pod),
            MoveAll: self._move_all,
        }

    def take(self, calls: Callable[..., list[Call]], *objects: Any) -> None:
        """Work out what news mean, and do it."""
        if self._journal.shows(3):
            self._telling.tell(calls, objects)
        if self._still.held:
            self._still.do(lambda: self._do(calls(*objects)))
        else:
            self._do(calls(*objects))

    def other_changed(self, resource: str, old: Object | None, new: Object | None) -> None:
        """News of an object that is neither a pod nor a node."""
        self.take(self._other_changed, resource, old, new)

    def _other_changed(self, resource: str, old: Object | None, new: Object | None) -> list[Call]:
        if new is not None:
            self._cache.put(new)
        elif old is not None:
            self._cache.remove(old)
        return object_changed(resource, old, new, self._watched)

    def _do(self, calls: list[Call]) -> None:
        for call in calls:
            self._doing[type(call)](call)
        self._stir()

    def _put_node(self, call: PutNode) -> None:
        self._cache.put_node(call.node)
        if self._cache.table.row_of(call.node.name) is not None:
            self._sampler.put(call.node)

    def _remove_node(self, call: RemoveNode) -> None:
        self._cache.remove_node(call.node)
        self._sampler.remove(call.node)

    def _abandon(self, call: Abandon) -> None:
        waiting = self._waiting.get(call.pod.metadata.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._cache.forget(call.pod.metadata.uid)

    def _add(self, call: AddToQueue) -> None:
        began = self._timer()
        try:
            self._queue.add(call.pod)
        except QuantityError as error:
            self._cache.skip(f"pod {call.pod.key}: {error}")
        self._metrics.event_handled(UNSCHEDULED_POD_ADD.label, self._timer() - began)

    def _update(self, call: UpdateInQueue) -> None:
        try:
            self._queue.update(call.old, call.new)
        except QuantityError as error:
            self._cache.skip(f"pod {call.new.key}: {error}")

    def _move_all(self, call: MoveAll) -> None:
        began = self._timer()
        self._queue.move_all(call.event, call.old, call.new, call.at_most_priority)
        self._metrics.event_handled(call.event.label, self._timer() - began)


class PodNews:
    """Hears of pods."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._handlers = news.handlers

    def added(self, new: Pod) -> None:
        self._news.take(self._handlers.pod_added, new)

    def updated(self, old: Pod, new: Pod) -> None:
        self._news.take(self._handlers.pod_updated, old, new)

    def deleted(self, last: Pod) -> None:
        self._news.take(self._handlers.pod_deleted, last)


class NodeNews:
    """Hears of nodes."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._handlers = news.handlers

    def added(self, new: Node) -> None:
        self._news.take(self._handlers.node_added, new)

    def updated(self, old: Node, new: Node) -> None:
        self._news.take(self._handlers.node_updated, old, new)

    def deleted(self, last: Node) -> None:
        self._news.take(self._handlers.node_deleted, last)


class OtherNews:
    """Hears of objects of one other kind, called `resource` in events."""

    def __init__(self, news: News, resource: str) -> None:
        self._news = news
        self._resource = resource

    def added(self, new: Object) -> None:
        self._news.other_changed(self._resource, None, new)

    def updated(self, old: Object, new: Object) -> None:
        self._news.other_changed(self._resource, old, new)

    def deleted(self, last: Object) -> None:
        self._news.other_changed(self._resource, last, None)
