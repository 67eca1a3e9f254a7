"""`stowplan demo`: recorded decisions replayed and compared, then one of them explained."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from stowplan.cli.output import say
from stowplan.explain.document.decision import Decision
from stowplan.explain.layout import indented, table
from stowplan.explain.recorded import decide
from stowplan.explain.terminal.decision import explain
from stowplan.lab import verify
from stowplan.lab.verify.decisions import replay_line
from stowplan.lab.verify.recording import VerifyError, find_recordings, read_lines
from stowplan.lab.verify.replay import RecordedScenario, ReplayAttempt, ScenarioReplay, decode_scenario
from stowplan.lab.verify.report import FactCounts, VerifyReport, render_text
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.status import PluginError

RECORDINGS = Path(verify.__file__).parent / "data" / "decisions"
"""The recordings that come with stowplan."""

_INTRODUCTION = """\
Recordings hold decisions of kube-scheduler 1.36: a cluster, pods to place one after the other, and for
each pod every node that was ruled out and why, the points that each plugin gave each node, the best node, the
message. stowplan now decides the same pods on the same clusters, and all of this is compared.
"""


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt of one recorded scenario."""

    family: str
    scenario: RecordedScenario
    position: int

    @property
    def attempt(self) -> ReplayAttempt:
        return self.scenario.expected[self.position]

    @property
    def worth(self) -> int:
        """Interest of an attempt: reasons against nodes, plugins that distinguish nodes, a clear winner."""
        attempt = self.attempt
        if attempt.error is not None or attempt.total is None:
            return 0
        rejectors = {verdict.plugin for verdict in attempt.rejected.values()}
        scorers = [scores for scores in (attempt.scores or {}).values() if len(set(scores.values())) > 1]
        clear_winner = len(attempt.best) == 1 and len(attempt.feasible) > 3
        return 2 * len(rejectors) + len(scorers) + 3 * clear_winner


@dataclass(slots=True)
class _Seen:
    """Results of a run over recordings."""

    report: VerifyReport = field(default_factory=VerifyReport)
    scenarios: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    shown: RecordedAttempt | None = None


@click.command("demo")
@click.option(
    "--file",
    "files",
    type=Path,
    multiple=True,
    metavar="FILE",
    help="Recording to replay instead. Can be repeated.",
)
@click.option("--pod", metavar="NS/NAME", help="Pod whose decision is explained.")
@click.option(
    "--scenario", metavar="NAME", help="Scenario of --pod; by default the first that contains the pod."
)
def demo(files: tuple[Path, ...], pod: str | None, scenario: str | None) -> None:
    """Replay decisions of kube-scheduler and explain one.

    The recordings ship with stowplan. Exits with 1 if a decision differs from the recorded one.
    """
    try:
        seen = _replayed(files or (RECORDINGS,), pod, scenario)
    except VerifyError as error:
        raise click.ClickException(str(error)) from None
    if (pod or scenario) and seen.shown is None:
        raise click.ClickException(f"{_wanted(pod, scenario)}: no such decision in the recordings")
    say(_INTRODUCTION)
    _echo(indented(_counts(seen)))
    _echo(["", _summary(seen.report)])
    if seen.shown is not None:
        say("")
        _echo(_explained(seen.shown))
    if seen.report.failed:
        say("\n" + render_text(seen.report))
        raise SystemExit(1)


def _wanted(pod: str | None, scenario: str | None) -> str:
    return ", ".join(f"--{name} {value}" for name, value in (("pod", pod), ("scenario", scenario)) if value)


def _replayed(paths: Sequence[Path], pod: str | None, scenario: str | None) -> _Seen:
    """Replay everything, and remember the decision asked for or the one most worth seeing."""
    seen = _Seen()
    for path in find_recordings(paths):
        for line in read_lines(path):
            replay_line(line, seen.report)
            recorded = decode_scenario(line.data)
            seen.scenarios[line.family] += 1
            seen.decisions[line.family] += len(recorded.expected)
            if scenario and recorded.name != scenario:
                continue
            for attempt in recorded_attempts(line.family, recorded):
                if pod is None:
                    if seen.shown is None or attempt.worth > seen.shown.worth:
                        seen.shown = attempt
                elif seen.shown is None and attempt.attempt.pod == pod:
                    seen.shown = attempt
    return seen


def _counts(seen: _Seen) -> list[str]:
    rows = []
    for family in seen.scenarios:
        facts = _facts(seen.report, family)
        counts = (
            seen.scenarios[family],
            seen.decisions[family],
            facts.equal,
            facts.different,
            facts.not_built,
        )
        rows.append((family, *(f"{count:,}" if count else "-" for count in counts)))
    headings = ("recording", "scenarios", "decisions", "facts equal", "different", "not built yet")
    return table(headings, rows, numeric=range(1, len(headings)))


def _facts(report: VerifyReport, family: str) -> FactCounts:
    found = [counted for (name, _), counted in report.counts.items() if name == family]
    return FactCounts(
        sum(counted.compared for counted in found),
        sum(counted.equal for counted in found),
        sum(counted.not_built for counted in found),
    )


def _summary(report: VerifyReport) -> str:
    total = report.total
    if report.failed:
        return f"{total.different:,} of {total.compared:,} facts came out differently, see below."
    apart = f" {total.not_built:,} are about what stowplan does not do yet." if total.not_built else ""
    return f"All {total.compared:,} facts compared came out as recorded.{apart}"


def _explained(recorded: RecordedAttempt) -> list[str]:
    heading = f"One of these decisions ({recorded.family}, scenario {recorded.scenario.name}):"
    try:
        decision = decide_again(recorded)
    except PluginError as error:
        return [heading, "", f"Pod {recorded.attempt.pod}: the attempt failed: {error.message}"]
    lines = [heading, "", *indented(explain(decision).splitlines())]
    if decision.node is not None and decision.node == recorded.attempt.assigned:
        lines += ["", "kube-scheduler chose the same node."]
    return lines


def _echo(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def recorded_attempts(family: str, scenario: RecordedScenario) -> Iterable[RecordedAttempt]:
    """All attempts of a scenario that the engine can decide: extenders and device claims are left out."""
    if scenario.prebind or scenario.has_extenders:
        return
    for position in range(len(scenario.expected)):
        yield RecordedAttempt(family, scenario, position)


def decide_again(recorded: RecordedAttempt, top: int = 5) -> Decision:
    """Replay the scenario up to this attempt and decide it. Raises PluginError.

    Among equals a recording takes the first by name, and so does this.
    """
    under_way = ScenarioReplay(recorded.scenario)
    for position, outcome in enumerate(recorded.scenario.expected[: recorded.position]):
        under_way.settle(outcome, position)
    evaluation = under_way.evaluate(recorded.attempt.pod)
    return decide(evaluation, lambda ties: _first_by_name(evaluation), top)


def _first_by_name(evaluation: Evaluation) -> int:
    name_of = evaluation.cycle.table.name_of
    names = [name_of(row) for row in evaluation.best_rows().tolist()]
    return names.index(min(names))
