"""`stowplan bench`: measuring stowplan on this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from stowplan.bench import apiserver as apiserver_bench
from stowplan.bench import day as day_bench
from stowplan.bench import durable as durable_bench
from stowplan.bench import engine as engine_bench
from stowplan.bench import explain as explain_bench
from stowplan.bench import growth, httpclient, waking
from stowplan.bench import hostile as hostile_bench
from stowplan.bench import http as http_bench
from stowplan.bench import loop as loop_bench
from stowplan.bench import paper as paper_bench
from stowplan.bench import soak as soak_bench
from stowplan.bench import table as table_bench
from stowplan.bench import up as up_bench
from stowplan.bench.apiserver import ServerRun
from stowplan.bench.day import DayRun
from stowplan.bench.durable import DurableRun
from stowplan.bench.engine import EngineRun
from stowplan.bench.explain import ExplainRun
from stowplan.bench.growth import GrowthRun, Week
from stowplan.bench.http import BenchError, HttpRun
from stowplan.bench.httpclient import ClientRun
from stowplan.bench.loop import LoopFigures, LoopRun
from stowplan.bench.metrics import measure_metrics
from stowplan.bench.paper import PaperFigures, PaperRun, TraceError
from stowplan.bench.preemption import PreemptionRun, measure_decisions, measure_scheduler
from stowplan.bench.soak import SoakRun
from stowplan.bench.table import TableRun
from stowplan.bench.up import UpRun
from stowplan.bench.workloads import ENGINE_WORKLOADS, WORKLOADS
from stowplan.cli.perf import perf
from stowplan.cli.progress import elapsed
from stowplan.cli.scale import list_, scale, start
from stowplan.cli.values import AtLeast, OneOf
from stowplan.clock.watchdog import LIMIT
from stowplan.gpushare import POLICIES

AT_LEAST_ONE: Final = AtLeast(1)
NOT_NEGATIVE: Final = AtLeast(0)
JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line."
)
_SEED = click.option(
    "--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="Seed of every random choice."
)


def echo_json(values: dict[str, Any]) -> None:
    """The last line of a benchmark's output."""
    click.echo(msgspec.json.encode(values).decode())


@click.group("bench")
def bench() -> None:
    """Measure stowplan on this machine."""


bench.add_command(perf)
bench.add_command(start)
bench.add_command(list_)
bench.add_command(scale)


@bench.command("engine")
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


@bench.command("explain")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=NOT_NEGATIVE, default=50_000, show_default=True, help="Pods on nodes.")
@click.option(
    "--waiting", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods that fit nowhere."
)
@click.option("--templates", type=AT_LEAST_ONE, default=50, show_default=True, help="Templates of these.")
@click.option("--rounds", type=AT_LEAST_ONE, default=3, show_default=True, help="Times that each is asked.")
@JSON
def explain_command(nodes: int, pods: int, waiting: int, templates: int, rounds: int, as_json: bool) -> None:
    """Measure how long explanations take.

    The cluster is an API server with a scheduler in a process of its own, asked over HTTPS. Commands are
    measured from their start to their end, from lists and from the running scheduler; the API by request.
    """
    run = ExplainRun(nodes, pods, waiting, templates, rounds)
    try:
        with elapsed("measuring"):
            figures = explain_bench.measure(run)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{nodes:,} nodes, {pods:,} pods on them, {waiting:,} pods of {templates} templates waiting")
    click.echo("                   from lists (CPU)   from a running stowplan   its API alone")
    lines = (
        (
            "explain a pod",
            figures.explain_from_lists_s,
            figures.explain_from_lists_cpu_s,
            figures.explain_from_running_s,
            figures.explain_api_s,
        ),
        (
            "pending",
            figures.pending_from_lists_s,
            figures.pending_from_lists_cpu_s,
            figures.pending_from_running_s,
            figures.pending_api_s,
        ),
    )
    for name, listed, cpu, told, api in lines:
        click.echo(f"  {name:<14} {listed:8.2f} s ({cpu:5.2f} s) {told:23.2f} s {api * 1000:12.1f} ms")
    for name, api in (
        ("a node", figures.node_api_s),
        ("all nodes", figures.nodes_api_s),
        ("queue", figures.queue_api_s),
        ("decisions", figures.decisions_api_s),
        ("search", figures.search_api_s),
    ):
        click.echo(f"  {name:<52}{api * 1000:15.1f} ms")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@bench.command("paper")
@click.option(
    "--trace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Directory with openb_node_list_gpu_node.csv, openb_pod_list_default.csv and others.",
)
@click.option(
    "--policy",
    type=click.Choice([*POLICIES, "all"]),
    default="all",
    show_default=True,
    help="What scores nodes.",
)
@click.option("--workload", default="default", show_default=True, help="Pod list: default, gpushare40, ...")
@click.option("--seeds", type=AT_LEAST_ONE, default=10, show_default=True, help="Runs, with seeds from 42.")
@JSON
def paper_command(trace: Path, policy: str, workload: str, seeds: int, as_json: bool) -> None:
    """Run GPU-sharing policies on a production trace.

    Pods of the trace come in random order until 130 % of the cluster's GPUs are requested, as in the
    experiments of "Beware of Fragmentation" (USENIX ATC 2023). The share of allocated GPUs is the result.
    """
    found = []
    for name in POLICIES if policy == "all" else (policy,):
        by_seed, seconds = {}, []
        try:
            for seed, curve, took in paper_bench.measure(PaperRun(trace, name, workload, seeds)):
                by_seed[seed] = curve
                seconds.append(took)
        except TraceError as error:
            raise click.ClickException(str(error)) from None
        figures = PaperFigures(name, by_seed, seconds)
        found.append(figures.document())
        click.echo(
            f"{name:<14} allocated at 100 % requested {figures.mean(100):6.2f} %, at 130 % "
            f"{figures.mean(130):6.2f} %, {sum(seconds) / len(seconds):5.1f} s a run"
        )
    if as_json:
        echo_json(found[0] if policy != "all" else {"policies": found})


@bench.command("day")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AT_LEAST_ONE, default=200_000, show_default=True, help="Pods that arrive.")
@click.option("--hours", type=AT_LEAST_ONE, default=24, show_default=True, help="Virtual time.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed.")
@JSON
def day_command(nodes: int, pods: int, hours: int, seed: int, as_json: bool) -> None:
    """Measure how long simulating a day takes."""
    figures = day_bench.measure(DayRun(nodes, pods, hours, seed))
    if as_json:
        echo_json(figures.document())
        return
    click.echo(f"{hours} h of {nodes:,} nodes: {figures.created:,} pods created, {figures.bound:,} bound")
    click.echo(f"  took       {figures.seconds:,.1f} s, {figures.cpu_seconds:,.1f} s of CPU time")
    click.echo(
        f"  preempted  {figures.preempted:,}, evicted {figures.evicted:,}, pending {figures.pending:,}"
    )
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    click.echo(f"  report     {figures.digest}: the same for the same seed")


@bench.command("questions")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--existing", type=AtLeast(0), default=10, show_default=True, help="Pods on every node.")
@click.option("--drain", type=AT_LEAST_ONE, default=100, show_default=True, help="Nodes that are drained.")
@JSON
def questions_command(nodes: int, existing: int, drain: int, as_json: bool) -> None:
    """Measure how long `fit --max` and `whatif --drain` take."""
    from stowplan.bench import questions

    with elapsed("measuring"):
        figures = questions.measure(questions.QuestionsRun(nodes, existing, drain))
    if as_json:
        echo_json(asdict(figures))
        return
    click.echo(f"{nodes:,} nodes with {existing} pods each: a snapshot of {figures.snapshot_mb:,.1f} MB")
    click.echo(
        f"  loading           {figures.read_s:,.2f} s to read, {figures.build_s:,.2f} s to build the table"
    )
    click.echo(
        f"  fit --max         {figures.fit_max_s:,.2f} s, {figures.fit_max_cpu_s:,.2f} s of CPU time: "
        f"{figures.fit_max_replicas:,} replicas"
    )
    click.echo(
        f"  with hard spread  {figures.fit_max_spread_s:,.2f} s, {figures.fit_max_spread_cpu_s:,.2f} s of "
        f"CPU time: {figures.fit_max_spread_replicas:,} replicas"
    )
    click.echo(
        f"  drain             {figures.drain_s:,.2f} s, {figures.drain_cpu_s:,.2f} s of CPU time: "
        f"{drain} nodes, "
        f"{figures.drained_pods:,} pods move"
    )


@bench.command("hostile")
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


@bench.command("table")
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


@bench.command("metrics")
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


@bench.command("loop")
@click.option(
    "--workload",
    type=OneOf(loop_bench.LOOP_WORKLOADS),
    default="basic",
    show_default=True,
    help="Kind of pods.",
)
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@click.option(
    "--group-size",
    type=AT_LEAST_ONE,
    default=64,
    show_default=True,
    help="Pods of a group, in workloads with groups.",
)
@_SEED
@click.option(
    "--inspect",
    is_flag=True,
    help="Measure what the API and the page cost while nobody looks, in turns with and without them.",
)
@click.option("--record", is_flag=True, help="Measure what recording costs, in turns.")
@click.option(
    "--turns",
    type=AtLeast(2),
    default=20,
    show_default=True,
    help="Pairs of turns of --inspect and --record.",
)
@JSON
def loop_command(
    workload: str,
    nodes: int,
    existing_per_node: int,
    pods: int,
    group_size: int,
    seed: int,
    inspect: bool,
    record: bool,
    turns: int,
    as_json: bool,
) -> None:
    """Measure the whole scheduler in this process.

    Pods are created in an in-process store and bound by a scheduler with watches, queue, events, metrics and
    explanations on. Creating and storing the pods is part of the figures. The workloads are those of
    `stowplan bench engine`, and:

    \b
    gang           groups that are placed as a whole or not at all
    gang-topology  the same, each group in one of 100 racks
    gang-nofit     one group that finds room for nine tenths of its pods, among pods without a group
    """
    run = LoopRun(workload, nodes, existing_per_node, pods, seed, group_size=group_size)
    if inspect and record:
        raise click.UsageError("--inspect and --record exclude each other")
    if inspect:
        _measure_inspected(run, turns, as_json=as_json)
        return
    if record:
        _measure_recorded(run, turns, as_json=as_json)
        return
    with elapsed("measuring"):
        figures = loop_bench.measure(run)
    click.echo(f"{workload}: {pods:,} pods on {nodes:,} nodes with {existing_per_node} pods each")
    _echo_loop_figures(figures)
    if figures.group_attempts:
        click.echo(
            f"  groups     {figures.group_attempts:,} attempts, {figures.group_attempt_ms:,.1f} ms each"
        )
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


def _measure_recorded(run: LoopRun, pairs: int, *, as_json: bool) -> None:
    least = 20 * (pairs + 1)
    if run.pods < least:
        raise click.BadParameter(f"expected at least {least}, ten for each turn", param_hint="--pods")
    with elapsed("measuring"):
        figures = loop_bench.measure_recorded(run, pairs)
    click.echo(
        f"{run.workload}: {figures.turns} turns of {figures.pods_per_turn:,} pods on {run.nodes:,} nodes"
    )
    click.echo(f"  without    {figures.without_us:,.1f} µs CPU a pod")
    click.echo(f"  recorded   {figures.with_us:,.1f} µs CPU a pod, {figures.bytes_per_pod:,.0f} bytes")
    click.echo(f"  ratio      {figures.ratio:.3f} ({figures.median_ratio:.3f}: median of neighbouring turns)")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


def _measure_inspected(run: LoopRun, pairs: int, *, as_json: bool) -> None:
    least = 10 * (2 * pairs + 1)
    if run.pods < least:
        raise click.BadParameter(f"expected at least {least}, ten for each turn", param_hint="--pods")
    with elapsed("measuring"):
        figures = loop_bench.measure_inspected(run, pairs)
    click.echo(
        f"{run.workload}: {figures.turns} turns of {figures.pods_per_turn:,} pods on {run.nodes:,} nodes"
    )
    click.echo(f"  without    {figures.without_us:,.1f} µs CPU a pod")
    click.echo(f"  with       {figures.with_us:,.1f} µs CPU a pod: API and page on, nobody looks")
    click.echo(f"  ratio      {figures.ratio:.3f} ({figures.median_ratio:.3f}: median of neighbouring turns)")
    click.echo(f"  a sample   {figures.sample_ms:.2f} ms CPU, every 5 s")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@bench.command("churn")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True, help="Kind of pods.")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@_SEED
@JSON
def churn_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, as_json: bool
) -> None:
    """Like `loop`, while nodes change.

    One pod in ten fits no node, and with every hundred pods twenty nodes get a label or another amount of
    memory, which may requeue unschedulable pods. The rate counts bound pods only.
    """
    run = LoopRun(workload, nodes, existing_per_node, pods, seed, churn=True)
    with elapsed("measuring"):
        figures = loop_bench.measure(run)
    click.echo(f"{workload} with churn: {pods:,} pods on {nodes:,} nodes with {existing_per_node} pods each")
    _echo_loop_figures(figures)
    click.echo(f"  waiting    {figures.unschedulable:,} pods that fit nowhere")
    click.echo(f"  attempts   {figures.attempts:,}; {figures.node_updates:,} updates of nodes")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


@bench.command("waking")
@click.option("--pods", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Pods that wait.")
@click.option("--templates", type=AT_LEAST_ONE, default=50, show_default=True, help="Pod templates.")
@JSON
def waking_command(pods: int, templates: int, as_json: bool) -> None:
    """Measure events while pods wait for one.

    Pods of some templates wait in the queue. Measured are a node that helps nobody, and one that helps all of
    them, until the first pod can be tried.
    """
    run = waking.WakingRun(pods, templates)
    with elapsed("measuring"):
        figures = waking.measure(run)
    click.echo(f"{pods:,} waiting pods of {templates:,} templates")
    click.echo(f"  helps none {figures.useless_event_ms:,.2f} ms")
    click.echo(f"  helps all  {figures.first_pod_ms:,.0f} ms until the first pod is taken out")
    click.echo(f"  per pod    {figures.us_per_woken_pod:,.1f} µs to wake it")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@bench.command("preemption")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=AT_LEAST_ONE, default=10, show_default=True, help="Pods already on each node."
)
@click.option(
    "--preemptors", type=AT_LEAST_ONE, default=500, show_default=True, help="Pods of high priority."
)
@click.option(
    "--budgets",
    type=NOT_NEGATIVE,
    default=0,
    show_default=True,
    help="PodDisruptionBudgets that cover the victims.",
)
@click.option("--victims", type=AT_LEAST_ONE, default=2, show_default=True, help="Victims of a preemptor.")
@click.option(
    "--concurrent", type=AT_LEAST_ONE, default=16, show_default=True, help="Preemptors that wait at a time."
)
@click.option(
    "--deletions-per-second",
    type=NOT_NEGATIVE,
    default=0,
    show_default=True,
    help="Pods that the API server deletes in a second at most; 0: no limit.",
)
@_SEED
@JSON
def preemption_command(
    nodes: int,
    existing_per_node: int,
    preemptors: int,
    budgets: int,
    victims: int,
    concurrent: int,
    deletions_per_second: int,
    seed: int,
    as_json: bool,
) -> None:
    """Measure preemption on full nodes.

    Each node is full of pods of five low priorities that share its CPU evenly; a preemptor requests half a
    pod's share less than its victims have. Measured are the decision alone (filtering, choosing a node and
    its victims), then the whole scheduler: victims get their condition and event and are deleted, and the
    preemptor is bound.
    """
    run = PreemptionRun(
        nodes, existing_per_node, preemptors, budgets, seed, victims, concurrent, deletions_per_second
    )
    with elapsed("measuring"):
        decision = measure_decisions(run)
    with elapsed("measuring"):
        figures = measure_scheduler(run)
    click.echo(f"{preemptors:,} preemptors on {nodes:,} nodes with {existing_per_node} pods each")
    click.echo(
        f"  decision   median {decision.ms_per_preemptor:,.2f} ms, "
        f"mean {decision.ms_per_preemptor_mean:,.2f} ms, p99 {decision.ms_per_preemptor_p99:,.2f} ms"
    )
    click.echo(f"  rate       {figures.preemptors_per_s:,.0f} preemptors/s bound, their victims gone")
    click.echo(f"  CPU        {figures.cpu_ms_per_preemptor:,.2f} ms a preemptor")
    click.echo(f"  first      bound after {figures.first_bound_s:,.2f} s")
    click.echo(f"  victims    {figures.victims:,}")
    click.echo(f"  attempts   {figures.attempts:,}")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
    if as_json:
        alone = {f"decision_{name}": value for name, value in asdict(decision).items()}
        echo_json({**asdict(run), **alone, **asdict(figures)})
    _check_hold(figures.longest_hold_ms, figures.held_by)


@bench.command("soak")
@click.option("--pods", type=AT_LEAST_ONE, default=1_000_000, show_default=True, help="Pods in total.")
@click.option("--population", type=AT_LEAST_ONE, default=5_000, show_default=True, help="Pods at a time.")
@click.option("--nodes", type=AT_LEAST_ONE, default=500, show_default=True, help="Number of nodes.")
@click.option("--workload", type=OneOf(WORKLOADS), default="mixed", show_default=True, help="Kind of pods.")
@_SEED
@JSON
def soak_command(pods: int, population: int, nodes: int, workload: str, seed: int, as_json: bool) -> None:
    """Measure memory over a million pods.

    Pods are created, scheduled and deleted at a constant number. A tenth of them fits no node and is deleted
    while pending.
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
@click.option("--pods", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Pods created in total.")
@click.option("--weeks", type=AT_LEAST_ONE, default=26, show_default=True, help="Simulated weeks.")
@click.option("--nodes", type=AT_LEAST_ONE, default=50, show_default=True, help="Number of nodes.")
@click.option("--population", type=AT_LEAST_ONE, default=500, show_default=True, help="Pods at a time.")
@_SEED
@JSON
def growth_command(pods: int, weeks: int, nodes: int, population: int, seed: int, as_json: bool) -> None:
    """Look for leaks over simulated months.

    Nodes are replaced all the time; labels, taints, images, resource names, namespaces, services, budgets and
    volumes are new every day. The size of every table is printed after every simulated week. At the end every
    container in the scheduler is compared with that of a new scheduler which lists the same objects. Exits
    with 1 if one is larger.
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


@bench.command("http")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True, help="Kind of pods.")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@click.option("--kubeconfig", default="", help="API server to use; by default our own is started.")
@click.option(
    "--command", default="", help="Scheduler to measure instead, such as 'kube-scheduler --config {config}'."
)
@JSON
def http_command(workload: str, nodes: int, pods: int, kubeconfig: str, command: str, as_json: bool) -> None:
    """Measure `stowplan run` over HTTPS.

    API server and scheduler run in their own processes, this process creates the pods. With `--kubeconfig`,
    nodes and pods are deleted afterwards.
    """
    run = HttpRun(workload, nodes, pods, kubeconfig, command)
    try:
        with elapsed("measuring"):
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


@bench.command("durable")
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


@bench.command("up")
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
