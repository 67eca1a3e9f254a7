"""Benchmarks of answers: `explain`, `questions`, and of simulations: `day`, `paper`."""

from dataclasses import asdict
from pathlib import Path

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.progress import elapsed
from stowplan.cli.values import AtLeast
from stowplan.contrib.gpushare import POLICIES
from stowplan.lab.bench.engine import day as day_bench
from stowplan.lab.bench.engine import explain as explain_bench
from stowplan.lab.bench.engine import paper as paper_bench
from stowplan.lab.bench.engine import questions
from stowplan.lab.bench.engine.day import DayRun
from stowplan.lab.bench.engine.explain import ExplainRun
from stowplan.lab.bench.engine.page import PageRun, measure_page
from stowplan.lab.bench.engine.paper import PaperFigures, PaperRun, TraceError
from stowplan.lab.bench.servers.http import BenchError


@click.command("page")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--waiting", type=NOT_NEGATIVE, default=200, show_default=True, help="Pods that fit nowhere.")
@click.option("--rate", type=AT_LEAST_ONE, default=200, show_default=True, help="Pods placed per second.")
@click.option("--viewers", type=AT_LEAST_ONE, default=1, show_default=True, help="Open pages.")
@click.option("--looks", type=AT_LEAST_ONE, default=40, show_default=True, help="Looks to measure.")
@JSON
def page_command(
    nodes: int, existing_per_node: int, waiting: int, rate: int, viewers: int, looks: int, as_json: bool
) -> None:
    """Measure what open pages cost the scheduler.

    Pods are placed as fast as the rate says, with a look for all pages after each quarter of a second's worth
    of them. Figures are CPU of the scheduler's process. Then everything is measured that a page loads first.
    """
    run = PageRun(nodes, existing_per_node, waiting, rate, viewers, looks)
    with elapsed("measuring"):
        figures = measure_page(run)
    if as_json:
        echo_json(asdict(figures))
        return
    click.echo(
        f"{nodes:,} nodes, {nodes * existing_per_node:,} pods on them, {rate} pods/s, {viewers} open pages"
    )
    click.echo(
        f"  stream     {figures.look_ms:8.3f} ms a look (worst {figures.worst_look_ms:.3f}),", nl=False
    )
    click.echo(f" {figures.core_percent:.2f} % of a core, {figures.bytes_a_second:,} bytes/s to each page")
    for name, spent in figures.documents_ms.items():
        click.echo(f"  {name:<10} {spent:8.2f} ms")


@click.command("explain")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--pods", type=NOT_NEGATIVE, default=50_000, show_default=True, help="Pods on nodes.")
@click.option(
    "--waiting", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods that fit nowhere."
)
@click.option(
    "--templates",
    type=AT_LEAST_ONE,
    default=50,
    show_default=True,
    help="Templates of the pods that fit nowhere.",
)
@click.option(
    "--rounds", type=AT_LEAST_ONE, default=3, show_default=True, help="Repetitions of each question."
)
@JSON
def explain_command(nodes: int, pods: int, waiting: int, templates: int, rounds: int, as_json: bool) -> None:
    """Measure how long explanations take.

    The cluster is an API server and a scheduler in a separate process, reached over HTTPS. Commands are timed
    from start to exit, with lists and with the running scheduler; the API is timed by request.
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


@click.command("questions")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option("--existing", type=AtLeast(0), default=10, show_default=True, help="Pods on every node.")
@click.option("--drain", type=AT_LEAST_ONE, default=100, show_default=True, help="Nodes that are drained.")
@JSON
def questions_command(nodes: int, existing: int, drain: int, as_json: bool) -> None:
    """Measure how long `fit --max` and `whatif --drain` take."""
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


@click.command("day")
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


@click.command("paper")
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
    help="Policy that scores nodes.",
)
@click.option("--workload", default="default", show_default=True, help="Pod list: default, gpushare40, ...")
@click.option("--seeds", type=AT_LEAST_ONE, default=10, show_default=True, help="Runs, with seeds from 42.")
@JSON
def paper_command(trace: Path, policy: str, workload: str, seeds: int, as_json: bool) -> None:
    """Run GPU-sharing policies on a production trace.

    Pods of the trace arrive in random order until 130 % of the cluster's GPUs are requested, as in the
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
