"""`stowplan chaos`: runs on bad days, by seed."""

from collections import Counter
from typing import Any

import click
import msgspec

from stowplan.chaos import Outcome, execute, plan_of
from stowplan.cli.values import AtLeast

_SHOWN = (
    "attempts",
    "bound",
    "volumes claimed",
    "preempted",
    "restarts",
    "faults",
    "plugin refusals",
    "extender failures",
)


@click.command("chaos")
@click.option("--seeds", type=AtLeast(1), default=100, show_default=True, help="How many seeds to run.")
@click.option("--from", "first", type=AtLeast(0), default=0, show_default=True, help="The first of them.")
@click.option("--seed", type=AtLeast(0), help="Run this seed only.")
@click.option("--json", "as_json", is_flag=True, help="End with one line that holds one JSON object.")
@click.option("--verbose", is_flag=True, help="Show the plan of every run and all that happened in it.")
def chaos(seeds: int, first: int, seed: int | None, as_json: bool, verbose: bool) -> None:
    """Run the scheduler through random clusters, users and faults, and check what must always hold.

    Each seed is one small cluster and some minutes of virtual time: pods and nodes come, change and go, the
    API server refuses, forgets, is slow and cuts off, plugins and extenders fail, others bind pods behind
    the scheduler's back, the scheduler itself is restarted. In some runs pods race for few volumes, and those
    who bind and make volumes are slow, fail and are asked again. The same seed always gives the same run.
    Exits with 1 if anything is broken.
    """
    chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    for number, one in enumerate(chosen, start=1):
        outcome = _run(one, verbose)
        counts.update(outcome.counts)
        if not outcome.ok:
            failed.append(outcome)
            _echo_failure(outcome)
        elif number % 50 == 0 and number < len(chosen):
            click.echo(f"{number:,} of {len(chosen):,} runs, {len(failed)} failed")
    figures = ", ".join(f"{counts[name]:,} {name}" for name in _SHOWN)
    click.echo(f"{len(chosen):,} run{'s' * (len(chosen) > 1)}, {len(failed)} failed: {figures}")
    if as_json:
        click.echo(msgspec.json.encode(_document(chosen, failed, counts)).decode())
    if failed:
        raise SystemExit(1)


def _run(seed: int, verbose: bool) -> Outcome:
    plan = plan_of(seed)
    if verbose:
        click.echo(plan.text())
    outcome = execute(plan, keep_diary=verbose)
    for line in outcome.diary:
        click.echo(line)
    if verbose:
        click.echo(f"seed {seed}: digest {outcome.digest}")
    return outcome


def _echo_failure(outcome: Outcome) -> None:
    more = len(outcome.findings) - 1
    also = f", and {more} more" if more else ""
    click.echo(f"seed {outcome.seed}: {outcome.findings[0]}{also}")
    click.echo(f"  again: stowplan chaos --seed {outcome.seed} --verbose")


def _document(chosen: range, failed: list[Outcome], counts: Counter[str]) -> dict[str, Any]:
    return {
        "from": chosen.start,
        "seeds": len(chosen),
        "failed": [
            {"seed": outcome.seed, "broken": [finding._asdict() for finding in outcome.findings]}
            for outcome in failed
        ],
        "counts": dict(sorted(counts.items())),
    }
