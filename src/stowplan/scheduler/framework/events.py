"""Cluster events and queueing hints: what happened to which kind of object, and who wants to know."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum, IntFlag, StrEnum
from typing import Any, Final, NamedTuple

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import Behaviour
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin, points_of
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.table.podinfo import PodInfo


class Resource(StrEnum):
    """The kinds of objects that events are about.

    An event about a pod tells if it is on a node (`AssignedPod`), waits for one (`UnscheduledPod`) or is the
    very pod for which the hint is called (`TargetPod`); registering for `Pod` covers all of them.
    `UnschedulablePod` replaces the last two in releases before 1.37. `PodResources` lists those of a release.
    Kinds that are not listed are named `<plural>.<version>.<group>`.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    ANY = "*"


class Action(IntFlag):
    """The action of an event, as bits; the order of the bits matters when events are matched."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    """Taints changed, or the node became schedulable again."""
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    """Some request became smaller."""
    UPDATE_POD_SCALE_UP = 2048
    """Some request became larger."""
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    """The last scheduling gate is gone."""
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    """Any update; in an event: an update that is none of the above."""
    ALL = 32767

    @property
    def label(self) -> str:
        """The name people know, such as `UpdateNodeTaint`; several are joined."""
        known = _LABELS.get(self.value)
        return "|".join(_LABELS[bit] for bit in _BITS if bit & self) if known is None else known

    @classmethod
    def named(cls, label: str) -> "Action":
        """The action people know by a name. Raises ValueError."""
        for value, known in _LABELS.items():
            if known == label:
                return cls(value)
        raise ValueError(f"action {label!r} is not known, expected one of {', '.join(_LABELS.values())}")


_LABELS: Final = {member.value: name.title().replace("_", "") for name, member in Action.__members__.items()}
_BITS: Final = tuple(value for value in _LABELS if value.bit_count() == 1)


_EVENTS: Final[dict[tuple[str, int, str], "ClusterEvent"]] = {}


class ClusterEvent:
    """An event in the cluster, or one that a plugin registers for. `name` replaces the usual label.

    There is one object for each: events are compared and looked up by identity, because every change of the
    cluster creates one, and derived data is computed once. The number of distinct events is small.
    """

    __slots__ = ("action", "is_wildcard", "label", "name", "resource")

    resource: str
    action: Action
    name: str
    label: str
    """Name in logs and metrics, such as `AssignedPodDelete`."""
    is_wildcard: bool
    """True if it is about everything."""

    def __new__(cls, resource: str, action: Action, name: str = "") -> "ClusterEvent":
        event = _EVENTS.get((resource, action, name))
        if event is None:
            event = _EVENTS[resource, action, name] = super().__new__(cls)
            event.resource = resource
            event.action = action
            event.name = name
            event.label = name or f"{resource}{action.label}"
            event.is_wildcard = resource == Resource.ANY and action == Action.ALL
        return event

    def __repr__(self) -> str:
        return f"ClusterEvent({self.label!r})"

    def __reduce__(self) -> tuple[type["ClusterEvent"], tuple[str, Action, str]]:
        return ClusterEvent, (self.resource, self.action, self.name)

    def hears(self, incoming: "ClusterEvent") -> bool:
        """True if a registration for this event covers an incoming one.

        A registration for all updates covers each kind of update. A registration for one kind does not cover
        updates in general, because those are the ones of no known kind.
        """
        if self.is_wildcard:
            return True
        if self.resource not in (incoming.resource, Resource.ANY) and not (
            self.resource == Resource.POD and incoming.resource in _KINDS_OF_PODS
        ):
            return False
        return bool(self.action & incoming.action) and int(incoming.action) <= int(self.action)


_KINDS_OF_PODS: Final = (
    Resource.ASSIGNED_POD,
    Resource.UNSCHEDULED_POD,
    Resource.TARGET_POD,
    Resource.UNSCHEDULABLE_POD,
)

ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_UPDATE: Final = ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE)
NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(Resource.NODE, Action.DELETE)


class PodResources(NamedTuple):
    """Names of pods in the events of a release.

    `unscheduled` and `target` are those of incoming events: another waiting pod, and the waiting pod itself.
    `of_assigned` and `of_target` are those that a plugin registers for pods on nodes, or for the pod it
    rejected. Before 1.37 it registers for all pods, and its hint has to tell them apart.
    """

    unscheduled: Resource
    target: Resource
    of_assigned: Resource
    of_target: Resource

    @property
    def added(self) -> "ClusterEvent":
        """A new pod waits for a node."""
        return ClusterEvent(self.unscheduled, Action.ADD)


_SPLIT: Final = PodResources(
    Resource.UNSCHEDULED_POD, Resource.TARGET_POD, Resource.ASSIGNED_POD, Resource.TARGET_POD
)
_UNSPLIT: Final = PodResources(
    Resource.UNSCHEDULABLE_POD, Resource.UNSCHEDULABLE_POD, Resource.POD, Resource.POD
)


def pod_resources(behaviour: Behaviour) -> PodResources:
    """Names of pods in the events of a release with this behaviour."""
    return _SPLIT if behaviour.queueing.target_pod_events else _UNSPLIT


FORCE_ACTIVATE: Final = ClusterEvent(Resource.ANY, Action.ALL, "ForceActivate")
"""A user asks for a pod to be retried now."""
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.ANY, Action.ALL, "UnschedulableTimeout")
"""A pod has waited for an event long enough."""

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
"""Reasons for a pod to move that are no events of the cluster."""


class Hint(Enum):
    """A hint's answer for an event and a pod that its plugin rejected."""

    QUEUE = "Queue"
    """It may fit now: try again."""
    SKIP = "QueueSkip"
    """Nothing changed for it."""


def queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP


class HintError(Exception):
    """A hint that could not be worked out; the pod is tried again to be on the safe side."""


HintFunction = Callable[[PodInfo, Any, Any], Hint]
"""`hint(pod, old, new)`: the waiting pod, and the event's object before and after.

`old` is None for something new, `new` is None for something that is gone.
"""


class EventKeys(NamedTuple):
    """Keys that an event and a pod must share, at least one of them, for the event to help the pod.

    `of_pod` returns the keys of a waiting pod, from data that all pods of one template share, and its labels;
    `of_event(old, new)` those of an event. None: any pod may be helped by the event, or by any. An event
    about the waiting pod itself need not have its keys.
    """

    of_pod: Callable[[PodInfo], Collection[Hashable] | None]
    of_event: Callable[[Any, Any], Collection[Hashable] | None]


class EventRegistration(NamedTuple):
    """An event that may help pods a plugin rejected. Without a hint it always may.

    `by_template`: the hint only reads data that all pods of one template share, unless the event is about the
    waiting pod itself. It is then called once for all of them.

    `ignores_labels`: moreover, it does not read the labels of the waiting pod. It may be a function of the
    pod, `old` and `new`, which does not read them either. The hint is then called once for all pods that
    differ in labels alone.

    `keys`: the hint returns QUEUE only for pods that share a key with the event, so it is called for no other
    pod.

    `only_claim(old, new)` names the ResourceClaim (`namespace/name`) to whose users the help of the event is
    limited, so that the hint is called for no other pod; None: it may help any.

    `only_group`: the event may only help pods of the group, or tree of groups, that its object is or is a
    member of.
    """

    event: ClusterEvent
    hint: HintFunction | None = None
    by_template: bool = False
    only_claim: Callable[[Any, Any], str | None] | None = None
    only_group: bool = False
    ignores_labels: bool | Callable[[PodInfo, Any, Any], bool] = False
    keys: EventKeys | None = None


def ignoring_labels(
    event: ClusterEvent, hint: HintFunction | None, keys: EventKeys | None = None
) -> EventRegistration:
    """A registration whose hint looks only at what pods of one template share, and not at their labels."""
    return EventRegistration(event, hint, by_template=True, ignores_labels=True, keys=keys)


EXTENDER: Final = "Extender"
"""Stands among the plugins that rejected a pod for extenders that did; it hears of everything."""

_REJECTING: Final = frozenset(
    (
        ExtensionPoint.PRE_ENQUEUE,
        ExtensionPoint.PRE_FILTER,
        ExtensionPoint.FILTER,
        ExtensionPoint.RESERVE,
        ExtensionPoint.PERMIT,
    )
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
    """Result of a hint; with an error the hint counts as QUEUE."""

    hint: Hint
    error: str | None = None

    @property
    def label(self) -> str:
        """Name in metrics: `Queue`, `QueueSkip` or `Error`."""
        return "Error" if self.error is not None else self.hint.value


ALWAYS: Final = Answer(Hint.QUEUE)


class Registered(NamedTuple):
    """One plugin's interest in one event."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None = None
    by_template: bool = True
    only_claim: Callable[[Any, Any], str | None] | None = None
    only_group: bool = False
    ignores_labels: bool | Callable[[PodInfo, Any, Any], bool] = True
    keys: EventKeys | None = None

    def is_blind(self, pod: PodInfo, old: Any, new: Any) -> bool:
        """True if the answer is the same for all pods that differ from this one in labels alone."""
        if not self.by_template:
            return False
        blind = self.ignores_labels
        return blind if isinstance(blind, bool) else blind(pod, old, new)

    def ask(self, pod: PodInfo, old: Any, new: Any) -> Answer:
        """Call the hint for an event and a pod. A hint that fails counts as QUEUE."""
        if self.hint is None:
            return ALWAYS
        try:
            return Answer(self.hint(pod, old, new))
        except Exception as cause:  # noqa: BLE001 - no plugin may keep a pod waiting by failing
            return Answer(Hint.QUEUE, str(cause) or type(cause).__name__)


ByPlugin = Mapping[str, Sequence[Registered]]


class HintMap:
    """All registrations of a profile, found by event."""

    __slots__ = ("_keys", "_matching", "registered")

    def __init__(self, registered: Iterable[Registered]) -> None:
        self.registered = tuple(registered)
        self._keys: dict[str, dict[EventKeys, None]] = {}
        for entry in self.registered:
            if entry.keys is not None:
                self._keys.setdefault(entry.plugin, {})[entry.keys] = None
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

    def keys_of(self, plugin: str) -> Collection[EventKeys]:
        """The keys by which the hints of a plugin find pods."""
        return self._keys.get(plugin, ())

    def by_event(self) -> dict[ClusterEvent, list[str]]:
        """Plugins by the event they registered for."""
        found: dict[ClusterEvent, list[str]] = {}
        for entry in self.registered:
            found.setdefault(entry.event, []).append(entry.plugin)
        return found

    def watched(self) -> dict[str, Action]:
        """All registered actions by kind of object: these have to be watched."""
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
    wakes_by_taints = gates.behaviour.queueing.taint_hint_for_new_nodes
    registered: list[Registered] = []
    if extenders:
        registered += _registered(EXTENDER, everything, wakes_by_taints)
    for plugin in plugins:
        if points_of(type(plugin)) & _REJECTING:
            events: Any = getattr(plugin, "events", None)
            wanted = everything if events is None else _registrations(plugin, events)
            registered += _registered(plugin.name, wanted, wakes_by_taints)
    return HintMap(registered)


def _registrations(plugin: Plugin, events: Callable[[], Any]) -> tuple[EventRegistration, ...]:
    """Events that a plugin registers for. Raises ProfileError."""
    try:
        found = tuple(events())
    except Exception as cause:
        raise ProfileError(
            f'initializing plugin "{plugin.name}": events: {type(cause).__name__}: {cause}'
        ) from cause
    for one in found:
        if not isinstance(one, EventRegistration):
            raise ProfileError(
                f'initializing plugin "{plugin.name}": events: expected EventRegistrations, got {one!r:.80}'
            )
    return found


def _everything(gates: FeatureGates) -> tuple[EventRegistration, ...]:
    """Registrations of a plugin that does not list its events."""
    with_groups = gates.coscheduling or gates["GenericWorkload"]
    resources = (*_EVERYTHING, Resource.POD_GROUP) if with_groups else _EVERYTHING
    return tuple(EventRegistration(ClusterEvent(resource, Action.ALL)) for resource in resources)


def _registered(plugin: str, events: Sequence[EventRegistration], wakes_by_taints: bool) -> list[Registered]:
    """The registrations of a plugin.

    With `wakes_by_taints`, a plugin that registers for new nodes but not for taints is registered for taints
    too, without a hint: a new node could be noticed first when its taints are removed.
    """
    found = [
        Registered(
            plugin,
            entry.event,
            entry.hint,
            entry.by_template or entry.hint is None,
            entry.only_claim,
            entry.only_group,
            entry.ignores_labels or entry.hint is None,
            entry.keys if entry.hint is not None else None,
        )
        for entry in events
    ]
    if not wakes_by_taints:
        return found
    about_nodes = Action(0)
    for entry in events:
        if entry.event.resource == Resource.NODE:
            about_nodes |= entry.event.action
    if about_nodes & Action.ADD and not about_nodes & Action.UPDATE_NODE_TAINT:
        found.append(Registered(plugin, _NODE_TAINT))
    return found
