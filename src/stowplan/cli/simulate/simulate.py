"""`stowplan simulate`: a scenario under the real scheduler, in virtual time."""

import time
from pathlib import Path
from typing import Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import report_options, say, show
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast, Seconds

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("simulate")
@click.argument("scenario", type=FILE)
@click.option("--config", type=FILE, help="KubeSchedulerConfiguration [default: that of the scenario].")
@gates_options
@plugins_option
@click.option("--seed", type=AtLeast(0), help="Random seed [default: that of the scenario].")
@click.option("--duration", type=Seconds(), help="Virtual time to run [default: that of the scenario].")
@report_options
def simulate_command(
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

    The scenario describes a cluster, the pods that arrive, how long they run, and which nodes fail. The same
    scenario, configuration and seed give the same report, byte for byte.
    """
    from stowplan.cli.explain.offline import scheduler_settings
    from stowplan.simulate.experiments import simulate
    from stowplan.simulate.scenario import read_scenario

    described = read_scenario(scenario, duration)
    for note in described.notes:
        say(f"note: {note}", err=True)
    chosen = config or described.config
    settings = scheduler_settings(chosen, gates, plugins)
    began = time.perf_counter()
    with Progress("simulating", int(described.duration), "s") as progress:
        found = simulate(
            described,
            config=settings,
            seed=seed,
            progress=lambda share: progress.reach(int(share * described.duration)),
            name="the default configuration" if chosen is None else chosen.name,
        )
    took = time.perf_counter() - began
    show(found.report, as_json=as_json, page=page)
    say(f"simulated in {took:.1f} s", err=True)
