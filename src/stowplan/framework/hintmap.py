"""Which plugins of a profile hear of which events, and what they have to say about them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, HintFunction, Resource
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.framework.plugin import Plugin, points_of
from stowplan.framework.points import Point

EXTENDER: Final = "Extender"
"""Stands among the plugins that rejected a pod for extenders that did; it hears of everything."""

_REJECTING: Final = frozenset(
    (Point.PRE_ENQUEUE, Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PERMIT)
)
"""Points where a plugin can reject a pod. Nobody asks other plugins for events."""

_EVERYTHING: Final = (
    Resource.POD,
    Resource.NODE,
    Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.CSI_NODE,
    Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY,
    Resource.STORAGE_CLASS,
    Resource.RESOURCE_CLAIM,
    Resource.DEVICE_CLASS,
)

_NODE_TAINT: Final = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


class Answer(NamedTuple):
    """What a hint said; with an error the hint counts as QUEUE."""

    hint: Hint
    error: str | None = None

    @property
    def label(self) -> str:
        """What metrics call it: `Queue`, `QueueSkip` or `Error`."""
        return "Error" if self.error is not None else self.hint.value


ALWAYS: Final = Answer(Hint.QUEUE)


class Registered(NamedTuple):
    """One plugin's interest in one event."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None = None
    by_template: bool = True

    def ask(self, pod: PodInfo, old: Any, new: Any) -> Answer:
        """What the plugin thinks an event means for a pod. A hint that fails says try again."""
        if self.hint is None:
            return ALWAYS
        try:
            return Answer(self.hint(pod, old, new))
        except Exception as cause:  # noqa: BLE001 - no plugin may keep a pod waiting by failing
            return Answer(Hint.QUEUE, str(cause) or type(cause).__name__)


ByPlugin = Mapping[str, Sequence[Registered]]


class HintMap:
    """All registrations of a profile, found by event."""

    __slots__ = ("_matching", "registered")

    def __init__(self, registered: Iterable[Registered]) -> None:
        self.registered = tuple(registered)
        self._matching: dict[ClusterEvent, ByPlugin] = {}

    def matching(self, event: ClusterEvent) -> ByPlugin:
        """The registrations that an incoming event reaches, by plugin."""
        found = self._matching.get(event)
        if found is None:
            by_plugin: dict[str, list[Registered]] = {}
            for entry in self.registered:
                if entry.event.hears(event):
                    by_plugin.setdefault(entry.plugin, []).append(entry)
            found = self._matching[event] = by_plugin
        return found

    def by_event(self) -> dict[ClusterEvent, list[str]]:
        """Plugins by the event they registered for."""
        found: dict[ClusterEvent, list[str]] = {}
        for entry in self.registered:
            found.setdefault(entry.event, []).append(entry.plugin)
        return found

    def watched(self) -> dict[str, Action]:
        """What has to be watched: all actions anybody registered for, by kind of object."""
        found: dict[str, Action] = {}
        for entry in self.registered:
            event = entry.event
            found[event.resource] = found.get(event.resource, Action(0)) | event.action
        return found


def build_hint_map(
    plugins: Iterable[Plugin], gates: FeatureGates = DEFAULT_GATES, *, extenders: bool = False
) -> HintMap:
    """The hint map of a profile with these plugins; `extenders`: it has extenders, too."""
    everything = _everything(gates)
    registered: list[Registered] = []
    if extenders:
        registered += _registered(EXTENDER, everything)
    for plugin in plugins:
        if points_of(type(plugin)) & _REJECTING:
            events: Any = getattr(plugin, "events", None)
            registered += _registered(plugin.name, everything if events is None else tuple(events()))
    return HintMap(registered)


def _everything(gates: FeatureGates) -> tuple[EventRegistration, ...]:
    """What a plugin hears of that does not say what it wants to hear of."""
    resources = (*_EVERYTHING, Resource.POD_GROUP) if gates["GenericWorkload"] else _EVERYTHING
    return tuple(EventRegistration(ClusterEvent(resource, Action.ALL)) for resource in resources)


def _registered(plugin: str, events: Sequence[EventRegistration]) -> list[Registered]:
    """The registrations of a plugin.

    Whoever registers for new nodes without registering for taints hears of taints all the same, and always
    says try again: in Kubernetes a new node can be noticed first when its taints go away.
    """
    found = [
        Registered(plugin, entry.event, entry.hint, entry.by_template or entry.hint is None)
        for entry in events
    ]
    about_nodes = Action(0)
    for entry in events:
        if entry.event.resource == Resource.NODE:
            about_nodes |= entry.event.action
    if about_nodes & Action.ADD and not about_nodes & Action.UPDATE_NODE_TAINT:
        found.append(Registered(plugin, _NODE_TAINT))
    return found
