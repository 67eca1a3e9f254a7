"""Document of a preemption: from the search just made for a pod, or for a group."""

from collections.abc import Sequence

from stowplan.explain.document.preemption import GroupPreemption, Preemption, VictimUnit
from stowplan.explain.recorded import preemption_document
from stowplan.explain.sentences.preemption import told_group_preemption
from stowplan.scheduler.decisions import PreemptionRecord
from stowplan.scheduler.framework.explanation import RuledOut, UnitOutcome
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.pod_groups.placement import PodGroupPostFilterResult


def preemption_found(result: PostFilterResult, nodes: int, not_candidates: Sequence[RuledOut]) -> Preemption:
    """A search with the nodes that were no candidates, so its funnel adds up to the number of nodes."""
    record = PreemptionRecord.of(result, nodes)
    return preemption_document(record, not_candidates, is_done=False)


def preemption_failed(message: str, nodes: int) -> Preemption:
    """A search that ended with an error."""
    return preemption_document(PreemptionRecord("", (), 0, message, nodes), is_done=False)


def group_preemption(result: PodGroupPostFilterResult, priority: int) -> GroupPreemption:
    """A group's search for victims; `priority` is the group's.

    What goes together or not at all is a unit: a pod, or a group with `disruptionMode: all`.
    """
    search = result.preemption
    return told_group_preemption(
        GroupPreemption(
            helps=result.status.is_success,
            message=result.status.message,
            priority=priority,
            victims=tuple(pod.key for pod in result.victims),
            candidates=0 if search is None else search.candidates,
            units=() if search is None else tuple(map(_unit, search.victims)),
            victim_units=0 if search is None else search.victim_units,
            spared=() if search is None else tuple(map(_unit, search.spared)),
            pdb_violations=0 if search is None else search.violations,
            without_victims=None if search is None else search.without_victims or None,
        )
    )


def _unit(one: UnitOutcome) -> VictimUnit:
    return VictimUnit(one.unit, one.priority, one.pods, one.violations, one.problem or None)
