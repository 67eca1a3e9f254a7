"""`stowplan fuzz`: hostile objects, by seed and from the corpus."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from stowplan.cli.fuzz_targets import target_options
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast
from stowplan.fuzz import Case, Finding, FuzzResult, FuzzRun, Hold, corpus, random_case, run_cases
from stowplan.fuzz.claims import compare_claims

_SLOWEST = 5


@click.command("fuzz")
@click.option("--seeds", type=AtLeast(0), default=100, show_default=True, help="Number of random cases.")
@click.option("--from", "first", type=AtLeast(0), default=0, show_default=True, help="First seed.")
@click.option("--case", "name", help="Run only this case: a seed, or part of the name of a corpus case.")
@click.option("--nodes", type=AtLeast(10), default=100, show_default=True, help="Number of nodes.")
@click.option(
    "--size", type=AtLeast(10), default=10_000, show_default=True, help="Entries of long lists and maps."
)
@click.option(
    "--limit",
    type=AtLeast(1),
    default=100,
    show_default=True,
    help="CPU milliseconds the event loop may be blocked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
@click.option("--verbose", is_flag=True, help="Print the writes of every case.")
@target_options
def fuzz(
    seeds: int,
    first: int,
    name: str | None,
    nodes: int,
    size: int,
    limit: int,
    as_json: bool,
    verbose: bool,
) -> None:
    """Test the scheduler with hostile objects.

    Each case writes pods, nodes, volumes and other objects to a cluster in this process, with fields at the
    extremes that API validation accepts: thousands of selector keys, terms, ports and resources, quantities
    whose sums overflow, names and uids that are used again. No pod may be bound to a node that Kubernetes'
    rules exclude, no attempt may fail or block the event loop for longer than --limit, and memory must be
    freed when the objects are deleted. The corpus of known cases always runs first.

    Each seed is also a history of devices and resource claims: what the scheduler allocates on every node is
    compared with an allocator that tries all choices one after the other. Exits with 1 if a check fails.
    """
    chosen = range(first, first + seeds)
    cases = list(_chosen(name, chosen, size, nodes))
    progress = Progress("running", len(cases), "cases")

    def show(case: Case) -> None:
        progress.advance(detail=case.name)
        done = progress.done
        if verbose:
            progress.clear()
            click.echo(f"{case.name}: {case.fields}")
            for step in case.steps[:50]:
                click.echo(f"  {step}")
        elif done % 50 == 0 and done < len(cases) and not progress.is_shown:
            click.echo(f"{done:,} of {len(cases):,} cases")

    with progress:
        result = run_cases(FuzzRun(nodes=nodes, size=size, limit_ms=limit), cases, show)
    _compare_claims(_histories(name, chosen), result)
    _report(result, verbose)
    if as_json:
        click.echo(msgspec.json.encode(_document(result)).decode())
    if result.findings:
        raise SystemExit(1)


def _chosen(name: str | None, seeds: range, size: int, nodes: int) -> Iterator[Case]:
    if name is None:
        yield from corpus(size)
        for seed in seeds:
            yield random_case(seed, size, nodes)
    elif name.isdigit():
        yield random_case(int(name), size, nodes)
    else:
        found = [case for case in corpus(size) if name in case.name]
        if not found:
            known = "; ".join(case.name for case in corpus(10))
            raise click.ClickException(f"--case: expected a seed or a part of one of: {known}; got {name!r}")
        yield from found


def _histories(name: str | None, seeds: range) -> range:
    """The seeds of histories of claims that were asked for; a case of the corpus has none."""
    if name is None:
        return seeds
    return range(int(name), int(name) + 1) if name.isdigit() else range(0)


def _compare_claims(seeds: range, result: FuzzResult) -> None:
    with Progress("comparing claims of", len(seeds), "histories") as progress:
        for seed in seeds:
            compared = compare_claims(seed)
            result.counts["claims compared"] += compared.claims
            result.findings += [
                Finding(str(seed), "claims get the devices that the slow allocator finds", difference)
                for difference in compared.differences
            ]
            progress.advance()


def _report(result: FuzzResult, verbose: bool) -> None:
    for finding in result.findings:
        click.echo(str(finding))
    if verbose:
        for refusal, times in result.refusals.most_common():
            click.echo(f"refused {times} times: {refusal}")
    for hold in _slowest(result):
        click.echo(f"{hold.ms:,.1f} ms held by {hold.holder} in {hold.case}: {hold.fields[:200]}")
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(result.counts.items()))
    broken = len({finding.case for finding in result.findings})
    click.echo(f"{result.cases:,} cases, {broken:,} failed: {counts}")


def _slowest(result: FuzzResult) -> list[Hold]:
    return sorted(result.holds, reverse=True)[:_SLOWEST]


def _document(result: FuzzResult) -> dict[str, Any]:
    return {
        "cases": result.cases,
        "counts": dict(sorted(result.counts.items())),
        "findings": [finding._asdict() for finding in result.findings],
        "slowest": [hold._asdict() for hold in _slowest(result)],
    }
