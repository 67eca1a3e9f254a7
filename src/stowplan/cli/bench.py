"""`stowplan bench`: measuring stowplan on this machine."""

from dataclasses import asdict
from typing import Any, Final

import click
import msgspec

from stowplan.bench import apiserver as apiserver_bench
from stowplan.bench import durable as durable_bench
from stowplan.bench import engine as engine_bench
from stowplan.bench import growth, httpclient
from stowplan.bench import hostile as hostile_bench
from stowplan.bench import http as http_bench
from stowplan.bench import loop as loop_bench
from stowplan.bench import soak as soak_bench
from stowplan.bench import table as table_bench
from stowplan.bench.apiserver import ServerRun
from stowplan.bench.durable import DurableRun
from stowplan.bench.engine import EngineRun
from stowplan.bench.growth import GrowthRun, Week
from stowplan.bench.http import BenchError, HttpRun
from stowplan.bench.httpclient import ClientRun
from stowplan.bench.loop import LoopFigures, LoopRun
from stowplan.bench.metrics import measure_metrics
from stowplan.bench.preemption import PreemptionRun, measure_decisions, measure_scheduler
from stowplan.bench.soak import SoakRun
from stowplan.bench.table import TableRun
from stowplan.bench.workloads import WORKLOADS
from stowplan.cli.values import AtLeast, OneOf
from stowplan.clock.watchdog import LIMIT

AT_LEAST_ONE: Final = AtLeast(1)
NOT_NEGATIVE: Final = AtLeast(0)
JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="End with one line that holds one JSON object."
)
_SEED = click.option("--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="For all chance.")


def echo_json(values: dict[str, Any]) -> None:
    """The last line of a benchmark's output."""
    click.echo(msgspec.json.encode(values).decode())


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
    click.echo(f"{nodes:,} nodes, {count:,} of each; CPU milliseconds of the first attempt and of one more")
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


@bench.command("loop")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@_SEED
@JSON
def loop_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, as_json: bool
) -> None:
    """Create pods and have the whole scheduler bind them, through an API server's store in this process.

    Watches, queue, attempts, bindings, events, metrics and the records for explanations are all on, and
    what it costs to create the pods and to store everything is part of the figures. The workloads are
    those of `stowplan bench engine`.
    """
    run = LoopRun(workload, nodes, existing_per_node, pods, seed)
    figures = loop_bench.measure(run)
    click.echo(f"{workload}: {pods:,} pods on {nodes:,} nodes with {existing_per_node} pods each")
    _echo_loop_figures(figures)
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


@bench.command("churn")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@_SEED
@JSON
def churn_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, as_json: bool
) -> None:
    """The same as `loop` on a restless cluster: one pod in ten fits nowhere, nodes change all the time.

    With every hundred pods twenty nodes get a label or another amount of memory, which may wake the pods
    that wait. The rate counts the pods that are bound.
    """
    run = LoopRun(workload, nodes, existing_per_node, pods, seed, churn=True)
    figures = loop_bench.measure(run)
    click.echo(f"{workload} with churn: {pods:,} pods on {nodes:,} nodes with {existing_per_node} pods each")
    _echo_loop_figures(figures)
    click.echo(f"  waiting    {figures.unschedulable:,} pods that fit nowhere")
    click.echo(f"  attempts   {figures.attempts:,}; {figures.node_updates:,} updates of nodes")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


@bench.command("preemption")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True)
@click.option("--existing-per-node", type=AT_LEAST_ONE, default=10, show_default=True)
@click.option("--preemptors", type=AT_LEAST_ONE, default=500, show_default=True, help="Pods that push in.")
@click.option(
    "--budgets", type=NOT_NEGATIVE, default=0, show_default=True, help="Disruption budgets over the others."
)
@_SEED
@JSON
def preemption_command(
    nodes: int, existing_per_node: int, preemptors: int, budgets: int, seed: int, as_json: bool
) -> None:
    """Let important pods push in on a cluster whose nodes are full of unimportant ones.

    Each node is filled by pods of five low priorities that share its CPU evenly; a preemptor asks for one
    and a half times what one of them has. Measured is first the decision alone: filtering all nodes, choosing
    a node and victims. Then the whole way through the scheduler: victims are marked, deleted, told of and
    gone, and the preemptor is bound in their place.
    """
    run = PreemptionRun(nodes, existing_per_node, preemptors, budgets, seed)
    decision = measure_decisions(run)
    figures = measure_scheduler(run)
    click.echo(f"{preemptors:,} preemptors on {nodes:,} nodes with {existing_per_node} pods each")
    click.echo(
        f"  decision   median {decision.ms_per_preemptor:,.2f} ms, "
        f"mean {decision.ms_per_preemptor_mean:,.2f} ms, p99 {decision.ms_per_preemptor_p99:,.2f} ms"
    )
    click.echo(f"  rate       {figures.preemptors_per_s:,.0f} preemptors/s bound, their victims gone")
    click.echo(f"  CPU        {figures.cpu_ms_per_preemptor:,.2f} ms a preemptor")
    click.echo(f"  victims    {figures.victims:,}")
    click.echo(f"  attempts   {figures.attempts:,}")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        alone = {f"decision_{name}": value for name, value in asdict(decision).items()}
        echo_json({**asdict(run), **alone, **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


@bench.command("soak")
@click.option("--pods", type=AT_LEAST_ONE, default=1_000_000, show_default=True, help="Pods in all.")
@click.option("--population", type=AT_LEAST_ONE, default=5_000, show_default=True, help="Pods at a time.")
@click.option("--nodes", type=AT_LEAST_ONE, default=500, show_default=True)
@click.option("--workload", type=OneOf(WORKLOADS), default="mixed", show_default=True)
@_SEED
@JSON
def soak_command(pods: int, population: int, nodes: int, workload: str, seed: int, as_json: bool) -> None:
    """Let pods come and go for a long time at a steady number, and look at the memory of the process.

    Every pod is created, scheduled and deleted; a tenth fits nowhere and is deleted while it waits.
    """
    run = SoakRun(pods, population, nodes, workload, seed=seed)
    click.echo(f"{workload}: {pods:,} pods in all, {population:,} at a time, on {nodes:,} nodes")
    figures = soak_bench.measure(
        run, lambda passed, mib: click.echo(f"  {passed:>12,} pods  {mib:>8,.1f} MiB")
    )
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s created, placed and deleted")
    click.echo(f"  growth     {figures.growth_mib:+,.1f} MiB over the second half")
    kept = ", ".join(f"{count:,} {what}" for what, count in figures.remembered.items())
    click.echo(f"  remembered {kept}")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


def _check_hold(milliseconds: float, held_by: str) -> None:
    """Fail if the event loop was held for too long: whatever else it serves was late by that."""
    if milliseconds > LIMIT * 1e3:
        click.echo(f"Error: the event loop was held for {milliseconds:,.0f} ms by {held_by}", err=True)
        raise SystemExit(1)


def _echo_loop_figures(figures: LoopFigures) -> None:
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s from creation to binding")
    click.echo(f"  CPU        {figures.cpu_us_per_pod:,.0f} µs a pod, creating and storing it included")
    click.echo(f"  bound      {figures.bound:,} pods in {figures.seconds:,.2f} s")
    click.echo(f"  events     {figures.events:,} stored, {figures.events_dropped:,} dropped or failed")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")


@bench.command("growth")
@click.option("--pods", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Pods created in all.")
@click.option("--weeks", type=AT_LEAST_ONE, default=26, show_default=True, help="Simulated weeks.")
@click.option("--nodes", type=AT_LEAST_ONE, default=50, show_default=True)
@click.option("--population", type=AT_LEAST_ONE, default=500, show_default=True, help="Pods at a time.")
@_SEED
@JSON
def growth_command(pods: int, weeks: int, nodes: int, population: int, seed: int, as_json: bool) -> None:
    """Simulate months in which everything changes, and see what the scheduler keeps of it.

    Nodes are replaced all the time; labels, taints, images, resource names, namespaces, services, budgets and
    volumes are new every day. After every simulated week the size of every table is shown. At the end every
    container of the scheduler is compared with what a fresh scheduler needs for the living objects. Exits
    with 1 if one is larger than they explain.
    """
    run = GrowthRun(pods, weeks, nodes, population, seed)
    figures = growth.measure(run, _show_week)
    for path, (needed, actual) in figures.grown.items():
        click.echo(f"  grown: {path} has {actual:,} entries, a fresh scheduler {needed:,}")
    click.echo(
        f"{figures.pods:,} pods and {figures.nodes:,} nodes in {weeks} simulated weeks, {figures.seconds} s: "
        f"{len(figures.grown)} containers are larger than the living objects need"
    )
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    if figures.grown:
        raise SystemExit(1)


def _show_week(week: Week) -> None:
    sizes = ", ".join(f"{name} {size:,}" for name, size in week.sizes.items() if size)
    click.echo(f"week {week.number:>3}: {week.pods:>10,} pods, {week.rss_mib:,.0f} MiB; {sizes}")


@bench.command("apiserver")
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


@bench.command("http")
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
        figures = http_bench.measure(run)
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


@bench.command("http-client")
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


@bench.command("durable")
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
