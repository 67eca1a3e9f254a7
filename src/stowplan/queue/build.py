"""Puts a queue together from the profiles it serves."""

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.api.pod import Pod
from stowplan.clock import Clock
from stowplan.framework.framework import Framework
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.framework.hintmap import build_hint_map
from stowplan.framework.points import Point
from stowplan.logs import Journal
from stowplan.queue.backoff import SECOND, Backoff
from stowplan.queue.instrument import QueueInstrument
from stowplan.queue.places import ProfileRules, SortKey
from stowplan.queue.scheduling_queue import LONGEST_WAIT, SchedulingQueue


def queue_for(
    frameworks: Sequence[Framework],
    clock: Clock,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    initial_backoff: float = 1,
    max_backoff: float = 10,
    longest_wait: float = LONGEST_WAIT,
    extenders: bool = False,
    find: Callable[[str], Pod | None] | None = None,
    instrument: QueueInstrument | None = None,
    journal: Journal | None = None,
) -> SchedulingQueue:
    """A queue for profiles on one table. All sort it alike, so the first one's plugin does.

    Times are in seconds: `podInitialBackoffSeconds`, `podMaxBackoffSeconds` and
    `--pod-max-in-unschedulable-pods-duration`. `extenders`: the scheduler has some.
    """
    early = gates["SchedulerPopFromBackoffQ"]
    window = Backoff().window if early else 1
    return SchedulingQueue(
        clock,
        frameworks[0].table.info,
        {
            framework.profile.scheduler_name: rules_of(framework, gates, extenders=extenders)
            for framework in frameworks
        },
        _sort_key(frameworks[0]),
        backoff=Backoff(round(initial_backoff * SECOND), round(max_backoff * SECOND), window),
        longest_wait=longest_wait,
        find=find,
        instrument=instrument,
        early=early,
        groups=gates["GenericWorkload"],
        journal=journal,
    )


def rules_of(
    framework: Framework, gates: FeatureGates = DEFAULT_GATES, *, extenders: bool = False
) -> ProfileRules:
    """What the queue needs to know of a profile. Plugins without PreEnqueue of their own hold nobody back."""
    hints = build_hint_map(framework.plugins.values(), gates, extenders=extenders)
    asking = [plugin for plugin in framework.at(Point.PRE_ENQUEUE) if hasattr(plugin, "pre_enqueue")]
    return ProfileRules(hints, asking)


def _sort_key(framework: Framework) -> SortKey:
    [sorter] = framework.at(Point.QUEUE_SORT)
    key: Callable[..., Any] = sorter.sort_key  # type: ignore[attr-defined]
    return key
