"""`stowplan bench perf`: upstream's own benchmark definitions."""

from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
import msgspec

from stowplan.cli.values import AtLeast
from stowplan.lab.bench.perf.definitions import Benchmark, DefinitionError, find_files, read
from stowplan.lab.bench.perf.run import PerfOutcome, measure

_WIDTH: Final = 66


@click.command("perf")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--labels",
    default="performance",
    show_default=True,
    help='Labels that a workload must have, or with "-" must not have. "": all workloads.',
)
@click.option(
    "--case", "pattern", default="*", help="Only workloads whose TestCase/workload fits, with * and ?."
)
@click.option("--list", "only_list", is_flag=True, help="Show which workloads there are, and run none.")
@click.option(
    "--kubeconfig", type=click.Path(exists=True), help="Use this API server, and delete what was made."
)
@click.option("--seed", type=AtLeast(0), default=0, show_default=True, help="Seed of every random choice.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object on the last line.")
@click.pass_context
def perf(
    context: click.Context,
    files: tuple[Path, ...],
    labels: str,
    pattern: str,
    only_list: bool,
    kubeconfig: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run the benchmark definitions of Kubernetes.

    FILES are performance-config.yaml files of test/integration/scheduler_perf in a checkout of Kubernetes, or
    folders that have some. They are read unchanged. Each workload gets a separate cluster in this process:
    a store, the scheduler with the configuration and the feature gates of the test case, for device claims
    the claim controller and the garbage collector; no kubelet ever sees a pod, as upstream.

    The figure next to a threshold is the one the threshold is for, mostly the average throughput in pods per
    second. A workload that needs something that is missing here is listed with the reason. Exit code 1: a
    threshold was missed, or a workload could not be run.
    """
    try:
        found = [one for path in find_files(files) for one in read(path)]
    except DefinitionError as error:
        raise click.ClickException(str(error)) from None
    chosen = [one for one in found if _has(one, labels) and fnmatchcase(one.name, pattern)]
    if not chosen:
        raise click.ClickException(
            f"none of {len(found)} workloads has labels {labels!r} and fits {pattern!r}"
        )
    if only_list:
        for one in chosen:
            click.echo(f"{one.name:<{_WIDTH}} {' '.join(sorted(one.labels))}")
        return
    click.echo(f"{'':<{_WIDTH}} {'figure':>9} {'threshold':>9} {'times':>6}  {'µs CPU':>7}")
    outcomes = []
    for one in chosen:
        outcome = measure(one, seed=seed, kubeconfig=kubeconfig or "")
        outcomes.append(outcome)
        click.echo(_line(outcome))
    click.echo(_summary(outcomes))
    if as_json:
        click.echo(msgspec.json.encode({"workloads": [_plain(one) for one in outcomes]}).decode())
    if any(one.reason or (one.verdict is not None and not one.verdict.holds) for one in outcomes):
        context.exit(1)


def _has(benchmark: Benchmark, labels: str) -> bool:
    """True if a workload has the labels it must have and none that it must not."""
    for label in filter(None, (part.strip() for part in labels.split(","))):
        wanted = not label.startswith("-")
        if (label.lstrip("+-") in benchmark.labels) is not wanted:
            return False
    return True


def _line(outcome: PerfOutcome) -> str:
    if outcome.reason:
        return f"{outcome.name:<{_WIDTH}} not run: {outcome.reason}"
    found = outcome.verdict
    if found is None:
        return f"{outcome.name:<{_WIDTH}} {'–':>9} {'':>9} {'':>6}  {outcome.cpu_us_per_pod:>7,.0f}"
    threshold = f"{found.threshold:,.0f}" if found.threshold else "–"
    times = "" if found.times is None else f"{found.times:,.1f}"
    missed = "" if found.holds else "  missed"
    return (
        f"{outcome.name:<{_WIDTH}} {found.value:>9,.0f} {threshold:>9} {times:>6}  "
        f"{outcome.cpu_us_per_pod:>7,.0f}{missed}"
    )


def _summary(outcomes: Sequence[PerfOutcome]) -> str:
    verdicts = [one.verdict for one in outcomes if one.verdict is not None]
    times = [one.times for one in verdicts if one.times is not None]
    parts = [f"{sum(not one.reason for one in outcomes)} of {len(outcomes)} workloads were run"]
    if times:
        least, middle = min(times), median(times)
        parts.append(
            f"{len(times)} have thresholds: at least {least:.1f} times that, {middle:.1f} in the median"
        )
    missed = sum(not one.holds for one in verdicts)
    if missed:
        parts.append(f"{missed} missed")
    return "; ".join(parts)


def _plain(outcome: PerfOutcome) -> dict[str, Any]:
    plain = asdict(outcome)
    if outcome.verdict is not None:
        plain["verdict"] |= {"holds": outcome.verdict.holds, "times": outcome.verdict.times}
    return plain
