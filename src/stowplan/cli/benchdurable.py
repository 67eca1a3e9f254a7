"""`stowplan bench durable`: measuring what keeping everything on a disk costs."""

from dataclasses import asdict

import click

from stowplan.bench.durable import DurableRun, measure
from stowplan.cli.benchoptions import AT_LEAST_ONE, JSON, echo_json


@click.command("durable")
@click.option("--pods", type=AT_LEAST_ONE, default=5000, show_default=True, help="Pods to create each time.")
@click.option(
    "--connections", type=AT_LEAST_ONE, default=16, show_default=True, help="That write over HTTPS."
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    help="Where the data directories are made, to choose the disk [default: where temporary files go].",
)
@JSON
def durable_command(pods: int, connections: int, folder: str | None, as_json: bool) -> None:
    """Create pods in memory and with a data directory: in this process, and over loopback HTTPS.

    Everything counts as done when it is on the disk. What is made is deleted again.
    """
    run = DurableRun(pods, connections, folder)
    figures = measure(run)
    click.echo(f"{pods:,} pods, {connections:,} connections")
    click.echo(
        f"  in process {figures.store_memory_per_s:,.0f} creates/s in memory, "
        f"{figures.store_kept_per_s:,.0f}/s kept"
    )
    click.echo(
        f"  over HTTPS {figures.http_memory_per_s:,.0f} creates/s in memory "
        f"(median {figures.http_memory_ms_p50:,.2f} ms, p99 {figures.http_memory_ms_p99:,.2f} ms), "
        f"{figures.http_kept_per_s:,.0f}/s kept "
        f"(median {figures.http_kept_ms_p50:,.2f} ms, p99 {figures.http_kept_ms_p99:,.2f} ms)"
    )
    click.echo(f"  load       {figures.load_s:,.2f} s to have them back")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
