"""Taking in what the API server tells: the table and the queue follow, pods are woken."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError
from stowplan.framework.events import UNSCHEDULED_POD_ADD, Action, ClusterEvent
from stowplan.framework.gates import FeatureGates
from stowplan.queue.handlers import Handlers, event_of
from stowplan.scheduler.context import Context
from stowplan.scheduler.sampler import Sampler
from stowplan.scheduler.telling import NewsTelling

_TOLD: Final = 3
"""The level at which the log tells of news."""

_POD_ADDED: Final = (UNSCHEDULED_POD_ADD.label,)


class News:
    """Does what the queue's handlers say, unless an attempt holds the table; then a little later.

    `watched` says for every kind of object which changes plugins want to hear of.
    """

    def __init__(
        self, context: Context, sampler: Sampler, watched: Mapping[str, Action], gates: FeatureGates
    ) -> None:
        self.handlers = Handlers(
            self,
            context.profiles,
            context.cache.assumed_pod,
            gangs=gates["GangScheduling"],
            declared_features=gates["NodeDeclaredFeatures"],
        )
        self._cache = context.cache
        self._queue = context.queue
        self._waiting = context.waiting
        self._sampler = sampler
        self._still = context.still
        self._handling = context.metrics.handling
        self._timer = context.timer
        self._watched = watched
        self.stir = context.stir
        self._journal = context.journal
        self._telling = NewsTelling(self.handlers, context.journal)
        self.put_pod = context.cache.put_pod
        self.remove_pod = context.cache.remove_pod
        self.delete_from_queue = context.queue.delete

    def take(self, handler: Callable[..., None], *objects: object) -> None:
        """Have a handler work out what news mean, and do it."""
        if self._journal.shows(_TOLD):
            self._telling.tell(handler, objects)
        self._still.do(lambda: self._handle(handler, objects))

    def is_told_or_held(self) -> bool:
        """Whether there is more to do with news than to have a handler work out what they mean."""
        return self._still.held or self._journal.detail >= _TOLD

    def _handle(self, handler: Callable[..., None], objects: tuple[object, ...]) -> None:
        handler(*objects)
        self.stir()

    def other_changed(self, resource: str, old: Object | None, new: Object | None) -> None:
        """News of an object that is neither a pod nor a node."""
        self.take(self._other_changed, resource, old, new)

    def _other_changed(self, resource: str, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._cache.put(new)
        elif old is not None:
            self._cache.remove(old)
        event = event_of(resource, old, new, self._watched)
        if event is not None:
            self.move_all(event, old, new)

    # What handlers have done

    def put_node(self, node: Node) -> None:
        self._cache.put_node(node)
        if self._cache.table.row_of(node.name) is not None:
            self._sampler.put(node)

    def remove_node(self, node: Node) -> None:
        self._cache.remove_node(node)
        self._sampler.remove(node)

    def abandon(self, pod: Pod) -> None:
        waiting = self._waiting.get(pod.metadata.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._cache.forget(pod.metadata.uid)

    def add_to_queue(self, pod: Pod) -> None:
        began = self._timer()
        try:
            self._queue.add(pod)
        except QuantityError as error:
            self._cache.skip(f"pod {pod.key}: {error}")
        self._handling[_POD_ADDED].observe(self._timer() - began)

    def update_in_queue(self, old: Pod, new: Pod) -> None:
        try:
            self._queue.update(old, new)
        except QuantityError as error:
            self._cache.skip(f"pod {new.key}: {error}")

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        at_most_priority: int | None = None,
    ) -> None:
        began = self._timer()
        self._queue.move_all(event, old, new, at_most_priority)
        self._handling[event.label,].observe(self._timer() - began)


class PodNews:
    """Hears of pods, of which there is most to hear: what nothing stands in the way of is done at once."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._handlers = news.handlers

    def added(self, new: Pod) -> None:
        news = self._news
        if news.is_told_or_held():
            news.take(self._handlers.pod_added, new)
        else:
            self._handlers.pod_added(new)
            news.stir()

    def updated(self, old: Pod, new: Pod) -> None:
        news = self._news
        if news.is_told_or_held():
            news.take(self._handlers.pod_updated, old, new)
        else:
            self._handlers.pod_updated(old, new)
            news.stir()

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
