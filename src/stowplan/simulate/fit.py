"""Will it fit? Where each replica of a workload would go, how many more fit, and what ends it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as numbers
from typing import Any, Final

from stowplan.api.pod import Pod
from stowplan.explain.report import Bar, Bars, Figure, Figures, Part, Report, Table, Text
from stowplan.explain.report.model import BAD, GOOD
from stowplan.simulate.applying import new_pods
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.counting import Count, Stop, count_more, stop_of
from stowplan.simulate.outcome import Outcome
from stowplan.simulate.workloads import DAEMON_SET, Manifests, Workload

SEARCH: Final = 2_000
"""So many more are tried one by one, where it is not `--max` that is asked for."""
SHOWN: Final = 20
_BATCH: Final = 256


@dataclass(slots=True)
class WorkloadFit:
    """What came of one workload."""

    workload: Workload
    asked: int
    outcome: Outcome = field(default_factory=Outcome)
    by_node: dict[str, int] = field(default_factory=dict)
    replicas: int = 0
    more: int | None = None
    more_is_known: bool = True
    """False: there may be still more, the search was ended."""
    stop: Stop | None = None

    @property
    def fits(self) -> bool:
        return self.replicas >= self.asked

    def document(self) -> dict[str, Any]:
        return {
            "workload": self.workload.title,
            "namespace": self.workload.namespace,
            "fits": self.fits,
            "asked": self.asked,
            "replicas": self.replicas,
            "more": self.more,
            "moreIsAtLeast": not self.more_is_known,
            "placements": self.by_node,
            "pods": self.outcome.placed,
            "pending": self.outcome.pending,
            "evictions": [one._asdict() for one in self.outcome.evictions],
            "stoppedBy": None if self.stop is None else self.stop.document(),
        }


@dataclass(slots=True)
class Fit:
    """What came of all workloads of the files."""

    workloads: list[WorkloadFit]
    source: str
    nodes: int

    @property
    def fits(self) -> bool:
        return all(one.fits for one in self.workloads)

    def document(self) -> dict[str, Any]:
        total: Counter[str] = Counter()
        for one in self.workloads:
            total.update(one.by_node)
        stopped = next((one.stop for one in self.workloads if one.stop is not None and not one.fits), None)
        if stopped is None:
            stopped = next((one.stop for one in self.workloads if one.stop is not None), None)
        return {
            "fits": self.fits,
            "replicas": sum(one.replicas for one in self.workloads),
            "placements": dict(total),
            "stoppedBy": None if stopped is None else stopped.document(),
            "workloads": [one.document() for one in self.workloads],
            "source": self.source,
        }


def fit(
    cluster: Cluster,
    manifests: Manifests,
    *,
    replicas: int | None = None,
    preempt: bool = False,
    more: bool = True,
    source: str = "",
) -> Fit:
    """Place the workloads of manifests, in their order. The cluster is left as it was.

    Nobody is evicted unless `preempt`. With `more` it is counted how many more of each would fit afterwards.
    """
    with cluster.fork():
        cluster.add(*manifests.objects)
        made = [(one, new_pods(cluster, one, replicas, manifests)) for one in manifests.workloads]
        eligible = {one.title: _feasible(cluster, pods) for one, pods in made}
        together = cluster.schedule([pod for _, pods in made for pod in pods], preempt=preempt)
        found = []
        for one, pods in made:
            result = _shared(one, pods, together)
            found.append(result)
            waiting = next((pod for pod in pods if pod.key in together.pending), None)
            if waiting is not None:
                result.more = 0
                result.stop = stop_of(cluster, waiting, eligible[one.title], together.pending[waiting.key])
            elif more and one.kind != DAEMON_SET:
                _count_more(cluster, result, manifests)
        return Fit(found, source, cluster.table.node_count)


def fit_max(cluster: Cluster, manifests: Manifests, workload: Workload, *, source: str = "") -> Fit:
    """As many replicas as fit. The cluster is left as it was."""
    with cluster.fork():
        cluster.add(*manifests.objects)
        counted = count_more(cluster, endless(cluster, workload, manifests))
        result = WorkloadFit(workload, 1, by_node=counted.by_node, replicas=counted.pods, stop=counted.stop)
        result.more = 0
        return Fit([result], source, cluster.table.node_count)


def endless(cluster: Cluster, workload: Workload, manifests: Manifests) -> Iterator[Pod]:
    """Pods of a workload, as many as are asked for, made by the hundred."""
    around = cluster.surroundings(manifests.claim_templates)
    taken = frozenset((*cluster.placements, *cluster.pending))
    first = 0
    for batch in numbers():
        size = 1 if not batch else _BATCH
        made = workload.pods(size, around, taken, first=first)
        if made.owner is not None:
            cluster.add(made.owner)
        cluster.add(*made.objects)
        yield from made.pods
        first = made.next_number


def _feasible(cluster: Cluster, pods: Sequence[Pod]) -> Any:
    return cluster.evaluate(pods[0]).feasible_rows.copy() if pods and cluster.table.node_count else ()


def _shared(workload: Workload, pods: Sequence[Pod], together: Outcome) -> WorkloadFit:
    """The part of an outcome that is about one workload."""
    own = {pod.key for pod in pods}
    outcome = Outcome(
        {key: node for key, node in together.placed.items() if key in own},
        {key: why for key, why in together.pending.items() if key in own},
        [one for one in together.evictions if one.by in own],
        [],
    )
    by_node = dict(Counter(outcome.placed.values()))
    return WorkloadFit(workload, len(pods), outcome, by_node, len(outcome.placed))


def _count_more(cluster: Cluster, result: WorkloadFit, manifests: Manifests) -> None:
    counted: Count = count_more(cluster, endless(cluster, result.workload, manifests), SEARCH)
    result.more, result.stop = counted.pods, counted.stop
    result.more_is_known = counted.stop is not None


def report_of(found: Fit, *, at_most: bool) -> Report:
    """The answer for people: in a sentence, then the evidence."""
    parts: list[Part] = []
    for one in found.workloads:
        parts += _parts(one, at_most, len(found.workloads) > 1)
    return Report(
        title=f"fit: {', '.join(one.workload.title for one in found.workloads)}",
        summary=" ".join(_sentence(one, at_most) for one in found.workloads),
        parts=parts,
        data=found.document(),
    )


def _sentence(one: WorkloadFit, at_most: bool) -> str:
    title = one.workload.title
    ended = "" if one.stop is None else f"; {one.stop.name} ends it"
    if at_most:
        return f"{one.replicas:,} replicas of {title} fit{ended}."
    if one.fits:
        more = ""
        if one.more is not None:
            least = "" if one.more_is_known else "at least "
            more = f", {least}{one.more:,} more would{ended}"
        return f"All {one.asked:,} replicas of {title} fit{more}."
    return f"{one.replicas:,} of {one.asked:,} replicas of {title} fit{ended}."


def _parts(one: WorkloadFit, at_most: bool, named: bool) -> list[Part]:
    heading = f"{one.workload.title}: " if named else ""
    figures = [
        Figure("replicas fit" if at_most else f"of {one.asked:,} replicas fit", one.replicas, "", _tone(one)),
        Figure("nodes take them", len(one.by_node)),
    ]
    if one.more and not at_most:
        figures.append(Figure("more would fit", one.more))
    parts: list[Part] = [Figures(figures, title=f"{heading}namespace {one.workload.namespace}")]
    if one.by_node:
        ranked = sorted(one.by_node.items(), key=lambda item: (-item[1], item[0]))
        rows = [(node, count) for node, count in ranked[:SHOWN]]
        parts.append(Table(["node", "pods"], rows, (1,), max(len(ranked) - SHOWN, 0), title="where they go"))
    if one.outcome.evictions:
        rows_of = [(gone.pod, gone.node, gone.by) for gone in one.outcome.evictions[:SHOWN]]
        more = max(len(one.outcome.evictions) - SHOWN, 0)
        parts.append(Table(["evicted", "from", "for"], rows_of, (), more, title="who has to go"))
    if one.stop is not None:
        bars = [Bar(reason, float(nodes)) for reason, nodes in one.stop.reasons.items()]
        if bars:
            parts.append(Bars(bars, "", title="what ends it: nodes that could take one at first"))
        parts.append(Text(one.stop.message, title="the scheduler's message"))
    return parts


def _tone(one: WorkloadFit) -> str:
    return GOOD if one.fits and one.replicas else BAD
