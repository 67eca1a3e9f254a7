"""Sweeps: every combination of configurations, workloads, parameters and seeds, each a run of its own.

A run is plain data with all the files that it needs, so that it can be carried out by another process or on
another machine. What is finished is appended to a journal at once, and not done again.
"""

import hashlib
import itertools
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stowplan import __version__
from stowplan.api.releases import DEFAULT as DEFAULT_RELEASE
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.simulate.scenario.provenance import (
    CONFIGURATION,
    DURATION,
    PLUGINS,
    RELEASE,
    SCENARIO,
    VERSION,
    digest_of_files,
    source_of,
)
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place, convert_at, not_yaml, read_text

DEFAULT: Final = "default"
"""The name of the configuration of a scheduler without one."""

Value = str | int | float | bool
Row = dict[str, Value | None]


class _Experiment(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The file as it is written."""

    workloads: tuple[str, ...]
    configurations: tuple[str, ...] = (DEFAULT,)
    seeds: int | tuple[int, ...] = 1
    parameters: dict[str, tuple[Value, ...]] = {}
    duration: str = ""
    plugins: tuple[str, ...] = ()


MOST_RUNS: Final = 1_000_000
"""Number of runs of an experiment."""


class Run(msgspec.Struct, frozen=True):
    """One run. `files` are those that it needs, by name; `key` is the same for the same run."""

    configuration: str
    workload: str
    seed: int
    parameters: dict[str, Value]
    duration: float | None
    plugins: tuple[str, ...]
    files: dict[str, bytes]
    modules: dict[str, bytes] = {}
    """Source of the plugins that are in no file of the experiment, by module."""
    version: str = __version__

    @property
    def key(self) -> str:
        digest = hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic"))
        return digest.hexdigest()[:20]

    def provenance(self) -> dict[str, Value | None]:
        """Versions and digests of everything that the figures come from."""
        code = {one.rpartition(":")[0] for one in self.plugins}
        config = {self.configuration}
        scenario = {name: data for name, data in self.files.items() if name not in code | config}
        return {
            VERSION: self.version,
            RELEASE: DEFAULT_RELEASE.name,
            DURATION: self.duration,
            CONFIGURATION: digest_of_files({name: self.files[name] for name in config & self.files.keys()}),
            PLUGINS: digest_of_files(
                {**{name: self.files[name] for name in code & self.files.keys()}, **self.modules}
            ),
            SCENARIO: digest_of_files(scenario),
        }

    def about(self) -> Row:
        """Identity of its row."""
        return {
            "run": self.key,
            "configuration": self.configuration,
            "workload": self.workload,
            "seed": self.seed,
            **self.provenance(),
            **{f"parameter.{name}": value for name, value in self.parameters.items()},
        }


@dataclass(frozen=True, slots=True)
class Experiment:
    """All runs of a file."""

    name: str
    runs: Sequence[Run]


def read_experiment(path: Path) -> Experiment:
    """Read a file, and the scenarios and configurations that it names. Raises SnapshotError."""
    text = read_text(path)
    try:
        data = load_yaml(text)
    except TextError as error:
        raise not_yaml(str(path), error) from None
    place = Place(str(path), text)
    if not isinstance(data, dict):
        raise place.wrong("", "expected a map with workloads")
    spec = convert_at(data, _Experiment, place)
    return _Reader(path.parent, place, spec).experiment(path.stem)


class _Reader:
    """Makes runs of an experiment. Files that it names are beside it."""

    def __init__(self, folder: Path, place: Place, spec: _Experiment) -> None:
        self._folder = folder
        self._place = place
        self._spec = spec

    def experiment(self, name: str) -> Experiment:
        spec = self._spec
        count = spec.seeds if isinstance(spec.seeds, int) else len(spec.seeds)
        wanted = count * len(spec.workloads) * len(spec.configurations)
        wanted *= math.prod(len(values) for values in spec.parameters.values())
        if wanted > MOST_RUNS:
            raise self._place.wrong("", f"expected at most {MOST_RUNS:,} runs, got {wanted:,}")
        seeds = range(spec.seeds) if isinstance(spec.seeds, int) else spec.seeds
        for field, values in (
            ("workloads", spec.workloads),
            ("configurations", spec.configurations),
            ("seeds", seeds),
        ):
            if not values or len(set(values)) < len(values):
                raise self._place.wrong(field, "expected at least one, and none twice")
        duration = self._duration(spec.duration) if spec.duration else None
        plugins = {f"plugins[{number}]": self._plugin(one) for number, one in enumerate(spec.plugins)}
        configs = {
            one: {} if one == DEFAULT else self._file(f"configurations[{number}]", one)
            for number, one in enumerate(spec.configurations)
        }
        modules = {
            module: source_of(module)
            for module in (one.rpartition(":")[0] for one in spec.plugins)
            if not module.endswith(".py")
        }
        runs = []
        for number, workload in enumerate(spec.workloads):
            scenario = self._scenario(f"workloads[{number}]", workload)
            for chosen in itertools.product(*spec.parameters.values()):
                parameters: dict[str, Value] = dict(zip(spec.parameters, chosen, strict=True))
                files = self._bundle(f"workloads[{number}]", workload, scenario, parameters)
                for files_of_plugin in plugins.values():
                    files |= files_of_plugin
                runs += [
                    Run(
                        config,
                        workload,
                        seed,
                        parameters,
                        duration,
                        spec.plugins,
                        {**files, **configs[config]},
                        modules,
                    )
                    for config in spec.configurations
                    for seed in seeds
                ]
        return Experiment(name, runs)

    def _duration(self, text: str) -> float:
        try:
            seconds = Duration.parse(text).seconds
        except DurationError:
            seconds = 0.0
        if seconds <= 0:
            raise self._place.wrong("duration", f"expected a duration such as 15m or 24h, got {text!r}")
        return seconds

    def _plugin(self, reference: str) -> dict[str, bytes]:
        """The file of a plugin; a module is expected to be installed wherever runs are carried out."""
        file = reference.rpartition(":")[0]
        return self._file("plugins", file) if file.endswith(".py") else {}

    def _file(self, field: str, name: str) -> dict[str, bytes]:
        try:
            return {name: (self._folder / name).read_bytes()}
        except OSError as error:
            raise self._place.wrong(field, f"{name}: {error.strerror}") from None

    def _scenario(self, field: str, name: str) -> dict[str, Any]:
        [text] = self._file(field, name).values()
        try:
            data = load_yaml(text)
        except TextError as error:
            raise not_yaml(str(self._folder / name), error) from None
        if not isinstance(data, dict):
            raise self._place.wrong(field, f"{name}: expected a scenario")
        return data

    def _bundle(
        self, field: str, name: str, scenario: Mapping[str, Any], parameters: Mapping[str, Value]
    ) -> dict[str, bytes]:
        """The scenario with its parameters set, and every file that it names."""
        changed = msgspec.msgpack.decode(msgspec.msgpack.encode(scenario))
        for path, value in parameters.items():
            problem = set_parameter(changed, path, value)
            if problem:
                raise self._place.wrong(f"parameters.{path}", f"{problem} in {name}")
        found = {name: yaml.safe_dump(changed, sort_keys=False, allow_unicode=True).encode()}
        for file in _named_files(changed):
            found |= self._file(field, (Path(name).parent / file).as_posix())
        return found


def set_parameter(scenario: Any, path: str, value: Value) -> str:
    """Set a field, such as `workload.web.arrivals.rate`; returns what is wrong with the path, "" if nothing.

    An item of a list is named by its `name`, or by its number. The field itself need not be there yet.
    """
    *steps, last = path.split(".")
    at = scenario
    for number, step in enumerate(steps):
        child = at.get(step) if isinstance(at, dict) else _item(at, step)
        if child is None:
            return f"no {'.'.join(steps[: number + 1])}"
        at = child
    if not isinstance(at, dict):
        return f"expected a field of a map: {path}"
    at[last] = value
    return ""


def _item(items: Any, step: str) -> Any:
    if not isinstance(items, list):
        return None
    named = next((one for one in items if isinstance(one, dict) and one.get("name") == step), None)
    if named is None and step.isdecimal() and int(step) < len(items):
        return items[int(step)]
    return named


def _named_files(scenario: Mapping[str, Any]) -> Iterator[str]:
    """The files that a scenario names."""
    cluster = scenario.get("cluster")
    sources = cluster.get("from", ()) if isinstance(cluster, dict) else ()
    yield from (sources,) if isinstance(sources, str) else sources
    if isinstance(scenario.get("config"), str):
        yield scenario["config"]
    workload = scenario.get("workload")
    for one in workload if isinstance(workload, list) else ():
        trace = one.get("trace") if isinstance(one, dict) else None
        if isinstance(trace, dict) and isinstance(trace.get("file"), str):
            yield trace["file"]


def carry_out(run: Run) -> Row:
    """Carry out a run; returns its row. Raises SnapshotError, ConfigError, ProfileError."""
    from stowplan.config import default_config
    from stowplan.config.legacy import load_any_file
    from stowplan.scheduler import Settings
    from stowplan.scheduler.framework.registry import installed_plugins, load_plugin
    from stowplan.simulate.scenario import read_scenario
    from stowplan.simulate.scenario import run as simulate
    from stowplan.simulate.scenario.report import figures_of

    with tempfile.TemporaryDirectory() as folder:
        for name, data in run.files.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        try:
            scenario = read_scenario(Path(folder) / run.workload, run.duration)
        except SnapshotError as error:
            raise SnapshotError(str(error).replace(f"{folder}/", "")) from None
        path = scenario.config
        if run.configuration != DEFAULT:
            path = Path(folder) / run.configuration
        loaded = default_config() if path is None else load_any_file(path)
        plugins = [
            load_plugin(f"{folder}/{one}" if one.rpartition(":")[0].endswith(".py") else one)
            for one in run.plugins
        ]
        settings = Settings.of(loaded, [*installed_plugins(), *plugins])
        measures = simulate(scenario, settings, seed=run.seed)
    return {**run.about(), **figures_of(measures)}


# Results


def strangers(rows: Iterable[Row], runs: Sequence[Run]) -> tuple[list[Row], str]:
    """The rows that runs of an experiment must not be mixed with, and a column in which one differs.

    These are rows of a configuration or workload of the same name with other contents, and all that were made
    by other code or for another time.
    """
    always = (VERSION, RELEASE, DURATION, PLUGINS)
    known: dict[tuple[Value | None, ...], Value | None] = {}
    for run in runs:
        row = run.about()
        for column, place in _places(row):
            known[place] = row[column]
    first = runs[0].about()
    found: list[Row] = []
    differs = ""
    for row in rows:
        columns = [column for column in always if row.get(column) != first[column]]
        columns += [one for one, place in _places(row) if place in known and known[place] != row.get(one)]
        other = next(iter(columns), "")
        if other:
            found.append(row)
            differs = differs or other
    return found, differs


def _places(row: Row) -> Iterator[tuple[str, tuple[Value | None, ...]]]:
    """The columns whose digest belongs to a name, and that name."""
    parameters = tuple(
        one for name in sorted(row) if name.startswith("parameter.") for one in (name, row[name])
    )
    yield CONFIGURATION, (CONFIGURATION, row.get("configuration"))
    yield SCENARIO, (SCENARIO, row.get("workload"), *parameters)


class Journal:
    """Rows of finished runs, one a line, beside the results; complete lines survive a crash."""

    def __init__(self, results: Path) -> None:
        self.path = results.with_name(f"{results.name}.journal")

    def rows(self) -> list[Row]:
        """Finished runs. A line that was cut off is not finished."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            try:
                found.append(msgspec.json.decode(line, type=dict[str, str | int | float | bool | None]))
            except msgspec.DecodeError:
                continue
        return found

    def add(self, row: Row) -> None:
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_well():
                file.write(b"\n")
            file.write(msgspec.json.encode(row) + b"\n")

    def _ends_well(self) -> bool:
        return self.path.read_bytes()[-1:] == b"\n"


def read_results(path: Path) -> list[Row]:
    """The rows of results that were written before, [] if there are none. Raises SnapshotError."""
    if not path.exists():
        return []
    import pyarrow
    from pyarrow import parquet

    try:
        rows: list[Row] = parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise SnapshotError(f"{path}: expected results of a sweep: {str(error).splitlines()[0]}") from None
    return rows


def write_results(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as Parquet. The file is whole or not there."""
    from pyarrow import Table, parquet

    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    columns: dict[str, list[Value | None]] = {name: [row.get(name) for row in listed] for name in names}
    for name, values in columns.items():
        if len({type(value) for value in values if value is not None} - {int, float}) > 1:
            columns[name] = [None if value is None else str(value) for value in values]
    unfinished = path.with_name(f".{path.name}.unfinished")
    parquet.write_table(Table.from_pydict(columns), unfinished)
    unfinished.replace(path)
