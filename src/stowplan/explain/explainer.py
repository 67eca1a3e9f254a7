"""Everything about one pod on one cluster: why it is pending or why it is where it is, and what would help.

It works on a table and a profile, wherever they come from: a running scheduler, the lists of any API server,
a file. It never writes: what it changes in the table to try something is put back before it returns.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.api.rules.amounts import shown_amount
from stowplan.explain.changes import Change, Changes
from stowplan.explain.facts import pod_facts
from stowplan.explain.preemption import Preempting
from stowplan.explain.rejections import FunnelLine, NearMiss, Rejections
from stowplan.explain.state import Attempted, PodState, Requeuer, wakers
from stowplan.explain.states import FITS, PENDING, PLACED
from stowplan.scheduler.framework.budget import EXPLAINING, Budget, LongSearchError, Step, run_at_once
from stowplan.scheduler.framework.decision import Candidate, Decision, decide
from stowplan.scheduler.framework.evaluation import Evaluation, rejectors_of
from stowplan.scheduler.framework.explanation import FailurePlugin, PreemptionSearchPlugin
from stowplan.scheduler.framework.extension_points import post_filter_steps
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFit
from stowplan.scheduler.queue.build import rules_of
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

TOP: Final = 5
"""How many of the best nodes are shown with their scores."""


@dataclass(slots=True)
class PodExplanation:
    """What can be said about a pod. `state` is pending, placed or fits; `source` says what it is based on."""

    pod: str
    state: str
    source: str
    nodes: int
    message: str = ""
    node: str = ""
    funnel: Sequence[FunnelLine] = ()
    near_misses: Sequence[NearMiss] = ()
    near_miss_count: int = 0
    changes: Sequence[Change] = ()
    preemption: Preempting | None = None
    decision: Decision | None = None
    now: PodState | None = None
    attempt: Attempted | None = None
    wakes: Sequence[Requeuer] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """More that a source knows: who evicted the pod, for whom others went."""

    @property
    def feasible(self) -> int:
        return self.nodes - sum(line.nodes for line in self.funnel)

    @property
    def rejected_outright(self) -> bool:
        """Whether the pod was turned down before any node was looked at."""
        return len(self.funnel) == 1 and not self.funnel[0].examples

    def document(self, most: int | None = None) -> dict[str, Any]:
        """The explanation as plain data, ready for JSON; with so many of the near misses at most."""
        wakes = self.wakes or (() if self.now is None else self.now.wakers)
        document: dict[str, Any] = {
            "pod": self.pod,
            "state": self.state,
            "source": self.source,
            "message": self.message,
            "node": self.node or None,
            "nodes": self.nodes,
            "feasible": self.feasible,
            "funnel": [_funnel_line(line) for line in self.funnel],
            "nearMisses": [_near_miss(miss) for miss in self.near_misses[:most]],
            "nearMissCount": self.near_miss_count,
            "changes": [_change(change) for change in self.changes],
            "preemption": None if self.preemption is None else self.preemption.document(),
            "wakes": [
                {"resource": one.resource, "actions": list(one.actions), "plugin": one.plugin}
                for one in wakes
            ],
            "attempts": _attempts(self.attempt),
            "queue": None if self.now is None else self.now.document(),
            **self.facts,
        }
        decision = self.decision
        if decision is not None and decision.scheduled:
            document |= {
                "scores": [_scores(candidate) for candidate in decision.best],
                "weights": decision.weights,
                "margin": decision.margin,
                "ties": decision.ties,
                "decidedBy": decided_by(decision),
                "wouldGoTo": decision.node,
            }
            if decision.old_names:
                document["priorities"] = decision.old_names
        return document


class Explainer:
    """Explains pods on one table with one profile. `source` is what it tells people it looked at."""

    def __init__(self, framework: Framework, source: str, nominations: Nominations = NO_NOMINATIONS) -> None:
        self._framework = framework
        self._table = framework.table
        self._source = source
        self._nominations = nominations

    def explain(self, info: PodInfo, *, nearest: int | None = None) -> PodExplanation:
        """Explain a pod; one that is on a node is looked at as if it were to be scheduled again now.

        With `nearest` so many of the near misses are enough.
        """
        return run_at_once(self.steps(info, nearest=nearest))

    def steps(self, info: PodInfo, *, nearest: int | None = None) -> Generator[Step, None, PodExplanation]:
        """The same in steps, so that a scheduler that is asked can go on with its work in between."""
        if info.row >= 0:
            found = self._placed(info)
        else:
            found = yield from self._unplaced(info, nearest)
        found.facts = {**pod_facts(info, self._table, self._nominations), **found.facts}
        return found

    def _unplaced(self, info: PodInfo, nearest: int | None) -> Generator[Step, None, PodExplanation]:
        try:
            evaluation = yield from self._evaluated(info)
        except PluginError as error:
            return self._failed(info, error)
        if evaluation.feasible_count:
            return self._fitting(evaluation)
        rejections = Rejections(evaluation)
        message = decide(evaluation, lambda ties: 0, 0).message
        found = PodExplanation(info.key, PENDING, self._source, self._table.node_count, message)
        found.funnel = rejections.funnel
        found.wakes = self._wakes(evaluation)
        found.facts = self._too_large(evaluation)
        found.near_misses = yield from rejections.near_miss_steps(nearest)
        found.near_miss_count = rejections.near_miss_count
        yield from self._search(info, found)
        return found

    def _evaluated(self, info: PodInfo) -> Generator[Step, None, Evaluation]:
        """Filter and score nodes, in steps where that takes long. Raises PluginError."""
        framework = self._framework
        budget = Budget(framework.timer, EXPLAINING, pauses=lambda: True)
        while True:
            try:
                evaluation = framework.run_filters(info, self._nominations, budget=budget)
            except LongSearchError as search:
                yield from search.work
            else:
                framework.run_scores(evaluation)
                return evaluation

    def _search(self, info: PodInfo, found: PodExplanation) -> Generator[None, None, None]:
        """Add what preemption would do, and what would place the pod."""
        found.preemption = yield from self._preemption(info)
        try:
            evaluation = self._framework.evaluate(info, self._nominations)
        except PluginError:
            return
        changes: list[Change] = []
        for change in Changes(self._framework, evaluation, self._nominations).steps(found.near_misses):
            if change is not None:
                changes.append(change)
            yield
        found.changes = changes

    def _wakes(self, evaluation: Evaluation) -> tuple[Requeuer, ...]:
        """The events that the plugins that reject the pod registered for."""
        rejectors = rejectors_of(evaluation).unschedulable
        registered = rules_of(self._framework).hints.registered
        return wakers((entry.plugin, entry.event) for entry in registered if entry.plugin in rejectors)

    def _too_large(self, evaluation: Evaluation) -> dict[str, Any]:
        """Whether no node could take the pod even if nothing were on it."""
        plugin = self._framework.plugins.get("NodeResourcesFit")
        if not isinstance(plugin, NodeResourcesFit) or evaluation.rejected_outright is not None:
            return {}
        short = [
            {"resource": name, "wanted": shown_amount(name, wanted), "largest": shown_amount(name, largest)}
            for name, wanted, largest in plugin.too_large(evaluation.cycle)
        ]
        return {"tooLarge": short} if short else {}

    def _fitting(self, evaluation: Evaluation) -> PodExplanation:
        decision = decide(evaluation, lambda ties: 0, TOP)
        return PodExplanation(
            evaluation.cycle.pod.key,
            PENDING if evaluation.cycle.pod.spec.scheduling_gates else FITS,
            self._source,
            self._table.node_count,
            decision.message,
            funnel=Rejections(evaluation).funnel,
            decision=decision,
        )

    def _placed(self, info: PodInfo) -> PodExplanation:
        node = self._table.name_of(info.row)
        with without_pod(self._table, info):
            try:
                evaluation = self._framework.evaluate(self._table.info(unplaced(info.pod)), self._nominations)
            except PluginError as error:
                return self._failed(info, error)
            funnel = Rejections(evaluation).funnel
            row = self._table.row_of(node)
            fits = row is not None and evaluation.status(row).is_success
            decision = decide(evaluation, _preferring(evaluation, row), TOP)
        return PodExplanation(
            info.key,
            PLACED,
            self._source,
            self._table.node_count,
            "" if fits else f"{node} would not take it now",
            node,
            funnel=funnel,
            decision=decision,
        )

    def _failed(self, info: PodInfo, error: PluginError) -> PodExplanation:
        message = str(error)
        plugin = self._framework.plugins.get(error.plugin)
        more = plugin.failure(info, error.nodes) if isinstance(plugin, FailurePlugin) else ""
        if more:
            message += f" ({more})"
        node = self._table.name_of(info.row) if info.row >= 0 else ""
        state = PLACED if node else PENDING
        return PodExplanation(info.key, state, self._source, self._table.node_count, message, node)

    def _preemption(self, info: PodInfo) -> Generator[None, None, Preempting | None]:
        """What preemption would do now with the pod as it is."""
        plugins = self._framework.at(ExtensionPoint.POST_FILTER)
        if not plugins:
            return None
        nodes = self._table.node_count
        searching = [plugin for plugin in plugins if isinstance(plugin, PreemptionSearchPlugin)]
        for plugin in searching:
            plugin.keeps_search = True
        try:
            evaluation = self._framework.evaluate(info, self._nominations)
            found = yield from post_filter_steps(plugins, evaluation.cycle, info)
            others = [one for plugin in searching for one in plugin.not_candidates()]
        except PluginError as error:
            return Preempting("", (), 0, str(error), nodes)
        finally:
            for plugin in searching:
                plugin.keeps_search = False
        return Preempting.of(found, nodes, others)


def _preferring(evaluation: Evaluation, row: int | None) -> Callable[[int], int]:
    """A choice among equals: the given row if it is one of the best, else the first."""
    best = evaluation.best_rows().tolist() if evaluation.scored else []
    place = best.index(row) if row in best else 0
    return lambda ties: place


def unplaced(pod: Pod) -> Pod:
    """A pod as it was before it had a node."""
    return replace(pod, spec=replace(pod.spec, node_name=""))


@contextmanager
def without_pod(table: ClusterTable, info: PodInfo) -> Iterator[None]:
    """The table without a pod for as long as the block takes."""
    node = table.name_of(info.row)
    table.remove_pod(info.uid)
    try:
        yield
    finally:
        table.place(info, node)


def decided_by(decision: Decision) -> str | None:
    """The plugin that gave the winner most over the runner-up; None without one."""
    if len(decision.best) < 2 or not decision.margin:
        return None
    first, second = decision.best[:2]
    lead = {plugin: points - second.scores.get(plugin, 0) for plugin, points in first.scores.items()}
    return max(lead, key=lambda plugin: lead[plugin])


# Plain data


def _funnel_line(line: FunnelLine) -> dict[str, Any]:
    return {
        "plugin": line.plugin,
        "reason": line.reason,
        "nodes": line.nodes,
        "examples": list(line.examples),
    }


def _near_miss(miss: NearMiss) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "node": miss.node,
        "plugin": miss.plugin,
        "reason": miss.reason,
        "missing": miss.missing,
        "detail": miss.detail,
        "size": round(miss.size, 4),
    }
    if miss.devices:
        shown["devices"] = list(miss.devices)
    return shown


def _change(change: Change) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "kind": change.kind,
        "text": change.text,
        "node": change.node,
        "nodes": change.nodes,
    }
    if change.patch is not None:
        shown["patch"] = change.patch
    if change.claim:
        shown["claim"] = change.claim
    if change.action is not None:
        shown["action"] = change.action
    if change.victims:
        shown["victims"] = list(change.victims)
    return shown


def _scores(candidate: Candidate) -> dict[str, Any]:
    return {"node": candidate.node, "total": candidate.total, "plugins": dict(candidate.scores)}


def _attempts(attempt: Attempted | None) -> list[dict[str, Any]]:
    """The last attempt, then those before it, the latest first."""
    if attempt is None:
        return []
    last = (attempt.time, attempt.number, attempt.outcome, attempt.message)
    shown: list[dict[str, Any]] = [
        {
            "number": number,
            "time": timestamp(time),
            "outcome": outcome,
            "message": message,
            "preemption": None,
        }
        for time, number, outcome, message in (last, *reversed(attempt.earlier))
    ]
    shown[0]["preemption"] = attempt.preemption
    return shown
