"""A scheduling queue for the profiles of a scheduler."""

from collections.abc import Callable, Sequence
from functools import partial

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.pod import Pod
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.events import build_hint_map
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.instrument import Hooks, QueueInstrument
from stowplan.scheduler.queue.scheduling_queue import LONGEST_WAIT, SchedulingQueue
from stowplan.scheduler.queue.sub_queues import SECOND, Backoff, ProfileRules


def queue_for(
    frameworks: Sequence[Framework],
    clock: Clock,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    initial_backoff: float = 1,
    max_backoff: float = 10,
    longest_wait: float = LONGEST_WAIT,
    extenders: bool = False,
    wake_failed_groups: bool = False,
    find: Callable[[str], Pod | None] | None = None,
    instrument: QueueInstrument | Hooks | None = None,
    logger: Logger | None = None,
) -> SchedulingQueue:
    """A queue for profiles that share a table. All profiles use one QueueSort plugin; the first one's is
    used.

    Times are in seconds: `podInitialBackoffSeconds`, `podMaxBackoffSeconds` and
    `--pod-max-in-unschedulable-pods-duration`. `extenders`: the scheduler has some. `wake_failed_groups`: see
    `GroupSchedulingQueue`.
    """
    make: Callable[..., SchedulingQueue] = SchedulingQueue
    if gates.pod_groups:
        groups = frameworks[0].table.groups
        make = partial(GroupSchedulingQueue, groups=groups, wake_failed_groups=wake_failed_groups)
    window = Backoff().window if gates["SchedulerPopFromBackoffQ"] else 1
    sorter = frameworks[0].sorting()
    return make(
        clock,
        frameworks[0].table.info,
        {
            framework.profile.scheduler_name: rules_of(framework, gates, extenders=extenders)
            for framework in frameworks
        },
        sorter.sort_key,
        sorted_by_priority=sorter.contract.sorts_by_priority,
        backoff=Backoff(round(initial_backoff * SECOND), round(max_backoff * SECOND), window),
        longest_wait=longest_wait,
        find=find,
        instrument=instrument,
        gates=gates,
        logger=logger,
    )


def rules_of(
    framework: Framework, gates: FeatureGates = DEFAULT_GATES, *, extenders: bool = False
) -> ProfileRules:
    """Hints and PreEnqueue plugins of a profile, as the queue uses them."""
    return ProfileRules(
        build_hint_map(framework.plugins.values(), gates, extenders=extenders), framework.gating()
    )
