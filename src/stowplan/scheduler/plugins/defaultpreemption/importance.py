"""Which pods are the more important ones, and which of them disruption budgets protect."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import numpy as np

from stowplan.api.pod import Pod
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.table.columns import IntArray
from stowplan.scheduler.table.lookups import Budget, DisruptionBudgets

NOT_STARTED: Final = 2**63 - 1
"""The start of a pod that has not started yet: later than any other."""

MANY_BUDGETS: Final = 16
"""Of a pod under more budgets than this, they are charged with arrays."""
STEP: Final = 256
"""Pods or rows that are looked at in one step."""

_CONDITION: Final = "DisruptionTarget"
_CONDITION_REASON: Final = "PreemptionByScheduler"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(pod: Pod) -> int:
    """When a pod started to run, in microseconds since 1970. Raises ValueError."""
    text = pod.status.start_time
    if text is None:
        return NOT_STARTED
    try:
        return _microseconds(text)
    except ValueError:
        raise ValueError(
            f"pod {pod.key}: status.startTime: expected an RFC 3339 time, got {text!r}"
        ) from None


@lru_cache(maxsize=65536)
def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError
    since = moment - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Pods, the most important first. Equal ones keep the order in which they came to their node."""
    return sorted(pods, key=lambda info: (-info.priority, start_of(info.pod)))


def over_budget(pods: Sequence[PodInfo], budgets: DisruptionBudgets) -> list[bool]:
    """For pods, the most important first: would evicting this one and all before it violate a budget?"""
    return list(_over_budget(pods, budgets))


def _over_budget(pods: Sequence[PodInfo], budgets: DisruptionBudgets) -> Iterator[bool]:
    if any(len(budgets.of(info)) > MANY_BUDGETS for info in pods):
        charged = np.zeros(len(budgets.allowed), dtype=np.int64)
        for info in pods:
            yield _exceeds_many(info, budgets, charged)
        return
    left: dict[Budget, int] = {}
    exceeding = _exceeds_first if budgets.stops_at_exceeded else _exceeds
    for info in pods:
        yield exceeding(info, budgets, left)


def _exceeds_many(info: PodInfo, budgets: DisruptionBudgets, charged: IntArray) -> bool:
    """The same as `_exceeds` and `_exceeds_first` for a pod under very many budgets: with arrays."""
    numbers = budgets.numbers_of(info)
    touched = np.flatnonzero(~budgets.untouched[numbers])
    if len(touched):
        here = budgets.of(info)
        numbers = np.delete(numbers, [at for at in touched.tolist() if info.name in here[at].disrupted])
    over = charged[numbers] >= budgets.allowed[numbers]
    exceeded = bool(over.any())
    if exceeded and budgets.stops_at_exceeded:
        numbers = numbers[: int(over.argmax()) + 1]
    charged[numbers] += 1
    return exceeded


def _exceeds(info: PodInfo, budgets: DisruptionBudgets, left: dict[Budget, int]) -> bool:
    """Charge a pod to all its budgets; whether that is too much for any of them."""
    exceeded = False
    for budget in budgets.of(info):
        if info.name in budget.disrupted:
            continue
        left[budget] = remaining = left.get(budget, budget.allowed) - 1
        exceeded |= remaining < 0
    return exceeded


def _exceeds_first(info: PodInfo, budgets: DisruptionBudgets, left: dict[Budget, int]) -> bool:
    """The same up to the first budget for which it is too much: those after it are not charged."""
    for budget in budgets.of(info):
        if info.name in budget.disrupted:
            continue
        left[budget] = remaining = left.get(budget, budget.allowed) - 1
        if remaining < 0:
            return True
    return False


def violations_of(units: Sequence[Sequence[PodInfo]], budgets: DisruptionBudgets) -> list[int]:
    """For pods that go together, the most important first: how many of each violate a disruption budget if
    evicted with all before them."""
    if not budgets:
        return [0] * len(units)
    exceeding = iter(over_budget([info for pods in units for info in pods], budgets))
    return [sum(next(exceeding) for _ in pods) for pods in units]


def violations_in_steps(
    units: Sequence[Sequence[PodInfo]], budgets: DisruptionBudgets
) -> Generator[None, None, list[int]]:
    """The same in steps, for the pods of a whole cluster."""
    pods = [info for unit in units for info in unit]
    yield from budgets.look_up(pods if budgets else ())
    found: list[bool] = []
    for exceeds in _over_budget(pods, budgets) if budgets else (False for _ in pods):
        found.append(exceeds)
        if not len(found) % STEP:
            yield
    exceeding = iter(found)
    return [sum(next(exceeding) for _ in unit) for unit in units]


def reprieve_order(protected: Sequence[int]) -> list[int]:
    """The order in which pods are reprieved: the protected ones, then the others."""
    return sorted(range(len(protected)), key=lambda position: not protected[position])


def was_preempted(pod: Pod) -> bool:
    """Is a pod terminating because a scheduler preempted it?"""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == _CONDITION:
            return condition.status == "True" and condition.reason == _CONDITION_REASON
    return False
