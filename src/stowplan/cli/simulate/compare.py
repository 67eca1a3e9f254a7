"""`stowplan compare`: configurations on the same scenario, from the same seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import report_options, show
from stowplan.cli.progress import Progress
from stowplan.cli.simulate.simulate import FILE
from stowplan.cli.values import AtLeast, Seconds

if TYPE_CHECKING:
    from stowplan.simulate.scenario.comparison import Run

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
def compare(
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
    from stowplan.simulate.scenario import read_scenario
    from stowplan.simulate.scenario.comparison import compared
    from stowplan.simulate.scenario.workers import carried_out

    scenario = read_scenario(workload, duration)
    for name in configurations:
        _check(name, gates, plugins)
    first = scenario.seed if seed is None else seed
    asked = [
        (workload, duration, name, number, gates, plugins)
        for number in range(first, first + seeds)
        for name in configurations
    ]
    done = {}
    with Progress("comparing", len(asked), "runs") as progress:
        for one, found in carried_out(_run, asked, jobs):
            done[one[2], one[3]] = found
            progress.advance()
    runs = [done[one[2], one[3]] for one in asked]
    show(compared(runs, scenario.name, scenario.varies), as_json=as_json, page=page)


def _run(asked: tuple[Path, float | None, str, int, FeatureGates | None, tuple[str, ...]]) -> "Run":
    """One run; also in a separate process."""
    from stowplan.cli.explain.offline import scheduler_settings
    from stowplan.simulate.scenario import read_scenario, run
    from stowplan.simulate.scenario.comparison import Run
    from stowplan.simulate.scenario.report import data_of

    workload, duration, name, seed, gates, plugins = asked
    settings = scheduler_settings(_file(name), gates, plugins)
    data: dict[str, Any] = data_of(run(read_scenario(workload, duration), settings, seed=seed))
    return Run(name, seed, data)


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
