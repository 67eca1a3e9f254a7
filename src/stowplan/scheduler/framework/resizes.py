"""Deferred resizes: pods on a node that wait there for room, and are scheduled on that node alone.

With the gate InPlacePodVerticalScalingSchedulerPreemption they pass the queue and the scheduling cycle, so
that preemption can make room. Most plugins skip them (`Contract.skips_deferred_resizes`).
"""

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.protocols import PreFilterPlugin
from stowplan.scheduler.framework.status import SKIP_CLASS
from stowplan.scheduler.table.podinfo import PodInfo

RESIZE_PREEMPTION: Final = "InPlacePodVerticalScalingSchedulerPreemption"


def leave_out_deferred_resizes(plugins: Iterable[Plugin], gates: FeatureGates) -> None:
    """Have plugins skip deferred resizes whose answer about them would not matter."""
    if gates[RESIZE_PREEMPTION]:
        for plugin in plugins:
            if plugin.contract.skips_deferred_resizes and isinstance(plugin, PreFilterPlugin):
                plugin.pre_filter = _skipping(plugin.pre_filter)  # type: ignore[method-assign]


def _skipping(pre_filter: Any) -> Any:
    def skip_or_ask(cycle: Cycle, pod: PodInfo) -> Any:
        return SKIP_CLASS if pod.template.resize_deferred else pre_filter(cycle, pod)

    return skip_or_ask
