"""Benchmarks of memory over time: `soak` and `growth`."""

from dataclasses import asdict

import click

from stowplan.cli.lab.bench.options import AT_LEAST_ONE, JSON, SEED, echo_json
from stowplan.cli.values import OneOf
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.scale import growth
from stowplan.lab.bench.scale.growth import GrowthRun, Week
from stowplan.lab.bench.servers import soak as soak_bench
from stowplan.lab.bench.servers.soak import SoakRun


@click.command("soak")
@click.option("--pods", type=AT_LEAST_ONE, default=1_000_000, show_default=True, help="Pods in total.")
@click.option("--population", type=AT_LEAST_ONE, default=5_000, show_default=True, help="Pods at a time.")
@click.option("--nodes", type=AT_LEAST_ONE, default=500, show_default=True, help="Number of nodes.")
@click.option("--workload", type=OneOf(WORKLOADS), default="mixed", show_default=True, help="Kind of pods.")
@SEED
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


@click.command("growth")
@click.option("--pods", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Pods created in total.")
@click.option("--weeks", type=AT_LEAST_ONE, default=26, show_default=True, help="Simulated weeks.")
@click.option("--nodes", type=AT_LEAST_ONE, default=50, show_default=True, help="Number of nodes.")
@click.option("--population", type=AT_LEAST_ONE, default=500, show_default=True, help="Pods at a time.")
@SEED
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
