"""`stowplan lab fuzz`: hostile objects by seed and from the corpus, here or on a real API server."""

from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from stowplan.cli.lab.fuzz_real import binaries, run_real_command
from stowplan.cli.lab.fuzz_targets import target_options
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast, refuse_unused
from stowplan.lab.fuzz import (
    FuzzCase,
    FuzzFinding,
    FuzzHold,
    FuzzResult,
    FuzzRun,
    corpus,
    random_case,
    run_cases,
)
from stowplan.lab.fuzz.cases import STORE, WIRE
from stowplan.lab.fuzz.claims import compare_claims
from stowplan.lab.fuzz.server_cases import SERVER_CASES, ServerCase, run_server_cases
from stowplan.lab.fuzz.wire import run_wire

_SLOWEST = 5
_IN_PROCESS = ("seeds", "first", "limit", "verbose")
_WITH_REAL = ("apiserver", "etcd", "scheduler")


class _Chosen(NamedTuple):
    """Cases to run, by how they reach a scheduler."""

    objects: list[FuzzCase]
    wire: list[FuzzCase]
    server: list[ServerCase]

    @property
    def total(self) -> int:
        return len(self.objects) + len(self.wire) + len(self.server)


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
@click.option("--real", is_flag=True, help="Run the corpus on a real API server; needs --apiserver, --etcd.")
@click.option("--apiserver", type=click.Path(path_type=Path), help="With --real: the kube-apiserver binary.")
@click.option("--etcd", type=click.Path(path_type=Path), help="With --real: the etcd binary.")
@click.option(
    "--scheduler",
    type=click.Path(path_type=Path),
    help="With --real: a kube-scheduler binary to compare with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
@click.option("--verbose", is_flag=True, help="Print the writes of every case.")
@target_options
@click.pass_context
def fuzz(
    ctx: click.Context,
    seeds: int,
    first: int,
    name: str | None,
    nodes: int,
    size: int,
    limit: int,
    real: bool,
    apiserver: Path | None,
    etcd: Path | None,
    scheduler: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Test the scheduler with hostile objects.

    Each case writes pods, nodes, volumes and other objects to a cluster in this process, with fields at the
    extremes that kube-apiserver admits: thousands of selector keys, terms, ports and resources, quantities
    whose sums overflow or whose exponents are in the millions, objects of 1.45 MB or 9,000 levels deep,
    names and uids that are used again. No pod may be bound to a node that Kubernetes' rules exclude, no
    attempt may fail or block the event loop for longer than --limit, an ordinary pod must be bound within a
    second more than without the case, and memory must be freed when the objects are deleted. The corpus of
    known cases always runs first; some of its cases are hostile requests to `stowplan up`.

    Each seed is also a history of devices and resource claims: the scheduler's allocations on every node are
    compared with those of an allocator that tries all choices in turn. Exits with 1 if a check fails.

    With --real the corpus is written to a kube-apiserver instead, which is started with its etcd on loopback
    ports and a temporary directory. `stowplan run` and, with --scheduler, a kube-scheduler take turns on it,
    and a table compares how long ordinary pods wait for a node.
    """
    refuse_unused(ctx, _IN_PROCESS if real else _WITH_REAL, "--real", real)
    if real:
        run_real_command(binaries(apiserver, etcd, scheduler), nodes, _admitted(name, size), as_json)
        return
    chosen = range(first, first + seeds)
    cases = _chosen(name, chosen, size, nodes)
    result = _run(FuzzRun(nodes=nodes, size=size, limit_ms=limit), cases, verbose)
    _compare_claims(_histories(name, chosen), result)
    _report(result, verbose)
    if as_json:
        click.echo(msgspec.json.encode(_document(result)).decode())
    if result.findings:
        raise SystemExit(1)


def _admitted(name: str | None, size: int) -> list[FuzzCase]:
    """The cases of the corpus that a real API server lets through to a scheduler."""
    admitted = [case for case in corpus(size) if not case.lies]
    found = [case for case in admitted if name is None or name in case.name]
    if not found:
        raise _unknown(name, [case.name for case in admitted])
    return found


def _unknown(name: str | None, known: list[str]) -> click.ClickException:
    return click.ClickException(
        f"--case: expected a seed or a part of one of: {'; '.join(known)}; got {name!r}"
    )


def _chosen(name: str | None, seeds: range, size: int, nodes: int) -> _Chosen:
    if name is not None and name.isdigit():
        return _Chosen([random_case(int(name), size, nodes)], [], [])
    wanted = name or ""
    known = corpus(size)
    found = [case for case in known if wanted in case.name]
    chosen = _Chosen(
        [case for case in found if case.route == STORE],
        [case for case in found if case.route == WIRE],
        [case for case in SERVER_CASES if wanted in case.name],
    )
    if not chosen.total:
        raise _unknown(name, [*(case.name for case in known), *(case.name for case in SERVER_CASES)])
    if name is None:
        chosen.objects.extend(random_case(seed, size, nodes) for seed in seeds)
    return chosen


def _run(run: FuzzRun, cases: _Chosen, verbose: bool) -> FuzzResult:
    progress = Progress("running", cases.total, "cases")

    def show(case: FuzzCase | ServerCase) -> None:
        progress.advance(detail=case.name)
        done = progress.done
        if verbose:
            progress.clear()
            _show_steps(case)
        elif done % 50 == 0 and done < cases.total and not progress.is_shown:
            click.echo(f"{done:,} of {cases.total:,} cases")

    with progress:
        result = run_wire(run, cases.wire, show)
        result.include(run_server_cases(cases.server, show))
        result.include(run_cases(run, cases.objects, show))
    return result


def _show_steps(case: FuzzCase | ServerCase) -> None:
    if isinstance(case, ServerCase):
        click.echo(f"{case.name}: requests to stowplan up")
        return
    click.echo(f"{case.name}: {case.fields}")
    for step in case.steps[:50]:
        click.echo(f"  {step}")


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
                FuzzFinding(str(seed), "claims get the devices that the slow allocator finds", difference)
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


def _slowest(result: FuzzResult) -> list[FuzzHold]:
    return sorted(result.holds, reverse=True)[:_SLOWEST]


def _document(result: FuzzResult) -> dict[str, Any]:
    return {
        "cases": result.cases,
        "counts": dict(sorted(result.counts.items())),
        "findings": [finding._asdict() for finding in result.findings],
        "slowest": [hold._asdict() for hold in _slowest(result)],
    }
