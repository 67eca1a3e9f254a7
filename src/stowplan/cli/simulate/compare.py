"""`stowplan compare`: configurations on the same scenario, from the same seeds."""

from pathlib import Path
from typing import Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import report_options, show
from stowplan.cli.progress import Progress
from stowplan.cli.simulate.simulate import FILE
from stowplan.cli.values import AtLeast, Seconds

DEFAULT: Final = "default"


@click.command("compare")
@click.argument("configurations", nargs=-1, required=True, metavar="CONFIG CONFIG…")
@click.option("--workload", type=FILE, required=True, help="Scenario that every configuration runs.")
@click.option("--seeds", type=AtLeast(1), default=5, show_default=True, help="Number of seeds.")
@click.option("--seed", type=AtLeast(0), help="First seed [default: that of the scenario].")
@click.option("--duration", type=Seconds(), help="Virtual time to run [default: that of the scenario].")
@click.option("--jobs", type=AtLeast(1), default=1, show_default=True, help="Number of concurrent runs.")
@gates_options
@plugins_option
@report_options
def compare_command(
    configurations: tuple[str, ...],
    workload: Path,
    seeds: int,
    seed: int | None,
    duration: float | None,
    jobs: int,
    gates: FeatureGates | None,
    plugins: tuple[str, ...],
    as_json: bool,
    page: Path | None,
) -> None:
    """Compare configurations by simulation.

    Each CONFIG is a KubeSchedulerConfiguration, or `default` for the default configuration. All of them
    schedule the same pods: arrivals, lifetimes and failures depend on the seed alone. Differences from the
    first configuration have 95 % intervals over three or more seeds, if seeds vary more than ties.
    """
    if len(configurations) < 2 or len(set(configurations)) < len(configurations):
        raise click.ClickException("CONFIG: expected at least two different configurations")
    from stowplan.simulate.experiments import compare
    from stowplan.simulate.scenario import read_scenario

    scenario = read_scenario(workload, duration)
    for name in configurations:
        _check(name, gates, plugins)
    first = scenario.seed if seed is None else seed
    total = seeds * len(configurations)
    with Progress("comparing", total, "runs") as progress:
        found = compare(
            workload,
            {name: _file(name) for name in configurations},
            plugins=plugins,
            gates=gates,
            seeds=range(first, first + seeds),
            duration=duration,
            jobs=jobs,
            progress=lambda share: progress.reach(round(share * total)),
        )
    show(found.report, as_json=as_json, page=page)


def _check(name: str, gates: FeatureGates | None, plugins: tuple[str, ...]) -> None:
    """Refuse a configuration before anything runs, with its name."""
    from stowplan.cli.explain.offline import scheduler_settings
    from stowplan.config import ConfigError
    from stowplan.simulate.scenario import check

    file = _file(name)
    try:
        check(scheduler_settings(file, gates, plugins))
    except (click.ClickException, ConfigError) as error:
        said = error.message if isinstance(error, click.ClickException) else str(error)
        raise click.ClickException(said if said.startswith(name) else f"{name}: {said}") from None


def _file(name: str) -> Path | None:
    """The file of a configuration, None for the default one."""
    if name == DEFAULT and not Path(name).exists():
        return None
    if not Path(name).is_file():
        raise click.ClickException(f"{name}: no such file: expected a configuration, or `{DEFAULT}`")
    return Path(name)
