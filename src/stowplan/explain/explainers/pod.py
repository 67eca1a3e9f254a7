"""Everything about one pod on one cluster: why it is pending or why it is where it is, and what would help.

It works on a table and a profile, wherever they come from: a running scheduler, the lists of any API server,
a file. It never writes: what it changes in the table to try something is put back before it returns.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.api.rules.amounts import shown_amount
from stowplan.explain.document.decision import Decision
from stowplan.explain.document.pod import (
    Change,
    NodeGroup,
    NodeScore,
    PodDocument,
    PodStage,
    RequeueEvent,
    TooLarge,
)
from stowplan.explain.document.preemption import Preemption
from stowplan.explain.explainers.changes import SHOWN, Changes
from stowplan.explain.explainers.claims import claim_problem
from stowplan.explain.explainers.facts import with_facts
from stowplan.explain.explainers.preemption import preemption_failed, preemption_found
from stowplan.explain.explainers.rejections import NearRow, Rejections
from stowplan.explain.explainers.relevance import NodesMeant
from stowplan.explain.explainers.trials import without_pod
from stowplan.explain.layers.wider import NOTHING_KNOWN, Wider
from stowplan.explain.recorded import decide, requeue_events
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import FITS, PENDING, PLACED
from stowplan.scheduler.framework.budget import EXPLAINING, Budget, LongSearchError, Step, run_at_once
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

TOP: Final = 5
"""How many of the best nodes are shown with their scores."""


class Explainer:
    """Explains pods on one table with one profile. `source` is what it tells people it looked at."""

    def __init__(
        self,
        framework: Framework,
        source: str,
        nominations: Nominations = NO_NOMINATIONS,
        wider: Wider = NOTHING_KNOWN,
    ) -> None:
        self._framework = framework
        self._table = framework.table
        self._source = source
        self._nominations = nominations
        self._wider = wider

    def explain(self, info: PodInfo, *, nearest: int | None = None) -> PodDocument:
        """Explain a pod; one that is on a node is looked at as if it were to be scheduled again now.

        With `nearest` so many of the near misses are enough.
        """
        return run_at_once(self.steps(info, nearest=nearest))

    def steps(self, info: PodInfo, *, nearest: int | None = None) -> Generator[Step, None, PodDocument]:
        """The same in steps, so that a scheduler that is asked can go on with its work in between."""
        if info.row >= 0:
            found = self._placed(info)
        elif info.pod.spec.node_name:
            found = self._begun(info, PLACED, "", info.pod.spec.node_name)
        else:
            found = yield from self._unplaced(info, nearest)
        return told_pod(with_facts(found, info, self._table, self._nominations))

    def _begun(self, info: PodInfo, state: PodStage, message: str, node: str | None = None) -> PodDocument:
        nodes = self._table.node_count
        return PodDocument(
            pod=info.key,
            state=state,
            source=self._source,
            message=message,
            node=node,
            nodes=nodes,
            feasible=nodes,
        )

    def _unplaced(self, info: PodInfo, nearest: int | None) -> Generator[Step, None, PodDocument]:
        try:
            evaluation = yield from self._evaluated(info)
        except PluginError as error:
            return self._failed(info, error)
        if evaluation.feasible_count:
            return self._fitting(evaluation)
        rejections = Rejections(evaluation)
        found = self._begun(info, PENDING, decide(evaluation, lambda ties: 0, 0).message)
        found = _with_funnel(found, rejections)
        found = replace(found, wakes=self._wakes(evaluation), too_large=self._too_large(evaluation))
        if evaluation.rejected_outright is not None:
            return (yield from self._rejected_outright(info, found, evaluation))
        meant = NodesMeant(rejections)
        yield None
        groups = []
        for group in meant.groups():
            if group is not None:
                groups.append(group)
            yield None
        found = replace(found, groups_of_nodes=tuple(groups))
        near = yield from rejections.near_miss_steps(nearest)
        found = replace(
            found, near_misses=tuple(one.miss for one in near), near_miss_count=rejections.near_miss_count
        )
        return (yield from self._search(info, found, near))

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

    def _rejected_outright(
        self, info: PodInfo, found: PodDocument, evaluation: Evaluation
    ) -> Generator[None, None, PodDocument]:
        """A pod that was rejected before any node was checked, usually for one of its claims."""
        problem = claim_problem(info.pod, self._table)
        whole = _whole(evaluation, "" if problem is None else problem.text)
        found = replace(found, groups_of_nodes=(whole,), preemption=(yield from self._preemption(info)))
        if problem is None:
            return found
        search = Changes(self._framework, evaluation, self._nominations, replace(self._wider, pod=info.pod))
        changes = []
        for change in search.for_claims(problem):
            if change is not None:
                changes.append(change)
            yield
        offered = tuple(change for _, change in sorted(changes, key=lambda one: one[0]))
        return replace(found, changes=offered, advice=problem.advice, untried=tuple(search.untried))

    def _search(
        self, info: PodInfo, found: PodDocument, near: Sequence[NearRow]
    ) -> Generator[None, None, PodDocument]:
        """Add what preemption would do, and what would place the pod."""
        found = replace(found, preemption=(yield from self._preemption(info)))
        try:
            evaluation = self._framework.evaluate(info, self._nominations)
        except PluginError:
            return found
        if info.pod.status.nominated_node_name and with_facts(found, info, self._table, {}).evictions:
            return found
        wider = replace(self._wider, pod=info.pod)
        search = Changes(self._framework, evaluation, self._nominations, wider)
        changes: list[tuple[float, Change]] = []
        meant = NodesMeant(Rejections(evaluation))
        for change in search.steps(meant, near):
            if change is not None:
                changes.append(change)
            yield
        offered = _distinct(change for _, change in sorted(changes, key=lambda one: one[0]))[:SHOWN]
        groups = (*found.groups_of_nodes[:1], *search.second, *found.groups_of_nodes[1:])
        return replace(
            found,
            changes=tuple(offered),
            advice=tuple(search.advice),
            untried=(*search.untried, *_unchecked(offered, wider)),
            groups_of_nodes=groups if search.second else found.groups_of_nodes,
        )

    def _wakes(self, evaluation: Evaluation) -> tuple[RequeueEvent, ...]:
        """The events that the plugins that reject the pod registered for."""
        rejectors = rejectors_of(evaluation).unschedulable
        registered = rules_of(self._framework).hints.registered
        return requeue_events(
            (entry.plugin, entry.event) for entry in registered if entry.plugin in rejectors
        )

    def _too_large(self, evaluation: Evaluation) -> tuple[TooLarge, ...]:
        """Resources of which no node would have enough even if nothing were on it."""
        plugin = self._framework.plugins.get("NodeResourcesFit")
        if not isinstance(plugin, NodeResourcesFit) or evaluation.rejected_outright is not None:
            return ()
        return tuple(
            TooLarge(name, shown_amount(name, wanted), shown_amount(name, largest))
            for name, wanted, largest in plugin.too_large(evaluation.cycle)
        )

    def _fitting(self, evaluation: Evaluation) -> PodDocument:
        pod = evaluation.cycle.pod
        decision = decide(evaluation, lambda ties: 0, TOP)
        found = self._begun(pod, PENDING if pod.spec.scheduling_gates else FITS, decision.message)
        return _with_scores(_with_funnel(found, Rejections(evaluation)), decision)

    def _placed(self, info: PodInfo) -> PodDocument:
        with without_pod(self._table, info) as node:
            try:
                evaluation = self._framework.evaluate(self._table.info(unplaced(info.pod)), self._nominations)
            except PluginError as error:
                return self._failed(info, error, node)
            row = self._table.row_of(node)
            fits = row is not None and evaluation.status(row).is_success
            message = "" if fits else f"{node} would not take it now"
            found = self._begun(info, PLACED, message, node)
            decision = decide(evaluation, _preferring(evaluation, row), TOP)
            return _with_scores(_with_funnel(found, Rejections(evaluation)), decision)

    def _failed(self, info: PodInfo, error: PluginError, node: str | None = None) -> PodDocument:
        message = str(error)
        plugin = self._framework.plugins.get(error.plugin)
        more = plugin.failure(info, error.nodes) if isinstance(plugin, FailurePlugin) else ""
        if more:
            message += f" ({more})"
        return self._begun(info, PENDING if node is None else PLACED, message, node)

    def _preemption(self, info: PodInfo) -> Generator[None, None, Preemption | None]:
        """Preemption now, with the pod as it is."""
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
            return preemption_failed(str(error), nodes)
        finally:
            for plugin in searching:
                plugin.keeps_search = False
        return preemption_found(found, nodes, others)


def _whole(evaluation: Evaluation, problem: str) -> NodeGroup:
    """All nodes, for a pod that was rejected before any node was checked."""
    outright = evaluation.rejected_outright
    assert outright is not None
    nodes = evaluation.cycle.table.node_count
    return NodeGroup(
        name=f"all {nodes} nodes",
        nodes=nodes,
        plugin=outright.plugin,
        text=problem or outright.message,
        form="cluster",
        meant=True,
    )


def _unchecked(offered: Sequence[Change], wider: Wider) -> Iterator[str]:
    """That smaller requests may be forbidden, where the rules for that could not be read."""
    if wider.unread and any(change.kind == "requests" for change in offered):
        yield f"requests against LimitRanges: {wider.unread}"


def _with_funnel(found: PodDocument, rejections: Rejections) -> PodDocument:
    funnel = tuple(rejections.funnel)
    return replace(found, funnel=funnel, feasible=found.nodes - sum(line.nodes for line in funnel))


def _distinct(changes: Iterable[Change]) -> list[Change]:
    """Changes without those that say the same: a plugin and the search for pods may both name a pod."""
    found: dict[str, Change] = {}
    for change in changes:
        found.setdefault(change.text, change)
    return [*found.values()]


def _with_scores(found: PodDocument, decision: Decision) -> PodDocument:
    """The document with where the pod would go and by how much; as it is if that is nowhere."""
    if not decision.scheduled:
        return found
    return replace(
        found,
        scores=tuple(NodeScore(one.node, one.total, one.scores) for one in decision.best),
        weights=decision.weights,
        margin=decision.margin,
        ties=decision.ties,
        decided_by=decision.decided_by,
        would_go_to=decision.node,
        priorities=decision.old_names,
    )


def _preferring(evaluation: Evaluation, row: int | None) -> Callable[[int], int]:
    """A choice among equals: the given row if it is one of the best, else the first."""
    best = evaluation.best_rows().tolist() if evaluation.scored else []
    place = best.index(row) if row in best else 0
    return lambda ties: place


def unplaced(pod: Pod) -> Pod:
    """A pod as it was before it had a node."""
    return replace(pod, spec=replace(pod.spec, node_name=""))
