"""Results of a group's scheduling, in the form of recordings."""

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.framework.decision import NO_NODES
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.pod_groups.extension_points import PlacementScores
from stowplan.scheduler.framework.pod_groups.placement import (
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
)
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.pod_groups.result import GroupOutcome, GroupResult, GroupStatus, PodResult
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

Json = dict[str, Any]


class _Run:
    """State of one run of the algorithm."""

    def __init__(self, root: PodGroupInfo) -> None:
        self.root = root
        self.placements: list[Json] = []
        self.scores: list[Json] = []
        self.result: GroupResult | None = None
        self.outcomes: dict[str, Json] = {}
        """Recorded results of groups without placements."""
        self.open: dict[str, Json] = {}
        """Current attempt of each group."""
        self.where: list[tuple[str, str]] = []


class GroupFacts(Instrument):
    """Takes down what happens to a group; `document` is what a recording has of it."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._runs: list[_Run] = []
        self._found: PodGroupPostFilterResult | None = None
        self._final: GroupResult | None = None

    def clear(self) -> None:
        """Begin another cycle."""
        self._runs, self._found, self._final = [], None, None

    # Following

    def group_trial_begins(self, root: PodGroupInfo) -> None:
        self._runs.append(_Run(root))

    def group_feasible(self, info: PodGroupInfo, progress: Progress, status: Status) -> None:
        run = self._runs[-1]
        attempt = run.open.get(info.key)
        verdict = _feasibility(status, "placementFeasible")
        if attempt is None:
            attempt = run.open[info.key] = {"after": [], "evaluations": [], "children": []}
            attempt["initial"] = _feasibility(status, "initialFeasible")
        else:
            attempt["after"].append(verdict)

    def member_evaluated(self, info: PodGroupInfo, pod: PodInfo, result: ScheduleResult) -> None:
        evaluation = result.evaluation
        if evaluation.feasible_count:
            self._runs[-1].open[info.key]["evaluations"].append(evaluation_facts(evaluation))

    def group_tried(self, info: PodGroupInfo, placement: Placement, outcome: GroupOutcome) -> None:
        run = self._runs[-1]
        attempt = run.open.pop(info.key, {"after": [], "evaluations": [], "initial": {}})
        names = [self._table.name_of(row) for row in placement.rows_of(self._table).tolist()]
        facts: Json = {"placement": placement.name, "nodes": sorted(names), **status_facts(outcome.status)}
        if info.is_composite:
            facts["children"] = [
                {"group": _short(child), **verdict}
                for child, verdict in zip(info.children, attempt["after"], strict=False)
            ]
        else:
            facts.update(attempt["initial"])
            results = [self._member(result) for result in outcome.pods]
            for found, verdict in zip(results, attempt["after"], strict=False):
                found.update(verdict)
            facts["podResults"] = results
            if attempt["evaluations"]:
                facts["evaluations"] = attempt["evaluations"]
        if run.root.is_composite:
            facts["group"] = info.key
            if within := _within(outcome):
                facts["within"] = within
        run.placements.append(facts)
        run.outcomes[info.key] = facts

    def placements_scored(
        self,
        info: PodGroupInfo,
        placements: Sequence[PodGroupAssignments],
        scores: PlacementScores,
        best: Placement,
    ) -> None:
        by_name: Json = {}
        for place, placement in enumerate(placements):
            of_plugins = {plugin: int(given[place]) for plugin, given in scores.by_plugin.items()}
            by_name[placement.placement.name] = {**of_plugins, "total": int(scores.totals[place])}
        highest = max(given["total"] for given in by_name.values())
        facts: Json = {
            "scores": by_name,
            "best": sorted(name for name, given in by_name.items() if given["total"] == highest),
        }
        if self._runs[-1].root.is_composite:
            facts["group"] = info.key
            cycle = placements[0].cycle
            if within := [] if cycle is None else _above(cycle.group_cycle.parent):
                facts["within"] = within
        self._runs[-1].scores.append(facts)

    def group_trial_ended(self, result: GroupResult) -> None:
        run = self._runs[-1]
        run.result = result
        run.outcomes["algorithm"] = self._algorithm(run)

    def group_decided(self, result: GroupResult, found: PodGroupPostFilterResult | None) -> None:
        self._final, self._found = result, found

    # Form of a recording

    def document(self, *, placements: bool) -> Json:
        """The facts of the cycle; `placements` says whether placements are recorded."""
        if not self._runs:
            return {}
        facts = self._run_facts(self._runs[0], placements)
        if len(self._runs) > 1:
            facts["withoutVictims"] = self._run_facts(self._runs[1], placements)
        if self._found is not None:
            facts["podGroupPostFilter"] = self._post_filter(self._found)
        if self._final is not None:
            root = self._final.root
            if root.is_composite:
                facts["final"] = [self._end(self._final.outcomes[info.key]) for info in root.walk()]
            else:
                outcome = self._final.outcomes[root.key]
                facts["final"] = status_facts(outcome.status)
                facts["waitingOnPreemption"] = outcome.waits_for_preemption
        return facts

    @staticmethod
    def _end(outcome: GroupOutcome) -> Json:
        """The final status of a group of a tree."""
        facts = {"group": outcome.info.key, **status_facts(outcome.status)}
        if outcome.waits_for_preemption:
            facts["waitingOnPreemption"] = True
        return facts

    def _run_facts(self, run: _Run, placements: bool) -> Json:
        facts: Json = {"algorithm": run.outcomes["algorithm"]}
        if placements:
            facts["placements"] = run.placements
            if run.scores and run.root.is_composite:
                facts["placementScores"] = run.scores
            elif run.scores:
                facts["placementScores"] = run.scores[0]["scores"]
                facts["bestPlacements"] = run.scores[0]["best"]
        elif run.placements:
            of_members = {
                key: value
                for key, value in run.placements[-1].items()
                if key not in ("placement", "nodes", "code", "message")
            }
            facts["algorithm"] = {**facts["algorithm"], **of_members}
        return facts

    def _algorithm(self, run: _Run) -> Any:
        result = run.result
        assert result is not None
        if not result.root.is_composite:
            return self._group(result.outcomes[result.root.key])
        return [
            {"group": info.key, **self._group(result.outcomes[info.key])}
            for info in result.root.walk()
            if info.key in result.outcomes
        ]

    def _group(self, outcome: GroupOutcome) -> Json:
        facts = status_facts(outcome.status)
        if outcome.pods or not outcome.info.is_composite:
            facts["podResults"] = [self._member(result) for result in outcome.pods]
        return facts

    def _member(self, result: PodResult) -> Json:
        failure = result.failure
        code, message = Code.SUCCESS, ""
        if failure is not None:
            code = Code.UNSCHEDULABLE if failure.rejected else Code.ERROR
            message = failure.message
            if message == NO_NODES:
                code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        node = "" if result.row is None else self._table.name_of(result.row)
        return {"pod": result.pod.key, "node": node, "code": code.label, "message": message}

    def _post_filter(self, found: PodGroupPostFilterResult) -> Json:
        facts: Json = {"code": found.status.code.label, "message": found.status.message}
        root = self._runs[0].root
        nominated = {
            pod.key: found.nominations[pod.uid] for pod in root.waiting_pods() if pod.uid in found.nominations
        }
        if nominated:
            facts["nominations"] = nominated
        return facts


def status_facts(status: GroupStatus) -> Json:
    return {"code": status.code.label, "message": status.message}


def evaluation_facts(evaluation: Evaluation) -> Json:
    """Totals of the nodes that can take a pod, and the best of them."""
    table = evaluation.cycle.table
    names = {row: table.name_of(row) for row in evaluation.feasible_rows.tolist()}
    facts: Json = {"pod": evaluation.cycle.pod.key}
    if evaluation.scored:
        totals = evaluation.totals()
        facts["total"] = {
            name: int(totals[row]) for row, name in sorted(names.items(), key=lambda one: one[1])
        }
    facts["best"] = sorted(table.name_of(row) for row in evaluation.best_rows().tolist())
    return facts


def _feasibility(status: Status, field: str) -> Mapping[str, str]:
    facts = {field: status.code.label}
    if status.message:
        facts[f"{field}Message"] = status.message
    return facts


def _short(info: PodGroupInfo) -> str:
    return f"{info.key.partition('/')[0]}/{info.name}"


def _within(outcome: GroupOutcome) -> list[str]:
    return [] if outcome.cycle is None else _above(outcome.cycle.group_cycle.parent)


def _above(cycle: Any) -> list[str]:
    """The placements that a group was tried in, the outermost first."""
    found: list[str] = []
    while cycle is not None:
        found.insert(0, f"{cycle.group.key}={cycle.placement.name}")
        cycle = cycle.group_cycle.parent
    return found
