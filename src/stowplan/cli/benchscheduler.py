"""`stowplan bench loop`, `churn`, `preemption`, `soak` and `growth`: measuring the whole scheduler."""

from dataclasses import asdict

import click

from stowplan.bench import growth, pushing, soak
from stowplan.bench import loop as loop_bench
from stowplan.bench import preemption as decision_bench
from stowplan.bench.growth import GrowthRun, Week
from stowplan.bench.loop import LoopFigures, LoopRun
from stowplan.bench.preemption import PreemptionRun
from stowplan.bench.soak import SoakRun
from stowplan.bench.workloads import WORKLOADS
from stowplan.cli.benchoptions import AT_LEAST_ONE, JSON, NOT_NEGATIVE, echo_json
from stowplan.cli.values import OneOf

_SEED = click.option("--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="For all chance.")


@click.command("loop")
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
    _tell(figures)
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("churn")
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
    _tell(figures)
    click.echo(f"  waiting    {figures.unschedulable:,} pods that fit nowhere")
    click.echo(f"  attempts   {figures.attempts:,}; {figures.node_updates:,} updates of nodes")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("preemption")
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
    decision = decision_bench.measure(run)
    figures = pushing.measure(run)
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


@click.command("soak")
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
    figures = soak.measure(run, lambda passed, mib: click.echo(f"  {passed:>12,} pods  {mib:>8,.1f} MiB"))
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s created, placed and deleted")
    click.echo(f"  growth     {figures.growth_mib:+,.1f} MiB over the second half")
    kept = ", ".join(f"{count:,} {what}" for what, count in figures.remembered.items())
    click.echo(f"  remembered {kept}")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


def _tell(figures: LoopFigures) -> None:
    click.echo(f"  rate       {figures.pods_per_s:,.0f} pods/s from creation to binding")
    click.echo(f"  CPU        {figures.cpu_us_per_pod:,.0f} µs a pod, creating and storing it included")
    click.echo(f"  bound      {figures.bound:,} pods in {figures.seconds:,.2f} s")
    click.echo(f"  events     {figures.events:,} stored, {figures.events_dropped:,} dropped or failed")
    click.echo(f"  memory     {figures.peak_rss_mib:,.0f} MiB at most")


@click.command("growth")
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
