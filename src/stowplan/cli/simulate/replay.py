"""`stowplan replay`: recorded decisions once more, or what another configuration would have decided."""

import asyncio
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import report_options, say, show
from stowplan.cli.progress import Progress

if TYPE_CHECKING:
    from stowplan.scheduler import Scheduler, Settings
    from stowplan.scheduler.framework.interface import Plugin
    from stowplan.scheduler.queue.queued_pod import QueuedPod
    from stowplan.scheduler.recording.files import Session
    from stowplan.scheduler.recording.objects import Moment
    from stowplan.scheduler.recording.replay import Decision
    from stowplan.simulate.shadow.replay_comparison import Tally

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_MAX: Final = "max"


class Speed(click.ParamType):  # type: ignore[type-arg]
    """How many times as fast as it was, or as fast as possible."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == _MAX:
            return inf
        try:
            speed = float(value)
        except ValueError:
            speed = 0.0
        if not 0 < speed < inf:
            raise click.ClickException(f"--speed: expected a number above 0, or {_MAX}, got {value!r}")
        return speed


class Until(click.ParamType):  # type: ignore[type-arg]
    """A moment: a duration since the beginning, or a time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Moment":
        from stowplan.scheduler.recording.objects import Moment

        if isinstance(value, Moment):
            return value
        try:
            return Moment.parse(str(value))
        except ValueError:
            raise click.ClickException(
                f"--until: expected 1h30m, say, or a time such as 2026-03-01T12:00:00Z, got {value!r}"
            ) from None


@click.command("replay")
@click.argument("recording", type=_FILE)
@click.option("--until", type=Until(), help="Replay up to this point: 1h30m from the start, or a time.")
@click.option(
    "--config", type=_FILE, help="KubeSchedulerConfiguration to compare with the recorded decisions."
)
@gates_options
@plugins_option
@click.option(
    "--speed",
    type=Speed(),
    metavar="[10|max]",
    help="Print every decision, this many times faster than recorded [default: only a summary].",
)
@click.option("--decisions", "listed", is_flag=True, help="Print every decision.")
@click.option("--pod", metavar="NAMESPACE/NAME", help="With --as-test: the pod; its last decision is used.")
@click.option("--attempt", type=click.IntRange(1), help="With --as-test: number of the pod's attempt.")
@click.option(
    "--as-test",
    "test",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write a pytest file that reproduces the decision about --pod.",
)
@report_options
def replay(
    recording: Path,
    until: "Moment | None",
    config: Path | None,
    gates: FeatureGates | None,
    plugins: tuple[str, ...],
    speed: float | None,
    listed: bool,
    pod: str | None,
    attempt: int | None,
    test: Path | None,
    as_json: bool,
    page: Path | None,
) -> None:
    """Replay RECORDING, or compare another configuration on it.

    A recording by stowplan's scheduler (`stowplan run --record`, `stowplan up --record`) contains everything
    its decisions depend on, so they are the same bit for bit; exit code 1 if they are not. With --config,
    --plugin or --feature-gates, each decision is made again by that configuration, on the same state, and the
    differences are shown. A recording of another scheduler (`stowplan record`) is always compared like this.
    """
    from stowplan.scheduler.framework.registry import installed_plugins, load_plugin
    from stowplan.scheduler.recording.files import sessions

    if (test is None) != (pod is None):
        raise click.UsageError("--as-test and --pod go together")
    found = sessions(recording)
    offered = [*installed_plugins(), *map(load_plugin, plugins)]
    told = (speed is not None or listed) and not as_json
    how = _How(recording, until, speed or inf, told, offered)
    if test is not None and pod is not None:
        how.write_test(found, pod, attempt, test)
        return
    recorded = [one for one in found if one.header.seed is not None]
    if recorded and config is None and gates is None and not _has_new(recorded, offered):
        how.repeat(recorded, as_json=as_json, page=page)
        return
    from stowplan.cli.explain.offline import scheduler_settings

    settings = scheduler_settings(config, gates, plugins)
    name = "the default configuration" if config is None else config.name
    how.compare(found, settings, name, as_json=as_json, page=page)


def _has_new(recorded: "list[Session]", offered: "list[type[Plugin]]") -> bool:
    """True if a plugin is given that was not recorded."""
    known = {name for one in recorded for name in one.header.plugins}
    return any(plugin.name not in known for plugin in offered)


class _How:
    """A replay as it was asked for."""

    def __init__(
        self,
        path: Path,
        until: "Moment | None",
        speed: float,
        told: bool,
        plugins: "list[type[Plugin]]",
    ) -> None:
        self._path = path
        self._until = until
        self._speed = speed
        self._told = told
        self._plugins = plugins
        self._began: tuple[float, float] | None = None

    def repeat(self, sessions: "list[Session]", *, as_json: bool, page: Path | None) -> None:
        """Make the same decisions, and compare each."""
        from stowplan.scheduler.recording.replay import DivergedError, Replay
        from stowplan.simulate.shadow.replay_comparison import replay_report

        count = placed = 0
        first: Decision | None = None
        problem, notes = "", []
        with Progress("replaying", unit="decisions") as progress:
            for session in sessions:
                one = Replay(session, self._settings(session))
                try:
                    for decision in self._decisions(one):
                        count += 1
                        placed += bool(decision.replayed.node)
                        progress.reach(count)
                        if not decision.is_same:
                            first = decision
                            break
                except DivergedError as error:
                    problem = str(error)
                notes += one.notes
                if first is not None or problem:
                    break
        cut_off = any(one.is_cut_off for one in sessions)
        report = replay_report(count, placed, first, problem, notes, cut_off)
        show(report, as_json=as_json, page=page)
        if not report.data["same"]:
            sys.exit(1)

    def compare(
        self, sessions: "list[Session]", settings: "Settings", name: str, *, as_json: bool, page: Path | None
    ) -> None:
        """Ask another configuration for every decision."""
        from stowplan.simulate.shadow.replay_comparison import Tally, comparison_report, judged_bindings

        tally, notes = Tally(), list[str]()
        with Progress("comparing", unit="decisions") as progress:
            for session in sessions:
                if session.header.seed is not None:
                    for _ in self._judged(session, settings, tally, notes):
                        progress.reach(tally.total)
                    continue
                for one in judged_bindings(session, settings):
                    if self._is_over(session, one.time):
                        break
                    tally.add(one)
                    progress.reach(tally.total)
        show(comparison_report(tally, name, notes), as_json=as_json, page=page)

    def _judged(
        self, session: "Session", settings: "Settings", tally: "Tally", notes: list[str]
    ) -> Iterator[None]:
        from stowplan.scheduler.recording.replay import DivergedError, Replay
        from stowplan.simulate.shadow.replay_comparison import Alternative

        waiting: list[tuple[Any, ...]] = []
        alternatives: list[Alternative] = []

        def before(scheduler: "Scheduler", queued: "QueuedPod") -> None:
            other = alternatives[0]
            waiting.clear()
            if other.knows(queued.pod.pod):
                context = scheduler.context
                asked = scheduler.cycle.nominations(), context.clock.now()
                waiting.append((other.evaluated(queued.pod, asked[0]), queued.pod, asked[1]))

        replay = Replay(session, self._settings(session), before)
        alternatives.append(Alternative(settings, replay.scheduler.context.cache.table))
        try:
            for decision in self._decisions(replay):
                for evaluated, info, now in waiting:
                    tally.add(alternatives[0].compared(now, info, decision.recorded.node, evaluated))
                yield
        except DivergedError as error:
            notes.append(f"The replay cannot follow the recording: {error}.")
        notes += replay.notes

    def write_test(self, sessions: "list[Session]", pod: str, attempt: int | None, test: Path) -> None:
        """Find the decision, then replay up to it once more to keep the state before it."""
        from stowplan.scheduler.recording.replay import Replay
        from stowplan.scheduler.recording.testfile import write_test
        from stowplan.simulate.shadow.replay_comparison import shown

        wanted: tuple[Session, int] | None = None
        for session in sessions:
            for decision in self._decisions(Replay(session, self._settings(session))):
                if decision.pod.key == pod and attempt in (None, decision.attempt):
                    wanted = session, decision.number
        if wanted is None:
            which = "" if attempt is None else f" of attempt {attempt}"
            raise click.ClickException(f"--pod: {self._path} has no decision{which} about {pod}")
        replay = Replay(wanted[0], self._settings(wanted[0]))
        replay.capture_at = wanted[1]
        self._told = False
        for decision in self._decisions(replay):
            if decision.number == wanted[1]:
                recording = write_test(test, replay, decision, shown(decision.time))
                say(f"{test}: {pod} on {decision.recorded.node or 'no node'}, with {recording.name}")
                return

    def _settings(self, session: "Session") -> "Settings":
        from stowplan.cli.one_line import one_line_errors
        from stowplan.scheduler.recording import settings_of

        recorded = [plugin for plugin in self._plugins if plugin.name in session.header.plugins]
        with one_line_errors():
            return settings_of(session.header, recorded, str(self._path))

    def _decisions(self, replay: Any) -> "Iterator[Decision]":
        """The decisions of a session in virtual time, at the speed that was asked for."""
        from stowplan.runtime.clock import VirtualTimeLoop

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            decisions = replay.decisions()
            try:
                while True:
                    try:
                        decision: Decision = runner.run(anext(decisions))
                    except StopAsyncIteration:
                        return
                    if self._is_over(replay.session, decision.time):
                        return
                    if self._told:
                        self._tell(decision)
                    yield decision
            finally:
                runner.run(decisions.aclose())

    def _is_over(self, session: "Session", moment: float) -> bool:
        return self._until is not None and self._until.is_after(session.header.wall, moment)

    def _tell(self, decision: "Decision") -> None:
        from stowplan.simulate.shadow.replay_comparison import shown

        now = time.monotonic()
        if self._began is None:
            self._began = decision.time, now
        due = self._began[1] + (decision.time - self._began[0]) / self._speed
        time.sleep(max(due - now, 0))
        outcome = decision.replayed
        went = f"-> {outcome.node}" if outcome.node else outcome.message
        if outcome.nominated:
            went += f" (nominated {outcome.nominated})"
        say(f"{shown(decision.time)}  {decision.pod.key}  {went}")
