"""Will it fit? Where each replica of a workload would go, how many more fit, and what limits them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.api.pod import Pod
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.report import Bar, Bars, Figure, Figures, Part, Report, Table, Text
from stowplan.explain.report.model import BAD, GOOD
from stowplan.explain.states import INCOMPLETE
from stowplan.scheduler.table.changes import NO_ROWS
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.counting import Count, Stop, count_more, refused, stop_of
from stowplan.simulate.creation.manifests import Manifests
from stowplan.simulate.creation.pods import PodSource, create_others
from stowplan.simulate.creation.workloads import DAEMON_SET, Workload
from stowplan.simulate.outcome import Outcome, Refusal

SEARCH: Final = 2_000
"""So many more are tried one by one, where it is not `--max` that is asked for."""
SHOWN: Final = 20
LIMITS: Final = "limiting constraint, by initially feasible node"
"""Title of the reasons of the nodes that could take a replica of an empty workload."""


@dataclass(slots=True)
class WorkloadFit:
    """Result for one workload."""

    workload: Workload
    asked: int
    outcome: Outcome = field(default_factory=Outcome)
    by_node: dict[str, int] = field(default_factory=dict)
    replicas: int = 0
    more: int | None = None
    more_is_known: bool = True
    """False: there may be still more, the search was ended."""
    stop: Stop | None = None
    refusal: Refusal | None = None
    """The pods that the API server does not create."""

    @property
    def fits(self) -> bool:
        return self.replicas >= self.asked and self.refusal is None

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
            "notCreated": None if self.refusal is None else self.refusal.document(),
            "evictions": [one._asdict() for one in self.outcome.evictions],
            "stoppedBy": None if self.stop is None else self.stop.document(),
        }


@dataclass(slots=True)
class Fit:
    """Result for all workloads of the files."""

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


_LARGE: Final = 20_000
"""From so many replicas on it is counted first how many fit: pods beyond that need not be made."""


def fit(
    cluster: Cluster,
    manifests: Manifests,
    *,
    replicas: int | None = None,
    preempt: bool = False,
    more: bool = True,
    source: str = "",
    look: Callable[[Cluster], object] = lambda cluster: None,
) -> Fit:
    """Place the workloads of manifests, in their order. The cluster is left as it was.

    Nobody is evicted unless `preempt`. With `more` it is counted how many more of each would fit afterwards.
    `look` is called with the cluster when the pods are placed.
    """
    with cluster.fork():
        create_others(cluster, manifests)
        too_many = None if preempt else _too_many(cluster, manifests.workloads, replicas)
        if too_many is not None:
            return Fit([too_many], source, cluster.table.node_count)
        made = [_created(cluster, one, replicas) for one in manifests.workloads]
        eligible = [_feasible(cluster, one.pods) for one in made]
        together = _scheduled(cluster, made, preempt)
        look(cluster)
        found = []
        for one, rows in zip(made, eligible, strict=True):
            result = _shared(one, together)
            found.append(result)
            waiting = next((pod for pod in one.pods if pod.key in together.pending), None)
            if waiting is not None:
                result.more = 0
                result.stop = stop_of(cluster, waiting, rows, together.pending[waiting.key])
            if result.refusal is not None and (waiting is None or _is_incomplete(result.stop)):
                result.more = 0
                result.stop = refused(result.refusal)
            elif waiting is None and more and result.workload.kind != DAEMON_SET:
                counted = _counted(cluster, result.workload, SEARCH)
                result.more, result.stop = counted.pods, counted.stop
                result.more_is_known = counted.stop is not None
        return Fit(found, source, cluster.table.node_count)


def fit_max(cluster: Cluster, manifests: Manifests, workload: Workload, *, source: str = "") -> Fit:
    """As many replicas as fit and may be created. The cluster is left as it was."""
    with cluster.fork():
        create_others(cluster, manifests)
        counted = _counted_gang(cluster, workload) or _counted(cluster, workload, None)
        result = WorkloadFit(workload, 1, by_node=counted.by_node, replicas=counted.pods, stop=counted.stop)
        result.more = 0
        return Fit([result], source, cluster.table.node_count)


def _is_incomplete(stop: Stop | None) -> bool:
    """True if a group waits for members that were not created."""
    return stop is not None and stop.group is not None and stop.group.state == INCOMPLETE


class _Created(NamedTuple):
    """The pods of a workload that the API server creates."""

    workload: Workload
    asked: int
    source: PodSource
    pods: list[Pod]

    @property
    def refusal(self) -> Refusal | None:
        if not self.source.refusal:
            return None
        return Refusal(self.workload.title, max(self.asked - len(self.pods), 1), self.source.refusal)


def _too_many(cluster: Cluster, workloads: Sequence[Workload], replicas: int | None) -> WorkloadFit | None:
    """The answer for one workload of many replicas if they do not fit; None if they may."""
    if len(workloads) != 1 or workloads[0].kind == DAEMON_SET:
        return None
    [workload] = workloads
    asked = workload.replicas if replicas is None else replicas
    if asked < _LARGE:
        return None
    counted = _counted_gang(cluster, workload) or _counted(cluster, workload, None)
    if counted.pods >= asked:
        return None
    return WorkloadFit(
        workload, asked, by_node=counted.by_node, replicas=counted.pods, more=0, stop=counted.stop
    )


def _created(cluster: Cluster, workload: Workload, replicas: int | None) -> _Created:
    asked = workload.replicas if replicas is None else replicas
    source = PodSource(cluster, workload)
    if workload.kind == DAEMON_SET:
        pods = source.create(asked)
        return _Created(workload, max(len(pods), len(workload.nodes(cluster.nodes))), source, pods)
    most = asked
    if asked >= _LARGE:
        table = cluster.table
        most = min(asked, int(table.allowed_pods[table.valid].sum()) + 1)
    return _Created(workload, asked, source, source.create(most))


def _scheduled(cluster: Cluster, made: Sequence[_Created], preempt: bool) -> Outcome:
    """Schedule all pods, as long as one after the other finds a node.

    Evictions give room back to quotas: controllers create what was refused then. A pod that found no node may
    find one when others have theirs, for example in a domain that had too many pods: events wake it.
    """
    together = cluster.schedule([pod for one in made for pod in one.pods], preempt=preempt)
    gone = len(together.lost)
    while True:
        more = _created_later(made) if gone else []
        waiting = [pod for one in made for pod in one.pods if pod.key in together.pending]
        if not more and (not together.placed or not _any_fits(cluster, made, together, preempt)):
            return together
        later = cluster.schedule([*waiting, *more], preempt=preempt)
        together.extend(later)
        gone = len(later.lost)


def _created_later(made: Sequence[_Created]) -> list[Pod]:
    """Pods that quotas refused and allow now."""
    found: list[Pod] = []
    for one in made:
        if one.source.refusal:
            created = one.source.again(one.asked - len(one.pods))
            one.pods.extend(created)
            found += created
    return found


def _any_fits(cluster: Cluster, made: Sequence[_Created], together: Outcome, preempt: bool) -> bool:
    """True if the first pod that waits, of any workload, finds a node now."""
    first = (next((pod for pod in one.pods if pod.key in together.pending), None) for one in made)
    waiting = [pod for pod in first if pod is not None]
    with cluster.fork():
        outcome = cluster.schedule(waiting, preempt=preempt)
        return any(pod.key in outcome.placed for pod in waiting)


def _counted(cluster: Cluster, workload: Workload, limit: int | None) -> Count:
    """Number of further replicas that fit, or may be created: then admission is the limiting constraint."""
    source = PodSource(cluster, workload)
    refusal = ""

    def allowed(count: int) -> int:
        nonlocal refusal
        charged = source.allowed(count - 1)
        refusal = charged.refusal
        return 1 + charged.allowed

    with cluster.fork():
        counted = count_more(cluster, source.endless(), limit, allowed)
    refusal = source.refusal or refusal
    if counted.stop is None and refusal:
        counted.stop = refused(Refusal(workload.title, 1, refusal))
    return counted


def _counted_gang(cluster: Cluster, workload: Workload) -> Count | None:
    """Number of pods of a gang that fit at once; None if it is no gang.

    A gang is tried with more and more members, because it is placed where most of them fit.
    """
    with cluster.fork():
        first = PodSource(cluster, workload).create(1)
        key = cluster.table.groups.whole_of(cluster.seen(first[0])) if first else None
    obj = None if key is None else cluster.table.groups.object(key)
    if obj is None or not obj.is_gang:
        return None
    size = max(obj.minimum, 1)
    while True:
        with cluster.fork():
            source = PodSource(cluster, workload)
            pods = source.create(size)
            outcome = cluster.schedule(pods, preempt=False)
            waiting = next((pod for pod in pods if pod.key in outcome.pending), None)
            if waiting is not None:
                stop: Stop | None = stop_of(cluster, waiting, NO_ROWS, outcome.pending[waiting.key])
            elif source.refusal:
                stop = refused(Refusal(workload.title, 1, source.refusal))
            else:
                size *= 2
                continue
            return Count(len(outcome.placed), dict(Counter(outcome.placed.values())), stop)


def _feasible(cluster: Cluster, pods: Sequence[Pod]) -> Any:
    return cluster.evaluate(pods[0]).feasible_rows.copy() if pods and cluster.table.node_count else ()


def _shared(created: _Created, together: Outcome) -> WorkloadFit:
    """The part of an outcome that is about one workload."""
    own = {pod.key for pod in created.pods}
    outcome = Outcome(
        {key: node for key, node in together.placed.items() if key in own},
        {key: why for key, why in together.pending.items() if key in own},
        [one for one in together.evictions if one.by in own],
        [],
    )
    by_node = dict(Counter(outcome.placed.values()))
    return WorkloadFit(
        created.workload, created.asked, outcome, by_node, len(outcome.placed), refusal=created.refusal
    )


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
    ended = "" if one.stop is None else ended_by(one.stop)
    if one.refusal is not None:
        created = f"{max(one.asked - one.refusal.pods, 0):,} of {one.asked:,} are created"
        ended = f"{'' if one.stop is None or one.stop.refused else ended}; {created}: {one.refusal.limit}"
    elif one.stop is not None and one.stop.refused:
        ended = f"; no more are created: {one.stop.limit}"
    if at_most:
        return f"{one.replicas:,} replicas of {title} fit{ended}."
    if one.fits:
        more = ""
        if one.more is not None:
            least = "" if one.more_is_known else "at least "
            more = f"; room for {least}{one.more:,} more{ended}"
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
        if one.stop.group is not None and one.stop.group.topology_key and not one.replicas:
            parts.append(_domains(one.stop.group))
        bars = [Bar(reason, float(nodes)) for reason, nodes in one.stop.reasons.items()]
        if bars:
            title = LIMITS
            if one.stop.group is not None and one.stop.group.stopped_by is not None:
                title = f"limiting constraint, by node of {one.stop.group.stopped_by.domain or 'the cluster'}"
            parts.append(Bars(bars, "", title=title))
        who = "API server" if one.stop.refused else "scheduler"
        parts.append(Text(one.stop.message, title=f"the {who}'s message"))
    if one.refusal is not None and (one.stop is None or not one.stop.refused):
        parts.append(Text(one.refusal.message, title="the API server's message"))
    return parts


def _domains(group: GroupDocument) -> Table:
    """Progress of a gang in each domain that it may be in."""
    ranked = sorted(group.domains, key=lambda domain: (-domain.fits, domain.domain))
    rows = [(one.domain, one.nodes, one.fits) for one in ranked[:SHOWN]]
    title = f"domains of {group.group} ({group.topology_key}): {group.needed} must fit in one"
    more = max(group.domain_count - len(rows), 0)
    return Table(["domain", "nodes", "fit"], rows, (1, 2), more, title=title)


def ended_by(stop: Stop) -> str:
    """The end of a sentence: the limiting constraint."""
    group = stop.group
    if group is None:
        return f", limited by {stop.name}"
    if group.scheduled >= group.minimum:
        domain = "" if group.stopped_by is None else group.stopped_by.domain
        return f", limited by {stop.name}{f' in {domain}' if domain else ''}"
    name = f"{group.kind.lower()}/{group.group.rpartition('/')[2]}"
    why = f", limited by {stop.name}" if stop.resource else ""
    return f"; {name}: {group.reason}{why}"


def _tone(one: WorkloadFit) -> str:
    return GOOD if one.fits and one.replicas else BAD
