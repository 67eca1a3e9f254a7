"""Shared context of the core's parts: state, time, and reporting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stowplan.api.pod import Pod
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.runtime.logs.tracebacks import formatted
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.cycle.costs import CycleCosts
from stowplan.scheduler.cycle.instrument import Hooks
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.table_freeze import TableFreeze
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue


class Slice(Protocol):
    """The time that the scheduling loop may work at a stretch."""

    @property
    def paused(self) -> float:
        """Seconds that others had so far, while a cycle paused for them."""
        ...

    @property
    def is_over(self) -> bool:
        """True if the loop has to yield to other tasks."""
        ...

    def begin_patience(self) -> None:
        """From now on other pods wait for a search."""
        ...

    @property
    def is_out_of_patience(self) -> bool:
        """True if other pods have waited long enough."""
        ...


@dataclass(slots=True, kw_only=True)
class CycleContext:
    """The parts of one scheduler, as its cycles need them: nothing here can be waited for.

    `find` gives a pod as the informer last saw it, by `namespace/name`. `timer` measures how long things
    take; `clock` says what time it is. `wake` says that a pod may have become ready. `report_event` records
    an event: pod, type, reason, action, note and scheduler name. Of `extenders` a cycle only needs to know
    whether there are any.
    """

    clock: Clock
    timer: Callable[[], float]
    slice: Slice
    logger: Logger
    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPods
    costs: CycleCosts
    find: Callable[[str], Pod | None]
    wake: Callable[[], None]
    report_event: Callable[[Pod, str, str, str, str, str], None]
    extenders: Sequence[object] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    freeze: TableFreeze = field(default_factory=TableFreeze)
    hooks: Hooks = field(default_factory=Hooks)
    """Hooks of the instruments."""

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod in the name of its profile."""
        self.report_event(pod, type, reason, action, note, pod.spec.scheduler_name)

    def unexpected(self, message: str, error: BaseException, *, source: str, **values: object) -> None:
        """Log an unexpected exception with its traceback, and count it. The scheduler continues."""
        if self.hooks.unexpected is not None:
            self.hooks.unexpected(source)
        self.logger.error(message, err=describe(error), traceback=formatted(error), **values)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {error}"
