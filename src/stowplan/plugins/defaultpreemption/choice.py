"""Which of several nodes the victims are taken from.

Six criteria, each asked only about the nodes that are equal by those before it: fewest violated budgets;
lowest priority of the most important victim; lowest sum of priorities; fewest victims; latest start of the
most important victims; and among those still equal, chance.
"""

from collections.abc import Callable

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.counts import IntArray
from stowplan.plugins.defaultpreemption.candidates import Candidates
from stowplan.plugins.defaultpreemption.importance import NOT_STARTED

_LOWEST_PRIORITY = -(2**31)
"""Priorities are counted from here in sums, so that one more victim never makes a sum smaller."""


def violations(candidates: Candidates) -> IntArray:
    return candidates.violations


def highest_priority(candidates: Candidates) -> IntArray:
    """The priority of the most important victim."""
    return candidates.priorities[candidates.bounds[:-1]]


def sum_of_priorities(candidates: Candidates) -> IntArray:
    sums: IntArray = np.add.reduceat(candidates.priorities - _LOWEST_PRIORITY, candidates.bounds[:-1])
    return sums


def number_of_victims(candidates: Candidates) -> IntArray:
    return np.diff(candidates.bounds)


def age(candidates: Candidates) -> IntArray:
    """How long ago the first of the most important victims started: less for a later start."""
    counts = np.diff(candidates.bounds)
    highest = np.repeat(highest_priority(candidates), counts)
    starts = np.where(candidates.priorities == highest, candidates.starts, NOT_STARTED)
    earliest: IntArray = np.minimum.reduceat(starts, candidates.bounds[:-1])
    return -earliest


Criterion = Callable[[Candidates], IntArray]

CRITERIA: tuple[Criterion, ...] = (
    violations,
    highest_priority,
    sum_of_priorities,
    number_of_victims,
    age,
)
"""What is compared, in order: less is better."""


def equally_good(candidates: Candidates) -> Rows:
    """The entries that no criterion can tell apart from the best."""
    entries = np.arange(len(candidates))
    for criterion in CRITERIA:
        if len(entries) <= 1:
            break
        values = criterion(candidates)[entries]
        entries = entries[values == values.min()]
    return entries
