"""Who has to go from one node: as few as possible, and rather those that no disruption budget protects."""

from collections.abc import Sequence
from typing import NamedTuple

from stowplan.cluster.lookups import Budget, DisruptionBudgets
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.simulation import Trial, Trials
from stowplan.framework.status import NotBuiltError, PluginError, Status, error, unresolvable
from stowplan.plugins.defaultpreemption.importance import by_importance

REASON_NO_VICTIMS = "No preemption victims found for incoming pod"


class Sacrifice(NamedTuple):
    """The pods of one node that have to go, the most important first, and how many of them a budget
    protects."""

    victims: list[PodInfo]
    violations: int


def select_victims(trials: Trials, row: int, budgets: DisruptionBudgets) -> Sacrifice | Status:
    """The pods that have to go from a row for the pod to fit; or why that does not help.

    All less important pods are taken away. If the pod fits then, they are put back one by one as long as it
    still fits: those first whose loss a budget does not allow, among these and among the others the most
    important first. Who cannot be put back is a victim.
    """
    table, pod = trials.table, trials.pod
    lower = by_importance(info for info in table.pods_on[row].values() if info.priority < pod.priority)
    if not lower:
        return unresolvable(REASON_NO_VICTIMS)
    with trials.row(row) as trial:
        for info in lower:
            trial.take_away(info)
        status = _verdict(trial)
        if status is not None:
            return status
        protected = over_budget(lower, budgets)
        spared = {position for position in reprieve_order(protected) if _reprieved(trial, lower[position])}
    victims = [position for position in range(len(lower)) if position not in spared]
    if not victims:
        return no_victims(table.name_of(row))
    return Sacrifice([lower[position] for position in victims], sum(protected[p] for p in victims))


def no_victims(node: str) -> Status:
    """What is said of a node that turned out to have room for everybody."""
    return error(f'expected at least one victim pod on node "{node}"')


def over_budget(pods: Sequence[PodInfo], budgets: DisruptionBudgets) -> list[bool]:
    """For pods, the most important first: would a budget be exceeded if this one and all before it went?"""
    left: dict[Budget, int] = {}
    return [_takes_too_much(info, budgets, left) for info in pods]


def _takes_too_much(info: PodInfo, budgets: DisruptionBudgets, left: dict[Budget, int]) -> bool:
    exceeded = False
    for budget in budgets.of(info):
        if info.name in budget.disrupted:
            continue
        left[budget] = remaining = left.get(budget, budget.allowed) - 1
        exceeded |= remaining < 0
    return exceeded


def reprieve_order(protected: Sequence[bool]) -> list[int]:
    """The order in which pods are put back: the protected ones, then the others."""
    return sorted(range(len(protected)), key=lambda position: not protected[position])


def _reprieved(trial: Trial, info: PodInfo) -> bool:
    """Put a pod back if there is room for it beside the pod that is to come."""
    trial.put_back(info)
    if _verdict(trial) is None:
        return True
    trial.take_away(info)
    return False


def _verdict(trial: Trial) -> Status | None:
    """A plugin that fails on a node speaks against that node, not against the others."""
    try:
        return trial.verdict()
    except NotBuiltError:
        raise
    except PluginError as failure:
        return error(failure.message)
