"""`stowplan lab chaos`: randomized runs under faults by seed, and campaigns against real processes."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast, OneOf, refuse_unused
from stowplan.lab.chaos import ChaosOutcome, execute, plan_of
from stowplan.lab.chaos.campaign import FAULTS, CampaignResult, RoundResult, run_campaign

_SHOWN = (
    "attempts",
    "bound",
    "bindings of gangs",
    "volumes claimed",
    "claims allocated",
    "preempted",
    "restarts",
    "leader changes in gangs",
    "faults",
    "plugin refusals",
    "extender failures",
)
_IN_PROCESS = ("seeds", "first", "verbose", "groups", "claims")
_WITH_PROCESSES = ("rounds", "minutes", "schedulers", "faults")


@click.command("chaos")
@click.option("--seeds", type=AtLeast(1), default=100, show_default=True, help="Number of seeds to run.")
@click.option("--from", "first", type=AtLeast(0), default=0, show_default=True, help="First seed.")
@click.option(
    "--seed", type=AtLeast(0), help="Run only this seed; with --processes, seed of the first round."
)
@click.option("--processes", is_flag=True, help="Test real processes with kills, pauses and outages.")
@click.option("--rounds", type=AtLeast(1), default=20, show_default=True, help="Rounds of --processes.")
@click.option("--minutes", type=AtLeast(1), help="Start rounds of --processes until this time has passed.")
@click.option(
    "--schedulers", type=AtLeast(2), default=2, show_default=True, help="Scheduler processes of --processes."
)
@click.option(
    "--fault",
    "faults",
    type=OneOf(FAULTS),
    multiple=True,
    help="Faults of --processes, of which each round has one at random; may be repeated. By default all.",
)
@click.option("--groups", is_flag=True, help="Use pod groups in every run, not only in some.")
@click.option("--claims", is_flag=True, help="Use resource claims in every run, not only in some.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
@click.option("--verbose", is_flag=True, help="Print the plan and the history of every run.")
@click.pass_context
def chaos(
    ctx: click.Context,
    seeds: int,
    first: int,
    seed: int | None,
    processes: bool,
    rounds: int,
    minutes: int | None,
    schedulers: int,
    faults: tuple[str, ...],
    groups: bool,
    claims: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Test the scheduler under random faults.

    Each seed is a small cluster and a few minutes of virtual time: pods and nodes are created, changed and
    deleted, API requests fail, are slow or lose their response, watches are cut, plugins and extenders fail,
    other schedulers bind pods, the scheduler restarts. In some runs pods compete for few volumes or devices
    while the controllers and drivers of these are slow or fail; in others groups of pods compete for nodes,
    and the scheduler is replaced while one of them is being bound. Invariants are checked throughout. A seed
    always gives the same run.

    With --processes, real `stowplan run` processes with leader election use an API server process. Each round
    has one fault: a process is killed, paused, disconnected, reloaded or its clock is set, or the server
    restarts. Every pod must be bound once and stay there, no node may be overcommitted, a leader must be
    elected within the time the lease allows, no process may exit without cause, and no process's memory may
    grow from round to round. Most pods request devices: no device may be allocated to two claims, every claim
    must be reserved for the pods that are bound with it, and no claim may be left when they are gone.

    Exits with 1 if an invariant is violated.
    """
    refuse_unused(ctx, _IN_PROCESS if processes else _WITH_PROCESSES, "--processes", processes)
    if minutes is not None and ctx.get_parameter_source("rounds") is ParameterSource.COMMANDLINE:
        raise click.ClickException("--minutes: expected only without --rounds")
    if processes:
        _run_campaign(_Extent(seed or 0, rounds, minutes), schedulers, faults, as_json)
    else:
        chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
        _run_seeds(chosen, _Content(groups, claims), as_json, verbose)


# Runs in this process


class _Content(NamedTuple):
    """Objects that every run has, not only those of some seeds."""

    groups: bool
    claims: bool

    @property
    def options(self) -> str:
        """The options that ask for it, to repeat a seed."""
        return "".join(f" --{name}" for name, is_given in self._asdict().items() if is_given)


def _run_seeds(chosen: range, content: _Content, as_json: bool, verbose: bool) -> None:
    counts: Counter[str] = Counter()
    failed: list[ChaosOutcome] = []
    with Progress("running", len(chosen), "runs") as progress:
        for number, one in enumerate(chosen, start=1):
            outcome = _run(one, content, verbose)
            counts.update(outcome.counts)
            if not outcome.ok:
                failed.append(outcome)
                progress.clear()
                _show(outcome, content)
            elif number % 50 == 0 and number < len(chosen) and not progress.is_shown:
                click.echo(f"{number:,} of {len(chosen):,} runs, {len(failed)} failed")
            progress.advance(detail=f"{len(failed)} failed")
    figures = ", ".join(f"{counts[name]:,} {name}" for name in _SHOWN)
    click.echo(f"{len(chosen):,} run{'s' * (len(chosen) > 1)}, {len(failed)} failed: {figures}")
    if as_json:
        click.echo(msgspec.json.encode(_document(chosen, failed, counts)).decode())
    if failed:
        raise SystemExit(1)


def _run(seed: int, content: _Content, verbose: bool) -> ChaosOutcome:
    plan = plan_of(seed, groups=content.groups or None, claims=content.claims)
    if verbose:
        click.echo(plan.text())
    outcome = execute(plan, keep_log=verbose)
    for line in outcome.log:
        click.echo(line)
    if verbose:
        click.echo(f"seed {seed}: digest {outcome.digest}")
    return outcome


def _show(outcome: ChaosOutcome, content: _Content) -> None:
    more = len(outcome.findings) - 1
    also = f", and {more} more" if more else ""
    click.echo(f"seed {outcome.seed}: {outcome.findings[0]}{also}")
    click.echo(f"  again: stowplan lab chaos --seed {outcome.seed}{content.options} --verbose")


def _document(chosen: range, failed: list[ChaosOutcome], counts: Counter[str]) -> dict[str, Any]:
    return {
        "from": chosen.start,
        "seeds": len(chosen),
        "failed": [
            {"seed": outcome.seed, "broken": [finding._asdict() for finding in outcome.findings]}
            for outcome in failed
        ],
        "counts": dict(sorted(counts.items())),
    }


# Campaigns against processes


class _Extent(NamedTuple):
    """How far a campaign goes: a number of rounds, or as many as begin in some minutes."""

    seed: int
    rounds: int
    minutes: int | None

    @property
    def expected(self) -> int:
        """For the progress bar: a round takes some ten seconds."""
        return self.rounds if self.minutes is None else self.minutes * 6

    def seeds(self) -> Iterator[str]:
        ends = math.inf if self.minutes is None else time.monotonic() + 60 * self.minutes
        for number in count() if self.minutes is not None else range(self.rounds):
            if time.monotonic() > ends:
                return
            yield str(self.seed + number)


def _run_campaign(extent: _Extent, schedulers: int, faults: Sequence[str], as_json: bool) -> None:
    with Progress("running", extent.expected, "rounds") as progress:

        def show(result: RoundResult) -> None:
            progress.clear()
            _show_round(result)
            progress.advance()

        result = run_campaign(extent.seeds(), schedulers=schedulers, faults=faults, show=show)
    longest = max(one.without_leader for one in result.rounds)
    bound = sum(one.bound for one in result.rounds)
    claims = sum(one.claims for one in result.rounds)
    click.echo(
        f"{len(result.rounds)} rounds, {len(result.failed)} failed: {bound:,} pods bound, {claims:,} claims "
        f"allocated, at most {longest:.1f} s without a leader"
    )
    for life in result.longest():
        click.echo(f"memory of {life}")
    if as_json:
        click.echo(msgspec.json.encode(_campaign_document(result)).decode())
    if result.failed:
        raise SystemExit(1)


def _show_round(result: RoundResult) -> None:
    click.echo(str(result))
    if result.findings:
        click.echo(f"  again: stowplan lab chaos --processes --rounds 1 --seed {result.seed}")


def _campaign_document(result: CampaignResult) -> dict[str, Any]:
    return {
        "rounds": [asdict(one) for one in result.rounds],
        "faults": dict(sorted(Counter(one.fault for one in result.rounds).items())),
        "failed": [one.number for one in result.failed],
        "memory": [asdict(one) for one in result.lives],
    }
