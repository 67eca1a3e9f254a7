"""A plan to rebalance: moves in order, each safe for budgets, each with what it gains.

A move is an eviction; the engine says where the replacement goes, after everything that was moved before. To
free a node it is cordoned first, or its pods would come back; nodes that were free before are cordoned only
while a pod would go there. A pod is only moved if its controller creates
it anew and its budgets let it go at that moment, with every earlier replacement ready.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stowplan.api.pod import Pod
from stowplan.explain.layout import plural
from stowplan.explain.report import Figure, Figures, Part, Report, Table, Text
from stowplan.simulate.budgets import Budgets
from stowplan.simulate.changes import movable
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.measure import columns_of, is_empty, skews_of
from stowplan.simulate.scheduling import is_daemon

FREE_NODES: Final = "free-nodes"
EVEN: Final = "even"
SPREAD: Final = "spread"
GPUS: Final = "gpus"
AIMS: Final = (FREE_NODES, EVEN, SPREAD, GPUS)
_LEAST_GAIN: Final = 1e-6
_CANDIDATES: Final = 64
"""So many pods are tried for a move before the search is given up."""
SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Move:
    """A step: cordon or uncordon a node (`pod` is empty), or evict a pod, which the engine puts on `to`."""

    action: str
    node: str
    pod: str = ""
    to: str = ""
    gain: float = 0.0

    def document(self) -> dict[str, Any]:
        if not self.pod:
            return {"action": self.action, "node": self.node}
        return {
            "action": self.action,
            "pod": self.pod,
            "from": self.node,
            "to": self.to,
            "gain": round(self.gain, 4),
        }


@dataclass(slots=True)
class Plan:
    """Steps in order, and the figure that they improve."""

    aim: str
    what: str
    before: float
    after: float
    steps: list[Move] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Nodes or pods that were not moved, and why."""

    @property
    def evictions(self) -> list[Move]:
        return [step for step in self.steps if step.pod]

    def document(self) -> dict[str, Any]:
        return {
            "aim": self.aim,
            "measure": self.what,
            "before": round(self.before, 4),
            "after": round(self.after, 4),
            "moves": len(self.evictions),
            "steps": [step.document() for step in self.steps],
            "skipped": self.skipped,
        }


def rebalance(cluster: Cluster, aim: str, *, most: int = 50, resource: str = "") -> Plan:
    """A plan of at most so many evictions. The cluster is left as it was. Raises ValueError for another aim.

    `resource` is what is evened out (cpu), or the GPUs that are defragmented (the first extended resource
    whose name ends in `gpu`).
    """
    if aim not in AIMS:
        raise ValueError(f"aim: expected one of {', '.join(AIMS)}, got {aim!r}")
    with cluster.fork():
        planner = _Planner(cluster, most, resource)
        return {
            FREE_NODES: planner.free_nodes,
            EVEN: planner.even_out,
            SPREAD: planner.repair_spread,
            GPUS: planner.defragment,
        }[aim]()


class _Planner:
    def __init__(self, cluster: Cluster, most: int, resource: str) -> None:
        self.cluster = cluster
        self.budgets = Budgets(cluster)
        self.most = most
        self.resource = resource

    # Whole nodes

    def free_nodes(self) -> Plan:
        """Empty nodes that have little on them, as long as their pods fit elsewhere."""
        plan = Plan(FREE_NODES, "empty nodes", self._empty_nodes(), 0.0)
        return self._empty(
            plan,
            self._by_load("cpu"),
            self._empty_nodes,
            lambda pod: True,
            lambda row: is_empty(self.cluster, row),
        )

    def defragment(self) -> Plan:
        """Take pods with GPUs off nodes that are partly used, so that nodes have all of theirs free."""
        resource = self.resource or _gpu(self.cluster)
        if not resource:
            raise ValueError("aim gpus: expected nodes with a resource whose name ends in gpu, or --resource")

        def whole() -> float:
            offered, requested = columns_of(self.cluster, resource)
            rows = np.flatnonzero(self.cluster.table.valid)
            return float(np.count_nonzero((offered[rows] > 0) & (requested[rows] == 0)))

        def is_free(row: int) -> bool:
            offered, requested = columns_of(self.cluster, resource)
            return bool(offered[row] > 0 and requested[row] == 0)

        plan = Plan(GPUS, f"nodes with all of their {resource} free", whole(), 0.0)

        def has_some(pod: Pod) -> bool:
            return _asks(self.cluster, pod, resource) > 0

        return self._empty(plan, self._by_load(resource), whole, has_some, is_free, back=True)

    def _by_load(self, resource: str) -> list[str]:
        """Nodes in use, those with the smallest share in use first."""
        offered, requested = columns_of(self.cluster, resource)
        table = self.cluster.table
        rows = [
            row
            for row in np.flatnonzero(table.valid & ~table.unschedulable).tolist()
            if offered[row] > 0 and requested[row] > 0 and not is_empty(self.cluster, row)
        ]
        rows.sort(key=lambda row: (requested[row] / offered[row], table.names[row]))
        return [table.names[row] for row in rows]

    def _empty_nodes(self) -> float:
        table = self.cluster.table
        rows = np.flatnonzero(table.valid).tolist()
        return float(sum(1 for row in rows if is_empty(self.cluster, row)))

    def _empty(
        self,
        plan: Plan,
        names: Sequence[str],
        figure: Callable[[], float],
        wanted: Callable[[Pod], bool],
        is_free: Callable[[int], bool],
        *,
        back: bool = False,
    ) -> Plan:
        """Empty nodes, but for those that pods were moved to; `back`: uncordon them at the end.

        A node that is free already is left alone unless the engine would put a pod there: then it is cordoned
        meanwhile.
        """
        targets: set[str] = set()
        emptied: list[str] = []
        table = self.cluster.table
        open_rows = np.flatnonzero(table.valid & ~table.unschedulable).tolist()
        free = {table.names[row] for row in open_rows if is_free(row)}
        for name in names:
            pods = [pod for pod in self.cluster.pods_on(name) if wanted(pod) and not is_daemon(pod)]
            left = self.most - len(plan.evictions)
            if not pods or name in targets:
                continue
            if len(pods) > left:
                plan.skipped[name] = f"{len(pods)} pods, and {left} moves are left"
                continue
            steps, why = self._emptied(name, pods, figure, free)
            if steps is None:
                plan.skipped[name] = why
                continue
            emptied.append(name)
            plan.steps += steps
            targets.update(step.to for step in steps if step.pod)
        cordoned = [step.node for step in plan.steps if not step.pod]
        again_open = [name for name in cordoned if back or name not in emptied]
        self.cluster.uncordon(*again_open)
        plan.steps += [Move("uncordon", name) for name in again_open]
        plan.after = figure()
        return plan

    def _emptied(
        self, name: str, pods: Sequence[Pod], figure: Callable[[], float], free: Collection[str]
    ) -> tuple[list[Move] | None, str]:
        """Move all these pods off a node, or nothing: also if that does not make the figure larger.

        `free` are nodes that pods must not be moved to.
        """
        fixed = next((pod for pod in pods if not movable(pod)), None)
        if fixed is not None:
            return None, f"{fixed.key} has no controller"
        steps = [Move("cordon", name)]
        before = figure()
        with self.cluster.fork():
            self.cluster.cordon(name)
            for pod in pods:
                found, why = self._moved_beside(pod, 1 / len(pods), free)
                if found is None:
                    return None, why
                steps += found
            if figure() <= before:
                return None, "its pods would go to a node that is empty now"
        for step in steps:
            if step.pod:
                self.cluster.evict(step.pod)
            else:
                self.cluster.cordon(step.node)
        return steps, ""

    def _moved_beside(self, pod: Pod, gain: float, free: Collection[str]) -> tuple[list[Move] | None, str]:
        """Evict a pod; free nodes that it would go to are cordoned before."""
        steps: list[Move] = []
        while True:
            with self.cluster.fork():
                move, why = self._moved(pod, gain)
            if move is None:
                return None, why
            if move.to not in free:
                self.cluster.evict(pod.key)
                return [*steps, move], ""
            self.cluster.cordon(move.to)
            steps.append(Move("cordon", move.to))

    def _moved(self, pod: Pod, gain: float = 0.0) -> tuple[Move | None, str]:
        """Evict a pod if its budgets let it go; where it is then, or why it cannot be moved."""
        refusing = self.budgets.refusing(pod)
        if refusing:
            return None, f"{pod.key} is protected by {refusing[0].key}"
        node = self.cluster.placements_of(pod.key)
        outcome = self.cluster.evict(pod.key)
        to = outcome.placed.get(pod.key, "")
        if not to:
            return None, f"{pod.key} would stay pending: {outcome.pending.get(pod.key, '')}"
        if len(outcome.evictions) > 1:
            return None, f"{pod.key} would evict {outcome.evictions[1].pod}"
        return Move("evict", node, pod.key, to, gain), ""

    # One move at a time

    def even_out(self) -> Plan:
        """Move pods from the fullest nodes, as long as the engine puts them where it is emptier."""
        resource = self.resource or "cpu"
        offered, _ = columns_of(self.cluster, resource)
        if not np.any(offered[self.cluster.table.valid] > 0):
            raise ValueError(f"resource: no node offers {resource}")

        def deviation() -> float:
            room, used = columns_of(self.cluster, resource)
            table = self.cluster.table
            rows = np.flatnonzero(table.valid & ~table.unschedulable & (room > 0))
            return float(np.std(100 * used[rows] / room[rows])) if len(rows) else 0.0

        def candidates() -> list[Pod]:
            nodes = reversed(self._by_load(resource))
            return [pod for name in nodes for pod in self._largest(name, resource)][:_CANDIDATES]

        plan = Plan(EVEN, f"deviation of {resource} between nodes in %", deviation(), 0.0)
        return self._greedy(plan, deviation, candidates)

    def _largest(self, name: str, resource: str) -> list[Pod]:
        pods = [pod for pod in self.cluster.pods_on(name) if not is_daemon(pod)]
        return sorted(pods, key=lambda pod: -_asks(self.cluster, pod, resource))[:4]

    def repair_spread(self) -> Plan:
        """Move pods out of domains that have too many of them, until no constraint is violated."""

        def excess() -> float:
            skews = skews_of(self.cluster, self.cluster.pods)
            return float(sum(max(one.skew - one.max_skew, 0) for one in skews))

        def candidates() -> list[Pod]:
            found = []
            for pod in self.cluster.pods:
                for one in skews_of(self.cluster, [pod]) if pod.spec.topology_spread_constraints else ():
                    node = self.cluster.node(self.cluster.placements_of(pod.key))
                    most = max(one.domains.values())
                    if one.violated and one.domains.get(node.metadata.labels.get(one.key, "")) == most:
                        found.append(pod)
                if len(found) >= _CANDIDATES:
                    break
            return found

        return self._greedy(Plan(SPREAD, "pods too many in a domain", excess(), 0.0), excess, candidates)

    def _greedy(
        self, plan: Plan, figure: Callable[[], float], candidates: Callable[[], Sequence[Pod]]
    ) -> Plan:
        """One move after the other, each the first that makes the figure smaller."""
        plan.after = plan.before
        while len(plan.evictions) < self.most and plan.after > _LEAST_GAIN:
            move = self._improving(plan, figure, candidates())
            if move is None:
                break
            plan.steps.append(move)
            plan.after -= move.gain
        return plan

    def _improving(self, plan: Plan, figure: Callable[[], float], pods: Sequence[Pod]) -> Move | None:
        moved = {move.pod for move in plan.evictions}
        for pod in pods:
            if pod.key in moved:
                continue
            if not movable(pod):
                plan.skipped[pod.key] = "has no controller"
                continue
            with self.cluster.fork():
                move, why = self._moved(pod)
                gain = plan.after - figure() if move is not None else 0.0
            if move is None:
                plan.skipped[pod.key] = why
            elif gain > _LEAST_GAIN:
                self.cluster.evict(pod.key)
                return Move(move.action, move.node, move.pod, move.to, gain)
        return None


def _asks(cluster: Cluster, pod: Pod, resource: str) -> int:
    return int(cluster.table.info(pod).template.requests.amounts().get(resource, 0))


def _gpu(cluster: Cluster) -> str:
    names = {name for node in cluster.nodes for name in node.status.allocatable if name.endswith("gpu")}
    return min(names, default="")


def _row(step: Move) -> tuple[str | float | None, ...]:
    if not step.pod:
        return step.action, step.node, "", "", None
    return step.action, step.pod, step.node, step.to, round(step.gain, 4)


def report_of(plan: Plan) -> Report:
    """A plan for people."""
    moves = len(plan.evictions)
    summary = f"{plural(moves, 'move')}: {plan.what} {plan.before:g} → {round(plan.after, 4):g}."
    parts: list[Part] = [
        Figures(
            [
                Figure("moves", moves),
                Figure("before", round(plan.before, 4)),
                Figure("after", round(plan.after, 4)),
            ],
            title=plan.what,
        )
    ]
    rows = [(number, *_row(step)) for number, step in enumerate(plan.steps[:SHOWN], start=1)]
    if rows:
        more = max(len(plan.steps) - SHOWN, 0)
        parts.append(
            Table(["step", "do", "what", "from", "to", "gain"], rows, (0, 5), more, title="in this order")
        )
    else:
        parts.append(Text("No move was found that improves it."))
    if plan.skipped:
        lines = list(plan.skipped.items())[:10]
        parts.append(
            Table(["not moved", "why"], lines, (), max(len(plan.skipped) - 10, 0), title="left alone")
        )
    return Report(f"plan: rebalance, {plan.aim}", summary, parts, plan.document())
