"""The pods of many rows side by side, and the reprieve of those that need not go, all rows in step."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn, IntArray
from stowplan.cluster.lookups import DisruptionBudgets
from stowplan.cluster.podinfo import PodInfo
from stowplan.plugins.defaultpreemption.candidates import bounds_of, costs_of
from stowplan.plugins.defaultpreemption.lineups import (
    AMOUNTS,
    BUDGET,
    NO_BUDGET,
    PRIORITY,
    SEVERAL_BUDGETS,
    START,
    Lineup,
)
from stowplan.plugins.defaultpreemption.reprieve import over_budget


class Crowd:
    """The lineups of some rows, one after the other in flat arrays.

    The less important pods of entry i, those a preemptor may make go, are `first[i]` up to `end[i]`, and
    `lower[i]` is how many they are. `limits` names the things that are limited, as columns of the lineups'
    amounts.
    """

    def __init__(self, lineups: Sequence[Lineup], limits: Sequence[int], priority: int) -> None:
        self._lineups = lineups
        numbers = np.concatenate([lineup.numbers for lineup in lineups]).T
        self._priorities, self._starts, self._budget = numbers[[PRIORITY, START, BUDGET]]
        self._amounts: IntArray = numbers[[AMOUNTS + limit for limit in limits]]
        self._bounds = bounds_of(np.array([len(lineup.pods) for lineup in lineups], dtype=np.int64))
        self.end = self._bounds[1:]
        self.lower = self._count(self._priorities < priority, self._bounds[:-1])
        self.first = self.end - self.lower

    def _count(self, chosen: BoolColumn, first: IntArray) -> IntArray:
        """How many pods are chosen of each entry, from a first one on."""
        before = bounds_of(chosen)
        counts: IntArray = before[self.end] - before[first]
        return counts

    def removable(self, kind: np.dtype[Any]) -> IntArray:
        """What all less important pods of each row take together, a line per thing that is limited.

        `kind` is that of the numbers it is added to: int64, or object where those might not do.
        """
        sums = np.zeros((len(self._amounts), len(self._priorities) + 1), dtype=kind)
        np.cumsum(self._amounts.astype(kind, copy=False), axis=1, out=sums[:, 1:])
        taken: IntArray = sums[:, self.end] - sums[:, self.first]
        return taken

    def guarded(self) -> BoolColumn:
        """Whether any of the less important pods of a row is under a budget."""
        return self._count(self._budget != NO_BUDGET, self.first) > 0

    def sacrifices(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[IntArray, list[list[PodInfo]]]:
        """Who has to go of each of some entries because he cannot be put back, and what that costs.

        `left` is what each of the entries has left when all its less important pods are gone and the
        preemptor is there. That it is less than they take together must be known.
        """
        victims, violations = self._without_reprieved(entries, left, budgets)
        places = np.flatnonzero(victims)
        bounds = bounds_of(self._count(victims, self.first)[entries])
        costs = costs_of(violations, bounds, self._priorities[places], self._starts[places])
        owners = np.searchsorted(self.end, places, side="right")
        at = zip(owners.tolist(), (places - self._bounds[owners]).tolist(), strict=True)
        pods = [self._lineups[owner].pods[place] for owner, place in at]
        return costs, [pods[begin:end] for begin, end in pairwise(bounds.tolist())]

    def _without_reprieved(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[BoolColumn, IntArray]:
        """Who is a victim, and how many of an entry's victims budgets protect."""
        lower = self.lower[entries]
        bounds = bounds_of(lower)
        places = np.repeat(self.first[entries] - bounds[:-1], lower) + np.arange(bounds[-1])
        protected = np.zeros(len(self._priorities) + 1, dtype=np.bool_)
        if budgets:
            owners = np.repeat(np.arange(len(entries)), lower)
            protected[places] = self._protected(entries, places, owners, budgets)
            # Who is protected comes first, otherwise the order of importance is kept.
            places = places[np.argsort(2 * owners + ~protected[places], kind="stable")]
        # One pod more that takes nothing: entries with fewer pods than others put that one back at last.
        nobody = len(self._priorities)
        places = np.append(places, nobody)
        amounts = np.concatenate((self._amounts, np.zeros((len(left), 1), dtype=np.int64)), axis=1)
        steps = np.arange(int(lower.max()))[:, None]
        pods = places[np.where(steps < lower, bounds[:-1] + steps, -1)]
        taken = amounts[:, pods]
        goes = np.empty(pods.shape, dtype=np.bool_)
        for step in range(len(pods)):
            after = left - taken[:, step]
            stays = after.min(axis=0) >= 0
            left = np.where(stays, after, left)
            np.logical_not(stays, out=goes[step])
        victims = np.zeros(nobody + 1, dtype=np.bool_)
        victims[pods[goes]] = True
        return victims[:-1], (protected[pods] & goes).sum(axis=0)

    def _protected(
        self, entries: Rows, places: IntArray, owners: IntArray, budgets: DisruptionBudgets
    ) -> BoolColumn:
        """Which of the pods in `places` exceed their budget, if they and the more important ones went.

        Within an entry the pods of a budget are numbered in their order: those past what it allows are
        protected. Where pods are under several budgets, or budgets have pods taken off them, it is worked
        out pod by pod.
        """
        numbers = self._budget[places]
        protected = np.zeros(len(places), dtype=np.bool_)
        under = np.flatnonzero(numbers >= 0)
        group = owners[under] * len(budgets.allowed) + numbers[under]
        sequence = np.argsort(group, kind="stable")
        sorted_group = group[sequence]
        begins = np.flatnonzero(np.diff(sorted_group, prepend=-1))
        nth = np.arange(len(under)) - np.repeat(begins, np.diff(begins, append=len(under)))
        protected[under[sequence]] = nth >= budgets.allowed[numbers[under[sequence]]]
        intricate = numbers == SEVERAL_BUDGETS
        intricate[under] = ~budgets.untouched[numbers[under]]
        for owner in np.unique(owners[intricate]).tolist():
            pods = self._lineups[entries[owner]].pods
            protected[owners == owner] = over_budget(pods[len(pods) - self.lower[entries[owner]] :], budgets)
        return protected
