"""Number of further pods of one kind that fit, and the limiting constraint.

Pods are placed one by one until one finds no node. Where a pod asks for nothing but room (no ports, volumes,
claims, affinity or hard spreading) the order does not matter: every node that can take it is filled until a
resource ends. Then nodes are counted without placing anybody, and the engine is asked whether the count is
right on some of them. At 5,000 nodes that is milliseconds instead of half a minute.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from stowplan.api.pod import Pod
from stowplan.explain.document.group import GroupDocument
from stowplan.scheduler.framework.decision import NO_NODES, fit_error_text
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.outcome import Refusal

HARD: Final = "DoNotSchedule"
TOO_MANY: Final = "Too many pods"
INSUFFICIENT: Final = "Insufficient "
_CHECKED: Final = 2
_MOST_PLACED: Final = 300
"""So many pods are put on a node to see whether the count is right."""
_OWN: Final = "stowplan.scheduler.plugins."


def _all(count: int) -> int:
    return count


@dataclass(frozen=True, slots=True)
class Stop:
    """Limiting constraint: the reason given by most of the nodes that could take the pod at first.

    `resource` is empty if it is a constraint. `reasons` has all of them with the number of nodes.
    """

    resource: str
    reason: str
    nodes: int
    message: str
    reasons: dict[str, int] = field(default_factory=dict)
    refused: bool = False
    """The API server creates no more pods; `reason` is in its words."""
    limit: str = ""
    """The reason of a refusal with the number that ends it."""
    group: GroupDocument | None = None
    """The group that is not placed, if it is that which ends it."""

    def document(self) -> dict[str, Any]:
        return {
            "resource": self.resource or None,
            "reason": self.reason,
            "nodes": self.nodes,
            "message": self.message,
            "reasons": self.reasons,
            "refused": self.refused,
            **({"limit": self.limit} if self.limit else {}),
            **({} if self.group is None else {"group": _group_in_short(self.group)}),
        }

    @property
    def name(self) -> str:
        """The resource or the constraint in a few words."""
        return self.resource or self.limit or self.reason


@dataclass(slots=True)
class Count:
    """Number that fits, by node, and the limiting constraint; None if the search or the pods ended first."""

    pods: int
    by_node: dict[str, int]
    stop: Stop | None


def count_more(
    cluster: Cluster, pods: Iterator[Pod], limit: int | None = None, allowed: Callable[[int], int] = _all
) -> Count:
    """Place pods that are alike until one finds no node, there are no more, or `limit` are placed one by one.

    `allowed` says how many pods of some number there can be: quotas may allow fewer than fit. The cluster is
    left as it was.
    """
    first = next(pods, None)
    if first is None:
        return Count(0, {}, None)
    begin = cluster.evaluate(first)
    eligible = begin.feasible_rows
    quick = _counted(cluster, first, begin) if len(eligible) else None
    if quick is not None:
        most = allowed(quick.pods)
        if most == quick.pods:
            return quick
        if limit is not None and most > limit:
            return Count(most, {}, None)
    found: Counter[str] = Counter()
    with cluster.fork():
        pod: Pod | None = first
        while pod is not None and (limit is None or found.total() < limit):
            outcome = cluster.schedule(pod, preempt=False)
            if outcome.pending:
                stop = stop_of(cluster, pod, eligible, outcome.pending[pod.key])
                return Count(found.total(), dict(found), stop)
            found.update(outcome.placed.values())
            pod = next(pods, None)
    return Count(found.total(), dict(found), None)


def refused(refusal: Refusal) -> Stop:
    """The end of a search because the API server creates no more pods."""
    return Stop("", refusal.reason, 0, refusal.message, refused=True, limit=refusal.limit)


def _group_in_short(group: GroupDocument) -> dict[str, Any]:
    return {
        "name": group.group,
        "kind": group.kind,
        "reason": group.reason,
        "minimum": group.minimum,
        "needed": group.needed,
        "fits": group.fits,
        "topologyKey": group.topology_key,
        "domains": {one.domain: one.fits for one in group.domains} if group.topology_key else {},
    }


def stop_of(cluster: Cluster, pod: Pod, eligible: Rows, message: str) -> Stop:
    """Why a pod finds no node, told by the nodes that could take such a pod at first."""
    if not cluster.table.node_count:
        return Stop("", NO_NODES, 0, message)
    group = _waiting_group(cluster, pod)
    if group is not None:
        return _stop_of_group(group, message)
    evaluation = cluster.evaluate(pod)
    if evaluation.rejected_outright is not None:
        reason = ", ".join(evaluation.rejected_outright.reasons) or evaluation.rejected_outright.message
        return Stop("", reason, cluster.table.node_count, message, {reason: cluster.table.node_count})
    counts: Counter[str] = Counter()
    wanted = eligible if len(eligible) else np.flatnonzero(cluster.table.valid)
    for status, rows in evaluation.rejections().items():
        nodes = int(np.isin(rows, wanted, assume_unique=True).sum())
        for reason in status.reasons if nodes else ():
            counts[reason] += nodes
    return _stop(counts, message)


def _waiting_group(cluster: Cluster, pod: Pod) -> GroupDocument | None:
    """The group that a pod waits for: all of its members do."""
    key = cluster.table.groups.whole_of(cluster.seen(pod))
    found = None if key is None else cluster.explain_group(key)
    return found if found is not None and found.is_waiting else None


def _stop_of_group(group: GroupDocument, message: str) -> Stop:
    counts: Counter[str] = Counter()
    for line in () if group.stopped_by is None else group.stopped_by.funnel:
        counts[line.reason] += line.nodes
    found = _stop(counts, message) if counts else Stop("", group.reason, 0, message)
    return replace(found, group=group)


def _stop(counts: Counter[str], message: str) -> Stop:
    if not counts:
        return Stop("", message, 0, message)
    [(reason, nodes)] = counts.most_common(1)
    return Stop(resource_in(reason), reason, nodes, message, dict(counts.most_common()))


def resource_in(reason: str) -> str:
    """The resource that a reason is about, "" if it is about something else."""
    if reason == TOO_MANY:
        return "pods"
    return reason.removeprefix(INSUFFICIENT) if reason.startswith(INSUFFICIENT) else ""


def _counted(cluster: Cluster, pod: Pod, begin: Evaluation) -> Count | None:
    """The count by arithmetic, if the pod asks for nothing but room and the engine agrees."""
    framework = cluster.framework_of(pod)
    info = cluster.table.info(pod)
    if cluster.gate_of(pod) or not asks_for_room_only(framework, info):
        return None
    table = cluster.table
    rows = begin.feasible_rows
    asked = info.template.requests.amounts()
    free = {name: (table.allocatable_of(name) - table.requested_of(name))[rows] for name in asked}
    slots = (table.allowed_pods - table.pod_count)[rows]
    fitting = slots.copy()
    for name, amount in asked.items():
        np.minimum(fitting, free[name] // amount, out=fitting)
    reasons = begin.reason_counts()
    own: Counter[str] = Counter()
    full = np.count_nonzero(slots - fitting < 1)
    if full:
        own[TOO_MANY] = int(full)
    for name, amount in asked.items():
        short = np.count_nonzero(free[name] - fitting * amount < amount)
        if short:
            own[f"{INSUFFICIENT}{name}"] = int(short)
    if not _engine_agrees(cluster, pod, rows, fitting):
        return None
    message = fit_error_text(table.node_count, reasons + own)
    by_node = {table.names[row]: int(count) for row, count in zip(rows, fitting, strict=True) if count}
    return Count(int(fitting.sum()), by_node, _stop(own, message))


def asks_for_room_only(framework: Framework, info: PodInfo) -> bool:
    """True if a pod on one node changes nothing for such a pod on another."""
    spec, template = info.pod.spec, info.template
    hard = any(one.when_unsatisfiable == HARD for one in spec.topology_spread_constraints)
    if hard or template.volumes or template.ports or template.carries_terms or spec.resource_claims:
        return False
    if spec.scheduling_group is not None:
        return False
    if any(not type(plugin).__module__.startswith(_OWN) for plugin in framework.at(ExtensionPoint.FILTER)):
        return False
    args = framework.profile.args
    spread, fit = args.get("PodTopologySpread"), args.get("NodeResourcesFit")
    if any(one.when_unsatisfiable == HARD for one in getattr(spread, "default_constraints", ())):
        return False
    return not (getattr(fit, "ignored_resources", ()) or getattr(fit, "ignored_resource_groups", ()))


def _engine_agrees(cluster: Cluster, pod: Pod, rows: Rows, fitting: Any) -> bool:
    """Fill some nodes: with one pod less than counted the node must take it, with all of them no more."""
    candidates = [place for place in np.argsort(fitting) if 0 < fitting[place] <= _MOST_PLACED]
    for place in dict.fromkeys([*candidates[:_CHECKED], *candidates[-1:]]):
        row, count = int(rows[place]), int(fitting[place])
        if _takes(cluster, pod, row, count - 1) is not True or _takes(cluster, pod, row, count):
            return False
    return True


def _takes(cluster: Cluster, pod: Pod, row: int, count: int) -> bool:
    """True if a node takes a pod next to n of its kind."""
    with cluster.fork():
        for number in range(count):
            cluster.put_copy(pod, f"{pod.name}~{number}", cluster.table.names[row])
        return bool(np.any(cluster.evaluate(pod).feasible_rows == row))
