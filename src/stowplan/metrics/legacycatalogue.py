"""Metrics of kube-scheduler 1.9 to 1.18 that have another name today, or none: names, labels and buckets."""

from itertools import accumulate, repeat
from typing import Final

from stowplan.metrics.description import Catalogue, Description, Stability, exponential

PREDICATES: Final = "predicate_evaluation"
PRIORITIES: Final = "priority_evaluation"
PREEMPTION: Final = "preemption_evaluation"
BINDING: Final = "binding"
"""What a scheduling operation consists of, for the label `operation`."""

OPERATIONS: Final = (PREDICATES, PRIORITIES, PREEMPTION, BINDING)

_SECONDS: Final = exponential(0.001, 2, 15)
_MICROSECONDS: Final = exponential(1000, 2, 15)
_VICTIMS: Final = tuple(accumulate(repeat(5.0, 10)))


def _described(
    name: str, help: str, labels: tuple[str, ...] = (), bounds: tuple[float, ...] = ()
) -> Description:
    return Description(name, labels, Stability.ALPHA, help, bounds=bounds)


def _seconds(name: str, what: str) -> Description:
    return _described(name, f"How long {what} took, in seconds.", bounds=_SECONDS)


def _microseconds(name: str, what: str) -> Description:
    help = f"(Deprecated since 1.14.0) How long {what} took, in microseconds."
    return _described(name, help, bounds=_MICROSECONDS)


_WHOLE: Final = "placing a pod, from the first look for a node to its binding,"
_SEARCH: Final = "looking for a node"
_FILTERING: Final = "finding the nodes that fit"
_SCORING: Final = "scoring the nodes that fit"
_PREEMPTING: Final = "seeing whether others should make room"
_BINDING: Final = "the binding"

LEGACY: Final = Catalogue(
    counters=(_described("total_preemption_attempts", "How often it was tried to make room for a pod."),),
    gauges=(
        _described("scheduler_goroutines", "Tasks running now beside scheduling.", ("work",)),
        _described("scheduler_cache_size", "Nodes, pods and assumed pods held in memory.", ("type",)),
    ),
    histograms=(
        _seconds("e2e_scheduling_duration_seconds", _WHOLE),
        _microseconds("e2e_scheduling_latency_microseconds", _WHOLE),
        _microseconds("scheduling_algorithm_latency_microseconds", _SEARCH),
        _seconds("scheduling_algorithm_predicate_evaluation_seconds", _FILTERING),
        _microseconds("scheduling_algorithm_predicate_evaluation", _FILTERING),
        _seconds("scheduling_algorithm_priority_evaluation_seconds", _SCORING),
        _microseconds("scheduling_algorithm_priority_evaluation", _SCORING),
        _seconds("scheduling_algorithm_preemption_evaluation_seconds", _PREEMPTING),
        _microseconds("scheduling_algorithm_preemption_evaluation", _PREEMPTING),
        _seconds("binding_duration_seconds", _BINDING),
        _microseconds("binding_latency_microseconds", _BINDING),
        _described("pod_preemption_victims", "Pods that had to go for another one.", bounds=_VICTIMS),
        _described(
            "pod_scheduling_duration_seconds",
            "From the moment a pod was first ready to be tried until it was bound, in seconds.",
            bounds=_SECONDS,
        ),
        _described(
            "volume_scheduling_duration_seconds",
            "How long a stage took with volumes: finding (predicate), reserving (assume) or binding (bind) "
            "them, in seconds. A sample.",
            ("operation",),
            _MICROSECONDS,
        ),
    ),
)

SUMMARIES: Final = (
    _described("scheduling_duration_seconds", "How long parts of scheduling took.", ("operation",)),
    _described(
        "scheduling_latency_seconds",
        "(Deprecated since 1.14.0) How long parts of scheduling took.",
        ("operation",),
    ),
)
"""Shown with quantiles of the last hours."""
