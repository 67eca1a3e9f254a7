"""`stowplan bench start`: how long `stowplan run` takes to start."""

from dataclasses import asdict

import click
import msgspec

from stowplan.bench import start as start_bench
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
    of its process, its CPU time up to then, and the most memory it held. With `--nodes 0` the cluster is empty.
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
