"""`stowplan bench apiserver`: measuring the API over HTTPS."""

from dataclasses import asdict

import click

from stowplan.bench.apiserver import ServerRun, measure
from stowplan.cli.benchoptions import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json


@click.command("apiserver")
@click.option("--pods", type=AT_LEAST_ONE, default=5000, show_default=True, help="Pods to create and bind.")
@click.option("--watchers", type=NOT_NEGATIVE, default=10, show_default=True)
@click.option("--connections", type=AT_LEAST_ONE, default=16, show_default=True, help="That write.")
@JSON
def apiserver_command(pods: int, watchers: int, connections: int, as_json: bool) -> None:
    """Create and bind pods over loopback HTTPS while watchers follow.

    The server runs in a process of its own; this one plays all clients. Every watcher has to see every change
    in order, or there are no figures.
    """
    run = ServerRun(pods, watchers, connections)
    figures = measure(run)
    click.echo(f"{pods:,} pods, {watchers:,} watchers, {connections:,} connections")
    click.echo(
        f"  creates    {figures.creates_per_s:,.0f}/s, median {figures.create_ms_p50:,.2f} ms, "
        f"p99 {figures.create_ms_p99:,.2f} ms"
    )
    click.echo(
        f"  binds      {figures.binds_per_s:,.0f}/s, median {figures.bind_ms_p50:,.2f} ms, "
        f"p99 {figures.bind_ms_p99:,.2f} ms"
    )
    click.echo(
        f"  watched    {figures.watched_events:,} events, the last {figures.watch_lag_ms:,.1f} ms late"
    )
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
