"""`stowplan bench`: measuring stowplan on this machine. Here are the commands about its parts."""

from dataclasses import asdict

import click

from stowplan.bench import engine as engine_bench
from stowplan.bench import hostile as hostile_bench
from stowplan.bench import table as table_bench
from stowplan.bench.engine import EngineRun
from stowplan.bench.metrics import measure_metrics
from stowplan.bench.table import TableRun
from stowplan.bench.workloads import WORKLOADS
from stowplan.cli.benchdurable import durable_command
from stowplan.cli.benchhttp import http_command
from stowplan.cli.benchoptions import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.benchscheduler import churn_command, loop_command, preemption_command, soak_command
from stowplan.cli.benchserver import apiserver_command
from stowplan.cli.values import OneOf


@click.group("bench")
def bench() -> None:
    """Measure stowplan on this machine."""


@bench.command("engine")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True)
@click.option("--pods", type=AT_LEAST_ONE, default=2000, show_default=True, help="Pods to place.")
@click.option(
    "--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="For the choice among equal nodes."
)
@click.option("--no-reuse", is_flag=True, help="Compute every answer from scratch, for comparison.")
@JSON
def engine_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, no_reuse: bool, as_json: bool
) -> None:
    """Place pods one after the other on a cluster in memory, every node filtered and scored.

    The time of a pod is that of working out its template, filtering, scoring, choosing, assuming and
    confirming it; decoding it is left out. Nodes have 32 CPU, 256Gi, room for 110 pods, a hostname and one of
    three zones; pods ask for 100m and 500Mi. The workloads:

    \b
    basic               no wishes
    spread              zones, maxSkew 5, DoNotSchedule
    anti-affinity       groups of 100 pods that keep off each other's nodes
    preferred-affinity  likes the nodes of its own kind
    node-affinity       two of the three zones
    volumes             a claim of its own that takes a free volume, which is in one of the zones
    mixed               these five in turn
    many-classes        the five in turn, every pod with a label, selector and request of its own,
                        so that no result of another pod can be reused
    csi-limits          a volume of its own, bound; nodes attach 39 at most
    """
    run = EngineRun(workload, nodes, existing_per_node, pods, seed, not no_reuse)
    figures = engine_bench.measure(run)
    click.echo(f"{workload}: {pods:,} pods on {nodes:,} nodes with {existing_per_node} pods each")
    click.echo(
        f"  per pod    median {figures.us_per_pod:,.1f} µs, mean {figures.us_per_pod_mean:,.1f} µs, "
        f"p99 {figures.us_per_pod_p99:,.1f} µs"
    )
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s")
    click.echo(f"  no node    {figures.unschedulable:,} pods")
    click.echo(f"  table      built in {figures.build_s:.2f} s from decoded objects")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@bench.command("hostile")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--count", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Keys, terms and so on.")
@click.option("--only", default="", help="Only cases with this text in their name.")
@JSON
def hostile_command(nodes: int, count: int, only: str, as_json: bool) -> None:
    """Try pods as large as an API server accepts them: thousands of keys, terms, containers, resources.

    Every pod is tried twice: what counts is the first attempt, in which nothing can be reused. Garbage is
    collected before the clock starts, and what is alive is frozen.
    """
    click.echo(f"{nodes:,} nodes, {count:,} of each; milliseconds of the first attempt and of one more")
    measured = []
    for attempt in hostile_bench.measure(nodes, count, only):
        measured.append(asdict(attempt))
        click.echo(f"  {attempt.case:48} {attempt.first_ms:9,.1f} {attempt.again_ms:9,.1f}")
    if as_json:
        echo_json({"nodes": nodes, "count": count, "attempts": measured})


@bench.command("table")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--pods-per-node", type=NOT_NEGATIVE, default=10, show_default=True)
@JSON
def table_command(nodes: int, pods_per_node: int, as_json: bool) -> None:
    """Build the cluster table from decoded objects: how long, and how much memory on top of them.

    Nodes and pods are those of `stowplan bench engine --workload mixed`. Memory is counted exactly, by
    tracing every allocation while objects are decoded and put into a table a second time, and divided by the
    number of nodes or pods. Columns grow by doubling, so the bytes of a node depend on their number.
    """
    run = TableRun(nodes, pods_per_node)
    figures = table_bench.measure(run)
    pods = nodes * pods_per_node
    click.echo(f"{nodes:,} nodes, {pods:,} pods")
    click.echo(
        f"  decoded    {figures.decoded_bytes_per_node:,.0f} bytes a node, "
        f"{figures.decoded_bytes_per_pod:,.0f} bytes a pod"
    )
    click.echo(f"  table      built in {figures.build_s:.2f} s")
    click.echo(
        f"             {figures.table_bytes_per_node:,.0f} bytes a node, "
        f"{figures.table_bytes_per_pod:,.0f} bytes a pod on top of the decoded objects"
    )
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@bench.command("metrics")
@click.option("--pods", type=AT_LEAST_ONE, default=20_000, show_default=True, help="Pods in each round.")
@JSON
def metrics_command(pods: int, as_json: bool) -> None:
    """Count and time everything that is counted and timed for a pod placed at the first attempt.

    Nothing is scheduled: only the metrics are touched, as often as kube-scheduler touches them for a pod
    without wishes. The same is done with the classes of prometheus_client, for comparison. The figures
    are those of the best of five rounds.
    """
    figures = measure_metrics(pods)
    click.echo(f"{pods:,} pods")
    click.echo(f"  per pod    {figures.us_per_pod:,.1f} µs")
    click.echo(f"             {figures.us_per_pod_prometheus_client:,.1f} µs with prometheus_client's own")
    if as_json:
        echo_json({"pods": pods, **asdict(figures)})


for command in (
    apiserver_command,
    http_command,
    durable_command,
    loop_command,
    churn_command,
    preemption_command,
    soak_command,
):
    bench.add_command(command)
