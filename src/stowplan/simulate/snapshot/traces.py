"""Pods of a trace: a CSV file, and which of its columns mean what.

`openb` (Alibaba's GPU cluster trace of 2023) and `alibaba2018` (batch tasks of cluster-trace-v2018) are built
in; every part of a layout can be replaced in the scenario.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from stowplan.api.names import is_extended_resource
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place

_ABOUT: Final = ("name", "namespace", "priority", "arrival", "end", "lifetime", "count")
"""Meanings of a column other than an amount of a resource."""
_COMMENT: Final = "#"
_MOST_PODS: Final = 5_000_000
_MOST_DIGITS: Final = 300
"""Before the point: numbers beyond that are no floats either, and no amount of anything."""


class TraceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The trace of a scenario. `header` has the names of the columns if the file has none."""

    file: str
    layout: str = ""
    header: tuple[str, ...] = ()
    columns: dict[str, str] = {}
    units: dict[str, str | int | float] = {}
    annotations: dict[str, str] = {}
    speed: float = 1.0
    limit: int = 0


class Layout(msgspec.Struct, frozen=True):
    """Meaning of the columns of a trace: see `TraceSpec`."""

    columns: Mapping[str, str]
    units: Mapping[str, str | int | float] = {}
    annotations: Mapping[str, str] = {}
    header: tuple[str, ...] = ()


LAYOUTS: Final = {
    "openb": Layout(
        columns={
            "name": "name",
            "arrival": "creation_time",
            "end": "deletion_time",
            "cpu": "cpu_milli",
            "memory": "memory_mib",
        },
        units={"cpu": "1m", "memory": "1Mi"},
        annotations={
            "alibabacloud.com/gpu-count": "num_gpu",
            "alibabacloud.com/gpu-milli": "gpu_milli",
            "alibabacloud.com/gpu-card-model": "gpu_spec",
        },
    ),
    "alibaba2018": Layout(
        columns={
            "name": "task_name",
            "namespace": "",
            "arrival": "start_time",
            "end": "end_time",
            "count": "instance_num",
            "cpu": "plan_cpu",
            "memory": "plan_mem",
        },
        units={"cpu": "10m", "memory": "3840Mi"},
        header=(
            "task_name",
            "instance_num",
            "job_name",
            "task_type",
            "status",
            "start_time",
            "end_time",
            "plan_cpu",
            "plan_mem",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod of a trace. `lifetime` None: as the scenario says."""

    at: float
    namespace: str
    priority: int | None
    requests: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    lifetime: float | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Pods in the order of their arrival; `later` arrive after the end and were left out."""

    pods: Sequence[TracePod]
    later: int


def read_trace(path: Path, spec: TraceSpec, place: Place, where: str, duration: float) -> Trace:
    """The pods of a trace that arrive in time. Raises SnapshotError about the scenario or the trace."""
    layout = _layout(spec, place, where)
    try:
        file = path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise place.wrong(f"{where}.file", f"{spec.file}: {error.strerror}") from None
    with file:
        rows = Rows(str(path), file, layout)
        pods = list(islice((pod for row in rows for pod in rows.pods(row)), _MOST_PODS + 1))
    if len(pods) > _MOST_PODS:
        raise SnapshotError(f"{path}: expected at most {_MOST_PODS} pods")
    if not pods:
        raise SnapshotError(f"{path}: expected at least one row")
    first = min(pod.at for pod in pods)
    moved = (_moved(pod, first, spec.speed) for pod in pods)
    in_time = sorted((pod for pod in moved if pod.at < duration), key=lambda pod: pod.at)
    kept = in_time[: spec.limit] if spec.limit else in_time
    return Trace(kept, len(pods) - len(in_time))


def _moved(pod: TracePod, first: float, speed: float) -> TracePod:
    lifetime = None if pod.lifetime is None else pod.lifetime / speed
    return TracePod(
        (pod.at - first) / speed, pod.namespace, pod.priority, pod.requests, pod.annotations, lifetime
    )


def _layout(spec: TraceSpec, place: Place, where: str) -> Layout:
    """The layout with what the scenario says otherwise."""
    known = LAYOUTS.get(spec.layout, Layout({}))
    if spec.layout and spec.layout not in LAYOUTS:
        raise place.wrong(f"{where}.layout", f"expected one of {', '.join(LAYOUTS)}, got {spec.layout!r}")
    columns = {**known.columns, **spec.columns}
    for name in columns:
        if (
            name not in _ABOUT
            and name not in ("cpu", "memory", "ephemeral-storage")
            and not is_extended_resource(name)
        ):
            text = f"expected one of {', '.join(_ABOUT)} or a resource"
            raise place.wrong(f"{where}.columns.{name}", text)
    if not columns.get("arrival"):
        raise place.wrong(f"{where}.columns", "expected arrival: the column with the time of arrival")
    if columns.get("end") and columns.get("lifetime"):
        raise place.wrong(f"{where}.columns", "expected end or lifetime, not both")
    for name, unit in spec.units.items():
        if name not in columns:
            raise place.wrong(f"{where}.units.{name}", "expected something that is among the columns")
        if _amount(unit) is None:
            raise place.wrong(f"{where}.units.{name}", f"expected a quantity such as 1m or 1Mi, got {unit!r}")
    if spec.speed <= 0:
        raise place.wrong(f"{where}.speed", f"expected more than 0, got {spec.speed}")
    if spec.limit < 0:
        raise place.wrong(f"{where}.limit", f"expected at least 0, got {spec.limit}")
    return Layout(
        {name: column for name, column in columns.items() if column},
        {**known.units, **spec.units},
        {key: column for key, column in {**known.annotations, **spec.annotations}.items() if column},
        spec.header or known.header,
    )


class Rows:
    """The rows of a file; a mistake names file, line and column."""

    def __init__(self, path: str, lines: Iterator[str], layout: Layout) -> None:
        self._path = path
        self._reader = csv.reader(lines)
        self._layout = layout
        header = list(layout.header) or next(iter(self), [])
        self._place_of = {name: position for position, name in enumerate(header)}
        for column in (*layout.columns.values(), *layout.annotations.values()):
            if column not in self._place_of:
                line, known = max(self._reader.line_num, 1), ", ".join(header) or "none"
                raise SnapshotError(f"{path}:{line}: {column}: no such column: expected one of {known}")
        about = layout.columns
        self._resources = {name: column for name, column in about.items() if name not in _ABOUT}
        self._units = {name: _amount(layout.units.get(name, 1)) or Fraction(1) for name in about}

    def __iter__(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                if row and not row[0].startswith(_COMMENT):
                    yield row
        except UnicodeDecodeError:
            raise SnapshotError(f"{self._path}:{self._reader.line_num + 1}: expected UTF-8") from None
        except csv.Error as error:
            raise SnapshotError(f"{self._path}:{self._reader.line_num}: expected CSV: {error}") from None

    def pods(self, row: list[str]) -> Iterator[TracePod]:
        """The pods of a row: one, or as many as it says."""
        about = self._layout.columns
        at = self._number(row, "arrival")
        if at is None:
            raise self._wrong(about["arrival"], "expected a number, got ''")
        lifetime = self._number(row, "lifetime")
        end = self._number(row, "end")
        if end is not None:
            lifetime = max(end - at, Fraction(0))
        priority = self._number(row, "priority")
        count = self._number(row, "count")
        if count is not None and not 0 <= count <= _MOST_PODS:
            raise self._wrong(about["count"], f"expected 0 to {_MOST_PODS}, got {int(count)}")
        pod = TracePod(
            float(at),
            self.text(row, about["namespace"]) if "namespace" in about else "",
            None if priority is None else int(priority),
            tuple(self.quantities(row)),
            tuple(self.annotations(row)),
            None if lifetime is None else float(lifetime),
        )
        for _ in range(1 if count is None else int(count)):
            yield pod

    def quantities(self, row: list[str]) -> Iterator[tuple[str, str]]:
        """The amounts of a row by resource."""
        return ((name, self._quantity(row, name)) for name in self._resources)

    def annotations(self, row: list[str]) -> Iterator[tuple[str, str]]:
        for key, column in self._layout.annotations.items():
            text = self.text(row, column)
            if text not in ("", "0"):
                yield key, text

    def text(self, row: list[str], column: str) -> str:
        position = self._place_of[column]
        if position >= len(row):
            raise self._wrong(column, f"missing: expected {len(self._place_of)} columns, got {len(row)}")
        return row[position].strip()

    def _number(self, row: list[str], name: str) -> Fraction | None:
        """A number in seconds (or in what `units` says); None if there is none."""
        column = self._layout.columns.get(name)
        if column is None:
            return None
        text = self.text(row, column)
        if not text:
            return None
        amount = _amount(text)
        if amount is None:
            raise self._wrong(column, f"expected a number, got {text[:40]!r}")
        return amount * self._units[name]

    def _quantity(self, row: list[str], name: str) -> str:
        amount = self._number(row, name) or Fraction(0)
        if amount < 0:
            raise self._wrong(self._resources[name], "expected at least 0")
        milli = -(-amount * 1000 // 1)
        return f"{milli}m" if milli % 1000 else str(milli // 1000)

    def _wrong(self, column: str, text: str) -> SnapshotError:
        return SnapshotError(f"{self._path}:{self._reader.line_num}: {column}: {text}")


def _amount(text: str | int | float) -> Fraction | None:
    """A number or quantity, exactly."""
    try:
        quantity = quantity_of(text)
    except QuantityError:
        return None
    if quantity.size > _MOST_DIGITS:
        return None
    return Fraction(quantity.mantissa) * Fraction(10) ** quantity.scale
