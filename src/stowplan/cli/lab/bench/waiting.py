"""Benchmarks of pods that find no node at once: `waking` and `preemption`."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, NOT_NEGATIVE, SEED, check_hold, echo_json
from stowplan.cli.progress import elapsed
from stowplan.lab.bench.engine import waking
from stowplan.lab.bench.engine.preemption import PreemptionRun, measure_decisions, measure_scheduler


@click.command("waking")
@click.option("--pods", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Pods that wait.")
@click.option("--templates", type=AT_LEAST_ONE, default=50, show_default=True, help="Pod templates.")
@JSON
def waking_command(pods: int, templates: int, as_json: bool) -> None:
    """Measure events while pods wait for one.

    Pods of some templates wait in the queue. Measured is the CPU time of a node that helps nobody, and of one
    that helps all of them, until the first pod can be tried.
    """
    run = waking.WakingRun(pods, templates)
    with elapsed("measuring"):
        figures = waking.measure(run)
    click.echo(f"{pods:,} waiting pods of {templates:,} templates")
    click.echo(f"  helps none {figures.useless_event_ms:,.2f} ms")
    click.echo(f"  helps all  {figures.first_pod_ms:,.2f} ms of CPU until the first pod is taken out")
    click.echo(f"             {figures.first_backing_off_ms:,.2f} ms while all of them are backing off")
    click.echo(f"  per pod    {figures.us_per_woken_pod:,.1f} µs in all to wake it and take it out")
    if as_json:
        echo_json({**asdict(run), **asdict(figures)})


@click.command("preemption")
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
@SEED
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
    check_hold(figures.longest_hold_ms, figures.held_by)
