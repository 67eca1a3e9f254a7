"""`stowplan bench start`, `list` and `scale`: starting, taking in a huge cluster, and growing with it."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.progress import elapsed
from stowplan.cli.values import OneOf
from stowplan.lab.bench.engine import arrival as arrival_bench
from stowplan.lab.bench.engine.arrival import ArrivalRun
from stowplan.lab.bench.engine.loop import LOOP_WORKLOADS
from stowplan.lab.bench.scale import scale as scale_bench
from stowplan.lab.bench.scale.scale import ScaleRun
from stowplan.lab.bench.servers import start as start_bench
from stowplan.lab.bench.servers.http import BenchError
from stowplan.lab.bench.servers.start import StartRun


@click.command("start")
@click.option("--nodes", type=NOT_NEGATIVE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=NOT_NEGATIVE, default=30_000, show_default=True, help="Pods that run on them.")
@click.option("--rounds", type=AT_LEAST_ONE, default=3, show_default=True, help="Starts that are measured.")
@click.option("--kubeconfig", default="", help="API server to use, with what is in it; by default our own.")
@click.option("--fill", is_flag=True, help="Create nodes and pods there first, and delete them afterwards.")
@click.option(
    "--command",
    default="",
    help="Scheduler to measure instead, such as 'kube-scheduler --config {config} --secure-port {port}'.",
)
@JSON
def start_command(
    nodes: int, pods: int, rounds: int, kubeconfig: str, fill: bool, command: str, as_json: bool
) -> None:
    """Measure the start of `stowplan run`.

    API server and scheduler run in their own processes. The scheduler is started several times, and stopped
    when it is ready and has bound a pod that was waiting for it. Medians are printed: the time from the start
    of its process, its CPU time up to then, and the most memory it held. With `--nodes 0` the cluster is
    empty.
    """
    if fill and not kubeconfig:
        raise click.UsageError("--fill: expected --kubeconfig, too; our own API server is always filled")
    if command and "{port}" not in command:
        raise click.UsageError(f"--command: expected {{port}} in it, got {command!r}")
    run = StartRun(nodes, pods, rounds, kubeconfig, fill, command)
    try:
        with elapsed("measuring"):
            figures = start_bench.measure(run)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    made = f"{nodes:,} nodes, {pods:,} running pods" if nodes else "an empty cluster"
    click.echo(f"the cluster of {kubeconfig}" if kubeconfig and not fill else made)
    click.echo(f"  ready      after {figures.ready_s:.2f} s, {figures.ready_cpu_s:.2f} s of CPU time")
    if figures.bound_s:
        click.echo(
            f"  first pod  bound after {figures.bound_s:.2f} s, {figures.bound_cpu_s:.2f} s of CPU time"
        )
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("list")
@click.option("--nodes", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AT_LEAST_ONE, default=1_000_000, show_default=True, help="Pods on them.")
@click.option("--watch-lists", is_flag=True, help="Send what exists through watches instead of as lists.")
@JSON
def list_command(nodes: int, pods: int, watch_lists: bool, as_json: bool) -> None:
    """Measure the arrival of a huge list.

    A second process sends nodes and running pods over HTTP; the scheduler in this process takes them in.
    The longest turn of its event loop is printed, in CPU time with garbage collection included, and what a
    pod costs in CPU time and memory. Exits with 1 if a turn took more than 20 ms.
    """
    run = ArrivalRun(nodes, pods, watch_lists)
    with elapsed("measuring"):
        figures = arrival_bench.measure(run)
    click.echo(f"{nodes:,} nodes and {pods:,} pods in {figures.seconds:,.1f} s")
    click.echo(f"  CPU        {figures.cpu_s:,.1f} s, {figures.cpu_us_per_pod:,.1f} µs a pod")
    where = f" (in {figures.held_by})" if figures.held_by else ""
    click.echo(f"  loop       held for {figures.longest_turn_ms:,.1f} ms at most{where}")
    click.echo(f"  collector  {figures.longest_collection_ms:,.1f} ms at most")
    click.echo(f"  scheduling begins in a turn of {figures.freezing_ms:,.1f} ms")
    click.echo(
        f"  memory     {figures.bytes_per_pod:,.0f} bytes a pod, {figures.peak_rss_mib:,.0f} MiB at most"
    )
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    longest = max(figures.longest_turn_ms, figures.freezing_ms)
    if longest > _LONGEST_TURN_MS:
        click.echo(f"Error: the event loop was held for {longest:,.0f} ms", err=True)
        raise SystemExit(1)


@click.command("scale")
@click.option(
    "--nodes", default="5000,15000,50000,100000", show_default=True, help="Numbers of nodes, with commas."
)
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--pods", type=AT_LEAST_ONE, default=5000, show_default=True, help="Pods to place.")
@click.option(
    "--workload", type=OneOf(LOOP_WORKLOADS), default="basic", show_default=True, help="Kind of pods."
)
@JSON
def scale_command(nodes: str, existing_per_node: int, pods: int, workload: str, as_json: bool) -> None:
    """Measure how costs grow with the cluster.

    `stowplan bench loop` runs for each number of nodes, in a separate process: the whole scheduler and an
    in-process store that holds everything. Printed are the CPU time of a pod from its creation to its
    binding, that of the start, memory, and the CPU time of a pod once more as bars.
    """
    sizes = [part.strip() for part in nodes.split(",")]
    if not all(size.isdigit() and int(size) for size in sizes):
        raise click.BadParameter(
            f"expected numbers of nodes with commas, got {nodes!r}", param_hint="--nodes"
        )
    run = ScaleRun(tuple(map(int, sizes)), existing_per_node, pods, workload)
    click.echo(f"{workload}: {pods:,} pods, {existing_per_node} pods on each node")
    click.echo("    nodes     pods   pods/s   CPU a pod   CPU of the start   memory")
    found = []
    for figures in scale_bench.measure(run):
        found.append(figures)
        click.echo(
            f"  {figures.nodes:>7,} {figures.existing:>8,} {figures.pods_per_s:>8,.0f} "
            f"{figures.cpu_us_per_pod:>8,.0f} µs {figures.start_cpu_s:>16,.1f} s "
            f"{figures.peak_rss_mib:>6,.0f} MiB"
        )
    for line in scale_bench.chart(found):
        click.echo(line)
    if as_json:
        echo_json({**asdict(run), "figures": [asdict(one) for one in found]})


_LONGEST_TURN_MS = 20.0
