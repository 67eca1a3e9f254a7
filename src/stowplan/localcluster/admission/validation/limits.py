"""Validation of resource quotas and limit ranges."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, required
from stowplan.api.names import is_extended_resource, label_key_problems
from stowplan.api.quantity import Quantity
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import (
    IMMUTABLE,
    amount_errors,
    read_quantity,
    resource_name_errors,
)

Errors = Iterator[FieldError]
_COMPUTE: Final = frozenset(
    prefix + name
    for prefix in ("", "requests.", "limits.")
    for name in ("cpu", "memory", "ephemeral-storage")
) - {"ephemeral-storage"}
_QUOTA: Final = _COMPUTE | frozenset(
    (
        "ephemeral-storage",
        "requests.storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_PODS_ONLY: Final = frozenset(("pods",))
_OF_PODS: Final = _COMPUTE | _PODS_ONLY
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "BestEffort": _PODS_ONLY,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
"""Scopes, and the resources they can be applied to."""

_WITHOUT_VALUES: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def quota_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_amounts_errors(spec.get("hard"), "spec.hard")]
    scopes = spec.get("scopes") or []
    for scope in scopes:
        errors += _scope_errors(scope, spec, "spec.scopes", scopes, scopes)
    errors += _conflict_errors(scopes, "spec.scopes", scopes)
    selector = spec.get("scopeSelector")
    if selector is not None:
        errors += _selector_errors(selector, spec)
    return errors


def quota_status_errors(old: Json, new: Json) -> list[FieldError]:
    status = new.get("status") or {}
    return [
        *_amounts_errors(status.get("hard"), "status.hard"),
        *_amounts_errors(status.get("used"), "status.used"),
    ]


def _amounts_errors(amounts: Mapping[str, Any] | None, path: str) -> Errors:
    for name, raw in (amounts or {}).items():
        here = f"{path}[{name}]"
        yield from resource_name_errors(name, here)
        if (
            "/" not in name
            and name not in _QUOTA
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            yield invalid(here, name, "must be a standard resource for quota")
        yield from amount_errors(name, raw, here)


def _scope_errors(scope: str, spec: Json, path: str, shown: Any, named: Any) -> Errors:
    allowed = _SCOPES.get(scope)
    if allowed is None:
        yield invalid(path, shown, "unsupported scope")
        return
    for name in sorted(spec.get("hard") or {}):
        if name in _QUOTA and name not in allowed:
            yield invalid(path.removesuffix(".scopeName"), named, "unsupported scope applied to resource")


def _conflict_errors(scopes: list[str], path: str, shown: Any) -> Errors:
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            yield invalid(path, shown, "conflicting scopes")


def _selector_errors(selector: Json, spec: Json) -> Errors:
    path, terms = "spec.scopeSelector.matchExpressions", selector.get("matchExpressions") or ()
    for term in terms:
        scope, operator = term.get("scopeName") or "", term.get("operator") or ""
        yield from _scope_errors(scope, spec, f"{path}.scopeName", scope, selector)
        if (
            scope in _SCOPES
            and scope not in ("PriorityClass", "VolumeAttributesClass")
            and operator != "Exists"
        ):
            yield invalid(f"{path}.operator", operator, _WITHOUT_VALUES)
        values = term.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", values, text)
        else:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from _conflict_errors([term.get("scopeName") or "" for term in terms], path, spec.get("scopes"))


def quota_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = ((obj.get("spec") or {}).get("scopes") or [] for obj in (old, new))
    return [] if set(before) == set(after) else [invalid("spec.scopes", after, IMMUTABLE)]


_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def limit_range_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{i}]", item.get("type") or ""
        errors += [invalid(f"{path}.type", kind, problem) for problem in label_key_problems(kind)]
        if "/" not in kind and kind not in _TYPES and kind:
            text = "must be a standard limit type or fully qualified"
            errors.append(invalid(f"{path}.type", kind, text))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _item_errors(item, kind, path)
    return errors


def _item_errors(item: Json, kind: str, path: str) -> Errors:
    amounts: dict[str, dict[str, Quantity]] = {}
    for part in _PARTS:
        given = item.get(part) or {}
        if kind == "Pod" and part in ("default", "defaultRequest"):
            if given:
                yield forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            given = {}
        for name in given:
            yield from _limited_name_errors(name, kind, f"{path}.{part}[{name}]")
        read = {name: read_quantity(raw) for name, raw in given.items()}
        amounts[part] = {name: amount for name, amount in read.items() if amount is not None}
        if part == "defaultRequest" and kind == "PersistentVolumeClaim":
            stated = "storage" in amounts["min"] or "storage" in amounts["max"]
            if not stated:
                text = "either minimum or maximum storage value is required, but neither was provided"
                yield required(f"{path}.limits", text)
    for name in sorted({name for part in amounts.values() for name in part}):
        yield from _order_errors(name, {part: found.get(name) for part, found in amounts.items()}, path)


def _limited_name_errors(name: str, kind: str, path: str) -> Errors:
    if kind in ("Pod", "Container"):
        yield from resource_name_errors(name, path)
        standard = name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
        if "/" not in name and not standard:
            yield invalid(path, name, "must be a standard resource for containers")
    else:
        yield from resource_name_errors(name, path)


def _order_errors(name: str, of: Mapping[str, Quantity | None], path: str) -> Errors:
    """Least, default request, default and most have to be in this order."""
    least, most, limit, request = of["min"], of["max"], of["default"], of["defaultRequest"]
    for low, low_name, high, high_name, field, shown in (
        (least, "min", most, "max", "min", least),
        (least, "min", request, "default request", "defaultRequest", request),
        (request, "default request", most, "max", "defaultRequest", request),
        (request, "default request", limit, "default limit", "defaultRequest", request),
        (least, "min", limit, "default", "default", least),
        (limit, "default", most, "max", "default", most),
    ):
        if low is not None and high is not None and low > high:
            text = f"{low_name} value {low} is greater than {high_name} value {high}"
            yield invalid(f"{path}.{field}[{name}]", str(shown), text)
    ratio = of["maxLimitRequestRatio"]
    here = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None and ratio < Quantity(1):
        yield invalid(here, str(ratio), f"ratio {ratio} is less than 1")
    if ratio is not None and least is not None and most is not None and not least.is_zero:
        widest = most.milli_value() / least.milli_value()
        if ratio.milli_value() / 1000 > widest:
            text = f"ratio {ratio} is greater than max/min = {widest:.6f}"
            yield invalid(here, str(ratio), text)
    whole = is_extended_resource(name) or name.startswith("hugepages-")
    if whole and limit is not None and request is not None and limit != request:
        text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", str(request), text)


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.RESOURCE_QUOTAS: quota_errors,
    catalogue.LIMIT_RANGES: limit_range_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.RESOURCE_QUOTAS: quota_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.RESOURCE_QUOTAS: quota_status_errors,
}
