"""Replay with another configuration: each recorded decision once more, on the same state.

Decisions are compared one by one: the cluster follows the recording, so a different choice has no
consequences for the next ones. To see those, simulate with the recording as the workload.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.explain.layout import plural
from stowplan.explain.report import Bar, Bars, Figure, Figures, Part, Report, Table, Text
from stowplan.explain.report.model import BAD, GOOD
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Settings
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.framework.decision import NO_NODES, fit_error
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.recording.files import Session
from stowplan.scheduler.recording.objects import changes
from stowplan.scheduler.recording.recorder import Outcome
from stowplan.scheduler.recording.replay import Decision
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

SAME: Final = "same"
AS_GOOD: Final = "as good"
OTHER_NODE: Final = "other node"
WOULD_FIT: Final = "would fit"
WOULD_NOT_FIT: Final = "would not fit"

VERDICTS: Final = {
    SAME: "decided alike",
    AS_GOOD: "another node of the same score",
    OTHER_NODE: "another node, with a better score",
    WOULD_FIT: "would get a node",
    WOULD_NOT_FIT: "would get no node",
}

LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Compared:
    """A recorded decision and what another configuration makes of it; scores are its own."""

    time: float
    pod: str
    verdict: str
    recorded: Outcome
    instead: Outcome
    recorded_score: int | None = None
    best_score: int | None = None

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "time": shown(self.time),
            "pod": self.pod,
            "verdict": self.verdict,
            "recorded": self.recorded.node or None,
            "instead": self.instead.node or None,
        }
        if self.recorded_score is not None:
            found |= {"recordedScore": self.recorded_score, "bestScore": self.best_score}
        if self.instead.message:
            found["message"] = self.instead.message
        return found


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Decision of a configuration about a pod, with the scores by row of the nodes that it accepts."""

    outcome: Outcome
    totals: IntColumn | None = None
    accepted: BoolColumn | None = None

    def score(self, row: int | None) -> int | None:
        """The score of a node, None if it is not accepted."""
        if row is None or self.totals is None or self.accepted is None or not self.accepted[row]:
            return None
        return int(self.totals[row])


class Alternative:
    """The profiles of another configuration on the table of a scheduler that is replayed."""

    def __init__(self, settings: Settings, table: ClusterTable, seed: int = 0) -> None:
        self.table = table
        self._frameworks = {
            profile.scheduler_name: Framework(
                profile, table, settings.registry, settings.gates, rng=Random(seed)
            )
            for profile in settings.config.profiles
        }
        logger = Logger()
        self.sampler = NodeSampler(table, logger)
        self._finder = NodeFinder(self.sampler, Random(seed), logger)

    def knows(self, pod: Pod) -> bool:
        """True if there is a profile for a pod."""
        return pod.spec.scheduler_name in self._frameworks

    def evaluated(self, pod: PodInfo, nominations: Nominations = NO_NOMINATIONS) -> Evaluated:
        """Decision of this configuration about a pod now."""
        framework = self._frameworks[pod.pod.spec.scheduler_name]
        if not self.table.node_count:
            return Evaluated(Outcome("", NO_NODES))
        try:
            result = self._finder.find(framework, pod, nominations)
        except PluginError as error:
            return Evaluated(Outcome("", str(error)))
        if result.row is None:
            return Evaluated(Outcome("", fit_error(result.evaluation)))
        accepted = np.zeros(self.table.capacity, dtype=np.bool_)
        accepted[result.evaluation.feasible_rows] = True
        totals = result.evaluation.totals().copy()
        return Evaluated(Outcome(self.table.name_of(result.row)), totals, accepted)

    def compared(self, time: float, pod: PodInfo, recorded: str, found: Evaluated) -> Compared:
        """A recorded decision, on a node or on none, beside what this configuration decided."""
        was, instead = Outcome(recorded), found.outcome
        if not instead.node:
            return Compared(time, pod.key, WOULD_NOT_FIT if recorded else SAME, was, instead)
        if not recorded:
            return Compared(time, pod.key, WOULD_FIT, was, instead)
        if instead.node == recorded:
            return Compared(time, pod.key, SAME, was, instead)
        row_of = self.table.row_of
        score, best = found.score(row_of(recorded)), found.score(row_of(instead.node))
        verdict = AS_GOOD if score == best else OTHER_NODE
        return Compared(time, pod.key, verdict, was, instead, score, best)


def judged_bindings(session: Session, settings: Settings) -> Iterator[Compared]:
    """The bindings of a recording that has none of our decisions: each compared just before it."""
    table = ClusterTable(settings.release)
    other = Alternative(settings, table)
    cache = Cache(table, lambda text: None, other.sampler)
    pending: set[str] = set()
    for time, obj, gone in changes(session):
        if isinstance(obj, Node):
            (cache.remove_node if gone else cache.put_node)(obj)
        elif not isinstance(obj, Pod):
            (cache.remove if gone else cache.put)(obj)
        elif gone:
            pending.discard(obj.metadata.uid)
            if obj.spec.node_name:
                cache.remove_pod(obj)
        elif not obj.spec.node_name:
            pending.add(obj.metadata.uid)
        else:
            if obj.metadata.uid in pending and other.knows(obj):
                pending.discard(obj.metadata.uid)
                pod = table.info(_unbound(obj))
                yield other.compared(time, pod, obj.spec.node_name, other.evaluated(pod))
            cache.put_pod(obj)


def _unbound(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=""))


@dataclass(slots=True)
class Tally:
    """All decisions that were compared."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    different: list[Compared] = field(default_factory=list)

    def add(self, one: Compared) -> None:
        self.counts[one.verdict] += 1
        if one.verdict not in (SAME, AS_GOOD):
            self.different.append(one)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def shown(time: float) -> str:
    """A time as it is printed."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def comparison_report(tally: Tally, name: str, notes: Sequence[str]) -> Report:
    """Decisions of another configuration."""
    total, different = tally.total, len(tally.different)
    alike = total - different
    summary = (
        f"{name} decides {alike:,} of {plural(total, 'recorded decision')} alike, {different:,} differently"
    )
    parts: list[Part] = [
        Figures(
            figures=[
                Figure("decisions", total),
                Figure("differently", different, tone=BAD if different else GOOD),
                Figure("would get a node", tally.counts[WOULD_FIT]),
                Figure("would get no node", tally.counts[WOULD_NOT_FIT]),
            ]
        ),
        Bars(
            title="Decisions",
            bars=[Bar(text, tally.counts[verdict]) for verdict, text in VERDICTS.items()],
            unit="decisions",
        ),
    ]
    if tally.different:
        rows = [_row(one) for one in tally.different[:LISTED]]
        more = max(different - LISTED, 0)
        headings = ["time", "pod", "recorded", "instead", "why"]
        parts.append(Table(title="What differs", headings=headings, rows=rows, more=more))
    parts += [Text(text=note) for note in notes]
    data = {
        "configuration": name,
        "decisions": total,
        "counts": tally.counts,
        "different": [one.data() for one in tally.different],
        "notes": list(notes),
    }
    return Report("Replay with another configuration", summary, parts, data)


def _row(one: Compared) -> list[str]:
    if one.instead.message:
        why = one.instead.message
    elif one.best_score is None:
        why = ""
    elif one.recorded_score is None:
        why = f"score {one.best_score}; {one.recorded.node} is rejected"
    else:
        why = f"score {one.best_score} against {one.recorded_score}"
    return [shown(one.time)[11:-1], one.pod, one.recorded.node or "none", one.instead.node or "none", why]


def replay_report(
    decisions: int,
    placed: int,
    first: Decision | None,
    problem: str,
    notes: Sequence[str],
    cut_off: bool,
) -> Report:
    """Result of a replay with the recorded configuration."""
    same = first is None and not problem
    alike = decisions if first is None else decisions - 1
    summary = (
        f"{plural(decisions, 'decision')} replayed, all of them as recorded"
        if same
        else f"the replay differs from the recording after {plural(alike, 'decision')}"
    )
    parts: list[Part] = [
        Figures(
            figures=[
                Figure("decisions", decisions, tone=GOOD if same else BAD),
                Figure("placed", placed),
                Figure("not placed", decisions - placed),
            ]
        )
    ]
    if first is not None:
        rows = [
            ["recorded", first.recorded.node or "none", first.recorded.message, first.recorded.nominated],
            ["replayed", first.replayed.node or "none", first.replayed.message, first.replayed.nominated],
        ]
        title = f"Decision {first.number}: {first.pod.key}, {shown(first.time)}"
        parts.append(Table(title=title, headings=["", "node", "message", "nominated"], rows=rows))
    said = [*([problem] if problem else []), *notes]
    if cut_off:
        said.append("The recording is cut off; it was replayed up to there.")
    parts += [Text(text=text) for text in said]
    data = {
        "decisions": decisions,
        "placed": placed,
        "same": same,
        "cutOff": cut_off,
        "firstDifference": None
        if first is None
        else {
            "number": first.number,
            "pod": first.pod.key,
            "time": shown(first.time),
            "recorded": {"node": first.recorded.node or None, "message": first.recorded.message},
            "replayed": {"node": first.replayed.node or None, "message": first.replayed.message},
        },
        "problem": problem,
        "notes": list(notes),
    }
    return Report("Replay", summary, parts, data)
