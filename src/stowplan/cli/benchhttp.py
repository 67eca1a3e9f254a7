"""`stowplan bench http` and `http-client`: measuring a scheduler process, and its client, over HTTPS."""

from dataclasses import asdict

import click

from stowplan.bench import httpclient
from stowplan.bench.http import BenchError, HttpRun, measure
from stowplan.bench.httpclient import ClientRun
from stowplan.bench.workloads import WORKLOADS
from stowplan.cli.benchoptions import AT_LEAST_ONE, JSON, echo_json
from stowplan.cli.values import OneOf


@click.command("http")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@click.option("--kubeconfig", default="", help="An API server to use; else one of ours is started.")
@click.option(
    "--command", default="", help="Another scheduler to measure, such as 'kube-scheduler --config {config}'."
)
@JSON
def http_command(workload: str, nodes: int, pods: int, kubeconfig: str, command: str, as_json: bool) -> None:
    """Have `stowplan run` bind pods over HTTPS, and measure what that costs its process.

    The API server runs in a process of its own, and this one plays the users. On a server that is given the
    nodes and pods are deleted afterwards.
    """
    run = HttpRun(workload, nodes, pods, kubeconfig, command)
    try:
        figures = measure(run)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{workload}: {pods:,} pods on {nodes:,} nodes, over HTTPS")
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s from creation to binding")
    click.echo(f"  CPU        {figures.cpu_us_per_pod:,.0f} µs a pod, {figures.cpu_s:,.2f} s in all")
    click.echo(f"  bound      {figures.bound:,} pods in {figures.seconds:,.2f} s")
    click.echo(f"  events     {figures.events:,} stored")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("http-client")
@click.option("--pods", type=AT_LEAST_ONE, default=3000, show_default=True, help="Pods to create and bind.")
@click.option(
    "--at-once", type=AT_LEAST_ONE, default=16, show_default=True, help="Requests at the same time."
)
@JSON
def http_client_command(pods: int, at_once: int, as_json: bool) -> None:
    """Measure what a request costs the client over HTTPS: ours, and aiohttp for comparison.

    The API server runs in a process of its own, so what is counted is the CPU of the client: building the
    request, TLS, the event loop, reading the answer. Both clients encode and decode with the same code; ours
    limits rates and sends again besides.
    """
    run = ClientRun(pods, at_once)
    found = httpclient.measure(run)
    click.echo(f"{pods:,} pods, {at_once} requests at once")
    for name, figures in found.items():
        click.echo(
            f"  {name:<10} create {figures.create_us:,.0f} µs, bind {figures.bind_us:,.0f} µs, "
            f"patch {figures.patch_us:,.0f} µs, watched object {figures.watched_us:,.1f} µs, "
            f"{figures.binds_per_s:,.0f} binds/s"
        )
    if as_json:
        echo_json({**asdict(run), **{name: asdict(figures) for name, figures in found.items()}})
