"""Simulations, comparisons and sweeps from Python: the functions behind the commands of these names.

    from stowplan.simulate import Metric, compare, simulate

    day = simulate("scenario.yaml", metrics=[Metric("gpu", lambda moment: moment.share("nvidia.com/gpu"))])
    day.pods.to_frame().groupby("priority").waited.mean()
    compare("scenario.yaml", {"spread": None, "pack": Path("pack.yaml")}, seeds=10)

They work in scripts, in worker processes, and in the running event loop of a notebook.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config import LoadedConfig, default_config, load
from stowplan.config.dump import dump_yaml
from stowplan.config.legacy import load_any_file
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.registry import installed_plugins, load_plugin
from stowplan.scheduler.settings import Settings
from stowplan.simulate.results import Comparison, Row, Rows, Simulation, Sweep
from stowplan.simulate.scenario import Scenario, read_scenario, report_of, run
from stowplan.simulate.scenario import sweep as sweeps
from stowplan.simulate.scenario.combined import combined_report
from stowplan.simulate.scenario.comparison import Run, compared
from stowplan.simulate.scenario.measures import Measures, Metric
from stowplan.simulate.scenario.provenance import (
    CONFIGURATION,
    DURATION,
    PLUGINS,
    RELEASE,
    SCENARIO,
    VERSION,
    digest,
    digest_of_classes,
    versions,
)
from stowplan.simulate.scenario.report import data_of, figures_of
from stowplan.simulate.scenario.runlog import RunLog
from stowplan.simulate.scenario.workers import carried_out
from stowplan.simulate.snapshot.files import SnapshotError

Config = str | Path | Mapping[str, Any] | Settings | None
"""A KubeSchedulerConfiguration: its text, a path, a map, or settings; None is the default configuration."""

AnyPlugin = type[Plugin] | str
Progress = Callable[[float], None] | bool
"""Called with the share that is done, 0 to 1; True writes lines to standard error."""

_ABOUT: Final = (VERSION, RELEASE, DURATION, CONFIGURATION, PLUGINS, SCENARIO)
_SERIES: Final = ("pending", "running", "nodes", "preemptions", "costPerHour", "waitP50", "waitP99")


def simulate(
    scenario: Scenario | str | Path,
    *,
    config: Config = None,
    plugins: Sequence[AnyPlugin] = (),
    gates: FeatureGates | None = None,
    seed: int | None = None,
    duration: float | None = None,
    metrics: Sequence[Metric] = (),
    progress: Progress = False,
    name: str = "",
) -> Simulation:
    """Run a scenario in virtual time with the whole scheduler.

    `scenario` is the path of a file, or what `read_scenario` made of one. Without `config` it is that of the
    scenario, or the default one. `plugins` are classes or references such as `module:Class`. `metrics` are
    measured at every sample. `name` is that of the configuration in the report. The same scenario,
    configuration, plugins and seed give the same result. Raises SnapshotError, ConfigError or ProfileError
    for what cannot be read.
    """
    described = _scenario(scenario, duration)
    _check_metrics(metrics)
    classes = _classes(plugins)
    settings = _settings(described.config if config is None else config, classes, gates)
    log = RunLog()
    measures = run(
        described,
        settings,
        seed=seed,
        progress=_Told.of(progress, "simulating", described.duration),
        metrics=metrics,
        log=log,
    )
    return _result(measures, log, settings, name or _name_of(config, described), _bytes_of(scenario))


def compare(
    scenario: str | Path,
    configurations: Mapping[str, Config] | Sequence[str | Path],
    *,
    plugins: Sequence[AnyPlugin] = (),
    gates: FeatureGates | None = None,
    seeds: int | Sequence[int] = 5,
    duration: float | None = None,
    jobs: int = 1,
    metrics: Sequence[Metric] = (),
    progress: Progress = False,
) -> Comparison:
    """Run configurations on the same scenario with the same seeds; the first is what others are compared to.

    `configurations` are given by name, or as paths. `seeds` is a number of seeds, from that of the scenario
    on, or a list. With `jobs` above 1 runs use other processes, so plugins and metrics have to be importable.
    Raises ValueError for fewer than two configurations.
    """
    described = _scenario(scenario, duration)
    _check_metrics(metrics)
    named: Mapping[str, Config] = (
        configurations
        if isinstance(configurations, Mapping)
        else {str(one): None if str(one) == "default" else Path(one) for one in configurations}
    )
    if len(named) < 2:
        raise ValueError("configurations: expected at least two with different names")
    classes = _classes(plugins)
    for config in named.values():
        _settings(config, classes, gates)
    chosen = range(described.seed, described.seed + seeds) if isinstance(seeds, int) else seeds
    asked = [
        _Asked(Path(scenario), duration, name, config, seed, tuple(plugins), gates, tuple(metrics))
        for seed in chosen
        for name, config in named.items()
    ]
    done: dict[tuple[str, int], tuple[Run, Row]] = {}
    told = _Told.of(progress, "comparing", len(asked))
    for one, found in carried_out(_compared_run, asked, jobs):
        done[one.name, one.seed] = found
        told(len(done))
    found_runs = [done[one.name, one.seed] for one in asked]
    made = compared([run for run, _ in found_runs], described.name, described.varies)
    provenance = {name: {key: row.get(key) for key in _ABOUT} for (name, _), (_, row) in done.items()}
    report = replace(made, data={**made.data, "provenance": provenance})
    return Comparison(
        Rows([row for _, row in found_runs], "runs"), Rows(_differences(report.data), "differences"), report
    )


class _Asked(NamedTuple):
    """One run of a comparison, also for another process."""

    scenario: Path
    duration: float | None
    name: str
    config: Config
    seed: int
    plugins: tuple[AnyPlugin, ...]
    gates: FeatureGates | None
    metrics: tuple[Metric, ...]


def _compared_run(asked: _Asked) -> tuple[Run, Row]:
    classes = _classes(asked.plugins)
    settings = _settings(asked.config, classes, asked.gates)
    described = read_scenario(asked.scenario, asked.duration)
    measures = run(described, settings, seed=asked.seed, metrics=asked.metrics)
    row = {
        "configuration": asked.name,
        "seed": asked.seed,
        **_provenance(measures, settings, asked.scenario.read_bytes()),
        **figures_of(measures),
    }
    return Run(asked.name, asked.seed, data_of(measures)), row


def _differences(data: Mapping[str, Any]) -> Iterator[Row]:
    for name, found in data["differences"].items():
        for figure, one in found.items():
            if one is not None:
                yield {"configuration": name, "figure": figure, **one}


def sweep(
    experiment: str | Path,
    *,
    output: str | Path | None = None,
    jobs: int = 1,
    replace_others: bool = False,
    progress: Progress = False,
    carry: Callable[[Sequence[sweeps.Run]], Iterator[sweeps.Row]] | None = None,
) -> Sweep:
    """Run every combination of an experiment, a file such as `stowplan sweep` takes.

    With `output`, a Parquet file, runs that are in it already are not repeated, and what is finished is kept
    in a journal beside it. `carry` carries runs out elsewhere. Raises SnapshotError, also for an output with
    rows of another experiment, unless `replace_others` drops these.
    """
    asked = sweeps.read_experiment(Path(experiment))
    wanted = {run.key: run for run in asked.runs}
    results = None if output is None else Path(output)
    journal = None if results is None else sweeps.Journal(results)
    earlier = [] if results is None or journal is None else [*sweeps.read_results(results), *journal.rows()]
    done = {str(row.get("run")): row for row in earlier}
    others, differs = sweeps.strangers([row for key, row in done.items() if key not in wanted], asked.runs)
    if others and not replace_others:
        raise SnapshotError(
            f"{results}: {len(others)} rows are of another experiment ({differs} differs): expected another "
            "output, or to replace them (--replace)"
        )
    for row in others:
        del done[str(row.get("run"))]
    finished = {key: done[key] for key in wanted if key in done}
    before = len(finished)
    left = [run for key, run in wanted.items() if key not in finished]
    told = _Told.of(progress, "simulating", len(left))
    for row in _here(left, jobs) if carry is None else carry(left):
        if journal is not None:
            journal.add(row)
        finished[str(row["run"])] = row
        told(len(finished) - before)
    rows = [finished[key] for key in wanted]
    if results is not None and journal is not None:
        sweeps.write_results(results, [*rows, *(row for key, row in done.items() if key not in wanted)])
        journal.path.unlink(missing_ok=True)
    report = combined_report(asked.name, rows, before, "memory" if results is None else str(results))
    return Sweep(Rows(rows, "runs"), before, report)


def _here(runs: Sequence[sweeps.Run], jobs: int) -> Iterator[sweeps.Row]:
    for _, row in carried_out(sweeps.carry_out, runs, jobs):
        yield row


# What is given


def _scenario(given: Scenario | str | Path, duration: float | None) -> Scenario:
    return given if isinstance(given, Scenario) else read_scenario(Path(given), duration)


def _classes(plugins: Sequence[AnyPlugin]) -> list[type[Plugin]]:
    return [load_plugin(one) if isinstance(one, str) else one for one in plugins]


def _settings(config: Config, plugins: Sequence[type[Plugin]], gates: FeatureGates | None) -> Settings:
    if isinstance(config, Settings):
        return config
    return Settings.of(
        _loaded(config, DEFAULT_GATES if gates is None else gates), [*installed_plugins(), *plugins]
    )


def _loaded(config: str | Path | Mapping[str, Any] | None, gates: FeatureGates) -> LoadedConfig:
    match config:
        case None:
            return default_config(gates)
        case Path():
            return load_any_file(config, gates)
        case str():
            return load(config, gates)
    return load(json.dumps(config), gates)


def _name_of(config: Config, scenario: Scenario) -> str:
    found = scenario.config if config is None else config
    if found is None:
        return "the default configuration"
    return found.name if isinstance(found, Path) else "a configuration"


def _bytes_of(scenario: Scenario | str | Path) -> bytes | None:
    return None if isinstance(scenario, Scenario) else Path(scenario).read_bytes()


def _check_metrics(metrics: Sequence[Metric]) -> None:
    names = [metric.name for metric in metrics]
    taken = next((name for name in names if names.count(name) > 1 or name in _SERIES), None)
    if taken is not None:
        raise ValueError(f"metrics: {taken}: expected a name that no other figure has")


# What is given back


def _provenance(measures: Measures, settings: Settings, scenario: bytes | None) -> dict[str, Any]:
    registry = settings.registry
    plugins = [cls for name in registry.added if (cls := registry.get(name)) is not None]
    return {
        **versions(settings.release.name),
        DURATION: measures.scenario.duration,
        CONFIGURATION: digest(dump_yaml(settings.config.config).encode()),
        PLUGINS: digest_of_classes(plugins),
        SCENARIO: None if scenario is None else digest(scenario),
    }


def _result(
    measures: Measures,
    log: RunLog,
    settings: Settings,
    name: str,
    scenario: bytes | None,
) -> Simulation:
    made = report_of(measures, name)
    provenance = {"seed": measures.seed, **_provenance(measures, settings, scenario)}
    report = replace(made, data={**made.data, "provenance": provenance})
    return Simulation(
        Rows(log.pods.values(), "pods"),
        Rows(log.node_rows(), "nodes"),
        Rows(_samples(report.data["series"]), "series"),
        figures_of(measures),
        provenance,
        report,
    )


def _samples(series: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each sample: counts, and figures by resource or name as columns."""
    by_name = {
        f"{figure}.{name}" if figure != "metrics" else name: values
        for figure in ("utilisation", "fragmentation", "metrics")
        for name, values in series.get(figure, {}).items()
    }
    columns = {**{name: series[name] for name in _SERIES}, **by_name}
    for number, second in enumerate(series["seconds"]):
        yield {"second": second, **{name: values[number] for name, values in columns.items()}}


class _Told:
    """Reports how much of something is done: to a function, or as a line for every tenth."""

    def __init__(self, tell: Callable[[float], None], total: float) -> None:
        self._tell = tell
        self._total = total

    @classmethod
    def of(cls, progress: Progress, about: str, total: float) -> "_Told":
        if callable(progress):
            return cls(progress, total)
        return cls(_Lines(about) if progress else _silent, total)

    def __call__(self, done: float) -> None:
        self._tell(min(done / self._total, 1.0) if self._total else 1.0)


class _Lines:
    """A line on standard error for every tenth that is done, also where that is a file."""

    def __init__(self, about: str) -> None:
        self._about = about
        self._tenths = 0

    def __call__(self, share: float) -> None:
        tenths = int(10 * share)
        if tenths > self._tenths:
            self._tenths = tenths
            print(f"{self._about}: {10 * tenths} %", file=sys.stderr, flush=True)


def _silent(share: float) -> None:
    """Nobody wants to know."""
