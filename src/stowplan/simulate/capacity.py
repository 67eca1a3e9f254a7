"""How much capacity? The number of sets of a mix of pods that fit; `cheapest` finds the nodes to buy."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from stowplan.explain.report import Bar, Bars, Figure, Figures, Part, Report, Table, Text
from stowplan.simulate.cheapest import NodeType, cheapest, read_catalogue
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.counting import Stop, refused, stop_of
from stowplan.simulate.creation.pods import create_others
from stowplan.simulate.fit import LIMITS
from stowplan.simulate.mix import Mix, SetSource, read_mix

__all__ = [
    "Capacity",
    "Mix",
    "NodeType",
    "cheapest",
    "read_catalogue",
    "read_mix",
    "report_of",
    "sets_that_fit",
]

SHOWN: Final = 20


@dataclass(slots=True)
class Capacity:
    """Number of whole sets that fit, the nodes of their pods, and the limiting constraint."""

    mix: Mix
    sets: int
    by_node: dict[str, int]
    stop: Stop | None
    ended_by: str
    """The workload whose pod found no node."""
    nodes: int

    def document(self) -> dict[str, Any]:
        return {
            "sets": self.sets,
            "pods": self.sets * self.mix.pods,
            "set": {workload.title: count for workload, count in self.mix.parts},
            "placements": self.by_node,
            "endedBy": self.ended_by or None,
            "stoppedBy": None if self.stop is None else self.stop.document(),
            "nodes": self.nodes,
        }


def sets_that_fit(cluster: Cluster, mix: Mix, limit: int | None = None) -> Capacity:
    """Place set after set until one is not complete. The cluster is left as it was."""
    found: Counter[str] = Counter()
    stop: Stop | None = None
    ended_by = ""
    sets = 0
    with cluster.fork():
        create_others(cluster, mix.manifests)
        source = SetSource(cluster, mix)
        eligible = [rows for _, rows in source.samples()]
        while limit is None or sets < limit:
            made = source.next_set()
            refusal = source.refusal
            if refusal is not None:
                stop, ended_by = refused(refusal), refusal.workload
                break
            outcome = cluster.schedule([pod for _, pods in made for pod in pods], preempt=False)
            if outcome.pending:
                workload, pod, rows = next(
                    (one, pod, rows)
                    for (one, pods), rows in zip(made, eligible, strict=True)
                    for pod in pods
                    if pod.key in outcome.pending
                )
                stop = stop_of(cluster, pod, rows, outcome.pending[pod.key])
                ended_by = workload.title
                break
            sets += 1
            found.update(outcome.placed.values())
    return Capacity(mix, sets, dict(found), stop, ended_by, cluster.table.node_count)


def report_of(found: Capacity) -> Report:
    """Number of sets that fit."""
    composition = ", ".join(f"{count} {workload.title}" for workload, count in found.mix.parts)
    ended = "" if found.stop is None else f", limited by {found.stop.name} at {found.ended_by}"
    parts: list[Part] = [
        Figures(
            [
                Figure("whole sets fit", found.sets, composition),
                Figure("pods", found.sets * found.mix.pods),
                Figure("nodes take them", len(found.by_node), f"of {found.nodes:,}"),
            ]
        )
    ]
    if found.stop is not None:
        who = "API server" if found.stop.refused else "scheduler"
        bars = [Bar(reason, float(nodes)) for reason, nodes in found.stop.reasons.items()]
        if bars:
            parts.append(Bars(bars, "", title=LIMITS))
        parts.append(Text(found.stop.message, title=f"the {who}'s message"))
    ranked = sorted(found.by_node.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        more = max(len(ranked) - SHOWN, 0)
        parts.append(Table(["node", "pods"], ranked[:SHOWN], (1,), more, title="where they go"))
    summary = f"{found.sets:,} sets of {composition} fit{ended}."
    return Report("capacity", summary, parts, found.document())
