"""`stowplan simulate`: a scenario under the real scheduler, in virtual time."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stowplan.api.feature_gates import FeatureGates
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast, Seconds
from stowplan.explain.layout import Palette

if TYPE_CHECKING:
    from stowplan.report import Report

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def show(report: "Report", *, as_json: bool, page: Path | None) -> None:
    """Print a report in the form that was asked for, and write the page."""
    from stowplan.report.page import render as render_page
    from stowplan.report.terminal import render

    if page is not None:
        page.write_text(render_page(report), encoding="utf-8")
        click.echo(f"report: {page}", err=True)
    if as_json:
        click.echo(report.json())
        return
    palette = Palette.of(sys.stdout, os.environ)
    click.echo("\n".join(render(report, palette=palette)), color=palette.enabled)


@click.command("simulate")
@click.argument("scenario", type=FILE)
@click.option("--config", type=FILE, help="KubeSchedulerConfiguration [default: that of the scenario].")
@gates_options
@plugins_option
@click.option("--seed", type=AtLeast(0), help="Seed of everything random [default: that of the scenario].")
@click.option("--duration", type=Seconds(), help="Virtual time to run [default: that of the scenario].")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the result to this HTML file.",
)
def simulate(
    scenario: Path,
    config: Path | None,
    gates: FeatureGates | None,
    plugins: tuple[str, ...],
    seed: int | None,
    duration: float | None,
    as_json: bool,
    page: Path | None,
) -> None:
    """Run SCENARIO in virtual time with the whole scheduler.

    The scenario describes a cluster, the pods that arrive in it, how long they run, and what fails. The same
    scenario, configuration and seed give the same report, byte by byte.
    """
    from stowplan.cli.offline import scheduler_settings
    from stowplan.simulate.scenario import read_scenario, report_of, run

    described = read_scenario(scenario, duration)
    for note in described.notes:
        click.echo(f"note: {note}", err=True)
    chosen = config or described.config
    settings = scheduler_settings(chosen, gates, plugins)
    began = time.perf_counter()
    with Progress("simulating", int(described.duration), "s") as progress:
        measures = run(described, settings, seed=seed, progress=lambda second: progress.reach(int(second)))
    took = time.perf_counter() - began
    name = "the default configuration" if chosen is None else chosen.name
    show(report_of(measures, name), as_json=as_json, page=page)
    click.echo(f"simulated in {took:.1f} s", err=True)
