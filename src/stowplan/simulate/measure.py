"""Utilization and evenness of a cluster, which are compared before and after a change."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.pod import Pod, TopologySpreadConstraint
from stowplan.api.rules.nodeselector import required_node_affinity
from stowplan.scheduler.table.podinfo import PodTemplate
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.scheduling import is_daemon

ZONE: Final = "topology.kubernetes.io/zone"
ALWAYS: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one resource: what nodes offer, what pods request. cpu is in millicores, memory in bytes."""

    offered: int
    requested: int
    spread: float
    """Standard deviation of nodes' percentages."""

    @property
    def percent(self) -> float:
        return round(100 * self.requested / self.offered, 1) if self.offered else 0.0

    def document(self) -> dict[str, Any]:
        return {
            "allocatable": self.offered,
            "requested": self.requested,
            "percent": self.percent,
            "deviation": self.spread,
        }


@dataclass(frozen=True, slots=True)
class Skew:
    """Skew of pods over the domains of a constraint."""

    pods: str
    key: str
    max_skew: int
    hard: bool
    skew: int
    domains: dict[str, int]

    @property
    def violated(self) -> bool:
        return self.skew > self.max_skew

    def document(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "topologyKey": self.key,
            "maxSkew": self.max_skew,
            "hard": self.hard,
            "skew": self.skew,
            "domains": self.domains,
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at one moment."""

    nodes: int
    schedulable: int
    empty: int
    """Nodes without pods other than those of DaemonSets and static ones."""
    pods: int
    pending: int
    usage: dict[str, Usage]
    zones: dict[str, dict[str, Any]]
    skews: list[Skew] = field(default_factory=list)

    @property
    def violated(self) -> int:
        return sum(1 for one in self.skews if one.violated)

    def document(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "schedulable": self.schedulable,
            "emptyNodes": self.empty,
            "pods": self.pods,
            "pending": self.pending,
            "utilisation": {name: one.document() for name, one in self.usage.items()},
            "spread": {
                "zones": self.zones,
                "constraints": [one.document() for one in self.skews],
                "violated": self.violated,
            },
        }


def picture_of(cluster: Cluster) -> Picture:
    """The cluster as it is now. Nodes that are cordoned do not count as room."""
    table = cluster.table
    rows = np.flatnonzero(table.valid)
    open_rows = rows[~table.unschedulable[rows]]
    usage = {name: _usage(cluster, name, rows, open_rows) for name in resources_of(cluster)}
    return Picture(
        nodes=len(rows),
        schedulable=len(open_rows),
        empty=sum(1 for row in open_rows.tolist() if is_empty(cluster, row)),
        pods=sum(len(table.pods_on[row]) for row in rows.tolist()),
        pending=len(cluster.pending),
        usage=usage,
        zones=_zones(cluster, rows),
        skews=skews_of(cluster, cluster.pods),
    )


def resources_of(cluster: Cluster) -> list[str]:
    """The resources to look at: cpu, memory, pods, and extended resources that nodes offer."""
    names = {name for node in cluster.nodes for name in node.status.allocatable}
    return [*ALWAYS, *sorted(name for name in names if "/" in name)]


def columns_of(cluster: Cluster, resource: str) -> tuple[Any, Any]:
    """Allocatable and requested amount of a resource, by row."""
    table = cluster.table
    if resource == "pods":
        return table.allowed_pods, table.pod_count
    return table.allocatable_of(resource), table.requested_of(resource)


def is_empty(cluster: Cluster, row: int) -> bool:
    """True if a node has no pods but those that belong to it."""
    return all(is_daemon(info.pod) for info in cluster.table.pods_on[row].values())


def _usage(cluster: Cluster, resource: str, rows: Any, open_rows: Any) -> Usage:
    offered, requested = columns_of(cluster, resource)
    here = open_rows[offered[open_rows] > 0]
    shares = 100 * requested[here] / offered[here] if len(here) else np.zeros(1)
    return Usage(int(offered[open_rows].sum()), int(requested[rows].sum()), round(float(np.std(shares)), 2))


def _zones(cluster: Cluster, rows: Any) -> dict[str, dict[str, Any]]:
    offered, requested = columns_of(cluster, "cpu")
    by_zone: dict[str, list[int]] = {}
    for row in rows.tolist():
        node = cluster.table.nodes[row]
        zone = node.metadata.labels.get(ZONE) if node is not None else None
        if zone is not None:
            by_zone.setdefault(zone, []).append(row)
    found = {}
    for zone, own in sorted(by_zone.items()):
        room = int(offered[own].sum())
        found[zone] = {
            "nodes": len(own),
            "pods": sum(len(cluster.table.pods_on[row]) for row in own),
            "cpuPercent": round(100 * int(requested[own].sum()) / room, 1) if room else 0.0,
        }
    return found


def skews_of(cluster: Cluster, pods: Iterable[Pod]) -> list[Skew]:
    """The skew of every constraint of some pods, over the domains of nodes that their affinity allows."""
    asked: dict[Any, tuple[Pod, TopologySpreadConstraint, LabelSelector]] = {}
    seen: set[int] = set()
    for pod in pods:
        if not pod.spec.topology_spread_constraints or id(pod.spec) in seen:
            continue
        seen.add(id(pod.spec))
        for constraint in pod.spec.topology_spread_constraints:
            selector = _own_selector(pod, constraint)
            key = (pod.namespace, constraint.topology_key, constraint.max_skew, str(selector))
            asked.setdefault(key, (pod, constraint, selector))
    groups = _by_template(cluster, {namespace for namespace, *_ in asked})
    found = [_skew(cluster, groups, *one) for one in asked.values()]
    return [one for one in found if one is not None]


_Groups = dict[str, dict[PodTemplate, Counter[int]]]


def _by_template(cluster: Cluster, namespaces: set[str]) -> _Groups:
    """Number of pods of each template, which have the same labels, on each row, by namespace."""
    found: _Groups = {namespace: {} for namespace in namespaces}
    for info in cluster.table.pods.values() if namespaces else ():
        if info.namespace in namespaces and info.row >= 0:
            found[info.namespace].setdefault(info.template, Counter())[info.row] += 1
    return found


def _own_selector(pod: Pod, constraint: TopologySpreadConstraint) -> LabelSelector:
    given = constraint.label_selector or LabelSelector()
    labels = pod.metadata.labels
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return LabelSelector(
        match_labels={**given.match_labels, **own}, match_expressions=given.match_expressions
    )


def _skew(
    cluster: Cluster, groups: _Groups, pod: Pod, constraint: TopologySpreadConstraint, selector: LabelSelector
) -> Skew | None:
    try:
        matches: Selector = compile_selector(selector)
        affinity = required_node_affinity(pod.spec)
        key = constraint.topology_key
        domains: Counter[str] = Counter()
        domain_of: dict[int, str] = {}
        for row, node in enumerate(cluster.table.nodes):
            if node is None or key not in node.metadata.labels:
                continue
            if affinity.matches(node.metadata.labels, node.name):
                domain_of[row] = node.metadata.labels[key]
                domains[domain_of[row]] += 0
    except SelectorError:
        return None
    for template, rows in groups[pod.namespace].items():
        if matches.matches(template.pod.metadata.labels):
            for row, count in rows.items():
                if row in domain_of:
                    domains[domain_of[row]] += count
    if not domains:
        return None
    hard = constraint.when_unsatisfiable == "DoNotSchedule"
    name = ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items())) or "all pods"
    skew = max(domains.values()) - min(domains.values())
    return Skew(
        f"{pod.namespace}: {name}", constraint.topology_key, constraint.max_skew, hard, skew, dict(domains)
    )


def fullness(cluster: Cluster, resource: str = "cpu") -> tuple[Sequence[str], Sequence[float]]:
    """Names of nodes and how full they are, from 0 to 1."""
    offered, requested = columns_of(cluster, resource)
    rows = np.flatnonzero(cluster.table.valid).tolist()
    names = [cluster.table.names[row] for row in rows]
    shares = [
        min(float(requested[row]) / float(offered[row]), 1.0) if offered[row] > 0 else 0.0 for row in rows
    ]
    return names, shares
