"""Number of replicas by metrics: the arithmetic of horizontal pod autoscalers.

Amounts are integers in thousandths. Pods without metrics and pods that are not ready yet are assumed to have
the usage that makes the smaller change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from stowplan.api.quantity import milli_value_of
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    condition_of,
    is_deleting,
    name_of,
    phase_of,
    spec_of,
    status_of,
    time_of,
)

CPU_INITIALIZATION: Final = 300.0
"""Seconds after its start in which a pod's CPU counts only once it is ready."""

INITIAL_READINESS_DELAY: Final = 30.0
DEFAULT_TOLERANCE: Final = 0.1


class MetricsError(Exception):
    """Metrics from which no number of replicas can be worked out."""


class PodMetric(NamedTuple):
    """A metric of one pod: when it was measured, over how many seconds, and what."""

    time: float
    window: float
    value: int


@dataclass(frozen=True, slots=True)
class Tolerances:
    """By how much usage may differ from its target before anything is scaled."""

    down: float = DEFAULT_TOLERANCE
    up: float = DEFAULT_TOLERANCE

    def allow(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class PodsByState:
    """Pods by what their metrics are good for."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def group_pods(
    pods: Iterable[Json], metrics: Mapping[str, PodMetric], resource: str, now: float
) -> PodsByState:
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in pods:
        name = name_of(pod)
        if is_deleting(pod) or phase_of(pod) == "Failed":
            ignored.add(name)
        elif phase_of(pod) == "Pending":
            unready.add(name)
        elif name not in metrics:
            missing.add(name)
        elif resource == "cpu" and _is_unready(pod, metrics[name], now):
            unready.add(name)
        else:
            ready += 1
    return PodsByState(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_unready(pod: Json, metric: PodMetric, now: float) -> bool:
    condition, started = condition_of(pod, "Ready"), status_of(pod).get("startTime")
    if condition is None or not started:
        return True
    changed, is_false = time_of(condition.get("lastTransitionTime")), condition.get("status") == "False"
    if time_of(started) + CPU_INITIALIZATION > now:
        return is_false or metric.time < changed + metric.window
    return is_false and time_of(started) + INITIAL_READINESS_DELAY > changed


class ReplicaProposal(NamedTuple):
    """A number of replicas, and the usage that it follows from: the average, and in per cent of requests."""

    replicas: int
    average: int
    utilization: int | None = None


def utilization_replicas(
    replicas: int,
    target: int,
    pods: Sequence[Json],
    metrics: Mapping[str, PodMetric],
    resource: str,
    container: str,
    tolerances: Tolerances,
    now: float,
) -> ReplicaProposal:
    """Replicas for a target in per cent of what pods request."""
    groups, used = _usable(pods, metrics, resource, now)
    requests = {name_of(pod): pod_request(pod, container, resource) for pod in pods}
    percent, average = _utilization(used, requests)
    ratio = percent / target

    def again(assumed: Mapping[str, int]) -> float:
        return _utilization(assumed, requests)[0] / target

    fallback = {name: request * max(100, target) // 100 for name, request in requests.items()}
    wanted = _replicas(replicas, groups, used, ratio, again, fallback, tolerances)
    return ReplicaProposal(wanted, average, percent)


def average_replicas(
    replicas: int,
    target: int,
    pods: Sequence[Json],
    metrics: Mapping[str, PodMetric],
    resource: str,
    tolerances: Tolerances,
    now: float,
) -> ReplicaProposal:
    """Replicas for a target that is an amount per pod."""
    groups, used = _usable(pods, metrics, resource, now)

    def average(assumed: Mapping[str, int]) -> int:
        return sum(assumed.values()) // len(assumed)

    def again(assumed: Mapping[str, int]) -> float:
        return average(assumed) / target

    fallback = {name_of(pod): target for pod in pods}
    wanted = _replicas(replicas, groups, used, again(used), again, fallback, tolerances)
    return ReplicaProposal(wanted, average(used))


def _usable(
    pods: Sequence[Json], metrics: Mapping[str, PodMetric], resource: str, now: float
) -> tuple[PodsByState, dict[str, int]]:
    if not pods:
        raise MetricsError("no pods returned by selector while calculating replica count")
    groups = group_pods(pods, metrics, resource, now)
    left_out = groups.ignored | groups.unready
    used = {name: metric.value for name, metric in metrics.items() if name not in left_out}
    if not used:
        raise MetricsError("did not receive metrics for targeted pods (pods might be unready)")
    return groups, used


def _replicas(
    replicas: int,
    groups: PodsByState,
    used: dict[str, int],
    ratio: float,
    again: Callable[[Mapping[str, int]], float],
    fallback: Mapping[str, int],
    tolerances: Tolerances,
) -> int:
    unready_count = bool(groups.unready) and ratio > 1.0
    if not unready_count and not groups.missing:
        return replicas if tolerances.allow(ratio) else ceil(ratio * groups.ready)
    assumed = dict(used)
    for name in groups.missing:
        if ratio < 1.0:
            assumed[name] = fallback[name]
        elif ratio > 1.0:
            assumed[name] = 0
    if unready_count:
        assumed |= dict.fromkeys(groups.unready, 0)
    new = again(assumed)
    if tolerances.allow(new) or (ratio < 1.0 < new) or (new < 1.0 < ratio):
        return replicas
    wanted = ceil(new * len(assumed))
    if (new < 1.0 and wanted > replicas) or (new > 1.0 and wanted < replicas):
        return replicas
    return wanted


def _utilization(used: Mapping[str, int], requests: Mapping[str, int]) -> tuple[int, int]:
    """Usage in per cent of requests, and the average of it."""
    counted = [name for name in used if name in requests]
    requested = sum(requests[name] for name in counted)
    if not requested:
        raise MetricsError("no metrics returned matched known pods")
    total = sum(used[name] for name in counted)
    return total * 100 // requested, total // len(counted)


def pod_request(pod: Json, container: str, resource: str) -> int:
    """Request of a pod, or of the named container. Raises MetricsError."""
    spec = spec_of(pod)
    whole = (spec.get("resources") or {}).get("requests")
    if whole and not container:
        if resource not in whole:
            raise MetricsError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
        return milli_value_of(whole[resource])
    containers = [*(spec.get("containers") or ())]
    containers += [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    asked = [one for one in containers if container in ("", one.get("name"))]
    if container and not asked:
        raise MetricsError(f"container {container} not found in Pod {name_of(pod)}")
    total = 0
    for one in asked:
        requests = (one.get("resources") or {}).get("requests") or {}
        if resource not in requests:
            raise MetricsError(
                f"missing request for {resource} in container {one.get('name')} of Pod {name_of(pod)}"
            )
        total += milli_value_of(requests[resource])
    return total
