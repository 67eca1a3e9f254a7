"""Which of several nodes the victims are taken from.

Six criteria, each asked only about the nodes that are equal by those before it: fewest violated budgets;
lowest priority of the most important victim; lowest sum of priorities; fewest victims; latest start of the
most important victims; and among those still equal, chance.
"""

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.plugins.defaultpreemption.candidates import Candidates


def equally_good(candidates: Candidates) -> Rows:
    """The entries that no criterion can tell apart from the best."""
    entries = np.arange(len(candidates))
    for line in candidates.costs:
        if len(entries) <= 1:
            break
        values = line[entries]
        entries = entries[values == values.min()]
    return entries
