"""Benchmarks over HTTPS: `apiserver`, `http`, `http-client`, `durable`, `up`."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.progress import elapsed
from stowplan.cli.values import OneOf
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.servers import apiserver as apiserver_bench
from stowplan.lab.bench.servers import durable as durable_bench
from stowplan.lab.bench.servers import http as http_bench
from stowplan.lab.bench.servers import httpclient
from stowplan.lab.bench.servers import up as up_bench
from stowplan.lab.bench.servers.apiserver import ServerRun
from stowplan.lab.bench.servers.durable import DurableRun
from stowplan.lab.bench.servers.http import PREEMPTION, BenchError, HttpRun
from stowplan.lab.bench.servers.httpclient import ClientRun
from stowplan.lab.bench.servers.up import UpRun


@click.command("apiserver")
@click.option("--pods", type=AT_LEAST_ONE, default=5000, show_default=True, help="Pods to create and bind.")
@click.option("--watchers", type=NOT_NEGATIVE, default=10, show_default=True, help="Clients that watch pods.")
@click.option(
    "--connections", type=AT_LEAST_ONE, default=16, show_default=True, help="Connections that write."
)
@JSON
def apiserver_command(pods: int, watchers: int, connections: int, as_json: bool) -> None:
    """Measure the API server over HTTPS.

    The server runs in its own process, this process runs all clients. Pods are created and bound; every
    watcher must receive every change in order, or the benchmark fails.
    """
    run = ServerRun(pods, watchers, connections)
    with elapsed("measuring"):
        figures = apiserver_bench.measure(run)
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


@click.command("http")
@click.option(
    "--workload",
    type=OneOf((*WORKLOADS, PREEMPTION)),
    default="basic",
    show_default=True,
    help="Kind of pods.",
)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@click.option("--kubeconfig", default="", help="API server to use; by default our own is started.")
@click.option(
    "--command", default="", help="Scheduler to measure instead, such as 'kube-scheduler --config {config}'."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.0),
    default=0.0,
    show_default="as many as are bound",
    help="Pods to create in a second.",
)
@click.option("--waiting", is_flag=True, help="Create all pods first: the scheduler's start counts.")
@click.option("--unschedulable", is_flag=True, help="Every tenth pod fits nowhere.")
@click.option("--bare", is_flag=True, help="Send a scheduler's requests without one, for pods that wait.")
@JSON
def http_command(
    workload: str,
    nodes: int,
    pods: int,
    kubeconfig: str,
    command: str,
    rate: float,
    waiting: bool,
    unschedulable: bool,
    bare: bool,
    as_json: bool,
) -> None:
    """Measure `stowplan run` over HTTPS.

    API server and scheduler run in their own processes, this process creates the pods. With `--kubeconfig`,
    nodes and pods are deleted afterwards. With `--rate` pods are created steadily, and the time until they
    are bound is that of a scheduler that keeps up. With `--waiting` all pods are there before the scheduler
    starts, and CPU time and rate are from its start to the last binding. In the workload `preemption` each
    node has four pods of low priority, of which three must go for a pod. With `--bare` nothing is decided:
    a client sends the requests that a scheduler would, without events, which is what the API server can take.
    """
    if waiting and rate:
        raise click.UsageError("--rate and --waiting: expected only one of them")
    if bare and (not waiting or unschedulable or command):
        raise click.UsageError("--bare: expected with --waiting, and without --unschedulable and --command")
    run = HttpRun(workload, nodes, pods, kubeconfig, command, rate, waiting, unschedulable, bare)
    try:
        with elapsed("measuring"):
            figures = http_bench.measure(run)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{workload}: {pods:,} pods on {nodes:,} nodes, over HTTPS")
    since = "the start of the scheduler" if waiting else "creation"
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s from {since} to binding")
    if rate:
        click.echo(f"  offered    {rate:,.0f} pods/s, created up to {figures.late_ms:,.1f} ms late (p99)")
    click.echo(f"  to bound   median {figures.bound_p50_ms:,.1f} ms, p99 {figures.bound_p99_ms:,.1f} ms")
    click.echo(f"  CPU        {figures.cpu_us_per_pod:,.0f} µs a pod, {figures.cpu_s:,.2f} s in all")
    click.echo(
        f"  bound      {figures.bound:,} pods in {figures.seconds:,.2f} s, "
        f"the first after {figures.first_s:,.2f} s"
    )
    click.echo(f"  events     {figures.events:,} stored")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("http-client")
@click.option("--pods", type=AT_LEAST_ONE, default=3000, show_default=True, help="Pods to create and bind.")
@click.option("--at-once", type=AT_LEAST_ONE, default=16, show_default=True, help="Concurrent requests.")
@JSON
def http_client_command(pods: int, at_once: int, as_json: bool) -> None:
    """Compare our HTTP client with aiohttp.

    The API server runs in its own process, so the figures are the CPU time of the client: building the
    request, TLS, event loop, reading the response. Both clients encode and decode with the same code; ours
    also limits rates and retries.
    """
    run = ClientRun(pods, at_once)
    with elapsed("measuring"):
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


@click.command("durable")
@click.option(
    "--pods", type=AT_LEAST_ONE, default=5000, show_default=True, help="Pods to create in each run."
)
@click.option(
    "--connections",
    type=AT_LEAST_ONE,
    default=16,
    show_default=True,
    help="Connections that write over HTTPS.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    help="Parent of the data directories, which decides the disk [default: the temporary directory].",
)
@JSON
def durable_command(pods: int, connections: int, folder: str | None, as_json: bool) -> None:
    """Measure the API server's data directory.

    Pods are created in memory and with a data directory, in this process and over HTTPS. A write counts when
    it is on the disk. The data directories are deleted afterwards.
    """
    run = DurableRun(pods, connections, folder)
    with elapsed("measuring"):
        figures = durable_bench.measure(run)
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


@click.command("up")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AT_LEAST_ONE, default=20_000, show_default=True, help="Replicas to run.")
@click.option(
    "--idle",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    help="Seconds to leave each cluster alone.",
)
@JSON
def up_command(nodes: int, pods: int, idle: float, as_json: bool) -> None:
    """Measure `stowplan up` with many nodes and pods.

    One cluster makes its nodes and the pods of a Deployment, another one loads a dump of the first. Ready is
    when every pod is; CPU is the time of the whole process until then. Afterwards all pods are listed through
    HTTPS, and the share of a core is measured that the cluster needs when nothing happens.
    """
    run = UpRun(nodes, pods, idle)
    try:
        with elapsed("measuring"):
            found = dict(zip(("made", "loaded"), up_bench.measure(run), strict=True))
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{nodes:,} nodes, {pods:,} pods")
    for name, figures in found.items():
        click.echo(
            f"  {name:<10} ready after {figures.ready_s:,.1f} s with {figures.cpu_s:,.1f} s of CPU, "
            f"listed in {figures.list_s:,.2f} s ({figures.listed_mib:,.0f} MiB), "
            f"idle {figures.idle_cpu:.1%} of a core"
        )
    click.echo(f"  memory     {found['loaded'].peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **{name: asdict(figures) for name, figures in found.items()}})
