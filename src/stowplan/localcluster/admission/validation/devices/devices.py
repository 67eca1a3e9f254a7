"""Validation of ResourceClaims, their templates, DeviceClasses and DeviceTaintRules."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.cel.devices import COST_LIMIT, CelFeatures
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import is_extended_resource, subdomain_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures
from stowplan.localcluster.admission.validation.conditions import conditions_errors
from stowplan.localcluster.admission.validation.devices.claimstatus import claim_status_errors
from stowplan.localcluster.admission.validation.devices.devicecapacity import CapacityValidation
from stowplan.localcluster.admission.validation.devices.deviceparts import (
    MAX_CONFIGS,
    MAX_REQUESTS,
    Errors,
    derived_estimate,
    driver_errors,
    full_name_errors,
    label_errors,
    list_errors,
    name_of,
    new_selectors,
    opaque_errors,
    pool_name_errors,
    reference_errors,
    request_names,
    same,
    selectors_errors,
    taint_errors,
    toleration_errors,
    too_many,
)
from stowplan.localcluster.admission.validation.devices.deviceslices import slice_errors
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, name_errors

_MAX_CONSTRAINTS: Final = 32
_MAX_SUB_REQUESTS: Final = 8
_MAX_CONDITIONS: Final = 8
_MAX_DERIVED: Final = 32
_MODES: Final = ("All", "ExactCount")


# Claims


def _claim_errors(obj: Json, features: CelFeatures | None) -> Errors:
    return _devices_errors((obj.get("spec") or {}).get("devices") or {}, "spec.devices", features)


def _template_errors(obj: Json, features: CelFeatures | None) -> Errors:
    spec = (obj.get("spec") or {}).get("spec") or {}
    return _devices_errors(spec.get("devices") or {}, "spec.spec.devices", features)


def _devices_errors(devices: Json, path: str, features: CelFeatures | None) -> Errors:
    known = request_names(devices)

    def request_errors(request: Json, here: str) -> Errors:
        return _request_errors(request, here, features)

    def constraint_errors(constraint: Json, here: str) -> Errors:
        return _constraint_errors(constraint, here, known)

    def config_errors(config: Json, here: str) -> Errors:
        yield from _references_errors(config, here, known)
        yield from opaque_errors(config, here)

    yield from list_errors(
        devices.get("requests") or (), f"{path}.requests", MAX_REQUESTS, request_errors, name_of
    )
    constraints = devices.get("constraints") or ()
    yield from list_errors(constraints, f"{path}.constraints", _MAX_CONSTRAINTS, constraint_errors)
    yield from list_errors(devices.get("config") or (), f"{path}.config", MAX_CONFIGS, config_errors)
    yield from _derived_errors(devices, path, features)


def _references_errors(item: Json, path: str, known: Mapping[str, frozenset[str]]) -> Errors:
    def errors(name: str, here: str) -> Errors:
        return reference_errors(name, here, known)

    return list_errors(item.get("requests") or (), f"{path}.requests", MAX_REQUESTS, errors, same)


def _constraint_errors(constraint: Json, path: str, known: Mapping[str, frozenset[str]]) -> Errors:
    yield from _references_errors(constraint, path, known)
    matched, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if matched is not None:
        yield from full_name_errors(matched, f"{path}.matchAttribute")
    elif distinct is not None:
        yield from full_name_errors(distinct, f"{path}.distinctAttribute")
    else:
        text = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        yield required(path, text)


def _request_errors(request: Json, path: str, features: CelFeatures | None) -> Errors:
    yield from label_errors(request.get("name"), f"{path}.name")
    exactly, first = request.get("exactly"), request.get("firstAvailable") or ()
    text = "exactly one of `exactly` or `firstAvailable` is required"

    def sub_request_errors(sub: Json, here: str) -> Errors:
        yield from label_errors(sub.get("name"), f"{here}.name")
        yield from _wanted_errors(sub, here, features)

    if exactly is None and not first:
        yield required(path, text)
    elif exactly is not None and first:
        yield invalid(path, None, f"{text}, but multiple fields are set")
    elif exactly is not None:
        yield from _wanted_errors(exactly, f"{path}.exactly", features)
    else:
        here = f"{path}.firstAvailable"
        yield from list_errors(first, here, _MAX_SUB_REQUESTS, sub_request_errors, name_of)


def _wanted_errors(wanted: Json, path: str, features: CelFeatures | None) -> Errors:
    """Errors of an exact request or an alternative."""
    yield from name_errors(f"{path}.deviceClassName", wanted.get("deviceClassName"), subdomain_problems)
    yield from selectors_errors(wanted.get("selectors") or (), f"{path}.selectors", features)
    mode, count = wanted.get("allocationMode") or "", wanted.get("count") or 0
    if mode == "All":
        if count:
            yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            yield invalid(f"{path}.count", count, "must be greater than zero")
    else:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    for i, toleration in enumerate(wanted.get("tolerations") or ()):
        yield from toleration_errors(toleration, f"{path}.tolerations[{i}]")


def spec_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Of claims and their templates nothing can be changed."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [] if before == after else [invalid("spec", after, IMMUTABLE)]


# Attributes that requests compute of devices


class _Deriving(NamedTuple):
    """Attributes that a request computes: where they stand, and the names by which constraints mean it."""

    attributes: list[Json]
    path: str
    names: frozenset[str]


def _deriving(devices: Json, path: str) -> Iterator[_Deriving]:
    for i, request in enumerate(devices.get("requests") or ()):
        here, name = f"{path}.requests[{i}]", name_of(request)
        for field, wanted, names in (
            ("exactly", request.get("exactly"), ("", name)),
            *(
                (f"firstAvailable[{j}]", sub, ("", name, f"{name}/{name_of(sub)}"))
                for j, sub in enumerate(request.get("firstAvailable") or ())
            ),
        ):
            attributes = (wanted or {}).get("derivedAttributes")
            if attributes:
                yield _Deriving(attributes, f"{here}.{field}.derivedAttributes", frozenset(names))


def _derived_errors(devices: Json, path: str, features: CelFeatures | None) -> Errors:
    """Each is for a constraint of its request, and together they may not cost more than one selector."""
    cost = 0
    for deriving in _deriving(devices, path):
        used = {
            constraint.get("matchAttribute") or constraint.get("distinctAttribute")
            for constraint in devices.get("constraints") or ()
            if deriving.names & {*(constraint.get("requests") or ("",))}
        }

        def attribute_errors(attribute: Json, here: str, used: set[str | None] = used) -> Errors:
            name = name_of(attribute)
            if not name:
                yield required(f"{here}.name")
            else:
                yield from full_name_errors(name, f"{here}.name")
                if name not in used:
                    text = (
                        "must be referenced by at least one matchAttribute or distinctAttribute constraint "
                        "targeting this request"
                    )
                    yield invalid(f"{here}.name", name, text)
            if not attribute.get("expression"):
                yield required(f"{here}.expression")

        yield from list_errors(deriving.attributes, deriving.path, _MAX_DERIVED, attribute_errors, name_of)
        if features is None or len(deriving.attributes) > _MAX_DERIVED:
            continue
        for i, attribute in enumerate(deriving.attributes):
            if attribute.get("expression"):
                here = f"{deriving.path}[{i}].expression"
                estimate = derived_estimate(attribute["expression"], here, features)
                cost += estimate.cost
                if estimate.refusal is not None:
                    yield estimate.refusal
    if cost > COST_LIMIT:
        text = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        yield forbidden(path, text)


# Classes


def _class_errors(obj: Json, features: CelFeatures | None) -> Errors:
    spec = obj.get("spec") or {}
    yield from selectors_errors(spec.get("selectors") or (), "spec.selectors", features)
    yield from list_errors(spec.get("config") or (), "spec.config", MAX_CONFIGS, opaque_errors)
    resource = spec.get("extendedResourceName")
    if resource is not None and not is_extended_resource(resource):
        yield invalid("spec.extendedResourceName", resource, "must be a valid extended resource name")


def _class_update_errors(old: Json, new: Json, features: CelFeatures) -> Errors:
    """Expressions that are as they were are not compiled again: they may be from a release that had more."""
    before, after = (spec.get("spec", {}).get("selectors") for spec in (old, new))
    return _class_errors(new, features if before != after else None)


# Rules


def _rule_errors(rule: Json, old: Mapping[str, Any] | None = None) -> Errors:
    spec = rule.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    if selector.get("driver") is not None:
        yield from driver_errors(selector["driver"], f"{path}.driver")
    if selector.get("pool") is not None:
        yield from pool_name_errors(selector["pool"], f"{path}.pool")
    if selector.get("device") is not None:
        yield from label_errors(selector["device"], f"{path}.device")
    yield from taint_errors(spec.get("taint") or {}, "spec.taint", old)


def rule_update_errors(old: Json, new: Json) -> list[FieldError]:
    return [*_rule_errors(new, (old.get("spec") or {}).get("taint") or {})]


def rule_status_errors(old: Json, new: Json) -> list[FieldError]:
    conditions = (new.get("status") or {}).get("conditions") or ()
    errors = [*conditions_errors(conditions, "status.conditions")]
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many("status.conditions", len(conditions), _MAX_CONDITIONS))
    return errors


class DeviceRules(NamedTuple):
    """The rules for new objects, for those that come from another server, and for updates."""

    on_create: Mapping[Resource, Callable[[Json], list[FieldError]]]
    on_load: Mapping[Resource, Callable[[Json], list[FieldError]]]
    on_update: Mapping[Resource, Callable[[Json, Json], list[FieldError]]]


@lru_cache(maxsize=16)
def rules_of(optional: DeviceFeatures) -> DeviceRules:
    features, capacity = new_selectors(optional), CapacityValidation.of(optional)

    def slice_update_errors(old: Json, new: Json) -> list[FieldError]:
        return [*slice_errors(new, capacity, old.get("spec") or {})]

    on_create: Mapping[Resource, Callable[[Json], list[FieldError]]] = {
        catalogue.RESOURCE_CLAIMS: lambda obj: [*_claim_errors(obj, features)],
        catalogue.RESOURCE_CLAIM_TEMPLATES: lambda obj: [*_template_errors(obj, features)],
        catalogue.DEVICE_CLASSES: lambda obj: [*_class_errors(obj, features)],
        catalogue.RESOURCE_SLICES: lambda obj: [*slice_errors(obj, capacity)],
        catalogue.DEVICE_TAINT_RULES: lambda obj: [*_rule_errors(obj)],
    }
    on_load: Mapping[Resource, Callable[[Json], list[FieldError]]] = {
        **on_create,
        catalogue.RESOURCE_CLAIMS: lambda obj: [*_claim_errors(obj, None)],
        catalogue.RESOURCE_CLAIM_TEMPLATES: lambda obj: [*_template_errors(obj, None)],
        catalogue.DEVICE_CLASSES: lambda obj: [*_class_errors(obj, None)],
    }
    on_update: Mapping[Resource, Callable[[Json, Json], list[FieldError]]] = {
        catalogue.RESOURCE_CLAIMS: spec_update_errors,
        catalogue.RESOURCE_CLAIM_TEMPLATES: spec_update_errors,
        catalogue.DEVICE_CLASSES: lambda old, new: [*_class_update_errors(old, new, features)],
        catalogue.RESOURCE_SLICES: slice_update_errors,
        catalogue.DEVICE_TAINT_RULES: rule_update_errors,
    }
    return DeviceRules(on_create, on_load, on_update)


ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.RESOURCE_CLAIMS: claim_status_errors,
    catalogue.DEVICE_TAINT_RULES: rule_status_errors,
}
