"""Judging bindings: each on the states of the cluster on which it can have been decided.

A binding is seen after it was decided. In between, the scheduler may have known less than we do now (what we
have just seen had not reached it) or more (it had already chosen nodes for pods whose bindings we have not
seen). So a choice that does not look best on the present state is also looked at without the latest bindings,
and again with the next ones. Only what is best on none of these states is a disagreement.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.explain.document.decision import Decision
from stowplan.explain.explainers.pod import unplaced
from stowplan.explain.layout import moment, plural
from stowplan.explain.recorded import decide
from stowplan.runtime.clock import Clock
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.simulate.shadow.sampling import Sampling

WINDOW: Final = 3.0
"""Seconds within which other bindings may have been known sooner or later than they were seen."""
NEIGHBOURS: Final = 24
"""Maximum number of bindings before and after that are tried."""
TOP: Final = 3
MIRROR: Final = "kubernetes.io/config.mirror"
"""Marks pods that a kubelet runs on its own account: nobody schedules them."""

AGREE: Final = "agree"
LOWER: Final = "lower score"
INFEASIBLE: Final = "infeasible"
UNJUDGED: Final = "unjudged"


@dataclass(slots=True)
class Judgement:
    """Judgement of one binding.

    `behind` is by how many points the chosen node is not the best one. It agrees all the same if it is best
    on another state on which it can have been decided (`raced`), or best of the nodes that a scheduler may
    have looked at that does not look at all of them (`sampled`). `plugin` is the one that makes the
    difference, and `lag` is how many seconds after the binding we saw it.
    """

    pod: str
    node: str
    time: float
    verdict: str
    ours: str = ""
    behind: int = 0
    reason: str = ""
    raced: bool = False
    sampled: bool = False
    plugin: str = ""
    lag: float = 0.0
    decision: Decision | None = None
    theirs: dict[str, int] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return self.verdict == AGREE

    @property
    def gaps(self) -> dict[str, int]:
        """Points that our node has more than the chosen one, by plugin, largest difference first."""
        best = None if self.decision is None or not self.decision.best else self.decision.best[0]
        if best is None or not self.theirs:
            return {}
        found = {name: points - self.theirs.get(name, 0) for name, points in best.scores.items()}
        return {name: found[name] for name in sorted(found, key=lambda name: -found[name]) if found[name]}

    def document(self) -> dict[str, Any]:
        best = None if self.decision is None or not self.decision.best else self.decision.best[0]
        return {
            "pod": self.pod,
            "node": self.node,
            "time": timestamp(self.time),
            "verdict": self.verdict,
            "ours": self.ours or None,
            "behind": self.behind,
            "reason": self.reason,
            "plugin": self.plugin or None,
            "raced": self.raced,
            "sampled": self.sampled,
            "scores": {"theirs": self.theirs, "ours": {} if best is None else dict(best.scores)},
        }


@dataclass(slots=True)
class _Seen:
    """A binding that was seen, and the judgement that may still change."""

    info: PodInfo
    node: str
    at: float
    judgement: Judgement | None = None
    later: int = 0


class Shadow(Instrument):
    """Watches bindings go by. To be given to a scheduler that keeps its caches but schedules nothing."""

    def __init__(
        self,
        framework_of: Callable[[Pod], Framework],
        table: ClusterTable,
        clock: Clock,
        judged: Callable[[Judgement], None],
        sampling: Sampling | None = None,
    ) -> None:
        self._framework_of = framework_of
        self._table = table
        self._clock = clock
        self._judged = judged
        self._sampling = sampling
        self._recent: deque[_Seen] = deque(maxlen=NEIGHBOURS)
        self._open: deque[_Seen] = deque()
        self.synced = False
        """Bindings are judged from the moment on at which all that exists is known."""

    def assigned(self, pod: Pod) -> None:
        """A pod was given a node; the table does not have it there yet."""
        if not self.synced or pod.metadata.uid in self._table.pods:
            return
        if MIRROR in pod.metadata.annotations:
            return
        node = pod.spec.node_name
        self._reconsider()
        seen = _Seen(self._table.info(pod), node, self._clock.monotonic())
        found = self._judge(pod, node)
        if found.verdict in (LOWER, INFEASIBLE):
            found = self._judge_without_latest(pod, node, found)
        if found.verdict == LOWER and self._may_be_sampled(pod, found):
            found.verdict, found.sampled = AGREE, True
        if found.verdict in (LOWER, INFEASIBLE):
            seen.judgement = found
            self._open.append(seen)
        else:
            self._judged(found)
        self._recent.append(seen)

    def settle(self, *, all_of_them: bool = False) -> None:
        """Close what is open for so long that nothing will change it any more."""
        self._reconsider()
        now = self._clock.monotonic()
        while self._open and (all_of_them or now - self._open[0].at > WINDOW):
            judgement = self._open.popleft().judgement
            assert judgement is not None
            self._judged(judgement)

    @property
    def waiting(self) -> int:
        """Number of bindings that may still turn out to agree."""
        return len(self._open)

    # On other states

    def _judge_without_latest(self, pod: Pod, node: str, first: Judgement) -> Judgement:
        """Judge as if the latest bindings had not been known: one, two, three of them."""
        now = self._clock.monotonic()
        with ExitStack() as removed:
            for seen in reversed(self._recent):
                if now - seen.at > WINDOW:
                    break
                known = self._table.pods.get(seen.info.uid)
                if known is None or known.row < 0:
                    continue
                removed.enter_context(_without(self._table, known))
                found = self._judge(pod, node)
                if found.agrees:
                    found.raced = True
                    return found
        return first

    def _reconsider(self) -> None:
        """Judge what is open again, with the bindings seen since."""
        for seen in list(self._open):
            known = self._table.pods.get(seen.info.uid)
            if known is None or known.row < 0 or seen.later >= NEIGHBOURS:
                continue
            seen.later += 1
            with _without(self._table, known):
                found = self._judge(known.pod, seen.node)
                if found.verdict == LOWER and self._may_be_sampled(known.pod, found):
                    found.verdict, found.sampled = AGREE, True
            if found.agrees:
                found.raced = True
                self._open.remove(seen)
                self._judged(found)

    def _may_be_sampled(self, pod: Pod, found: Judgement) -> bool:
        """True if the node may be the best of those that the scheduler looked at."""
        row = self._table.row_of(found.node)
        if self._sampling is None or row is None:
            return False
        info = self._table.info(unplaced(pod))
        try:
            return self._sampling.may_be_best(self._framework_of(pod), info, row)
        except PluginError:
            return False

    # On the present state

    def _judge(self, pod: Pod, node: str) -> Judgement:
        result = Judgement(pod.key, node, self._clock.now(), UNJUDGED, lag=_lag(pod, self._clock.now()))
        row = self._table.row_of(node)
        if row is None:
            result.reason = "the node is not known"
            return result
        framework = self._framework_of(pod)
        try:
            evaluation = framework.evaluate(self._table.info(unplaced(pod)))
            status = evaluation.status(row)
        except PluginError as error:
            result.reason = str(error)
            return result
        if not status.is_success:
            result.verdict = INFEASIBLE
            result.plugin = status.plugin
            result.reason = f"{status.plugin}: {status.message}"
            if evaluation.feasible_count:
                self._add_ours(result, evaluation)
            return result
        result.behind = _points_behind(evaluation, row)
        result.verdict = AGREE if not result.behind else LOWER
        if result.behind:
            self._add_ours(result, evaluation)
            result.theirs = {
                name: values[0] for name, values in evaluation.scores(np.array([row], dtype=np.intp)).items()
            }
            result.reason = f"{plural(result.behind, 'point')} behind {result.ours}"
            result.plugin = next(iter(result.gaps), "")
        return result

    @staticmethod
    def _add_ours(result: Judgement, evaluation: Evaluation) -> None:
        result.decision = decide(evaluation, lambda ties: 0, TOP)
        result.ours = result.decision.node or ""


def _lag(pod: Pod, now: float) -> float:
    """Seconds since a pod was bound, by the time of its condition, which knows whole seconds only."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            bound = moment(condition.last_transition_time)
            return 0.0 if bound is None else max(now - bound, 0.0)
    return 0.0


def _points_behind(evaluation: Evaluation, row: int) -> int:
    if not evaluation.scored:
        return 0
    totals = evaluation.totals()
    return int(totals[evaluation.best_rows()[0]] - totals[row])


@contextmanager
def _without(table: ClusterTable, info: PodInfo) -> Iterator[None]:
    """The table without a pod for as long as the block takes."""
    node = table.name_of(info.row)
    table.remove_pod(info.uid)
    try:
        yield
    finally:
        table.place(info, node)
