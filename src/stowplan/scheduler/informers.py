"""Informers: what a scheduler watches, for whom, and what suffers without it; a reflector per resource."""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource as Served
from stowplan.api.meta import AnyObject, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.api.requests import EVERY_OBJECT, FieldTerm, Selection
from stowplan.client import Handler, Reader, Reflector, Unreadable
from stowplan.runtime.clock import Clock
from stowplan.scheduler.event_handlers import (
    Dispatcher,
    GroupEventHandler,
    NodeEventHandler,
    ObjectEventHandler,
    PodEventHandler,
)
from stowplan.scheduler.framework.events import Action, Resource
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.watched import (
    AROUND_PODS,
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_GROUPS,
    DEVICE_TAINT_RULES,
    DEVICES,
    NODES,
    POD_GROUPS,
    PODS,
    STORAGE,
    Watched,
)

_UNHEARD: Final = "plugins that registered for it hear nothing of it"
_BUILT_IN: Final = frozenset(Resource)
_NO_APIS: Final[Mapping[str, str]] = {}


def kinds_to_watch(
    events: Mapping[str, Action],
    needed: Collection[str],
    *,
    groups: bool = False,
    composite_groups: bool = False,
    coscheduling: bool = False,
    taint_rules: bool = False,
    apis: Mapping[str, str] = _NO_APIS,
) -> list[Watched]:
    """The kinds to watch besides pods and nodes: those needed, by plural, and those of registered events.

    `apis` has the API versions that a release reads, by plural, where releases differ. Custom kinds are named
    `<plural>.<version>.<group>`. Raises ValueError for other names.
    """
    rules = [DEVICE_TAINT_RULES] if taint_rules else []
    grouping = [*([COSCHEDULING_GROUPS] if coscheduling else []), *([POD_GROUPS] if groups else [])]
    grouping += [COMPOSITE_POD_GROUPS] if composite_groups else []
    offered = [
        kind._replace(served=catalogue.in_version(kind.served, apis.get(kind.served.plural, "")))
        for kind in (*AROUND_PODS, *STORAGE, *rules, *DEVICES, *grouping)
    ]
    kinds = [kind for kind in offered if kind.always or kind.event in events or kind.served.plural in needed]
    known = {kind.served.dotted: place for place, kind in enumerate(kinds)}
    for name in events:
        if name in _BUILT_IN:
            continue
        served = custom_resource(name)
        place = known.get(served.dotted)
        if place is None:
            place = known[served.dotted] = len(kinds)
            kinds.append(next((one for one in offered if one.served == served), _custom(served, name)))
        if not kinds[place].event:
            kinds[place] = kinds[place]._replace(event=name)
    return kinds


def needed_objects(frameworks: Iterable[Framework]) -> set[str]:
    """The resources whose objects plugins of any profile look up, by plural."""
    plugins = [plugin for framework in frameworks for plugin in framework.plugins.values()]
    return {plural for plugin in plugins for plural in plugin.contract.needs}


def custom_resource(name: str) -> Served:
    """The resource that `<plural>.<version>.<group>` names, `<plural>.<version>.` in the core group."""
    parts = name.split(".", 2)
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise ValueError(f"event resource {name!r}: expected <plural>.<version>.<group>")
    plural, version, group = parts
    found = next((known for known in catalogue.BUILT_IN if known.dotted == name), None)
    return found or Served(group, version, plural, "", custom=True)


def _custom(served: Served, name: str) -> Watched:
    return Watched(served, AnyObject, name, _UNHEARD)


UNFINISHED: Final = Selection(
    fields=tuple(FieldTerm("status.phase", phase, equal=False) for phase in ("Succeeded", "Failed"))
)
"""Pods that can still hold a node: one that has finished looks as if it were deleted."""


def _handler(kind: Watched, dispatcher: Dispatcher) -> ObjectEventHandler | GroupEventHandler:
    dispatcher = dispatcher.of(kind.served)
    if issubclass(kind.cls, GroupObject):
        return GroupEventHandler(dispatcher)
    return ObjectEventHandler(dispatcher, kind.event)


class Informers:
    """Reflectors for all kinds, and the pods they know.

    `report` receives problems, `inform` their ends; `unreadable` is called for objects that cannot be read.
    `see_pod` transforms pods on arrival. `wrap` gets the name of each resource and its event handler, and
    returns the handler to call.
    """

    def __init__(
        self,
        reader: Reader,
        dispatcher: Dispatcher,
        kinds: Iterable[Watched],
        *,
        clock: Clock,
        rng: Random,
        report: Callable[[str], None],
        unreadable: Callable[[Served, Unreadable], None] | None = None,
        inform: Callable[[str], None] = lambda text: None,
        wrap: Callable[[str, Handler[Any]], Handler[Any]] | None = None,
        see_pod: Callable[[Pod], Pod] | None = None,
    ) -> None:
        def reflector(
            kind: Watched,
            handler: Any,
            selection: Selection = EVERY_OBJECT,
            transform: Callable[[Any], Any] | None = None,
        ) -> Reflector[Any]:
            return Reflector(
                reader,
                kind.served,
                kind.cls,
                handler if wrap is None else wrap(kind.served.dotted, handler),
                clock=clock,
                rng=rng,
                report=report,
                unreadable=unreadable,
                selection=selection,
                stream=reader.streams(kind.served),
                without=kind.without,
                inform=inform,
                transform=transform,
            )

        self.pods: Reflector[Pod] = reflector(
            PODS, PodEventHandler(dispatcher.of(PODS.served)), UNFINISHED, see_pod
        )
        self.nodes: Reflector[Node] = reflector(NODES, NodeEventHandler(dispatcher.of(NODES.served)))
        by_kind = [(kind, reflector(kind, _handler(kind, dispatcher))) for kind in kinds]
        self.others = [one for _, one in by_kind]
        self._by_event: dict[str, Reflector[Any]] = {
            PODS.event: self.pods,
            NODES.event: self.nodes,
            **{kind.event or kind.served.kind: one for kind, one in by_kind},
        }

    def resource_versions(self) -> dict[tuple[str, ...], str]:
        """Up to which resource version each resource is known, by group, version and plural."""
        return {
            (one.resource.group, one.resource.version, one.resource.plural): one.resource_version
            for one in self.all
        }

    def unreadable_counts(self) -> dict[tuple[str, ...], int]:
        """Number of unreadable objects by resource."""
        return {(one.resource.qualified,): len(one.unreadable) for one in self.all}

    @property
    def all(self) -> list[Reflector[Any]]:
        """Every reflector: what pods are placed by comes before the pods."""
        return [*self.others, self.nodes, self.pods]

    async def synced(self) -> None:
        """Wait until everything that exists has been received, except kinds that the server refuses.

        Nodes and pods are waited for in any case. A server that has just started may refuse everything at
        first; so refused kinds are requested once more when nodes and pods are there.
        """
        await self.nodes.wait_synced()
        await self.pods.wait_synced()
        for reflector in self.others:
            reflector.ask_again()
        for reflector in self.others:
            await reflector.wait_settled()

    def objects(self, kind: str) -> Mapping[str, Object]:
        """Known objects of a kind, named as in events. Raises LookupError if it is not watched."""
        found = self._by_event.get(kind)
        if found is None:
            raise LookupError(f"objects of kind {kind!r} are not watched: register for its events")
        return found.objects

    def pod(self, key: str) -> Pod | None:
        return self.pods.objects.get(key)
