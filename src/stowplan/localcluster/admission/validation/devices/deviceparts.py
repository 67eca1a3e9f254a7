"""Parts that the kinds of resource.k8s.io share: names, selectors, configuration, taints, tolerations."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stowplan.api.cel.devices import (
    COST_LIMIT,
    INTERNAL_ERROR,
    CelFeatures,
    SelectorError,
    compile_attribute,
    compile_selector,
    features_of,
)
from stowplan.api.fielderrors import (
    FieldError,
    Kind,
    duplicate,
    invalid,
    not_supported,
    required,
)
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures

MAX_REQUESTS: Final = 32
MAX_CONFIGS: Final = 32
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_SKIPPED: Final = ("*", "NodePrepareResources", "NodeUnprepareResources")
_MAX_SELECTORS: Final = 32
_MAX_TAINTS: Final = 16
_MAX_DRIVER: Final = 63
_MAX_POOL: Final = 253
_MAX_ID: Final = 32
_MAX_EXPRESSION: Final = 10 * 1024
_MAX_PARAMETERS: Final = 10 * 1024
_MAX_BINDING_CONDITIONS: Final = 4
_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"

Errors = Iterator[FieldError]
Item = TypeVar("Item")


def too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError(path, Kind.TOO_MANY, count, f"must have at most {most} item{'' if most == 1 else 's'}")


def too_long(path: str, most: int) -> FieldError:
    return FieldError(path, Kind.TOO_LONG, "", f"may not be more than {most} bytes")


def list_errors(
    items: Sequence[Item],
    path: str,
    most: int,
    errors: Callable[[Item, str], Errors],
    key: Callable[[Item], Any] | None = None,
) -> Errors:
    """The errors of all elements of a list, of which only the number counts if there are too many.

    With a `key` no two of them may have the same one.
    """
    if most >= 0 and len(items) > most:
        yield too_many(path, len(items), most)
        return
    for i, item in enumerate(items):
        yield from errors(item, f"{path}[{i}]")
    if key is not None:
        seen: set[Any] = set()
        for i, item in enumerate(items):
            if key(item) in seen:
                yield duplicate(f"{path}[{i}]", key(item))
            seen.add(key(item))


def name_of(item: Json) -> str:
    return item.get("name") or ""


def same(item: Item) -> Item:
    """The key of an element that is its own key."""
    return item


# Names


def label_errors(name: str | None, path: str) -> Errors:
    """Errors of a name that has to be a DNS label; a missing one gets the same message."""
    return (invalid(path, name or "", text) for text in dns_label_problems(name or ""))


def driver_errors(name: str | None, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if len(name) > _MAX_DRIVER:
        yield too_long(path, _MAX_DRIVER)
    yield from (invalid(path, name, text) for text in subdomain_problems(name.lower()))


def pool_name_errors(name: str | None, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if len(name) > _MAX_POOL:
        yield too_long(path, _MAX_POOL)
    for part in name.split("/"):
        yield from (invalid(path, part, text) for text in subdomain_problems(part))


def qualified_name_errors(name: str, path: str) -> Errors:
    """The name of an attribute or a capacity, with or without a domain."""
    if _is_plain(name):
        return
    parts = name.split("/")
    if len(parts) == 1:
        yield from _identifier_errors(name, path)
    elif len(parts) == 2:
        domain, identifier = parts
        if domain:
            yield from driver_errors(domain, path)
        else:
            yield invalid(path, "", "the domain must not be empty")
        if identifier:
            yield from _identifier_errors(identifier, path)
        else:
            yield invalid(path, "", "the name must not be empty")


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    """True if a name is valid without a domain, as most are: all devices have the same few."""
    return len(name) <= _MAX_ID and re.fullmatch(_IDENTIFIER, name) is not None


def full_name_errors(name: str, path: str) -> Errors:
    yield from qualified_name_errors(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        yield invalid(path, name, text)


def _identifier_errors(name: str, path: str) -> Errors:
    if len(name) > _MAX_ID:
        yield too_long(path, _MAX_ID)
    if not re.fullmatch(_IDENTIFIER, name):
        text = (
            "a valid C identifier must start with alphabetic character or '_', followed by a string of "
            "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', "
            f"regex used for validation is '{_IDENTIFIER}')"
        )
        yield invalid(path, name, text)


# Selectors


class _Refusal(NamedTuple):
    kind: Kind
    detail: str


_TOO_COMPLEX: Final = _Refusal(Kind.FORBIDDEN, "too complex, exceeds cost limit")


def new_selectors(features: DeviceFeatures) -> CelFeatures:
    """Features of selectors that are written now; stored ones may use more."""
    lists = features.list_attributes
    stored = features_of(features.release.behaviour.devices)
    return stored._replace(list_attributes=lists, dyn_attributes=lists, includes=lists)


def selectors_errors(selectors: Sequence[Json], path: str, features: CelFeatures | None) -> Errors:
    """Selectors of devices; expressions that are new are compiled with what they may use."""
    if len(selectors) > _MAX_SELECTORS:
        yield too_many(path, len(selectors), _MAX_SELECTORS)
        return
    for i, selector in enumerate(selectors):
        cel = selector.get("cel")
        if cel is None:
            yield required(f"{path}[{i}].cel")
        elif features is not None:
            here = f"{path}[{i}].cel.expression"
            yield from _expression_errors(cel.get("expression") or "", here, features)


def _expression_errors(expression: str, path: str, features: CelFeatures) -> Errors:
    if len(expression.encode()) > _MAX_EXPRESSION:
        yield too_long(path, _MAX_EXPRESSION)
        return
    refusal = _refusal(expression, features)
    if refusal is not None:
        yield FieldError(path, refusal.kind, expression, refusal.detail)


@lru_cache(maxsize=512)
def _refusal(expression: str, features: CelFeatures) -> _Refusal | None:
    """Why an expression is refused, None if it is not. The claims of a template all have the same ones."""
    try:
        compiled = compile_selector(expression, features)
    except SelectorError as error:
        return _refused(error)
    return _TOO_COMPLEX if compiled.max_cost > COST_LIMIT else None


def _refused(error: SelectorError) -> _Refusal:
    return _Refusal(Kind.INTERNAL if error.kind == INTERNAL_ERROR else Kind.INVALID, error.message)


class Estimate(NamedTuple):
    """Error of an expression that computes an attribute, if there is one, and its maximum cost."""

    refusal: FieldError | None
    cost: int = 0


def derived_estimate(expression: str, path: str, features: CelFeatures) -> Estimate:
    """Estimate of a new expression."""
    if len(expression.encode()) > _MAX_EXPRESSION:
        return Estimate(too_long(path, _MAX_EXPRESSION))
    refusal, cost = _derived(expression, features)
    if refusal is None:
        return Estimate(None, cost)
    return Estimate(FieldError(path, refusal.kind, expression, refusal.detail), cost)


@lru_cache(maxsize=512)
def _derived(expression: str, features: CelFeatures) -> tuple[_Refusal | None, int]:
    try:
        compiled = compile_attribute(expression, features)
    except SelectorError as error:
        return _refused(error), 0
    too_complex = compiled.max_cost > COST_LIMIT
    return (_TOO_COMPLEX if too_complex else None), compiled.max_cost


# Configuration


def opaque_errors(config: Json, path: str) -> Errors:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from driver_errors(opaque.get("driver"), f"{path}.opaque.driver")
    yield from raw_errors(opaque.get("parameters"), f"{path}.opaque.parameters", _MAX_PARAMETERS)


def raw_errors(data: Any, path: str, most: int) -> Errors:
    """Data of a driver's own, which is a JSON object."""
    if data is None:
        yield required(path)
    elif len(msgspec.json.encode(data)) > most:
        yield too_long(path, most)
    elif not isinstance(data, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


# Taints


def taints_errors(taints: Sequence[Json], path: str) -> Errors:
    return list_errors(taints, path, _MAX_TAINTS, lambda taint, here: taint_errors(taint, here))


def taint_errors(taint: Json, path: str, old: Mapping[str, Any] | None = None) -> Errors:
    """A taint; an effect that is as it was is not looked at again."""
    key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
    yield from (invalid(f"{path}.key", key, text) for text in label_key_problems(key))
    if value:
        yield from (invalid(f"{path}.value", value, text) for text in label_value_problems(value))
    if old is not None and old.get("effect") == effect:
        return
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def toleration_errors(toleration: Json, path: str) -> Errors:
    key, value = toleration.get("key") or "", toleration.get("value") or ""
    operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
    if key:
        yield from (invalid(f"{path}.key", key, text) for text in label_key_problems(key))
    if operator == "Exists":
        if value:
            yield invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from (invalid(f"{path}.value", value, text) for text in label_value_problems(value))
    elif not operator:
        yield required(f"{path}.operator")
    else:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def binding_errors(holder: Json, path: str) -> Errors:
    """The conditions that a device has to have, or must not have, before a pod is bound."""
    if "bindingConditions" not in holder and "bindingFailureConditions" not in holder:
        return
    conditions = holder.get("bindingConditions") or ()
    failures = holder.get("bindingFailureConditions") or ()
    listed = {"bindingConditions": conditions, "bindingFailureConditions": failures}
    for field, names in listed.items():
        yield from list_errors(names, f"{path}.{field}", _MAX_BINDING_CONDITIONS, _condition_name_errors)
    for field, names in listed.items():
        seen: set[str] = set()
        for i, name in enumerate(names):
            if name in seen:
                yield duplicate(f"{path}.{field}[{i}]", name)
            seen.add(name)
            if field == "bindingFailureConditions" and name in conditions:
                text = "bindingFailureConditions must not overlap with bindingConditions"
                yield invalid(f"{path}.{field}[{i}]", name, text)
    for field, other in (*zip(listed, reversed(listed), strict=True),):
        if not listed[field] and listed[other]:
            yield invalid(f"{path}.{field}", [*listed[field]], f"{field} are required to use {other}")


def _condition_name_errors(name: str, path: str) -> Errors:
    return (invalid(path, name, text) for text in label_key_problems(name))


def skipped_operations_errors(holder: Json, path: str) -> Errors:
    """Operations that nodes need not do for devices."""
    skipped, here = holder.get("skipNodeOperations") or (), f"{path}.skipNodeOperations"
    if "NodePrepareResources" in skipped and not {"NodeUnprepareResources", "*"} & {*skipped}:
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        yield invalid(here, [*skipped], text)
    yield from list_errors(skipped, here, -1, _skipped_operation_errors, same)


def _skipped_operation_errors(operation: str, path: str) -> Errors:
    if operation not in _SKIPPED:
        yield not_supported(path, operation, _SKIPPED)


def reference_errors(name: str, path: str, known: Mapping[str, frozenset[str]]) -> Errors:
    """The name of a request in a claim, or of a request and a subrequest."""
    text = (
        "must be the name of a request in the claim or the name of a request and a subrequest "
        "separated by '/'"
    )
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid(path, name, text)
        return
    for part in parts:
        yield from label_errors(part, path)
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        yield invalid(path, name, text)


def request_names(devices: Json) -> dict[str, frozenset[str]]:
    """The names of the requests of a claim, each with those of its subrequests."""
    return {
        name_of(request): frozenset(map(name_of, request.get("firstAvailable") or ()))
        for request in devices.get("requests") or ()
    }
