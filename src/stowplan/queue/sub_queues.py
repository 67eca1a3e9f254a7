"""The parts of the queue (active, backoff, unschedulable), how a pod moves between them, and PreEnqueue."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from stowplan.clock import Clock
from stowplan.framework.events import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE, HintMap
from stowplan.framework.interface import Plugin
from stowplan.framework.status import SUCCESS, Code, Status, error
from stowplan.logs import Logger, Ref
from stowplan.queue.backoff import Backoff, BackoffQueue
from stowplan.queue.heap import KeyedHeap
from stowplan.queue.instrument import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, Hooks
from stowplan.queue.nominator import Nominator
from stowplan.queue.queued_pod import QueuedPod
from stowplan.queue.unschedulable_pods import UnschedulablePods


def run_pre_enqueue(plugins: Sequence[Plugin], queued: QueuedPod, hooks: Hooks) -> None:
    """Ask plugins whether a pod may be tried, first the one that held it back last time.

    The first that says no is noted with the pod as its gate and among the plugins that rejected it. A plugin
    that fails keeps the pod back, too.
    """
    gating, pod = queued.gating_plugin, queued.pod
    queued.gating_plugin = ""
    queued.gate = None
    if not plugins:
        return
    each = hooks.before_pre_enqueue is not None and hooks.before_pre_enqueue(queued)
    for plugin in sorted(plugins, key=lambda plugin: plugin.name != gating) if gating else plugins:
        if each and hooks.before_plugin is not None:
            hooks.before_plugin(plugin.name)
        try:
            answer: object = plugin.pre_enqueue(pod)  # type: ignore[attr-defined]
        except Exception as cause:  # noqa: BLE001 - one plugin's mistake must not stop the queue
            answer = error(f"{type(cause).__name__}: {cause}")
        status = SUCCESS if answer is None else _read(answer)
        if each and hooks.after_plugin is not None:
            hooks.after_plugin(plugin.name, status)
        if status is not SUCCESS and not status.is_success:
            _gate(plugin.name, status, queued, hooks)
            break
    if hooks.after_pre_enqueue is not None:
        hooks.after_pre_enqueue(queued)


def _gate(plugin: str, status: Status, queued: QueuedPod, hooks: Hooks) -> None:
    if hooks.rejected is not None and plugin not in queued.rejectors:
        hooks.rejected(plugin, queued.profile, 1)
    queued.unschedulable_plugins |= {plugin}
    queued.gating_plugin = plugin
    queued.gate = status.by(plugin)


def _read(answer: object) -> Status:
    if isinstance(answer, Status):
        return answer
    return error(f"expected a Status or None, got {type(answer).__name__}")


SortKey = Callable[[QueuedPod], Any]

MOVED: Final = "Pod moved to an internal scheduling queue"
QUEUES: Final = {
    ACTIVE: "Active",
    BACKOFF: "Backoff",
    UNSCHEDULABLE: "Unschedulable",
    GATED: "Unschedulable",
}
"""What the log calls the parts of the queue."""

_RENOMINATING: Final = (UNSCHEDULED_POD_ADD.label, UNSCHEDULED_POD_UPDATE.label)


class AlreadyQueuedError(ValueError):
    """A pod came back from an attempt though it is in the queue."""


class Strategy(Enum):
    """What to do with a pod."""

    SKIP = "Skip"
    """It waits on for an event."""
    AFTER_BACKOFF = "AfterBackoff"
    """It is tried again when its backoff is over."""
    IMMEDIATELY = "Immediately"
    """It is tried again at once."""


class ProfileRules(NamedTuple):
    """What the queue needs to know of a profile: its hints, and its PreEnqueue plugins in order."""

    hints: HintMap
    pre_enqueue: Sequence[Plugin] = ()


class SubQueues:
    """The three places a pod in the queue can be in.

    `early` is the feature gate SchedulerPopFromBackoffQ: a pod may leave the backoff before its time, so
    PreEnqueue plugins are asked when it goes in.
    """

    def __init__(
        self,
        sort_key: SortKey,
        backoff: Backoff,
        longest_wait: float,
        profiles: Mapping[str, ProfileRules],
        clock: Clock,
        nominator: Nominator,
        hooks: Hooks,
        early: bool,
        logger: Logger,
    ) -> None:
        self.active: KeyedHeap[QueuedPod] = KeyedHeap(sort_key)
        self.backoff = BackoffQueue(backoff, sort_key)
        self.unschedulable = UnschedulablePods(longest_wait)
        self._profiles = profiles
        self._clock = clock
        self._nominator = nominator
        self._hooks = hooks
        self._early = early
        self._logger = logger

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable

    def get(self, key: str) -> QueuedPod | None:
        return self.active.get(key) or self.backoff.get(key) or self.unschedulable.get(key)

    def check_absent(self, key: str) -> None:
        """Raises AlreadyQueuedError if a pod is in any of the places."""
        if key in self.unschedulable:
            raise AlreadyQueuedError(f"Pod {key} is already present in unschedulable queue")
        if key in self.active:
            raise AlreadyQueuedError(f"Pod {key} is already present in the active queue")
        if key in self.backoff:
            raise AlreadyQueuedError(f"Pod {key} is already present in the backoff queue")

    def to_active(self, queued: QueuedPod, event: str, *, from_backoff: bool = False) -> bool:
        """Make a pod ready. False if a PreEnqueue plugin holds it back, and then it waits for that plugin."""
        if not (from_backoff and self._early):
            self._ask_pre_enqueue(queued)
        key = queued.key
        if queued.gating_plugin:
            if key not in self.active and key not in self.backoff:
                self._to_gate(queued, event)
            return False
        if queued.first_attempt is None:
            queued.first_attempt = self._clock.monotonic()
        self.unschedulable.remove(key)
        self.backoff.remove(key)
        self.active.put(key, queued)
        self._tell(queued, ACTIVE, event)
        if event in _RENOMINATING:
            self._nominator.add(queued.pod)
        return True

    def to_backoff(self, queued: QueuedPod, event: str) -> bool:
        """Let a pod wait until its backoff is over. False if a PreEnqueue plugin holds it back."""
        if self._early:
            self._ask_pre_enqueue(queued)
            if queued.gated:
                self._to_gate(queued, event)
                return False
        self.unschedulable.remove(queued.key)
        self.backoff.put(queued)
        self._tell(queued, BACKOFF, event)
        return True

    def to_unschedulable(self, queued: QueuedPod, event: str) -> None:
        """Let a pod wait for an event."""
        if self.unschedulable.put(queued):
            self._tell(queued, UNSCHEDULABLE, event)

    def requeue(self, queued: QueuedPod, strategy: Strategy, event: str) -> str:
        """Put a pod where a strategy says; returns the place it is in then."""
        if strategy is Strategy.SKIP:
            self.to_unschedulable(queued, event)
            return UNSCHEDULABLE
        backing_off = self.backoff.is_backing_off(queued, self._clock.monotonic())
        if strategy is Strategy.AFTER_BACKOFF and backing_off:
            return BACKOFF if self.to_backoff(queued, event) else UNSCHEDULABLE
        return ACTIVE if self.to_active(queued, event) else UNSCHEDULABLE

    def _ask_pre_enqueue(self, queued: QueuedPod) -> None:
        rules = self._profiles.get(queued.profile)
        run_pre_enqueue(rules.pre_enqueue if rules else (), queued, self._hooks)
        if queued.gate is not None and queued.gate.code is Code.ERROR:
            self.problem(f'running PreEnqueue plugin "{queued.gating_plugin}"', queued, queued.gate.message)
        if queued.gate is not None and self._logger.enabled(4):
            self._logger.info(
                4,
                "Status after running PreEnqueue plugin",
                pod=Ref(queued.key),
                plugin=queued.gating_plugin,
                status=queued.gate.message,
            )

    def problem(self, message: str, queued: QueuedPod, error: str = "") -> None:
        """Log and count what should not happen; the queue goes on."""
        values = {"err": error} if error else {}
        self._logger.error(message, pod=Ref(queued.key), **values)
        if self._hooks.problem is not None:
            self._hooks.problem(message)

    def _to_gate(self, queued: QueuedPod, event: str) -> None:
        queued.flushed = False
        self.to_unschedulable(queued, event)
        if self._logger.enabled(5):
            why = f"{MOVED}, because the pod is gated"
            self._logger.info(5, why, pod=Ref(queued.key), event=event, queue=QUEUES[GATED])

    def _tell(self, queued: QueuedPod, queue: str, event: str) -> None:
        if self._hooks.incoming is not None:
            self._hooks.incoming(queued, queue, event)
        if self._logger.level >= 5 and queue != UNSCHEDULABLE:
            self._logger.info(5, MOVED, pod=Ref(queued.key), event=event, queue=QUEUES[queue])
