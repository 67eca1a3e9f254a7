"""Changes of a cluster: pods that move or stay pending, utilization and evenness before and after."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from stowplan.explain.report import (
    Columns,
    Figure,
    Figures,
    Part,
    Report,
    Section,
    Table,
    Text,
    TileGroup,
    Tiles,
)
from stowplan.explain.report.model import BAD, GOOD
from stowplan.scheduler.settings import Settings
from stowplan.simulate.budgets import Budgets, Drained, drain
from stowplan.simulate.changes import Change, make, movable
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.creation.manifests import Manifests
from stowplan.simulate.measure import Picture, fullness, picture_of
from stowplan.simulate.outcome import Eviction, Outcome

SHOWN: Final = 20


@dataclass(slots=True)
class WhatIf:
    """Result of changes."""

    before: Picture
    after: Picture
    drained: Drained
    now_placed: dict[str, str] = field(default_factory=dict)
    """Pods that waited before and get a node."""
    fills: tuple[TileGroup, TileGroup] | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def moved(self) -> list[dict[str, str]]:
        outcome = self.drained.outcome
        return [{"pod": pod, "from": old, "to": new} for pod, (old, new) in outcome.moved.items()]

    def document(self) -> dict[str, Any]:
        outcome = self.drained.outcome
        moved = {one["pod"] for one in self.moved}
        return {
            "moved": self.moved,
            "placed": {pod: node for pod, node in outcome.placed.items() if pod not in moved},
            "nowPlaced": self.now_placed,
            "pending": outcome.pending,
            "lost": outcome.lost,
            "blocked": self.drained.blocked,
            "budgets": self.drained.budgets(),
            "notCreated": [one.document() for one in outcome.refused],
            "before": self.before.document(),
            "after": self.after.document(),
            **({"steps": self.steps} if self.steps else {}),
        }


Look = Callable[[Cluster], object]
"""Called with the cluster as it is after the changes."""


def _unseen(cluster: Cluster) -> None:
    """Nobody looks."""


def what_if(
    cluster: Cluster,
    changes: Iterable[Change],
    namespace: str = "default",
    *,
    applied: Manifests | None = None,
    look: Look = _unseen,
) -> WhatIf:
    """Make changes one after the other, then try pods that wait. The cluster is left as it was.

    `applied` are manifests that are applied after the changes. Raises ChangeError, NoSuchObjectError,
    SnapshotError.
    """
    before, tiles = picture_of(cluster), _tiles(cluster, "before")
    with cluster.fork():
        waiting = set(cluster.pending)
        budgets = Budgets(cluster)
        found = Drained()
        for change in changes:
            found.extend(make(cluster, change, namespace, budgets))
        if applied is not None:
            found.extend(Drained(cluster.apply(applied, namespace=namespace)))
        now_placed = _retry(cluster, waiting, found)
        look(cluster)
        return WhatIf(before, picture_of(cluster), found, now_placed, (tiles, _tiles(cluster, "after")))


def _retry(cluster: Cluster, waiting: set[str], found: Drained) -> dict[str, str]:
    """Try pods that wait: changes may have made room for them."""
    if not cluster.pending:
        return {}
    outcome = cluster.schedule()
    now_placed = {pod: node for pod, node in outcome.placed.items() if pod in waiting}
    outcome.pending = {pod: why for pod, why in outcome.pending.items() if pod not in waiting}
    outcome.placed = {pod: node for pod, node in outcome.placed.items() if pod not in waiting}
    found.outcome.extend(outcome)
    return now_placed


def rolling_drain(cluster: Cluster, names: Sequence[str], at_once: int) -> WhatIf:
    """Drain nodes in steps of so many, each back in service before the next: a rolling upgrade."""
    before, tiles = picture_of(cluster), _tiles(cluster, "before")
    with cluster.fork():
        found = Drained()
        steps = []
        budgets = Budgets(cluster)
        for first in range(0, len(names), at_once):
            batch = list(names[first : first + at_once])
            step = drain(cluster, batch, budgets)
            during = len(cluster.pending)
            cluster.uncordon(*batch)
            later = cluster.schedule() if cluster.pending else Outcome()
            steps.append(_step(batch, step, during, later))
            step.outcome.extend(later)
            found.extend(step)
            for key in later.placed:
                budgets.back(cluster.pod(key))
        after = picture_of(cluster)
        return WhatIf(before, after, found, {}, (tiles, _tiles(cluster, "after")), steps)


def _step(batch: list[str], step: Drained, during: int, later: Outcome) -> dict[str, Any]:
    return {
        "nodes": batch,
        "moved": len(step.outcome.moved),
        "pending": dict(step.outcome.pending),
        "pendingDuring": during,
        "placedAfter": len(later.placed),
        "lost": list(step.outcome.lost),
        "blocked": dict(step.blocked),
        "budgets": step.budgets(),
        "rounds": step.rounds,
    }


def reconfigured(cluster: Cluster, settings: Settings, seed: int, *, look: Look = _unseen) -> WhatIf:
    """Where the pods that can move would be under another configuration, if they came again in order."""
    pods = sorted(
        (cluster.pod(pod.key) for pod in cluster.pods),
        key=lambda pod: (pod.metadata.creation_timestamp, pod.key),
    )
    moving = [pod for pod in pods if movable(pod)]
    staying = [pod for pod in pods if not movable(pod)]
    other = Cluster(
        [*cluster.nodes, *cluster.objects.values(), *staying, *cluster.pending.values()],
        settings=settings,
        seed=seed,
    )
    outcome = other.schedule([replace(pod, spec=replace(pod.spec, node_name="")) for pod in moving])
    look(other)
    found = Drained()
    old = {pod.key: pod.spec.node_name for pod in moving}
    found.outcome.pending = outcome.pending
    found.outcome.lost = outcome.lost
    result = WhatIf(
        picture_of(cluster),
        picture_of(other),
        found,
        fills=(_tiles(cluster, "before"), _tiles(other, "after")),
    )
    for pod, node in outcome.placed.items():
        if old.get(pod) != node:
            found.outcome.placed[pod] = node
            found.outcome.evictions.append(Eviction(pod, old.get(pod, ""), "configuration"))
    return result


def _tiles(cluster: Cluster, name: str) -> TileGroup:
    names, fills = fullness(cluster)
    table = cluster.table
    cordoned = [place for place, one in enumerate(names) if table.unschedulable[table.row_of(one) or 0]]
    return TileGroup(name, names, [round(one, 3) for one in fills], (), cordoned)


# For people


def report_of(found: WhatIf, title: str) -> Report:
    """The answer: a sentence, who moves, who waits, before and after."""
    outcome, document = found.drained.outcome, found.document()
    moved, pending = len(found.moved), len(outcome.pending)
    summary = f"{'1 pod moves' if moved == 1 else f'{moved:,} pods move'}, {pending:,} stay pending"
    if document["placed"]:
        summary += f", {len(document['placed']):,} new ones get a node"
    if outcome.lost:
        summary += f", {len(outcome.lost):,} have no controller and are gone"
    if found.drained.blocked:
        summary += f", {len(found.drained.blocked):,} cannot be evicted because of their budgets"
    if outcome.refused:
        summary += f", {sum(one.pods for one in outcome.refused):,} are not created by the API server"
    if found.now_placed:
        count = len(found.now_placed)
        summary += f", {count:,} that waited {'gets' if count == 1 else 'get'} a node"
    parts: list[Part] = [_figures(found), _comparison(found.before, found.after)]
    if found.steps:
        parts.append(_steps(found.steps))
    parts += _who(found)
    if found.fills is not None:
        before, after = (
            Section([Tiles([replace(one, name="cpu requested")], "cpu requested")], title=one.name)
            for one in found.fills
        )
        parts.append(Columns([before, after], title="nodes"))
    return Report(f"what if: {title}", f"{summary}.", parts, document)


def _figures(found: WhatIf) -> Figures:
    outcome = found.drained.outcome
    return Figures(
        [
            Figure("pods move", len(found.moved)),
            Figure("stay pending", len(outcome.pending), "", BAD if outcome.pending else GOOD),
            Figure("are gone for good", len(outcome.lost), "", BAD if outcome.lost else ""),
            Figure("are blocked by budgets", len(found.drained.blocked)),
            Figure("budgets are hit", len(found.drained.budgets())),
        ]
    )


def _comparison(before: Picture, after: Picture) -> Table:
    rows: list[tuple[str, Any, Any]] = [
        ("nodes", before.nodes, after.nodes),
        ("schedulable nodes", before.schedulable, after.schedulable),
        ("empty nodes", before.empty, after.empty),
        ("pods on nodes", before.pods, after.pods),
        ("pods pending", before.pending, after.pending),
    ]
    for name in before.usage:
        was, now = before.usage[name], after.usage.get(name)
        if was.offered and now is not None:
            rows.append((f"{name} requested", f"{was.percent} %", f"{now.percent} %"))
            rows.append((f"{name} deviation between nodes", was.spread, now.spread))
    for zone in {**before.zones, **after.zones}:
        one, other = (_share(side, zone) for side in (before, after))
        rows.append((f"zone {zone} cpu", one, other))
    rows.append(("spread constraints violated", before.violated, after.violated))
    return Table(["", "before", "after"], rows, (1, 2), title="before and after")


def _share(side: Picture, zone: str) -> str:
    return f"{side.zones[zone]['cpuPercent']} %" if zone in side.zones else ""


def _steps(steps: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            number,
            ", ".join(step["nodes"][:3]) + (" …" if len(step["nodes"]) > 3 else ""),
            step["moved"],
            step["pendingDuring"],
            step["placedAfter"],
            len(step["blocked"]),
            step["rounds"],
        )
        for number, step in enumerate(steps[:SHOWN], start=1)
    ]
    headings = ["step", "nodes", "moved", "pending", "placed after", "blocked", "rounds of eviction"]
    return Table(headings, rows, (0, 2, 3, 4, 5, 6), max(len(steps) - SHOWN, 0), title="step by step")


def _who(found: WhatIf) -> list[Part]:
    parts: list[Part] = []
    moved = found.moved
    if moved:
        rows = [(one["pod"], one["from"], one["to"]) for one in moved[:SHOWN]]
        more = max(len(moved) - SHOWN, 0)
        parts.append(Table(["pod", "from", "to"], rows, (), more, title="who moves"))
    pending = found.drained.outcome.pending
    if pending:
        reasons = Counter(pending.values())
        rows_of = [(count, why) for why, count in reasons.most_common(SHOWN)]
        parts.append(Table(["pods", "why"], rows_of, (0,), title="who stays pending"))
    for one in found.drained.outcome.refused:
        title = f"{one.pods:,} pods of {one.workload} are not created"
        parts.append(Text(one.message, title=f"{title}: {one.limit}" if one.limits else title))
    hit = found.drained.budgets()
    if hit:
        lines = [(key, one["refused"], len(one["blocked"])) for key, one in sorted(hit.items())[:SHOWN]]
        more = max(len(hit) - SHOWN, 0)
        headings = ["budget", "refused at first", "never"]
        parts.append(Table(headings, lines, (1, 2), more, title="budgets that are hit"))
    lost = found.drained.outcome.lost
    if lost:
        gone = [(pod,) for pod in lost[:SHOWN]]
        parts.append(Table(["pod"], gone, (), max(len(lost) - SHOWN, 0), title="gone: no controller"))
    return parts
