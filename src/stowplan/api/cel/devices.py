"""Expressions that select devices: the variable `device`, and the compiler for it.

compiled = compile_selector('device.driver == "gpu.example.com"')
compiled.matches(devices)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stowplan.api.cel import semver, types, values
from stowplan.api.cel.checker import Environment
from stowplan.api.cel.compiler import PlanError, compile_expression
from stowplan.api.cel.cost import CostRelease
from stowplan.api.cel.declarations import INCLUDES, functions
from stowplan.api.cel.estimates import SizeOf, estimate
from stowplan.api.cel.program import Program
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type
from stowplan.api.cel.values import DefaultMap, EvaluationFailure, Map, Value
from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.releases import v1_36, v1_37
from stowplan.api.releases.behaviour import DeviceBehaviour as Choices

COST_LIMIT: Final = 1_000_000
"""Cost limit of a selector per device."""

_MAX_DOMAIN: Final = 63
_MAX_ID: Final = 32
_MAX_DRIVER: Final = 63
_MAX_VALUE: Final = 64
_MAX_ENTRIES: Final = 32
_DEVICE: Final = Type("struct", "kubernetes.DRADevice")

_ATTRIBUTE_TYPES: Final = (
    types.BOOL,
    types.INT,
    types.STRING,
    types.ANY,
    types.DYN,
    types.SEMVER,
)
_ATTRIBUTE_KINDS: Final = {
    "bool": "bool",
    "int": "int",
    "string": "string",
    types.SEMVER.name: "version",
}
_GO_TYPES: Final = {
    "bool": "bool",
    "int": "int64",
    "uint": "uint64",
    "double": "float64",
    "string": "string",
    "bytes": "[]uint8",
    types.SEMVER.name: "semver.Version",
}

RULE_INVALID: Final = "RuleInvalid"
INTERNAL_ERROR: Final = "InternalError"


class SelectorError(CelError):
    """A selector that cannot be compiled. `kind` is upstream's type of the error."""

    def __init__(self, message: str, kind: str = RULE_INVALID) -> None:
        super().__init__(message)
        self.message, self.kind = message, kind


class ComputeError(Exception):
    """An attribute that could not be computed."""


class CelFeatures(NamedTuple):
    """Features of the environment of selectors, which depend on gates and on the release of Kubernetes."""

    consumable_capacity: bool = True
    """`device.allowMultipleAllocations`."""
    list_attributes: bool = False
    """Attributes may be lists."""
    dyn_attributes: bool = False
    """The type of attributes is dyn even if they cannot be lists, so that macros work on them."""
    includes: bool = True
    """The function `includes`; expressions that are stored may use it even where new ones may not."""
    release: CostRelease = CostRelease()


def features_of(
    choices: Choices, *, consumable_capacity: bool = True, list_attributes: bool = False
) -> CelFeatures:
    """Features of expressions in the scheduler of a release; stored expressions may use all functions.

    `list_attributes` is the gate DRAListTypeAttributes, which not every release needs for lists.
    """
    return CelFeatures(
        consumable_capacity=consumable_capacity,
        list_attributes=list_attributes or not choices.list_attributes_need_gate,
        dyn_attributes=choices.attribute_type == "dyn",
        release=CostRelease(
            prefix_by_argument="prefix" in choices.cel_costs,
            global_matches="matches" in choices.cel_costs,
            includes_traverses="includes" in choices.cel_costs,
        ),
    )


FEATURES_1_36: Final = features_of(v1_36.BEHAVIOUR.devices)
"""The scheduler of 1.36: stored expressions, lists as attributes off."""
FEATURES_1_37: Final = features_of(v1_37.BEHAVIOUR.devices)
"""The scheduler of 1.37."""


class CelDevice(NamedTuple):
    """A device as an expression sees it; made once per device by `device_of`."""

    variables: Mapping[str, Value]
    error: str | None = None
    """Why the device cannot be shown to an expression, if it cannot."""


class Match(NamedTuple):
    """Result of a selector for a device: a match or not, or the error that ended it, and the cost."""

    matched: bool
    error: str | None
    cost: int | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A selector, ready to be evaluated."""

    expression: str
    program: Program
    output_type: str
    max_cost: int

    def match(self, device: CelDevice, limit: int = COST_LIMIT, work: int = values.MAX_WORK) -> Match:
        """Evaluate the selector for one device. Never raises."""
        if device.error is not None:
            return Match(False, device.error, None)
        outcome = self.program.evaluate(device.variables, limit, work)
        value = outcome.value
        if type(value) is bool:
            return Match(value, None, outcome.cost)
        error = value.message if type(value) is EvaluationFailure else _not_bool(value)
        return Match(False, error, outcome.cost)

    def attribute(self, device: CelDevice, limit: int = COST_LIMIT) -> dict[str, Any]:
        """The attribute that the expression computes of a device. Raises ComputeError."""
        if device.error is not None:
            raise ComputeError(device.error)
        value = self.program.evaluate(device.variables, limit).value
        if type(value) is EvaluationFailure:
            raise ComputeError(value.message)
        return _computed(value)

    def matches(self, devices: Iterable[CelDevice], limit: int = COST_LIMIT) -> list[Match]:
        """Evaluate the selector for many devices."""
        return [self.match(device, limit) for device in devices]


def _computed(value: Value) -> dict[str, Any]:
    """A value as an attribute. Raises ComputeError."""
    kind = _ATTRIBUTE_KINDS.get(values.type_name(value))
    if kind is not None:
        return {kind: _plain(value)}
    if not isinstance(value, list):
        raise ComputeError(f"unsupported CEL return type: {_go_type(value)}")
    if not value:
        return {"strings": []}
    kind = _ATTRIBUTE_KINDS.get(values.type_name(value[0]))
    if kind is None:
        raise ComputeError(f"unsupported list element type: {_go_type(value[0])}")
    for place, one in enumerate(value):
        if _ATTRIBUTE_KINDS.get(values.type_name(one)) != kind:
            wanted = "semver" if kind == "version" else kind
            raise ComputeError(f"expected list element at index {place} to be {wanted}, got {_go_type(one)}")
    return {f"{kind}s": [_plain(one) for one in value]}


def _plain(value: Value) -> Any:
    return str(value) if isinstance(value, semver.Semver) else value


def _go_type(value: Value) -> str:
    """Upstream's `%T` for the content of a value."""
    name = values.type_name(value)
    return _GO_TYPES.get(name) or values.go_type(value)


def _not_bool(value: Value) -> str:
    name = values.type_name(value)
    what = {
        "string": "unsupported native conversion from string to 'bool'",
        "double": "unsupported type conversion from 'double' to bool",
        "int": "unsupported type conversion from 'int' to bool",
        "uint": "unsupported type conversion from 'uint' to bool",
        "list": "type conversion error from list to 'bool'",
        "map": "type conversion error from map to 'bool'",
        "null_type": "type conversion error from 'null_type' to 'bool'",
    }.get(name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {what}"


def compile_selector(expression: str, features: CelFeatures = FEATURES_1_36) -> Compiled:
    """A selector for devices. Raises SelectorError."""
    return _compile(expression, features, _check_output)


def compile_attribute(expression: str, features: CelFeatures) -> Compiled:
    """An expression that computes an attribute of devices. Raises SelectorError."""
    return _compile(expression, features, _check_attribute)


def _compile(expression: str, features: CelFeatures, check: Callable[[Type, CelFeatures], None]) -> Compiled:
    try:
        found = compile_expression(expression, _environment(features), features.release)
    except PlanError as error:
        check(error.output, features)
        raise SelectorError(str(error), INTERNAL_ERROR) from None
    except CelError as error:
        raise SelectorError(str(error)) from None
    output = found.checked.type(found.checked.root)
    check(output, features)
    most = estimate(found.checked, _size_of(features), features.release).high
    return Compiled(expression, found.program, str(output), most)


def _check_output(output: Type, features: CelFeatures) -> None:
    if output not in (types.BOOL, types.ANY) and output != _attribute_type(features):
        raise SelectorError(f"must evaluate to bool or the unknown type, not {output}")


def _check_attribute(output: Type, features: CelFeatures) -> None:
    is_list = features.list_attributes and output.kind == "list" and len(output.params) == 1
    if (output.params[0] if is_list else output) not in _ATTRIBUTE_TYPES:
        lists = " or a list of these scalars" if features.list_attributes else ""
        raise SelectorError(
            f"must evaluate to a primitive scalar (string, integer, boolean, semver){lists}, not {output}"
        )


def _attribute_type(features: CelFeatures) -> Type:
    return types.DYN if features.list_attributes or features.dyn_attributes else types.ANY


@lru_cache(maxsize=16)
def _environment(features: CelFeatures) -> Environment:
    attributes = types.map_of(types.STRING, types.map_of(types.STRING, _attribute_type(features)))
    capacity = types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY))
    fields = {"driver": types.STRING, "attributes": attributes, "capacity": capacity}
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    return Environment(
        functions((INCLUDES,) if features.includes else ()), {"device": _DEVICE}, {_DEVICE.name: fields}
    )


class _Declared(NamedTuple):
    """How large a part of a device can be, and what is in it."""

    largest: int
    key: "_Declared | None" = None
    item: "_Declared | None" = None
    fields: Mapping[str, "_Declared"] = {}


@lru_cache(maxsize=16)
def _size_of(features: CelFeatures) -> SizeOf:
    attribute = _Declared(_MAX_VALUE)
    quantity = _Declared(2**63 - 1)
    domain, name = _Declared(_MAX_DOMAIN), _Declared(_MAX_ID)
    fields = {
        "driver": _Declared(_MAX_DRIVER),
        "attributes": _Declared(_MAX_ENTRIES, domain, _Declared(_MAX_ENTRIES, name, attribute)),
        "capacity": _Declared(_MAX_ENTRIES, domain, _Declared(_MAX_ENTRIES, name, quantity)),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = _Declared(1)
    device = _Declared(0, fields=fields)

    def size_of(path: tuple[str, ...]) -> int | None:
        current: _Declared | None = device if path[0] == "device" else None
        for step in path[1:]:
            if current is None:
                return None
            if step in ("@items", "@values"):
                current = current.item
            elif step == "@keys":
                current = current.key
            else:
                by_name = attribute if current.item is attribute else None
                current = current.fields.get(step, by_name)
        return None if current is None else current.largest

    return size_of


def device_of(driver: str, device: Mapping[str, Any], *, list_attributes: bool = False) -> CelDevice:
    """A device of a slice as expressions see it. Names without a domain are in the domain of the driver."""
    attributes: dict[str, dict[str, Value]] = {}
    capacity: dict[str, dict[str, Value]] = {}
    try:
        for name, attribute in (device.get("attributes") or {}).items():
            domain, id = _qualified(name, driver)
            try:
                value = _attribute_value(attribute, list_attributes=list_attributes)
            except ValueError as error:
                return CelDevice({}, f"attribute {name}: {error}")
            attributes.setdefault(domain, {})[id] = value
        for name, entry in (device.get("capacity") or {}).items():
            domain, id = _qualified(name, driver)
            amount = entry.get("value") if isinstance(entry, Mapping) else entry
            capacity.setdefault(domain, {})[id] = (
                amount if isinstance(amount, Quantity) else quantity_of(amount or 0)
            )
    except QuantityError as error:
        return CelDevice({}, str(error))
    return CelDevice(
        {
            "device": Map.of_strings(
                {
                    "driver": driver,
                    "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
                    "attributes": _domains(attributes),
                    "capacity": _domains(capacity),
                }
            )
        }
    )


def _domains(found: dict[str, dict[str, Value]]) -> Map:
    return DefaultMap.of_strings({domain: Map.of_strings(entries) for domain, entries in found.items()})


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, id = name.partition("/")
    return (domain, id) if slash else (driver, name)


def _attribute_value(attribute: Mapping[str, Any], *, list_attributes: bool) -> Value:
    """The one value of an attribute. Raises ValueError."""
    if list_attributes:
        for kind in ("ints", "bools", "strings", "versions"):
            found = attribute.get(kind)
            if found is not None:
                return [_version(one) for one in found] if kind == "versions" else list(found)
    for kind in ("int", "bool", "string", "version"):
        value = attribute.get(kind)
        if value is not None:
            return _version(value) if kind == "version" else value
    raise ValueError("unsupported attribute value")


def _version(text: str) -> semver.Semver:
    try:
        return semver.parse(text)
    except semver.SemverError as error:
        raise ValueError(f"parse semantic version: {error}") from None
