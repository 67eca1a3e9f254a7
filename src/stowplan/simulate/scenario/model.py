"""The scenario file: a cluster, what arrives in it and when, how long it stays, what fails.

Everything is checked when the file is read; a mistake is an error of one line with file, line and field.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.decode import DecodeError, convert
from stowplan.api.meta import Object
from stowplan.api.names import is_extended_resource
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.api.workloads import PriorityClass
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.localcluster.admission.bootstrap import SYSTEM_PRIORITIES
from stowplan.localcluster.kubelets.config import NodeShape, ShapeError, shapes_of
from stowplan.scheduler.recording.files import is_recording
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place, convert_at, not_yaml, read_text
from stowplan.simulate.snapshot.sources import read_files
from stowplan.simulate.snapshot.traces import Trace, TracePod, TraceSpec, read_trace

DAY: Final = 86_400.0
MOST_NODES: Final = 1_000_000
"""Number of nodes of a group."""
MOST_PODS: Final = 100_000_000
"""Number of pods of a workload."""
MOST_MOMENTS: Final = 1_000_000
"""Number of samples, of bursts, and of failures of a node."""
_RATE: Final = re.compile(r"(?P<number>[0-9]++(?:\.[0-9]++)?|\.[0-9]++)\s*/\s*(?P<unit>s|m|h|d)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file as it is written."""


class _Daily(_Spec, frozen=True):
    """A rate that rises and falls with the time of day."""

    amplitude: float
    peak: str = "14h"


class _Arrivals(_Spec, frozen=True):
    rate: str = ""
    daily: _Daily | None = None
    burst: int = 0
    at: str = "0s"
    every: str = ""
    until: str = ""


class _Lifetime(_Spec, frozen=True):
    exponential: str = ""
    lognormal: str = ""
    sigma: float = 1.0
    uniform: tuple[str, str] | None = None


class _Workload(_Spec, frozen=True):
    name: str
    namespace: str = ""
    priority: int | None = None
    requests: dict[str, str | int | float] = {}
    labels: dict[str, str] = {}
    template: dict[str, Any] | None = None
    controller: bool = True
    arrivals: _Arrivals | None = None
    trace: TraceSpec | None = None
    lifetime: str | _Lifetime = ""


class _Autoscale(_Spec, frozen=True):
    max: int
    min: int = 0
    provisioning: str = "90s"
    idle: str = "10m"


class _RandomFailures(_Spec, frozen=True):
    mtbf: str
    repair: str = "15m"


class _Failure(_Spec, frozen=True):
    at: str
    repair: str = ""
    nodes: tuple[str, ...] = ()
    group: str = ""
    zone: str = ""
    count: int = 0


class _Cluster(_Spec, frozen=True):
    source: str | tuple[str, ...] = msgspec.field(default=(), name="from")
    nodes: tuple[dict[str, Any], ...] = ()


class _Kubelet(_Spec, frozen=True):
    start: str = "1s"
    stop: str = "1s"


class _Scenario(_Spec, frozen=True):
    cluster: _Cluster
    workload: tuple[_Workload, ...]
    duration: str = "24h"
    seed: int = 0
    sample: str = ""
    config: str = ""
    failures: tuple[_Failure, ...] = ()
    kubelet: _Kubelet = _Kubelet()


# What it means


@dataclass(frozen=True, slots=True)
class Autoscale:
    """From `least` to `most` nodes; `provisioning`: seconds until one is there, `idle`: until it goes."""

    least: int
    most: int
    provisioning: float
    idle: float


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are alike. `mtbf`: mean seconds between failures of a node, `repair`: of an outage."""

    name: str
    shape: NodeShape
    count: int
    price: float = 0.0
    autoscale: Autoscale | None = None
    mtbf: float = 0.0
    repair: float = 0.0


@dataclass(frozen=True, slots=True)
class Rate:
    """Pods that arrive at random, so many a second on average; with `amplitude`, more of them at `peak`."""

    per_second: float
    start: float
    until: float
    amplitude: float = 0.0
    peak: float = 0.0


@dataclass(frozen=True, slots=True)
class Burst:
    """So many pods at once, `every` so many seconds if that is not 0."""

    count: int
    at: float
    every: float
    until: float


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Duration of pods: `fixed`, `exponential` (mean), `lognormal` (median, sigma), `uniform` (from, to)."""

    kind: str = "forever"
    first: float = 0.0
    second: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one kind. With a `controller` an evicted pod is created again."""

    name: str
    namespace: str
    template: Json
    controller: bool
    arrivals: Rate | Burst | None
    lifetime: Lifetime
    trace: Sequence[TracePod] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Nodes that fail at a time, and are back after `repair` seconds (0: never)."""

    at: float
    repair: float
    nodes: Sequence[str] = ()
    group: str = ""
    zone: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, ready to be run. Times are in seconds; `config` is the file that it names, if any."""

    name: str
    duration: float
    seed: int
    sample: float
    groups: Sequence[NodeGroup]
    objects: Sequence[Object]
    workload: Sequence[Workload]
    failures: Sequence[Failure] = ()
    config: Path | None = None
    start_delay: float = 1.0
    stop_delay: float = 1.0
    notes: Sequence[str] = field(default_factory=tuple)
    admitted: bool = False
    """Its pods are as an API server stored them: they are those of a recording."""

    @property
    def varies(self) -> tuple[str, ...]:
        """Differences between seeds, apart from choices between nodes of equal score (ties)."""
        drawn = {
            "arrivals": any(isinstance(one.arrivals, Rate) for one in self.workload),
            "lifetimes": any(one.lifetime.kind not in ("forever", "fixed") for one in self.workload),
            "failures": any(one.mtbf for one in self.groups) or any(one.count for one in self.failures),
        }
        return tuple(name for name, varies in drawn.items() if varies)


def read_scenario(path: Path, duration: float | None = None) -> Scenario:
    """Read a scenario; `duration` is taken instead of that of the file. Raises SnapshotError.

    A recording is one, too (recorded.py).
    """
    if is_recording(path):
        from stowplan.simulate.scenario.recorded import recorded_scenario

        return recorded_scenario(path, duration)
    text = read_text(path)
    try:
        data = load_yaml(text)
    except TextError as error:
        raise not_yaml(str(path), error) from None
    place = Place(str(path), text)
    if not isinstance(data, dict):
        raise place.wrong("", "expected a map with cluster and workload")
    return _Reader(path, place, duration).scenario(convert_at(data, _Scenario, place))


class _Reader:
    """Checks a file field by field. Files that it names are beside it."""

    def __init__(self, path: Path, place: Place, duration: float | None) -> None:
        self._folder = path.parent
        self._name = path.stem
        self._place = place
        self._duration = duration
        self._length = 0.0
        """Seconds that are simulated."""

    def scenario(self, spec: _Scenario) -> Scenario:
        duration = self._length = self._duration or self._seconds("duration", spec.duration)
        sample = self._seconds("sample", spec.sample) if spec.sample else max(duration / 288, 1.0)
        self._limit("sample", "samples", duration / sample, MOST_MOMENTS)
        groups = [self._group(number, data) for number, data in enumerate(spec.cluster.nodes)]
        objects, notes = self._objects(spec.cluster)
        if not groups and not objects:
            raise self._place.wrong("cluster", "expected nodes or from")
        self._check_groups(groups)
        names = {group.name for group in groups}
        classes = {*SYSTEM_PRIORITIES, *(one.name for one in objects if isinstance(one, PriorityClass))}
        if not spec.workload:
            raise self._place.wrong("workload", "expected at least one")
        workload = [
            self._workload(number, one, duration, classes) for number, one in enumerate(spec.workload)
        ]
        if len({one.name for one in workload}) < len(workload):
            raise self._place.wrong("workload", "two have the same name")
        return Scenario(
            self._name,
            duration,
            spec.seed,
            sample,
            groups,
            objects,
            workload,
            [self._failure(number, one, names) for number, one in enumerate(spec.failures)],
            self._beside(spec.config) if spec.config else None,
            self._seconds("kubelet.start", spec.kubelet.start, zero=True),
            self._seconds("kubelet.stop", spec.kubelet.stop, zero=True),
            notes,
        )

    # The cluster

    def _objects(self, spec: _Cluster) -> tuple[list[Object], list[str]]:
        files = (spec.source,) if isinstance(spec.source, str) else spec.source
        paths = [self._beside(file) for file in files]
        for file, path in zip(files, paths, strict=True):
            if not path.exists():
                raise self._place.wrong("cluster.from", f"no such file: {file}")
        found = read_files(paths) if paths else None
        return ([], []) if found is None else (found.objects, found.notes)

    def _group(self, number: int, data: Mapping[str, Any]) -> NodeGroup:
        where = f"cluster.nodes[{number}]"
        rest = {key: value for key, value in data.items() if key not in _OF_GROUPS}
        count = data.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise self._place.wrong(f"{where}.count", f"expected a whole number of at least 0, got {count!r}")
        self._limit(f"{where}.count", "nodes", count, MOST_NODES)
        try:
            [shape] = shapes_of([{**rest, "count": 1}])
        except ShapeError as error:
            raise self._place.wrong(*_field_of(error, where)) from None
        try:
            own = msgspec.convert({key: data[key] for key in _OF_GROUPS[1:] if key in data}, _GroupFields)
        except msgspec.ValidationError as error:
            raise self._place.says(_below(str(error), where)) from None
        scaled = own.autoscale
        if scaled is not None and not 0 <= scaled.min <= count <= scaled.max:
            text = f"expected min ≤ count ≤ max, got {scaled.min}, {count}, {scaled.max}"
            raise self._place.wrong(f"{where}.autoscale", text)
        failing = own.failures
        mtbf = 0.0 if failing is None else self._seconds(f"{where}.failures.mtbf", failing.mtbf)
        if mtbf:
            self._limit(f"{where}.failures.mtbf", "failures", self._length / mtbf, MOST_MOMENTS)
        return NodeGroup(
            shape.name or f"group-{number}",
            shape,
            count,
            own.price,
            None
            if scaled is None
            else Autoscale(
                scaled.min,
                scaled.max,
                self._seconds(f"{where}.autoscale.provisioning", scaled.provisioning, zero=True),
                self._seconds(f"{where}.autoscale.idle", scaled.idle, zero=True),
            ),
            mtbf,
            0.0 if failing is None else self._seconds(f"{where}.failures.repair", failing.repair),
        )

    def _check_groups(self, groups: Sequence[NodeGroup]) -> None:
        seen: set[str] = set()
        for number, group in enumerate(groups):
            if group.name in seen:
                raise self._place.wrong(f"cluster.nodes[{number}].name", f"{group.name!r} is there twice")
            seen.add(group.name)

    def _failure(self, number: int, spec: _Failure, groups: set[str]) -> Failure:
        where = f"failures[{number}]"
        if not (spec.nodes or spec.group or spec.zone):
            raise self._place.wrong(where, "expected nodes, group or zone")
        if spec.group and spec.group not in groups:
            known = ", ".join(sorted(groups)) or "none"
            raise self._place.wrong(f"{where}.group", f"expected a group of cluster.nodes ({known})")
        if spec.count < 0:
            raise self._place.wrong(f"{where}.count", f"expected at least 0, got {spec.count}")
        at = self._seconds(f"{where}.at", spec.at, zero=True)
        repair = self._seconds(f"{where}.repair", spec.repair) if spec.repair else 0.0
        return Failure(at, repair, spec.nodes, spec.group, spec.zone, spec.count)

    # The workload

    def _workload(self, number: int, spec: _Workload, duration: float, classes: Collection[str]) -> Workload:
        where = f"workload[{number}]"
        if not _NAME.fullmatch(spec.name) or len(spec.name) > 50:
            raise self._place.wrong(
                f"{where}.name", f"expected the beginning of a pod name, got {spec.name!r}"
            )
        if (spec.arrivals is None) == (spec.trace is None):
            raise self._place.wrong(where, "expected arrivals or trace")
        template = self._template(where, spec, classes)
        trace: Trace | None = None
        if spec.trace is not None:
            trace = read_trace(
                self._beside(spec.trace.file), spec.trace, self._place, f"{where}.trace", duration
            )
        return Workload(
            spec.name,
            template["metadata"]["namespace"],
            template,
            spec.controller,
            None if spec.arrivals is None else self._arrivals(f"{where}.arrivals", spec.arrivals, duration),
            self._lifetime(f"{where}.lifetime", spec.lifetime),
            () if trace is None else trace.pods,
        )

    def _template(self, where: str, spec: _Workload, classes: Collection[str]) -> Json:
        """The pods' body. What is said beside a template is added to it."""
        given = spec.template or {}
        for key in given:
            if key not in ("metadata", "spec"):
                raise self._place.wrong(f"{where}.template.{key}", "unknown field: expected metadata or spec")
        metadata: Json = {**(given.get("metadata") or {})}
        body: Json = {**(given.get("spec") or {})}
        metadata["namespace"] = spec.namespace or metadata.get("namespace") or "default"
        metadata["labels"] = {"app": spec.name, **(metadata.get("labels") or {}), **spec.labels}
        body.setdefault("schedulerName", "default-scheduler")
        body.setdefault("terminationGracePeriodSeconds", 30)
        if spec.requests:
            self._check_amounts(f"{where}.requests", spec.requests)
            amounts = {name: str(amount) for name, amount in spec.requests.items()}
            containers = [*(body.get("containers") or ({"name": "main", "image": "pretend"},))]
            containers[0] = {**containers[0], "resources": amounts_of(amounts)}
            body["containers"] = containers
        body.setdefault("containers", [{"name": "main", "image": "pretend"}])
        name = body.get("priorityClassName")
        if spec.priority is not None:
            body["priority"] = spec.priority
        elif name and "priority" not in body and name not in classes:
            text = f"no PriorityClass {name} in cluster.from: set priority, or add it there"
            raise self._place.wrong(f"{where}.template.spec.priorityClassName", text)
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}
        try:
            convert({**made, "metadata": {**metadata, "name": spec.name}}, Pod)
        except DecodeError as error:
            raise self._place.says(_below(str(error), f"{where}.template")) from None
        return made

    def _check_amounts(self, where: str, amounts: Mapping[str, str | int | float]) -> None:
        for name, amount in amounts.items():
            try:
                negative = quantity_of(amount).sign < 0
            except QuantityError:
                negative = True
            if negative:
                text = f"expected a quantity such as 500m or 2Gi, got {amount!r}"
                raise self._place.wrong(f"{where}.{name}", text)

    def _arrivals(self, where: str, spec: _Arrivals, duration: float) -> Rate | Burst:
        if bool(spec.rate) == bool(spec.burst):
            raise self._place.wrong(where, "expected rate or burst")
        start = self._seconds(f"{where}.at", spec.at, zero=True)
        until = self._seconds(f"{where}.until", spec.until) if spec.until else duration
        if spec.burst:
            if spec.daily is not None:
                raise self._place.wrong(f"{where}.daily", "expected together with rate only")
            if spec.burst < 0:
                raise self._place.wrong(f"{where}.burst", f"expected at least 1, got {spec.burst}")
            every = self._seconds(f"{where}.every", spec.every) if spec.every else 0.0
            bursts = 1 + (min(until, duration) / every if every else 0)
            self._limit(f"{where}.every", "bursts", bursts, MOST_MOMENTS)
            self._limit(f"{where}.burst", "pods", spec.burst * bursts, MOST_PODS)
            return Burst(spec.burst, start, every, until)
        if spec.every:
            raise self._place.wrong(f"{where}.every", "expected together with burst only")
        found = _RATE.fullmatch(spec.rate)
        if found is None or float(found["number"]) <= 0:
            raise self._place.wrong(
                f"{where}.rate", f"expected a rate such as 200/h or 2/s, got {spec.rate!r}"
            )
        per_second = float(found["number"]) / _UNITS[found["unit"]]
        self._limit(f"{where}.rate", "pods", per_second * min(until, duration), MOST_PODS)
        amplitude, peak = 0.0, 0.0
        if spec.daily is not None:
            amplitude, peak = (
                spec.daily.amplitude,
                self._seconds(f"{where}.daily.peak", spec.daily.peak, zero=True),
            )
            if not 0 <= amplitude <= 1:
                raise self._place.wrong(f"{where}.daily.amplitude", f"expected 0 to 1, got {amplitude}")
        return Rate(per_second, start, until, amplitude, peak)

    def _lifetime(self, where: str, spec: str | _Lifetime) -> Lifetime:
        if isinstance(spec, str):
            return Lifetime("fixed", self._seconds(where, spec)) if spec else Lifetime()
        if sum((bool(spec.exponential), bool(spec.lognormal), spec.uniform is not None)) != 1:
            raise self._place.wrong(where, "expected a duration, exponential, lognormal or uniform")
        if spec.exponential:
            return Lifetime("exponential", self._seconds(f"{where}.exponential", spec.exponential))
        if spec.lognormal:
            if not 0 <= spec.sigma <= 10:
                raise self._place.wrong(f"{where}.sigma", f"expected 0 to 10, got {spec.sigma}")
            return Lifetime("lognormal", self._seconds(f"{where}.lognormal", spec.lognormal), spec.sigma)
        assert spec.uniform is not None
        first, last = (self._seconds(f"{where}.uniform", one) for one in spec.uniform)
        if first > last:
            raise self._place.wrong(f"{where}.uniform", "expected the shorter time first")
        return Lifetime("uniform", first, last)

    # Values

    def _limit(self, where: str, what: str, number: float, most: int) -> None:
        if number > most:
            raise self._place.wrong(where, f"expected at most {most:,} {what}, got {number:,.0f}")

    def _seconds(self, where: str, text: str, *, zero: bool = False) -> float:
        try:
            seconds = Duration.parse(text).seconds
        except DurationError:
            seconds = -1.0
        if seconds < 0 or (seconds == 0 and not zero):
            raise self._place.wrong(where, f"expected a duration such as 90s, 15m or 24h, got {text!r}")
        return seconds

    def _beside(self, file: str) -> Path:
        return self._folder / file


class _GroupFields(_Spec, frozen=True):
    price: float = 0.0
    autoscale: _Autoscale | None = None
    failures: _RandomFailures | None = None


_OF_GROUPS: Final = ("count", "price", "autoscale", "failures")


def _field_of(error: ShapeError, where: str) -> tuple[str, str]:
    field_name, _, text = str(error).partition(": ")
    return f"{where}{field_name.removeprefix('nodes[0]').removeprefix('nodes')}", text


def amounts_of(requests: Mapping[str, Any]) -> Json:
    """The resources of a container that requests so much.

    What nodes cannot overcommit is limited to the same: the API server wants that said.
    """
    limits = {
        name: amount
        for name, amount in requests.items()
        if is_extended_resource(name) or name.startswith("hugepages-")
    }
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _below(problem: str, where: str) -> str:
    """A message of msgspec about a part, as one about the whole file."""
    if "`$" in problem:
        return problem.replace("`$", f"`$.{where}", 1)
    return f"{problem} - at `$.{where}`"


__all__ = ["Scenario", "SnapshotError", "read_scenario"]
