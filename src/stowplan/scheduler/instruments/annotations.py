"""The results of a pod's scheduling cycle as annotations, as kube-scheduler-simulator writes them.

So its tools, and others that read these annotations, work with pods that this scheduler bound. Results are
noted when the node is chosen, because they are gone afterwards, and written when the pod is bound,
concurrently with everything else. A pod that found no node gets none: each change of it would have it
retried.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.assignment import Assignment
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework

PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
LIMIT: Final = 256 * 1024
"""Maximum size of all annotations of an object in bytes."""
MOST_NODES: Final = 1000
"""Of how many nodes results are noted at most, the best first; as many as fit are written."""
MOST_PODS: Final = 10_000
"""Results of how many pods that are not bound yet are kept."""

PASSED: Final = "passed"
SUCCESS: Final = "success"
_HISTORY: Final = "result-history"

ByNode = dict[str, dict[str, str]]


class Results(NamedTuple):
    """Results of a scheduling cycle, nodes in the order in which they are to be kept."""

    selected: str
    statuses: Mapping[str, Mapping[str, Any]]
    filters: ByNode
    scores: ByNode
    final_scores: ByNode

    def annotations(self, room: int) -> dict[str, str]:
        """The annotations, with as many of the first nodes as fit into the room."""
        most = max(len(self.filters), 1)
        found = self._of_first(most)
        while _size(found) > room and most > 1:
            most = min(most - 1, most * room // _size(found))
            found = self._of_first(max(most, 1))
        if _size(found) > room:
            found = {PREFIX + "selected-node": self.selected}
        history = {**found, PREFIX + _HISTORY: _json([found])}
        return history if _size(history) <= room else found

    def _of_first(self, most: int) -> dict[str, str]:
        by_node = {
            "filter-result": self.filters,
            "score-result": self.scores,
            "finalscore-result": self.final_scores,
        }
        return {
            **{PREFIX + name: _json(status) for name, status in self.statuses.items()},
            **{PREFIX + name: _json(dict(list(nodes.items())[:most])) for name, nodes in by_node.items()},
            PREFIX + "selected-node": self.selected,
        }


class ResultAnnotations(Instrument):
    """Keeps results until their pods are bound, and writes them then."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._noted: dict[str, Results] = {}

    def chosen(self, profile: Profile, result: ScheduleResult, row: int) -> None:
        """Keep the results of a pod for which a row was chosen."""
        evaluation = result.evaluation
        self._noted[evaluation.cycle.pod.uid] = results_of(profile.framework, evaluation, row)
        if len(self._noted) > MOST_PODS:
            del self._noted[next(iter(self._noted))]

    def bound(self, assignment: Assignment, note: str, seconds: float, waited: float | None) -> None:
        """Write the results of a bound pod in the background."""
        pod = assignment.queued.pod.pod
        results = self._noted.pop(pod.metadata.uid, None)
        if results is not None:
            self._context.tasks.start(self._write(pod, results), "result annotations")

    async def _write(self, pod: Pod, results: Results) -> None:
        room = LIMIT - _size(pod.metadata.annotations)
        metadata = {"uid": pod.metadata.uid, "annotations": results.annotations(room)}
        try:
            await self._context.client.patch(
                PODS, pod.namespace, pod.name, {"metadata": metadata}, PatchType.MERGE
            )
        except ApiError as error:
            if not error.is_not_found:
                about = Ref(pod.key)
                self._context.logger.error("Failed to annotate results", pod=about, err=error)


def results_of(framework: Framework, evaluation: Evaluation, row: int) -> Results:
    """The results of a cycle, as far as they are kept."""
    table = evaluation.cycle.table
    rows = _rows(evaluation, row)
    names = {one: table.name_of(one) for one in rows}
    feasible = set(evaluation.feasible_rows.tolist())
    scored = [one for one in rows if one in feasible] if evaluation.scored else []
    columns = [column for column in evaluation.pod_class.scores.columns if column.active]
    scores: ByNode = {}
    final_scores: ByNode = {}
    for one in scored:
        scores[names[one]] = {
            column.plugin.name: str(0 if column.raw is None else column.raw.item(one)) for column in columns
        }
        final_scores[names[one]] = {
            column.plugin.name: str(
                column.weight * (column.constant if column.final is None else column.final.item(one))
            )
            for column in columns
        }
    return Results(
        table.name_of(row),
        _statuses(framework, evaluation),
        {names[one]: _filtered(evaluation, one) for one in rows},
        scores,
        final_scores,
    )


def _rows(evaluation: Evaluation, row: int) -> list[int]:
    """The chosen row, the best of the others, then those that were rejected."""
    table = evaluation.cycle.table
    if evaluation.only_row is not None:
        return [row]
    most = min(MOST_NODES, evaluation.feasible_count)
    best = (
        evaluation.top_rows(most, row)
        if evaluation.scored
        else [row, *evaluation.feasible_rows[:most].tolist()]
    )
    found = dict.fromkeys(best)
    for one in range(table.rows_in_use):
        if len(found) >= MOST_NODES:
            break
        if table.valid.item(one):
            found.setdefault(one)
    return list(found)


def _filtered(evaluation: Evaluation, row: int) -> dict[str, str]:
    """Filter results for a row, up to the first rejection."""
    found: dict[str, str] = {}
    cycle = evaluation.cycle
    for column in evaluation.filters():
        code = 0 if column.codes is None else column.codes.item(row)
        if code:
            return {**found, column.plugin.name: column.status(cycle, cycle.pod, code).message}
        found[column.plugin.name] = PASSED
    return found


def _statuses(framework: Framework, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
    """The results that are not about nodes."""
    said = evaluation.pre_filtering
    chosen = {} if said.node_names is None else dict.fromkeys(sorted(said.rejectors), sorted(said.node_names))
    return {
        "prefilter-result-status": _successes(framework, ExtensionPoint.PRE_FILTER),
        "prefilter-result": chosen,
        "postfilter-result": {},
        "prescore-result": _successes(framework, ExtensionPoint.PRE_SCORE) if evaluation.scored else {},
        "reserve-result": _successes(framework, ExtensionPoint.RESERVE),
        "permit-result": _successes(framework, ExtensionPoint.PERMIT),
        "permit-result-timeout": {},
        "prebind-result": _successes(framework, ExtensionPoint.PRE_BIND),
        "bind-result": dict(list(_successes(framework, ExtensionPoint.BIND).items())[:1]),
    }


def _successes(framework: Framework, point: ExtensionPoint) -> dict[str, str]:
    return {plugin.name: SUCCESS for plugin in framework.at(point)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _size(annotations: Mapping[str, str]) -> int:
    parts: Iterable[str] = (*annotations, *annotations.values())
    return sum(len(part.encode()) for part in parts)
