"""Validation of autoscaling."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, path_segment_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import NOT_NEGATIVE, name_errors, read_quantity

_MAX_PERIOD: Final = 1800
_MAX_STABILIZATION: Final = 3600
_SOURCES: Final[Mapping[str, str]] = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_ORDER: Final = ("object", "external", "pods", "resource", "containerResource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_POSITIVE: Final = "must be greater than zero"


def autoscaler_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_replica_errors(spec)]
    errors += _reference_errors(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", any_group=False)
    for i, metric in enumerate(spec.get("metrics") or ()):
        errors += _metric_errors(metric, f"spec.metrics[{i}]")
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            errors += _rules_errors(behavior[direction], f"spec.behavior.{direction}")
    return errors


def _replica_errors(spec: Json) -> Iterator[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _reference_errors(reference: Json, path: str, *, any_group: bool) -> Iterator[FieldError]:
    for field in ("kind", "name"):
        yield from name_errors(f"{path}.{field}", reference.get(field), path_segment_problems)
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and not any_group:
        yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric_errors(metric: Json, path: str) -> Iterator[FieldError]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield not_supported(f"{path}.type", kind, _SOURCES)
    given = [source for source in _ORDER if metric.get(source) is not None]
    if given:
        yield from _source_errors(given[0], metric[given[0]], f"{path}.{given[0]}")
    expected = _SOURCES.get(kind)
    if expected is None:
        yield not_supported(f"{path}.type", kind, _SOURCES)
    elif metric.get(expected) is None:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(given) != 1:
        for source in given:
            if source != expected:
                yield forbidden(f"{path}.{source}", "must populate the given metric source only")


def _source_errors(kind: str, source: Json, path: str) -> Iterator[FieldError]:
    target: Json = source.get("target") or {}
    if kind == "object":
        reference = source.get("describedObject") or {}
        yield from _reference_errors(reference, f"{path}.describedObject", any_group=True)
    if kind in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name")
        if not name:
            yield required(f"{path}.metric.name", "must specify a metric name")
        else:
            yield from name_errors(f"{path}.metric.name", name, path_segment_problems)
    elif not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    if kind == "containerResource":
        if not source.get("container"):
            yield required(f"{path}.container", "must specify a container")
        else:
            yield from name_errors(f"{path}.container", source["container"], dns_label_problems)
    yield from _target_errors(target, f"{path}.target")
    yield from _target_choice_errors(kind, target, f"{path}.target")


def _target_errors(target: Json, path: str) -> Iterator[FieldError]:
    kind = target.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        amount = read_quantity(target[field]) if field in target else None
        if amount is not None and amount.sign <= 0:
            yield invalid(f"{path}.{field}", str(amount), "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


def _target_choice_errors(kind: str, target: Json, path: str) -> Iterator[FieldError]:
    """Which of the ways to state a target are there, and whether they may stand together."""
    has_value, has_average = "value" in target, "averageValue" in target
    if kind == "pods":
        if not has_average:
            yield required(f"{path}.averageValue", "must specify a positive target averageValue")
    elif kind == "object":
        if not has_value and not has_average:
            yield required(f"{path}.averageValue", "must set either a target value or averageValue")
    elif kind == "external":
        if not has_value and not has_average:
            text = "must set either a target value for metric or a per-pod target"
            yield required(f"{path}.averageValue", text)
        elif has_value and has_average:
            text = "may not set both a target value for metric and a per-pod target"
            yield forbidden(f"{path}.value", text)
    elif "averageUtilization" not in target and not has_average:
        text = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", text)
    elif "averageUtilization" in target and has_average:
        text = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", text)


def _rules_errors(rules: Json, path: str) -> Iterator[FieldError]:
    seconds = rules.get("stabilizationWindowSeconds")
    if seconds is not None and seconds < 0:
        yield invalid(f"{path}.stabilizationWindowSeconds", seconds, "must be greater than or equal to zero")
    if seconds is not None and seconds > _MAX_STABILIZATION:
        text = f"must be less than or equal to {_MAX_STABILIZATION}"
        yield invalid(f"{path}.stabilizationWindowSeconds", seconds, text)
    select = rules.get("selectPolicy")
    if select is not None and select not in ("Disabled", "Max", "Min"):
        yield not_supported(f"{path}.selectPolicy", select, ["Disabled", "Max", "Min"])
    if not rules.get("policies"):
        yield required(f"{path}.policies", "must specify at least one Policy")
    for i, policy in enumerate(rules.get("policies") or ()):
        yield from _policy_errors(policy, f"{path}.policies[{i}]")
    tolerance = read_quantity(rules["tolerance"]) if rules.get("tolerance") is not None else None
    if tolerance is not None and tolerance.sign < 0:
        yield invalid(f"{path}.tolerance", str(tolerance), NOT_NEGATIVE)


def _policy_errors(policy: Json, path: str) -> Iterator[FieldError]:
    if policy.get("type") not in ("Percent", "Pods"):
        yield not_supported(f"{path}.type", policy.get("type") or "", ["Percent", "Pods"])
    value: Any = policy.get("value") or 0
    period: Any = policy.get("periodSeconds") or 0
    if value <= 0:
        yield invalid(f"{path}.value", value, _POSITIVE)
    if period <= 0:
        yield invalid(f"{path}.periodSeconds", period, _POSITIVE)
    if period > _MAX_PERIOD:
        yield invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD}")


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.HORIZONTAL_POD_AUTOSCALERS: autoscaler_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {}
