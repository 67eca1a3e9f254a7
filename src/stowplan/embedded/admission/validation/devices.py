"""Validation of resource.k8s.io. Of the CEL expressions of selectors only the syntax is checked."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, duplicate, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.cel import expression_problem
from stowplan.embedded.admission.validation.meta import IMMUTABLE, name_errors

_MAX_REQUESTS: Final = 32
_MAX_SUB_REQUESTS: Final = 8
_MAX_SELECTORS: Final = 32
_MAX_DEVICES: Final = 128
_ONE_OF: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_ATTRIBUTES: Final = ("bool", "bools", "int", "ints", "string", "strings", "version", "versions")


def resource_claim_errors(obj: Json) -> list[FieldError]:
    return [*_claim_errors((obj.get("spec") or {}).get("devices") or {}, "spec.devices")]


def resource_claim_template_errors(obj: Json) -> list[FieldError]:
    spec = (obj.get("spec") or {}).get("spec") or {}
    return [*_claim_errors(spec.get("devices") or {}, "spec.spec.devices")]


def _claim_errors(devices: Json, path: str) -> Iterator[FieldError]:
    requests = devices.get("requests") or ()
    yield from _size_errors(requests, f"{path}.requests", _MAX_REQUESTS)
    yield from _unique_errors(requests, f"{path}.requests")
    for i, request in enumerate(requests):
        yield from _request_errors(request, f"{path}.requests[{i}]")
    known = {name for request in requests for name in _names_of(request)}
    for field in ("constraints", "config"):
        for i, item in enumerate(devices.get(field) or ()):
            for j, name in enumerate(item.get("requests") or ()):
                if name not in known:
                    text = (
                        "must be the name of a request in the claim or the name of a request and a subrequest"
                    )
                    yield invalid(f"{path}.{field}[{i}].requests[{j}]", name, f"{text} separated by '/'")
            if field == "config":
                yield from _opaque_errors(item, f"{path}.config[{i}]")
            elif not item.get("matchAttribute") and not item.get("distinctAttribute"):
                yield required(f"{path}.constraints[{i}].matchAttribute")


def _names_of(request: Json) -> Iterator[str]:
    name = request.get("name") or ""
    yield name
    for sub in request.get("firstAvailable") or ():
        yield f"{name}/{sub.get('name') or ''}"


def _request_errors(request: Json, path: str) -> Iterator[FieldError]:
    yield from name_errors(f"{path}.name", request.get("name"), dns_label_problems)
    exactly, first = request.get("exactly"), request.get("firstAvailable") or ()
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not first:
        yield required(path, text)
    elif exactly is not None and first:
        yield invalid(path, None, f"{text}, but multiple fields are set")
    elif exactly is not None:
        yield from _wanted_errors(exactly, f"{path}.exactly")
    else:
        yield from _size_errors(first, f"{path}.firstAvailable", _MAX_SUB_REQUESTS)
        yield from _unique_errors(first, f"{path}.firstAvailable")
        for i, sub in enumerate(first):
            here = f"{path}.firstAvailable[{i}]"
            yield from name_errors(f"{here}.name", sub.get("name"), dns_label_problems)
            yield from _wanted_errors(sub, here)


def _wanted_errors(wanted: Json, path: str) -> Iterator[FieldError]:
    yield from name_errors(f"{path}.deviceClassName", wanted.get("deviceClassName"), subdomain_problems)
    yield from _selector_errors(wanted.get("selectors") or (), f"{path}.selectors")
    mode, count = wanted.get("allocationMode") or "", wanted.get("count") or 0
    if mode == "All":
        if count:
            yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            yield invalid(f"{path}.count", count, "must be greater than zero")
    else:
        yield not_supported(f"{path}.allocationMode", mode, ["All", "ExactCount"])
    for i, toleration in enumerate(wanted.get("tolerations") or ()):
        here, operator = f"{path}.tolerations[{i}]", toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            yield not_supported(f"{here}.operator", operator, ["Equal", "Exists"])
        elif operator == "Exists" and toleration.get("value"):
            yield invalid(f"{here}.value", toleration["value"], "must be empty for operator `Exists`")
        key = toleration.get("key") or ""
        if key:
            yield from (invalid(f"{here}.key", key, text) for text in label_key_problems(key))
        elif operator != "Exists":
            yield required(f"{here}.key")


def _selector_errors(selectors: Sequence[Json], path: str) -> Iterator[FieldError]:
    yield from _size_errors(selectors, path, _MAX_SELECTORS)
    for i, selector in enumerate(selectors):
        cel = selector.get("cel")
        if cel is None:
            yield required(f"{path}[{i}].cel")
        else:
            expression = cel.get("expression") or ""
            problem = expression_problem(expression)
            if problem:
                yield invalid(f"{path}[{i}].cel.expression", expression, problem)


def _opaque_errors(config: Json, path: str) -> Iterator[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from name_errors(f"{path}.opaque.driver", opaque.get("driver"), subdomain_problems)
    if opaque.get("parameters") is None:
        yield required(f"{path}.opaque.parameters")
    elif not isinstance(opaque["parameters"], dict):
        text = "parameters must be a valid JSON object"
        yield invalid(f"{path}.opaque.parameters", "<value omitted>", text)


def _size_errors(items: Sequence[Any], path: str, most: int) -> Iterator[FieldError]:
    if len(items) > most:
        yield FieldError(path, Kind.TOO_MANY, len(items), f"must have at most {most} items")


def _unique_errors(items: Sequence[Json], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, item in enumerate(items):
        name = item.get("name") or ""
        if name in names:
            yield duplicate(f"{path}[{i}]", name)
        names.add(name)


def device_class_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_selector_errors(spec.get("selectors") or (), "spec.selectors")]
    for i, config in enumerate(spec.get("config") or ()):
        errors += _opaque_errors(config, f"spec.config[{i}]")
    return errors


def resource_slice_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*name_errors("spec.driver", spec.get("driver"), subdomain_problems)]
    errors += _pool_errors(spec.get("pool") or {}, "spec.pool")
    given = [
        field
        for field in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
        if spec.get(field) not in (None, False)
    ]
    if not given:
        errors.append(required("spec", _ONE_OF))
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
        errors.append(invalid("spec", shown, f"{_ONE_OF}, but multiple fields are set"))
    if spec.get("nodeName"):
        name = spec["nodeName"]
        errors += [invalid("spec.nodeName", name, text) for text in subdomain_problems(name)]
    devices = spec.get("devices") or ()
    errors += _size_errors(devices, "spec.devices", _MAX_DEVICES)
    errors += _unique_errors(devices, "spec.devices")
    for i, device in enumerate(devices):
        errors += _device_errors(device, f"spec.devices[{i}]")
    return errors


def _pool_errors(pool: Json, path: str) -> Iterator[FieldError]:
    name = pool.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        for part in name.split("/"):
            yield from (invalid(f"{path}.name", part, text) for text in subdomain_problems(part))
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        yield invalid(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if (pool.get("generation") or 0) < 0:
        yield invalid(f"{path}.generation", pool["generation"], "must be greater than or equal to zero")


_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"


def _device_errors(device: Json, path: str) -> Iterator[FieldError]:
    yield from name_errors(f"{path}.name", device.get("name"), dns_label_problems)
    for key, attribute in (device.get("attributes") or {}).items():
        here = f"{path}.attributes[{key}]"
        yield from _attribute_name_errors(key, here)
        given = [field for field in _ATTRIBUTES if field in (attribute or {})]
        if not given:
            yield required(here, "exactly one value must be specified")
        elif len(given) > 1:
            yield invalid(here, attribute, "exactly one value must be specified")
    for key in device.get("capacity") or {}:
        yield from _attribute_name_errors(key, f"{path}.capacity[{key}]")
    for i, taint in enumerate(device.get("taints") or ()):
        here, effect = f"{path}.taints[{i}]", taint.get("effect") or ""
        yield from name_errors(f"{here}.key", taint.get("key"), label_key_problems)
        if not effect:
            yield required(f"{here}.effect")
        elif effect not in _EFFECTS:
            yield not_supported(f"{here}.effect", effect, _EFFECTS)


def _attribute_name_errors(key: str, path: str) -> Iterator[FieldError]:
    domain, slash, name = key.rpartition("/")
    if slash:
        yield from (invalid(path, domain, text) for text in subdomain_problems(domain))
    if not name:
        yield required(path, "name required")
    elif not re.fullmatch(_IDENTIFIER, name):
        text = (
            "a valid C identifier must start with alphabetic character or '_', followed by a string of "
            "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', "
            f"regex used for validation is '{_IDENTIFIER}')"
        )
        yield invalid(path, name, text)


def spec_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Of claims and their templates nothing can be changed."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [] if before == after else [invalid("spec", after, IMMUTABLE)]


def resource_slice_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = []
    for field in ("driver", "nodeName"):
        if before.get(field) != after.get(field):
            errors.append(invalid(f"spec.{field}", after.get(field), IMMUTABLE))
    name = (after.get("pool") or {}).get("name")
    if (before.get("pool") or {}).get("name") != name:
        errors.append(invalid("spec.pool.name", name, IMMUTABLE))
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.RESOURCE_CLAIMS: resource_claim_errors,
    catalogue.RESOURCE_CLAIM_TEMPLATES: resource_claim_template_errors,
    catalogue.DEVICE_CLASSES: device_class_errors,
    catalogue.RESOURCE_SLICES: resource_slice_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.RESOURCE_CLAIMS: spec_update_errors,
    catalogue.RESOURCE_CLAIM_TEMPLATES: spec_update_errors,
    catalogue.RESOURCE_SLICES: resource_slice_update_errors,
}
