"""Who rejected a pod: the plugins whose events and hints decide when it is tried again."""

from typing import NamedTuple

from stowplan.framework.evaluation import Evaluation
from stowplan.framework.status import Code, Status


class Rejectors(NamedTuple):
    """Plugins that rejected a pod; those that only wait for something are in both sets."""

    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


def rejectors_of(evaluation: Evaluation) -> Rejectors:
    """The plugins because of which an attempt found no node.

    Besides those that rejected nodes these are the ones that narrowed the choice beforehand. Without any
    node nobody rejected anything.
    """
    if not evaluation.cycle.table.node_count:
        return Rejectors()
    outright = evaluation.rejected_outright
    verdicts: list[Status] = [*evaluation.rejections()] if outright is None else [outright]
    said = [verdict for verdict in verdicts if verdict.plugin]
    pending = frozenset(verdict.plugin for verdict in said if verdict.code is Code.PENDING)
    named = frozenset(verdict.plugin for verdict in said)
    return Rejectors(named | evaluation.pre_filtering.rejectors, pending)
