"""Validation that all kinds share: metadata, label selectors, quantities, fields that must not change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, duplicate, forbidden, invalid, required
from stowplan.api.names import (
    config_key_problems,
    dns_label_problems,
    is_extended_resource,
    label_key_problems,
    label_value_problems,
    path_segment_problems,
    subdomain_problems,
)
from stowplan.api.quantity import ERR_FORMAT, Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json

_NAME_RULES: Final[Mapping[Resource, Callable[[str], list[str]]]] = {
    catalogue.NAMESPACES: dns_label_problems,
    catalogue.SERVICES: dns_label_problems,
    catalogue.API_SERVICES: path_segment_problems,
    catalogue.ROLES: path_segment_problems,
    catalogue.ROLE_BINDINGS: path_segment_problems,
    catalogue.CLUSTER_ROLES: path_segment_problems,
    catalogue.CLUSTER_ROLE_BINDINGS: path_segment_problems,
    catalogue.LEASE_CANDIDATES: config_key_problems,
}
_MAX_ANNOTATION_BYTES: Final = 256 * 1024
_valid_keys: set[str] = set()
_valid_values: set[str] = {""}
_MAX_CACHED: Final = 10_000


def metadata_errors(resource: Resource, metadata: Json) -> list[FieldError]:
    """Errors of an object's metadata."""
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    prefix = metadata.get("generateName", "")
    problems_of = _NAME_RULES.get(resource, subdomain_problems)
    if prefix:
        problems = problems_of(f"{prefix[:-1]}a" if prefix[-1] == "-" else prefix)
        errors += [invalid("metadata.generateName", prefix, problem) for problem in problems]
    if name:
        errors += [invalid("metadata.name", name, problem) for problem in problems_of(name)]
    if metadata.get("labels"):
        errors += label_errors(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        errors += _annotation_errors(metadata["annotations"])
    if metadata.get("ownerReferences"):
        errors += _owners_errors(metadata["ownerReferences"], "metadata.ownerReferences")
    for finalizer in metadata.get("finalizers") or ():
        errors += [
            invalid("metadata.finalizers", finalizer, problem) for problem in label_key_problems(finalizer)
        ]
    return errors


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Errors of labels. Valid ones are remembered."""
    for key, value in labels.items():
        if key not in _valid_keys:
            problems = label_key_problems(key)
            yield from (invalid(path, key, problem) for problem in problems)
            _cache(_valid_keys, key, problems)
        if value not in _valid_values:
            problems = label_value_problems(value)
            yield from (invalid(path, value, problem) for problem in problems)
            _cache(_valid_values, value, problems)


def _cache(good: set[str], text: str, problems: list[str]) -> None:
    if not problems:
        if len(good) >= _MAX_CACHED:
            good.clear()
        good.add(text)


def _annotation_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    path = "metadata.annotations"
    size = 0
    for key, value in annotations.items():
        if key not in _valid_keys:
            yield from (invalid(path, key, problem) for problem in label_key_problems(key.lower()))
        size += len(key) + len(value)
    if size > _MAX_ANNOTATION_BYTES:
        yield FieldError(path, Kind.TOO_LONG, "", f"may not be more than {_MAX_ANNOTATION_BYTES} bytes")


def _owners_errors(owners: Sequence[Any], path: str) -> Iterator[FieldError]:
    controller: Any = None
    for owner in owners:
        yield from _owner_errors(owner, path)
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            if controller is not None:
                yield invalid(path, [_in_order(one) for one in owners], _two_controllers(controller, owner))
            controller = owner


_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def _in_order(owner: Any) -> Json:
    """A reference as messages quote it."""
    return {field: owner[field] for field in _OWNER_FIELDS if field in owner}


def _two_controllers(first: Any, second: Any) -> str:
    named = " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in (first, second))
    return f'Only one reference can have Controller set to true. Found "true" in references for {named}'


def _owner_errors(owner: Any, path: str) -> Iterator[FieldError]:
    for field, text in (
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ):
        if not owner.get(field):
            yield invalid(f"{path}.{field}", owner.get(field) or "", text)


def name_errors(path: str, name: str | None, problems: Callable[[str], list[str]]) -> Iterator[FieldError]:
    """Errors of a required name within an object."""
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, problem) for problem in problems(name))


_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def selector_errors(selector: Any, path: str) -> Iterator[FieldError]:
    """Errors of a label selector."""
    if not selector:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for i, wish in enumerate(selector.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{i}]", wish.get("operator"), wish.get("values")
        if operator not in _LABEL_OPERATORS:
            yield invalid(f"{here}.operator", operator or "", "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        key = wish.get("key") or ""
        yield from (invalid(f"{here}.key", key, problem) for problem in label_key_problems(key))
        for j, value in enumerate(values or ()):
            yield from (invalid(f"{here}.values[{j}]", value, text) for text in label_value_problems(value))


PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
_WHOLE: Final = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_MAX_CACHED_QUANTITIES: Final = 40
_quantities = lru_cache(maxsize=4096)(quantity_of)


def read_quantity(raw: Any) -> Quantity | None:
    """The amount, None if it is none."""
    try:
        return _quantities(raw) if len(str(raw)) <= _MAX_CACHED_QUANTITIES else quantity_of(raw)
    except (QuantityError, TypeError):
        return None


def quantity_errors(amounts: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    """Errors of a list of resources."""
    for name, raw in (amounts or {}).items():
        here = f"{path}[{name}]"
        yield from resource_name_errors(name, here)
        yield from amount_errors(name, raw, here)


def amount_errors(name: str, raw: Any, path: str) -> Iterator[FieldError]:
    """An amount of a resource: not negative, and whole where it is a number of things."""
    amount = read_quantity(raw)
    if amount is None:
        yield invalid(path, str(raw), ERR_FORMAT)
    elif amount.sign < 0:
        yield invalid(path, str(amount), NOT_NEGATIVE)
    elif (is_extended_resource(name) or name in _WHOLE) and amount.milli_value() % 1000:
        yield invalid(path, str(amount), "must be an integer")


_STANDARD: Final = frozenset(
    (
        *(
            prefix + name
            for prefix in ("", "requests.", "limits.")
            for name in ("cpu", "memory", "ephemeral-storage")
        ),
        "requests.storage",
        "storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
"""Resources that have no domain."""


def resource_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """The name of any resource: one that is known, or one with a domain."""
    if name in _NATIVE:
        return
    problems = label_key_problems(name)
    yield from (invalid(path, name, problem) for problem in problems)
    if not problems and "/" not in name and name not in _STANDARD and not _is_hugepages(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def _is_hugepages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _container_resource_errors(name: str, path: str) -> Iterator[FieldError]:
    if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return
    yield from resource_name_errors(name, path)
    if "/" not in name:
        yield invalid(path, name, "must be a standard resource for containers")
    elif "kubernetes.io/" not in name and not is_extended_resource(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def requirement_errors(
    resources: Json | None, path: str, claims: frozenset[str] | None = None
) -> Iterator[FieldError]:
    """Errors of the resources of a container. `claims`: the resource claims of its pod."""
    if not resources:
        return
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, raw in limits.items():
        here = f"{path}.limits[{name}]"
        yield from _container_resource_errors(name, here)
        yield from amount_errors(name, raw, here)
    for name, raw in requests.items():
        here = f"{path}.requests[{name}]"
        yield from _container_resource_errors(name, here)
        yield from amount_errors(name, raw, here)
        yield from _limit_errors(name, raw, limits, path)
    names = {*requests, *limits}
    if not names & {"cpu", "memory"} and any(name.startswith("hugepages-") for name in names):
        yield forbidden(path, "HugePages require cpu or memory")
    if claims is not None:
        yield from _claim_name_errors(resources, claims, f"{path}.claims")


def _limit_errors(name: str, raw: Any, limits: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """A request against its limit, which has to be the same where nodes cannot overcommit."""
    asked, most = read_quantity(raw), read_quantity(limits[name]) if name in limits else None
    whole = is_extended_resource(name) or name.startswith("hugepages-")
    if asked is None or (most is None and name in limits):
        return
    if most is None:
        if whole:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif whole and asked != most:
        yield invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {most}")
    elif asked > most:
        text = f"must be less than or equal to {name} limit of {most}"
        yield invalid(f"{path}.requests", str(asked), text)


def _claim_name_errors(resources: Json, claims: frozenset[str], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, claim in enumerate(resources.get("claims") or ()):
        name = claim.get("name") or ""
        shown = f"{name}/{claim['request']}" if claim.get("request") else name
        if not name:
            yield required(f"{path}[{i}].name")
        elif shown in seen:
            yield duplicate(f"{path}[{i}]", shown)
        elif name not in claims:
            yield FieldError(f"{path}[{i}].name", Kind.NOT_FOUND, name)
        seen.add(shown)


IMMUTABLE: Final = "field is immutable"


def immutable_errors(old: Json, new: Json, section: str, field: str) -> list[FieldError]:
    before: Any = (old.get(section) or {}).get(field)
    after: Any = (new.get(section) or {}).get(field)
    return [] if before == after else [invalid(f"{section}.{field}", after, IMMUTABLE)]


def fields_except(spec: Json, free: set[str] | frozenset[str]) -> Json:
    return {
        field: value for field, value in spec.items() if field not in free and value not in (None, [], {})
    }
