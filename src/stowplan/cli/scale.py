"""`stowplan bench start` and `bench list`: how a scheduler starts, and takes in a huge cluster."""

from dataclasses import asdict

import click
import msgspec

from stowplan.bench import arrival as arrival_bench
from stowplan.bench import start as start_bench
from stowplan.bench.arrival import ArrivalRun
from stowplan.bench.http import BenchError
from stowplan.bench.start import StartRun
from stowplan.cli.progress import elapsed
from stowplan.cli.values import AtLeast


@click.command("start")
@click.option("--nodes", type=AtLeast(0), default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AtLeast(0), default=30_000, show_default=True, help="Pods that run on them.")
@click.option("--rounds", type=AtLeast(1), default=3, show_default=True, help="Starts that are measured.")
@click.option("--kubeconfig", default="", help="API server to use, with what is in it; by default our own.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
def start(nodes: int, pods: int, rounds: int, kubeconfig: str, as_json: bool) -> None:
    """Measure the start of `stowplan run`.

    API server and scheduler run in their own processes. The scheduler is started several times, and stopped
    when it is ready and has bound a pod that was waiting for it. Medians are printed: the time from the start
    of its process, its CPU time up to then, and the most memory it held. With `--nodes 0` the cluster is
    empty.
    """
    run = StartRun(nodes, pods, rounds, kubeconfig)
    try:
        with elapsed("measuring"):
            figures = start_bench.measure(run)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"{nodes:,} nodes, {pods:,} running pods" if not kubeconfig else f"the cluster of {kubeconfig}"
    )
    click.echo(f"  ready      after {figures.ready_s:.2f} s, {figures.ready_cpu_s:.2f} s of CPU time")
    if figures.bound_s:
        click.echo(
            f"  first pod  bound after {figures.bound_s:.2f} s, {figures.bound_cpu_s:.2f} s of CPU time"
        )
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        click.echo(msgspec.json.encode({**asdict(run), **asdict(figures)}).decode())


@click.command("list")
@click.option("--nodes", type=AtLeast(1), default=10_000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AtLeast(1), default=1_000_000, show_default=True, help="Pods on them.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
def list_(nodes: int, pods: int, as_json: bool) -> None:
    """Measure the arrival of a huge list.

    A second process streams nodes and running pods over HTTP; the scheduler in this process takes them in. The
    longest turn of its event loop is printed, in CPU time with garbage collection included, and what a pod
    costs in CPU time and memory. Exits with 1 if a turn took more than 20 ms.
    """
    run = ArrivalRun(nodes, pods)
    with elapsed("measuring"):
        figures = arrival_bench.measure(run)
    click.echo(f"{nodes:,} nodes and {pods:,} pods in {figures.seconds:,.1f} s")
    click.echo(f"  CPU        {figures.cpu_s:,.1f} s, {figures.cpu_us_per_pod:,.1f} µs a pod")
    click.echo(
        f"  loop       held for {figures.longest_turn_ms:,.1f} ms at most {_by(figures.held_by)}".rstrip()
    )
    click.echo(f"  collector  {figures.longest_collection_ms:,.1f} ms at most")
    click.echo(f"  scheduling begins in a turn of {figures.freezing_ms:,.1f} ms")
    click.echo(
        f"  memory     {figures.bytes_per_pod:,.0f} bytes a pod, {figures.peak_rss_mib:,.0f} MiB at most"
    )
    if as_json:
        click.echo(msgspec.json.encode({**asdict(run), **asdict(figures)}).decode())
    longest = max(figures.longest_turn_ms, figures.freezing_ms)
    if longest > _LONGEST_TURN_MS:
        click.echo(f"Error: the event loop was held for {longest:,.0f} ms", err=True)
        raise SystemExit(1)


_LONGEST_TURN_MS = 20.0


def _by(where: str) -> str:
    return f"(in {where})" if where else ""
