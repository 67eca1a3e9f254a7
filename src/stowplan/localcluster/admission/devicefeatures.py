"""The gates of devices, as the API server sees them: which fields of resource.k8s.io it takes.

As kube-apiserver does, fields of a gate that is off are dropped before an object is validated; those that an
object has already may stay. A release that does not know a field yet, or no longer, drops it likewise.
Whoever writes such a field is warned, which kube-apiserver does not do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.requests import Json

_EACH: Final = "*"
"""In a path: every element of a list, or every value of a map."""
MAPPINGS: Final = "nodeAllocatableResourceMappings"
"""Resources of their node that devices take, in 1.36."""
NODE_RESOURCES: Final = "nodeAllocatableResources"
"""The same since 1.37."""
LISTS: Final = ("bools", "ints", "strings", "versions")
"""Values of attributes that are lists."""


class _Gated(NamedTuple):
    """A field and the gate it needs. `only`: the release that has the field; "": every one has.

    Fields of one gate and release are one feature: an object that uses it has all of them.
    """

    path: tuple[str, ...]
    gate: str
    only: str = "1.37"

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def feature(self) -> tuple[str, str]:
        return self.gate, self.only


_DEVICE: Final = ("spec", "devices", _EACH)
_NODES: Final = "DRANodeAllocatableResources"
_OPERATIONS: Final = "DRAOptionalNodeOperations"
_DERIVED: Final = "DRADerivedAttributes"
_LISTS: Final = "DRAListTypeAttributes"
_FRACTIONS: Final = "DRAFractionalCapacityRange"
_REQUEST: Final = ("devices", "requests", _EACH)
_ASKED: Final = ((*_REQUEST, "exactly"), (*_REQUEST, "firstAvailable", _EACH))

_FIELDS: Final[Mapping[Resource, tuple[_Gated, ...]]] = {
    catalogue.RESOURCE_SLICES: (
        _Gated((*_DEVICE, NODE_RESOURCES), _NODES),
        _Gated((*_DEVICE, MAPPINGS), _NODES, "1.36"),
        _Gated((*_DEVICE, "consumesCounters", _EACH, "compatibilityGroups"), "DRADeviceCompatibilityGroups"),
        _Gated(("spec", "partitionTypeAttribute"), "DRAPartitionableDevicesType"),
        _Gated(("spec", "skipNodeOperations"), _OPERATIONS),
        *(_Gated((*_DEVICE, "attributes", _EACH, values), _LISTS, "") for values in LISTS),
    ),
    catalogue.RESOURCE_CLAIMS: tuple(
        _Gated(("spec", *asked, "derivedAttributes"), _DERIVED) for asked in _ASKED
    ),
    catalogue.RESOURCE_CLAIM_TEMPLATES: tuple(
        _Gated(("spec", "spec", *asked, "derivedAttributes"), _DERIVED) for asked in _ASKED
    ),
}
_STATUS_FIELDS: Final[Mapping[Resource, tuple[_Gated, ...]]] = {
    catalogue.RESOURCE_CLAIMS: (
        _Gated(
            ("status", "allocation", "devices", "results", _EACH, "skipNodeOperations"),
            _OPERATIONS,
        ),
    ),
}

OPTIONAL_FIELDS_OF: Final = frozenset(_FIELDS)
"""The kinds that have such fields."""

GATES: Final = frozenset(one.gate for fields in _FIELDS.values() for one in fields) | {_FRACTIONS}
"""All feature gates of devices that the API server uses."""


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """Which optional parts of resource.k8s.io there are, and the release whose rules hold."""

    release: Release
    list_attributes: bool
    fractional_range: bool
    taken: frozenset[str]
    """The names of optional fields that are taken."""

    @classmethod
    def of(cls, gates: FeatureGates) -> "DeviceFeatures":
        of_nodes = MAPPINGS
        if gates.behaviour.devices.node_allocatable_fields == "mapping-and-overhead":
            of_nodes = NODE_RESOURCES
        fields = {one.name: one.gate for gated in _FIELDS.values() for one in gated}
        unknown = {MAPPINGS, NODE_RESOURCES} - {of_nodes}
        return cls(
            release=gates.release,
            list_attributes=gates[_LISTS],
            fractional_range=gates[_FRACTIONS],
            taken=frozenset(name for name, gate in fields.items() if gates[gate] and name not in unknown),
        )

    def drop_disabled(self, resource: Resource, old: Json | None, new: Json, *, status: bool = False) -> None:
        """Take fields out of an object that it is not to have. Parts of it are replaced, not changed."""
        gated = (_STATUS_FIELDS if status else _FIELDS).get(resource, ())
        for one in gated:
            if one.name in self.taken or not any(_places(new, one.path)):
                continue
            if old is None or not _uses(gated, one, old):
                part = one.path[0]
                new[part] = _without(new[part], one.path[1:])


def dropped_fields(resource: Resource, given: Json, kept: Json, *, status: bool = False) -> list[str]:
    """Warnings for the writer of an object: fields that were dropped."""
    gated = (_STATUS_FIELDS if status else _FIELDS).get(resource, ())
    told = []
    for one in gated:
        place = next(_places(given, one.path), "")
        if place and not _uses(gated, one, kept):
            since = f" of Kubernetes {one.only}" if one.only else ""
            told.append(f"{place}: dropped, it needs the feature gate {one.gate}{since}")
    return told


def _uses(gated: tuple[_Gated, ...], field: _Gated, obj: Json) -> bool:
    """True if an object uses the feature that a field belongs to."""
    alike = (one for one in gated if one.feature == field.feature)
    return any(place for one in alike for place in _places(obj, one.path))


def _places(value: Any, path: tuple[str, ...], at: str = "") -> Iterator[str]:
    """Where a field is set to something, in the words of error messages."""
    if not path:
        if value:
            yield at
    elif path[0] == _EACH:
        if isinstance(value, list):
            for i, item in enumerate(value):
                yield from _places(item, path[1:], f"{at}[{i}]")
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from _places(item, path[1:], f"{at}[{name}]")
    elif isinstance(value, dict) and path[0] in value:
        yield from _places(value[path[0]], path[1:], f"{at}.{path[0]}" if at else path[0])


def _without(value: Any, path: tuple[str, ...]) -> Any:
    """A copy without a field, as far as there is something to copy."""
    if path[0] == _EACH:
        if isinstance(value, dict):
            return {name: _without(item, path[1:]) for name, item in value.items()}
        return [_without(item, path[1:]) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {name: one for name, one in value.items() if name != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}
