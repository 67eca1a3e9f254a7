"""The plugin interface: the base class, arguments and results of methods, and the handle to the scheduler.

A plugin is a class. It takes part in an extension point by having that point's method; protocols.py has the
signature of every one. Filter and Score can be written two ways:

*by column*, over many rows at once, for speed::

    def filter(self, cycle, pod, nodes) -> codes       # 0: passes; else a number that `reason` explains
    def score(self, cycle, pod, nodes) -> scores       # int64, one per row

*by node*, one node at a time, for ten readable lines::

    def filter_node(self, cycle, pod, node) -> Status | None
    def score_node(self, cycle, pod, node) -> int

Reuse between pods is declared, never guessed:

* `sign(pod)` returns everything the plugin reads of the pod. Pods with equal signatures form an equivalence
  class. Without it no result of this plugin is reused.
* `contract` lists the parts of a row that the plugin reads (`reads`); results are refreshed in rows where
  those changed.
* A plugin whose answer for a row also depends on other rows (`reads_others`) names the rows that changed with
  `stale_filter_rows` / `stale_score_rows`, which get the plugin's PreFilter or PreScore state (or
  the result of its `score_basis`) then and now; without these all rows are evaluated again.
"""

import warnings
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from random import Random
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

import numpy as np
import numpy.typing as npt

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.releases import Behaviour, Release
from stowplan.client import Client
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.budget import standing_still
from stowplan.scheduler.framework.contract import Contract, Reads, with_attributes
from stowplan.scheduler.framework.explanation import Choice
from stowplan.scheduler.framework.held_pods import AwaitedDeletions
from stowplan.scheduler.framework.known_objects import Lookup, TypedObjects
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from stowplan.scheduler.framework import protocols
    from stowplan.scheduler.framework.cycle_state import Cycle

    Args = TypeVarWithDefault("Args", default=Any)
    """Type of a plugin's arguments. `Plugin` alone is one whose arguments are a map."""
else:
    Args = TypeVar("Args")

T = TypeVar("T")


class ExtensionPoint(StrEnum):
    """A place in the scheduling of a pod where plugins are called; the value is its name in a config.

    The order is that in which plugin lists are resolved when a profile is built, so with several
    mistakes in a configuration it decides which one is reported.
    """

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"

    @property
    def type_name(self) -> str:
        """The name of the plugin type in error messages, such as `PreFilterPlugin`."""
        return f"{self.value[0].upper()}{self.value[1:]}Plugin"

    @property
    def is_weighted(self) -> bool:
        """True if plugins have weights here."""
        return self in (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)


MULTI_POINT = "multiPoint"
"""The section of a config that enables plugins at every point they implement."""


class Services(Protocol):
    """Services of a running scheduler for its plugins. Everything is on the scheduler's event loop."""

    @property
    def client(self) -> Client:
        """The API server."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def logger(self) -> Logger:
        """The log. Ask `logger.enabled(level)` before putting a message together on the way of every pod."""
        ...

    @property
    def waiting(self) -> WaitingPods:
        """Pods of all profiles that wait at Permit, to be allowed or rejected."""
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Requeue pods now that wait in the queue."""
        ...

    def pod(self, key: str) -> Pod | None:
        """A pod as the informer last saw it, by `namespace/name`."""
        ...

    @property
    def deletions(self) -> AwaitedDeletions:
        """Pods whose deletion plugins wait to be told of."""
        ...

    def objects(self, kind: str) -> Mapping[str, Object]:
        """The objects of a kind as their informer last saw them, by `namespace/name`.

        Kinds are named as in events: `<plural>.<version>.<group>` for those that are not built in, which come
        as `AnyObject`. Raises LookupError for a kind that no plugin registered for.
        """
        ...

    async def in_turn(self, pod: Pod) -> None:
        """Go on when it is this pod's turn: at once, but for a replay, where it was then.

        For work in the background before what Unreserve asks about: whether it came before or after has to be
        the same in a replay.
        """
        ...

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod, in the name of its profile."""
        ...

    async def dispatch_binding(self, pod: Pod, send: Callable[[], Awaitable[None]]) -> None:
        """Send the binding of a pod when no other call about it is being executed, and wait for it.

        With the feature gate SchedulerAsyncAPICalls it goes through the queue of calls, and takes the place
        of what has not been sent yet; without, it is sent at once.
        """
        ...

    def count_volume_error(self, operation: str) -> None:
        """Volumes of a pod could not be looked for, reserved or bound: `predicate`, `assume`, `bind`."""
        ...

    @property
    def device_metrics(self) -> "DeviceMetrics":
        """Where dynamic resource allocation is counted."""
        ...


class DeviceMetrics:
    """Counters for devices; this base class counts nothing."""

    def claim_created(self, created: bool) -> None:
        """A ResourceClaim was created, or could not be."""

    def waited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Waiting for binding conditions ended: `success`, `failure`, `timeout` or `error`."""

    def allocated(self, profile: str, driver: str, status: str) -> None:
        """A device with binding conditions was waited for, with that outcome."""


Codes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.int64]

AnyCodes = npt.NDArray[np.integer[Any] | np.bool_]
"""Result of `filter`: comparisons give booleans, and these are codes, too."""
AnyScores = npt.NDArray[np.integer[Any]]
"""Result of `score`: some columns are narrower than 64 bits."""

MAX_NODE_SCORE = 100

IGNORED = int(np.iinfo(np.int64).min)
"""A raw score that means "not scored": it stays out of the extremes, and the plugin's `normalize` sees it."""

_UNSIGNED: dict[Any, Any] = {np.dtype(np.int64): np.uint64, np.dtype(np.int32): np.uint32}


def as_unsigned(scores: Scores) -> "npt.NDArray[np.uint64]":
    """Scores without their sign: negative ones are higher than all others then."""
    unsigned = _UNSIGNED.get(scores.dtype)
    seen: npt.NDArray[np.uint64] = (
        scores.astype(np.int64).view(np.uint64) if unsigned is None else scores.view(unsigned)
    )
    return seen


def highest_score(scores: Scores) -> int:
    """The highest of scores without their sign: 0 if all are 0."""
    highest: int = np.maximum.reduce(as_unsigned(scores), initial=0)
    return highest


def all_in_range(scores: Scores) -> bool:
    """True if scores are 0 to 100."""
    return bool(highest_score(scores) <= MAX_NODE_SCORE)


_serials = count()


class Unsigned:
    """The type of UNSIGNED."""

    def __repr__(self) -> str:
        return "UNSIGNED"


UNSIGNED = Unsigned()
"""Result of `sign` for a plugin that cannot list what it reads: none of its results are reused."""


class AllRows:
    """The type of ALL_ROWS."""

    def __repr__(self) -> str:
        return "ALL_ROWS"


ALL_ROWS = AllRows()
"""Every row may have changed."""


class PreFilterResult(NamedTuple):
    """The only nodes worth looking at, by name."""

    node_names: frozenset[str]


class Wait(NamedTuple):
    """Result of `permit` that keeps a pod waiting, at most for `seconds` (limited to 15 minutes)."""

    seconds: float


class Victims(NamedTuple):
    """Pods that would have to be evicted from a node, the most important first.

    `violations` counts those that a disruption budget protects.
    """

    pods: tuple[Pod, ...]
    violations: int


_NO_CANDIDATES: Mapping[str, Victims] = {}


class PostFilterResult(NamedTuple):
    """Result of a PostFilter plugin.

    `nominated_node` is the node the pod is nominated to, "" to clear a nomination, None to leave it as it is.
    `victims` are the pods to evict. A plugin with neither returns its status alone. `candidates` are the
    nodes to choose from and `ties` those as good as the chosen one, including it. `writes` are the plugin's
    writes to the API server: a running scheduler calls and awaits each, a dry run does not. An error status
    that one returns makes the result `write_failed`. `choice` explains why this candidate was chosen.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    candidates: Mapping[str, Victims] = _NO_CANDIDATES
    ties: tuple[str, ...] = ()
    writes: tuple[Callable[[], Awaitable[Status | None]], ...] = ()
    choice: Choice | None = None
    write_failed: bool = False


PREEMPTION_PREFIX = "preemption: "
"""How the reasons of preemption begin in messages, whichever plugin gives them."""

Steps = Generator[None, None, PostFilterResult]
"""A search in steps: at each `yield` the scheduler may let others run; what it returns is the result."""


class ScoreRange(NamedTuple):
    """Lowest and highest raw score over the feasible nodes that count."""

    low: int
    high: int


class NoSchedulerError(LookupError):
    """A plugin used the services of a running scheduler where decisions are only computed."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A plugin's view of its scheduler. `rng` is the only source of randomness a plugin may use.

    `services` are those of a running scheduler. There are none where decisions are only computed, as in a
    what-if; a plugin that needs them then fails when it has to act.

    `timer` returns the current time in seconds, for `Budget`; without a running scheduler time stands still.
    """

    table: ClusterTable
    gates: FeatureGates
    rng: Random = field(default_factory=lambda: Random(0))
    services: Services | None = None
    timer: Callable[[], float] = standing_still
    lookup: Lookup | None = None
    """Objects by kind, where there are no informers."""
    _read: dict[tuple[str, type[Any]], dict[str, tuple[Object, Any]]] = field(default_factory=dict)

    @overload
    def objects(self, kind: str) -> Mapping[str, Object]: ...

    @overload
    def objects(self, kind: str, cls: type[T]) -> Mapping[str, T]: ...

    def objects(self, kind: str, cls: type[Any] | None = None) -> Mapping[str, Any]:
        """The objects of a kind as their informer last saw them, by `namespace/name`.

        Kinds are named as in events. Custom resources are an `AnyObject`, with all fields in `data`, or with
        `cls` a dataclass or Struct that has the fields the plugin reads. Raises LookupError for a kind that
        no plugin registered for.
        """
        found = (self.scheduler.objects if self.lookup is None else self.lookup)(kind)
        if cls is None or issubclass(cls, Object):
            return found
        return TypedObjects(found, cls, self._read.setdefault((kind, cls), {}))

    @property
    def release(self) -> Release:
        """The release of Kubernetes that the scheduler is."""
        return self.gates.release

    @property
    def behaviour(self) -> Behaviour:
        """The choices of the release where rules differ. A plugin picks its variant when it is made."""
        return self.gates.release.behaviour

    @property
    def scheduler(self) -> Services:
        """The services of the running scheduler. Raises LookupError if there is none."""
        if self.services is None:
            raise NoSchedulerError("this needs a running scheduler")
        return self.services


_NOBODY: Final[AbstractSet[str]] = frozenset()


class Plugin(Generic[Args]):
    """Base of all plugins. See protocols.py for the methods to add.

    `Plugin[PriceArgs]` is a plugin whose arguments are a `PriceArgs`: a dataclass or a msgspec Struct.
    """

    name: ClassVar[str] = ""
    """Defaults to the name of the class."""

    args_type: ClassVar[type[Any] | None] = None
    """The dataclass or msgspec Struct that `Plugin[…]` names; None: the arguments arrive as a plain dict."""

    contract: Contract = Contract()
    """The plugin's promises, which allow reuse of its answers. Read when a profile is built."""

    if TYPE_CHECKING:
        # A plugin has the methods of its extension points only. Type checkers see all of them here, so that
        # they compare the signatures of a plugin that does not name the protocols.
        pre_enqueue = protocols.PreEnqueuePlugin.pre_enqueue
        sort_key = protocols.QueueSortPlugin.sort_key
        events = protocols.EventsToRegister.events
        pre_filter = protocols.PreFilterPlugin.pre_filter
        filter = protocols.FilterPlugin.filter
        filter_node = protocols.FilterNodePlugin.filter_node
        post_filter = protocols.PostFilterPlugin.post_filter
        pre_score = protocols.PreScorePlugin.pre_score
        score = protocols.ScorePlugin.score
        score_node = protocols.ScoreNodePlugin.score_node
        normalize = protocols.NormalizeScore.normalize
        reserve = protocols.ReservePlugin.reserve
        unreserve = protocols.ReservePlugin.unreserve
        permit = protocols.PermitPlugin.permit
        pre_bind_pre_flight = protocols.PreBindPreFlightPlugin.pre_bind_pre_flight
        pre_bind = protocols.PreBindPlugin.pre_bind
        bind = protocols.BindPlugin.bind
        post_bind = protocols.PostBindPlugin.post_bind

    def __init__(self, args: Args, handle: Handle) -> None:
        self.args: Args = args
        self.handle = handle
        self.serial = next(_serials)
        """Tells this plugin object from every other, for what is kept under its name elsewhere."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        if "pre_enqueue" in cls.__dict__ and "always_enqueues" not in cls.__dict__:
            cls.always_enqueues = Plugin.always_enqueues  # type: ignore[method-assign]
        own = cls.__dict__
        if "args_type" not in own:
            cls.args_type = _named_args_type(cls)
        if not isinstance(cls.contract, Contract):
            raise TypeError(f"{cls.__name__}.contract: expected a Contract, got {cls.contract!r}")
        if "sort_key" in own and "contract" not in own and cls.contract.sorts_by_priority:
            cls.contract = replace(cls.contract, sorts_by_priority=False)
        contract = with_attributes(cls.contract, own)
        if contract is not cls.contract:
            warnings.warn(f"{cls.__name__}: declare {contract}", DeprecationWarning, stacklevel=2)
            cls.contract = contract

    def sign(self, pod: PodInfo) -> Hashable | Unsigned:
        """Everything this plugin reads of the pod, as a hashable value."""
        return UNSIGNED

    def reason(self, cycle: "Cycle", pod: PodInfo, code: int) -> Status:
        """Status of a non-zero code of `filter`. Called only when the reason is needed.

        A code below zero (see `Contract.can_fail`) means an error: its status is an error, with the message
        to report.
        """
        raise LookupError(f"plugin {self.name!r} has no reason for code {code}")

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Does a node that this filter passes always pass when pods are taken off it?

        Asked only of filters that look at pods. Where the answer is yes preemption judges many nodes at once.
        """
        return False

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        """True if this filter's result for a node is the same with and without some other pods there,
        whichever pods are there besides.

        Called only for filters that look at pods. If it returns True, nominated pods need not be put on the
        node to find out.
        """
        return False

    def held_pods(self) -> AbstractSet[str]:
        """Uids of pods that `pre_enqueue` is sure to reject again, for the same reason as last time.

        The queue does not call it again for these when an event comes, only for others. Of a `HeldPods` the
        queue reads only those released since the last event.
        """
        return _NOBODY

    def always_enqueues(self, pod: PodInfo) -> bool:
        """True if `pre_enqueue` always accepts a pod, as long as the pod does not change.

        It is then not called. Only pods that are among `held_pods` at the time may be rejected nevertheless.
        A class that overrides `pre_enqueue` has to override this as well.
        """
        return False

    def release(self, memo: Any) -> None:
        """Give back what was kept for a class of pods that is no longer needed."""

    def drop_stale(self) -> None:
        """Free what is kept of objects that are gone.

        A scheduler calls this every 30 s: what a plugin would only notice at the next pod that needs it would
        stay in memory until then.
        """

    def close(self) -> None:
        """The scheduler stops: give back what the plugin holds."""


def _named_args_type(cls: type[Plugin]) -> type[Any] | None:
    """The X of `Plugin[X]` among the bases of a class, or that of the class it extends."""
    for base in cls.__dict__.get("__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Plugin):
            for found in get_args(base):
                if isinstance(found, type):
                    return found
                if not isinstance(found, TypeVar):
                    raise TypeError(f"{cls.__name__}: expected Plugin[A dataclass or Struct], got {base}")
    return cls.args_type


_METHODS: dict[ExtensionPoint, tuple[str, ...]] = {
    ExtensionPoint.PRE_ENQUEUE: ("pre_enqueue",),
    ExtensionPoint.QUEUE_SORT: ("sort_key",),
    ExtensionPoint.PRE_FILTER: ("pre_filter",),
    ExtensionPoint.FILTER: ("filter", "filter_node"),
    ExtensionPoint.POST_FILTER: ("post_filter",),
    ExtensionPoint.PRE_SCORE: ("pre_score",),
    ExtensionPoint.SCORE: ("score", "score_node"),
    ExtensionPoint.RESERVE: ("reserve",),
    ExtensionPoint.PERMIT: ("permit",),
    ExtensionPoint.PRE_BIND: ("pre_bind",),
    ExtensionPoint.BIND: ("bind",),
    ExtensionPoint.POST_BIND: ("post_bind",),
    ExtensionPoint.PLACEMENT_GENERATE: ("generate_placements",),
    ExtensionPoint.PLACEMENT_SCORE: ("score_placements", "score_placement"),
    ExtensionPoint.POD_GROUP_POST_FILTER: ("pod_group_post_filter",),
}


def points_of(cls: type[Plugin]) -> frozenset[ExtensionPoint]:
    """The extension points a plugin class takes part in: those whose method it has."""
    return frozenset(
        point for point, methods in _METHODS.items() if any(hasattr(cls, method) for method in methods)
    )


class Traits:
    """Facts about a plugin that the runtime needs at every call, looked up once."""

    __slots__ = (
        "by_node_filter",
        "by_node_score",
        "can_fail",
        "constant_normalize",
        "filter_copies",
        "filter_row",
        "filter_row_with_pods",
        "normalized_zero",
        "normalizes",
        "reads_node",
        "reads_usage",
        "row_local",
        "score_basis",
        "score_row",
        "scores_only_if_filtering",
        "stale_filter_rows",
        "stale_score_rows",
        "trusted",
        "watches",
    )

    def __init__(self, plugin: Plugin, *, trusted: bool) -> None:
        contract = plugin.contract
        self.trusted = trusted
        """Part of this project: it copes with rows of deleted nodes and does not write to its arguments."""
        self.reads_node = bool(contract.reads & Reads.NODE)
        self.reads_usage = bool(contract.reads & Reads.USAGE)
        self.row_local = contract.row_local
        self.watches = contract.watches_pods
        """Its answers can change although no node did."""
        self.can_fail = contract.can_fail
        self.constant_normalize = contract.constant_normalize
        self.scores_only_if_filtering = contract.scores_only_if_filtering
        self.by_node_filter = not hasattr(plugin, "filter")
        self.by_node_score = not hasattr(plugin, "score")
        self.normalizes = hasattr(plugin, "normalize")
        self.normalized_zero: int | None = None
        """Result of `normalize` for raw scores that are all 0, once it is known and constant."""
        self.filter_row_with_pods: Callable[..., int] | None = getattr(plugin, "filter_row_with_pods", None)
        self.filter_row: Callable[..., int] | None = getattr(plugin, "filter_row", None)
        self.filter_copies: Callable[..., Scores | None] | None = getattr(plugin, "filter_copies", None)
        self.score_row: Callable[..., int] | None = getattr(plugin, "score_row", None)
        self.score_basis: Callable[..., Any] | None = getattr(plugin, "score_basis", None)
        self.stale_filter_rows: Callable[..., StaleRows] = getattr(plugin, "stale_filter_rows", _all_rows)
        self.stale_score_rows: Callable[..., StaleRows] = getattr(plugin, "stale_score_rows", _all_rows)


def _all_rows(*_: Any) -> AllRows:
    return ALL_ROWS


StaleRows = Rows | AllRows

FEW_ROWS = 16
"""Up to this many changed rows are gone through one by one."""
