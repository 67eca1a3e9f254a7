"""Benchmarks of the whole scheduler in this process: `loop` and `churn`."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, SEED, check_hold, echo_json
from stowplan.cli.progress import elapsed
from stowplan.cli.values import AtLeast, OneOf
from stowplan.lab.bench.engine import loop as loop_bench
from stowplan.lab.bench.engine.loop import LoopFigures, LoopRun
from stowplan.lab.bench.engine.workloads import WORKLOADS


@click.command("loop")
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
@SEED
@click.option(
    "--inspect",
    is_flag=True,
    help="Measure the cost of the API and the page when unused, in turns with and without them.",
)
@click.option("--record", is_flag=True, help="Measure the cost of recording, in turns with and without it.")
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
    gang-nofit     one group with room for nine tenths of its pods, among pods without a group
    gang-vain      16 such groups, of higher priority than all other pods; preemption helps none of them
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
    check_hold(figures.longest_hold_ms, figures.held_by)


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
    click.echo(f"  with       {figures.with_us:,.1f} µs CPU a pod: API and page on, unused")
    click.echo(f"  ratio      {figures.ratio:.3f} ({figures.median_ratio:.3f}: median of neighbouring turns)")
    click.echo(f"  a sample   {figures.sample_ms:.2f} ms CPU, every 5 s")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("churn")
@click.option("--workload", type=OneOf(WORKLOADS), default="basic", show_default=True, help="Kind of pods.")
@click.option("--nodes", type=AT_LEAST_ONE, default=5000, show_default=True, help="Number of nodes.")
@click.option(
    "--existing-per-node", type=NOT_NEGATIVE, default=10, show_default=True, help="Pods already on each node."
)
@click.option("--pods", type=AT_LEAST_ONE, default=10_000, show_default=True, help="Pods to place.")
@SEED
@JSON
def churn_command(
    workload: str, nodes: int, existing_per_node: int, pods: int, seed: int, as_json: bool
) -> None:
    """Like `loop`, while nodes change.

    One pod in ten fits no node, and with every hundred pods twenty nodes change a label or their memory,
    which may requeue unschedulable pods. The rate counts only bound pods.
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
    check_hold(figures.longest_hold_ms, figures.held_by)


def _echo_loop_figures(figures: LoopFigures) -> None:
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s from creation to binding")
    click.echo(f"  CPU        {figures.cpu_us_per_pod:,.0f} µs a pod, creating and storing it included")
    click.echo(f"  bound      {figures.bound:,} pods in {figures.seconds:,.2f} s")
    click.echo(f"  events     {figures.events:,} stored, {figures.events_dropped:,} dropped or failed")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")
