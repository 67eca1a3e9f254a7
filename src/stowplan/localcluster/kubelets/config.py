"""Settings of simulated kubelets: how they behave, and the YAML file of node shapes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.names import is_extended_resource, label_key_problems, label_value_problems
from stowplan.api.quantity import QuantityError, quantity_of
from stowplan.api.releases import DEFAULT
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.localcluster.kubelets.deviceproblems import class_problems, device_problems
from stowplan.localcluster.kubelets.devices import ShapeDevices
from stowplan.localcluster.kubelets.pretend import PodBehaviour, Pretend, PretendSpan


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Times in seconds.

    `start_delay`: from being bound to running, `start_jitter`: up to so much more. `stop_delay`: how long a
    deleted pod takes to end, within its grace period. `run_seconds`: how long pods run that end by
    themselves. `heartbeat`: how often a lease is renewed, `status_every`: a node's status. `adopt`: also be
    the kubelet of nodes that others created. `as_found`: nodes and pods that are there at the start stay as
    they are, nodes that do not report silent and pods that are not ready so, until something is changed.
    `pretend` has the rules of a file. `version` is what nodes say of themselves. Images that match one of
    `missing_images` cannot be pulled.
    """

    start_delay: float = 0.5
    start_jitter: float = 0.5
    stop_delay: float = 1.0
    run_seconds: float = 5.0
    heartbeat: float = 10.0
    lease_seconds: int = 40
    status_every: float = 300.0
    adopt: bool = False
    as_found: bool = False
    pretend: Pretend = field(default_factory=Pretend)
    version: str = f"v{DEFAULT.version}"
    missing_images: tuple[str, ...] = ()

    @property
    def pod_behaviour(self) -> PodBehaviour:
        """How pods behave of which nothing else is said."""
        start = PretendSpan(self.start_delay, self.start_delay + self.start_jitter)
        run, stop = (
            PretendSpan(self.run_seconds, self.run_seconds),
            PretendSpan(self.stop_delay, self.stop_delay),
        )
        return PodBehaviour(start, PretendSpan(0.0, 0.0), run, stop)


EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_NODES: Final = 100_000
HUGE_PAGES: Final = "hugepages-"


class ShapeError(ValueError):
    """A shape that makes no sense; the message is one line that names the field."""


class ShapeTaint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class ShapeImage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    names: tuple[str, ...]
    size_bytes: int = 0


class ShapeDriver(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A CSI driver on the node: how many volumes it attaches (no limit if not said), and its topology."""

    name: str
    limit: int | None = None
    topology_keys: tuple[str, ...] = ()


class NodeShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A number of identical nodes.

    `name` may hold `{}` for the number of the node among those of its shape; without a name nodes are
    numbered through all shapes. `resources` are any further amounts, such as GPUs. `allocatable` overrides
    the amounts of the capacity that are offered to pods. Nodes are spread over `zones` in turn.
    """

    count: int = 1
    name: str = ""
    cpu: str | int | float = "8"
    memory: str | int = "32Gi"
    pods: int = 110
    ephemeral_storage: str | int = "100Gi"
    resources: dict[str, str | int] = {}
    allocatable: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[ShapeTaint, ...] = ()
    zones: tuple[str, ...] = ()
    region: str = ""
    images: tuple[ShapeImage, ...] = ()
    csi: tuple[ShapeDriver, ...] = ()
    devices: tuple[ShapeDevices, ...] = ()

    @property
    def capacity(self) -> dict[str, str]:
        """Everything a node has, by resource."""
        amounts: dict[str, str | int | float] = {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
            **self.resources,
        }
        return {name: str(amount) for name, amount in amounts.items()}


class NamedNode(NamedTuple):
    """One node of a shape: its name, its number among all nodes, and its number within its shape."""

    name: str
    number: int
    within: int
    shape: NodeShape


def read_shapes(path: Path) -> list[NodeShape]:
    """The shapes in a YAML or JSON file: a list, or a map with the list under `nodes`. Raises ShapeError."""
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ShapeError(f"{path}: {error.strerror}") from None
    except (TextError, UnicodeDecodeError) as error:
        raise ShapeError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return shapes_of(data)
    except ShapeError as error:
        raise ShapeError(f"{path}: {error}") from None


def shapes_of(data: Any) -> list[NodeShape]:
    """Shapes from plain data. Raises ShapeError."""
    if isinstance(data, dict) and set(data) == {"nodes"}:
        data = data["nodes"]
    if not isinstance(data, list) or not data:
        raise ShapeError("nodes: expected a list of at least one shape")
    try:
        shapes = msgspec.convert(data, list[NodeShape])
    except msgspec.ValidationError as error:
        raise ShapeError(_readable(str(error))) from None
    for number, shape in enumerate(shapes):
        problem = next(iter(_problems(shape)), None)
        if problem is not None:
            raise ShapeError(f"nodes[{number}].{problem}")
    for problem in class_problems(shape.devices for shape in shapes):
        raise ShapeError(problem)
    named_nodes(shapes)
    return shapes


def named_nodes(shapes: Sequence[NodeShape]) -> list[NamedNode]:
    """All nodes of some shapes. Raises ShapeError if two have one name, or if there are too many."""
    if sum(shape.count for shape in shapes) > MAX_NODES:
        raise ShapeError(f"nodes: expected at most {MAX_NODES} altogether")
    found: dict[str, NamedNode] = {}
    for position, shape in enumerate(shapes):
        for within in range(shape.count):
            name = _name(shape, within, len(found))
            if name in found:
                raise ShapeError(f"nodes[{position}].name: two nodes would be called {name!r}")
            found[name] = NamedNode(name, len(found), within, shape)
    return list(found.values())


def _name(shape: NodeShape, within: int, number: int) -> str:
    if not shape.name:
        return f"node-{number}"
    if "{}" in shape.name:
        return shape.name.replace("{}", str(within))
    return shape.name if shape.count == 1 else f"{shape.name}-{within}"


def _problems(shape: NodeShape) -> Iterable[str]:
    """Errors of a shape, field by field."""
    if shape.count < 1:
        yield f"count: expected at least 1, got {shape.count}"
    if shape.pods < 0:
        yield f"pods: expected at least 0, got {shape.pods}"
    problems = label_value_problems(shape.name.replace("{}", "0")) if shape.name else []
    if problems or shape.name != shape.name.lower():
        yield f"name: expected lower case letters, digits, '-' and '.', got {shape.name!r}"
    yield from _amount_problems(shape)
    yield from _label_problems(shape.labels)
    for number, taint in enumerate(shape.taints):
        if label_key_problems(taint.key):
            yield f"taints[{number}].key: {label_key_problems(taint.key)[0]}"
        if taint.effect not in EFFECTS:
            yield f"taints[{number}].effect: expected one of {', '.join(EFFECTS)}, got {taint.effect!r}"
    for number, driver in enumerate(shape.csi):
        if driver.limit is not None and driver.limit < 0:
            yield f"csi[{number}].limit: expected at least 0, got {driver.limit}"
    yield from device_problems(shape.devices)


def _amount_problems(shape: NodeShape) -> Iterable[str]:
    fields = {"cpu": shape.cpu, "memory": shape.memory, "ephemeralStorage": shape.ephemeral_storage}
    named = {f"resources.{name}": amount for name, amount in shape.resources.items()}
    offered = {f"allocatable.{name}": amount for name, amount in shape.allocatable.items()}
    for place, amount in {**fields, **named, **offered}.items():
        try:
            if quantity_of(amount).sign < 0:
                yield f"{place}: expected a quantity of at least 0, got {amount!r}"
        except QuantityError:
            yield f"{place}: expected a quantity such as 4, 500m or 16Gi, got {amount!r}"
    for name in shape.resources:
        if not is_extended_resource(name) and not name.startswith(HUGE_PAGES):
            yield f"resources.{name}: expected the name of an extended resource such as example.com/gpu"


def _label_problems(labels: Mapping[str, str]) -> Iterable[str]:
    for key, value in labels.items():
        if label_key_problems(key):
            yield f"labels.{key}: {label_key_problems(key)[0]}"
        if label_value_problems(value):
            yield f"labels.{key}: {label_value_problems(value)[0]}"


def _readable(problem: str) -> str:
    """Message of msgspec, with the place first and in the user's notation."""
    text, _, place = problem.partition(" - at `")
    where = place.removesuffix("`").replace("$", "nodes", 1) if place else "nodes"
    return f"{where}: {text[:1].lower()}{text[1:]}"
