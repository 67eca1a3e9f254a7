"""Benchmarks of decisions in memory: `engine`, `table`, `hostile`, `metrics`."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.progress import elapsed
from stowplan.cli.values import OneOf
from stowplan.lab.bench.engine import engine as engine_bench
from stowplan.lab.bench.engine import table as table_bench
from stowplan.lab.bench.engine.engine import EngineRun
from stowplan.lab.bench.engine.metrics import measure_metrics
from stowplan.lab.bench.engine.table import TableRun
from stowplan.lab.bench.engine.workloads import ENGINE_WORKLOADS
from stowplan.lab.bench.scale import hostile as hostile_bench


@click.command("engine")
@click.option(
    "--workload", type=OneOf(ENGINE_WORKLOADS), default="basic", show_default=True, help="Kind of pods."
)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--pods", type=AT_LEAST_ONE, default=2000, show_default=True, help="Pods to place.")
@click.option("--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="Seed of the tie-break.")
@click.option("--no-reuse", is_flag=True, help="Do not reuse results between pods, for comparison.")
@JSON
def engine_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, no_reuse: bool, as_json: bool
) -> None:
    """Measure scheduling decisions in memory.

    Pods are placed one at a time, with every node filtered and scored. The time of a pod covers its template,
    Filter, Score, the choice, assuming and confirming it, but not decoding it. Nodes have 32 CPU, 256Gi, 110
    pods, a hostname and one of three zones; pods request 100m and 500Mi. The workloads:

    \b
    basic               no constraints
    spread              topology spread over zones, maxSkew 5, DoNotSchedule
    anti-affinity       groups of 100 pods with required anti-affinity by hostname
    preferred-affinity  preferred affinity to pods of the same labels
    node-affinity       required node affinity to two of the three zones
    volumes             one claim each, to be bound to a free volume of one zone
    mixed               basic to node-affinity in turn
    many-classes        the same, every pod with its own label, selector and request,
                        so that no result can be reused
    csi-limits          one bound volume each; nodes attach at most 39
    dra                 a claim for one device each; nodes have ten, of which up to
                        five are held by pods that run already
    dra-template        the same, claims made from a template
    dra-shared          the same, ten pods to a claim
    dra-capacity        a claim for a tenth of a device that others share
    dra-partitionable   a claim for a partition of a device with shared counters
    dra-extended        an extended resource that is answered with a device
    nowhere             a request that no node has room for
    """
    run = EngineRun(workload, nodes, existing_per_node, pods, seed, not no_reuse)
    with elapsed("measuring"):
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


@click.command("table")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods on each node.")
@JSON
def table_command(nodes: int, pods_per_node: int, as_json: bool) -> None:
    """Measure time and memory of the cluster table.

    Nodes and pods are those of `stowplan bench engine --workload mixed`, decoded beforehand. Memory is exact:
    every allocation is traced while the objects are decoded and put into a table a second time. Columns grow
    by doubling, so the bytes per node depend on the number of nodes.
    """
    run = TableRun(nodes, pods_per_node)
    with elapsed("measuring"):
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


@click.command("hostile")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--count",
    type=AT_LEAST_ONE,
    default=10_000,
    show_default=True,
    help="Keys, terms and other entries of a pod.",
)
@click.option("--only", default="", help="Run only cases whose name contains this.")
@JSON
def hostile_command(nodes: int, count: int, only: str, as_json: bool) -> None:
    """Measure pods with thousands of keys, terms or ports.

    They are as large as an API server accepts them. Every pod is tried twice; the first attempt, which can
    reuse nothing, is the one that counts. The garbage collector runs before the clock starts.
    """
    click.echo(f"{nodes:,} nodes, {count:,} of each; CPU milliseconds of the first attempt and of one more")
    measured = []
    for attempt in hostile_bench.measure(nodes, count, only):
        measured.append(asdict(attempt))
        click.echo(f"  {attempt.case:48} {attempt.first_ms:9,.1f} {attempt.again_ms:9,.1f}")
    if as_json:
        echo_json({"nodes": nodes, "count": count, "attempts": measured})


@click.command("metrics")
@click.option("--pods", type=AT_LEAST_ONE, default=20_000, show_default=True, help="Pods in each round.")
@JSON
def metrics_command(pods: int, as_json: bool) -> None:
    """Measure what metrics cost per pod.

    Nothing is scheduled: every metric is updated as often as for a pod that is placed at its first attempt,
    once with our classes and once with those of prometheus_client. Best of five rounds.
    """
    with elapsed("measuring"):
        figures = measure_metrics(pods)
    click.echo(f"{pods:,} pods")
    click.echo(f"  per pod    {figures.us_per_pod:,.1f} µs")
    click.echo(f"             {figures.us_per_pod_prometheus_client:,.1f} µs with prometheus_client's own")
    if as_json:
        echo_json({"pods": pods, **asdict(figures)})
