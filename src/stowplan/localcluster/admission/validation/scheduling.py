"""Validation of scheduling.k8s.io, policy, coordination.k8s.io and node.k8s.io."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.cel import semver
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.bootstrap import SYSTEM_PRIORITIES
from stowplan.localcluster.admission.validation.meta import (
    IMMUTABLE,
    label_errors,
    name_errors,
    quantity_errors,
    selector_errors,
)

_MAX_USER_PRIORITY: Final = 1_000_000_000
_OLDEST: Final = "OldestEmulationVersion"
_NO_VERSION: Final = "must be a valid semantic version"
_ZERO: Final = semver.Semver(0, 0, 0)


def priority_class_errors(obj: Json) -> list[FieldError]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    errors: list[FieldError] = []
    if name.startswith("system-"):
        known = SYSTEM_PRIORITIES.get(name)
        if known is None or known[0] != value:
            text = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {name} "
            )
            errors.append(forbidden("metadata.name", text + "is not a known system priority class"))
    elif value > _MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        errors.append(forbidden("value", text))
    policy = obj.get("preemptionPolicy")
    if policy not in ("PreemptLowerPriority", "Never"):
        errors.append(not_supported("preemptionPolicy", policy or "", ["PreemptLowerPriority", "Never"]))
    return errors


def priority_class_update_errors(old: Json, new: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("value", 0) != new.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
    return errors


def budget_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, text))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            errors.append(invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
        elif isinstance(value, str) and not (value.endswith("%") and value[:-1].isdecimal()):
            text = "a valid percent string must be a numeric string followed by an ending '%' "
            errors.append(
                invalid(
                    f"spec.{field}",
                    value,
                    text + "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                )
            )
    errors += selector_errors(spec.get("selector"), "spec.selector")
    return errors


def lease_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = spec.get("strategy")
    if strategy is not None:
        errors += _strategy_errors(strategy)
    if spec.get("preferredHolder") and not strategy:
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def _strategy_errors(strategy: str) -> list[FieldError]:
    """Errors of the strategy that chooses the holder of a lease: a known one, or `domain/strategy`."""
    path = "spec.strategy.strategy"
    if "/" in strategy:
        return [invalid(path, strategy, problem) for problem in label_key_problems(strategy)]
    return [] if strategy == _OLDEST else [not_supported(path, strategy, (_OLDEST,))]


def lease_candidate_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [] if spec.get("leaseName") else [required("spec.leaseName")]
    emulation, binary = spec.get("emulationVersion", ""), spec.get("binaryVersion", "")
    emulated = _version(emulation)
    if emulation and emulated is None:
        errors.append(invalid("spec.emulationVersion", emulation, _NO_VERSION))
    built = _version(binary)
    if not binary:
        errors.append(required("spec.binaryVersion"))
    elif built is None:
        errors.append(invalid("spec.binaryVersion", binary, _NO_VERSION))
    if emulation and binary and (built or _ZERO).compare(emulated or _ZERO) < 0:
        text = "must be greater than or equal to `emulationVersion`"
        errors.append(invalid("spec.binaryVersion", binary, text))
    strategy = spec.get("strategy", "")
    if not strategy:
        return [*errors, required("spec.strategy")]
    if strategy == _OLDEST and (emulated or _ZERO) == _ZERO:
        text = "must be specified when `strategy` is 'OldestEmulationVersion'"
        errors.append(required("spec.emulationVersion", text))
    return [*errors, *_strategy_errors(strategy)]


def lease_candidate_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = ((one.get("spec") or {}).get("leaseName") for one in (old, new))
    return [] if before == after else [invalid("spec.leaseName", after, IMMUTABLE)]


def _version(text: str) -> semver.Semver | None:
    try:
        return semver.parse(text)
    except semver.SemverError:
        return None


def runtime_class_errors(obj: Json) -> list[FieldError]:
    errors = [*name_errors("handler", obj.get("handler"), dns_label_problems)]
    errors += quantity_errors((obj.get("overhead") or {}).get("podFixed"), "overhead.limits")
    selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
    return [*errors, *label_errors(selector, "scheduling.nodeSelector")]


def runtime_class_update_errors(old: Json, new: Json) -> list[FieldError]:
    after = new.get("handler")
    return [] if old.get("handler") == after else [invalid("handler", after, IMMUTABLE)]


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PRIORITY_CLASSES: priority_class_errors,
    catalogue.POD_DISRUPTION_BUDGETS: budget_errors,
    catalogue.LEASES: lease_errors,
    catalogue.LEASE_CANDIDATES: lease_candidate_errors,
    catalogue.RUNTIME_CLASSES: runtime_class_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PRIORITY_CLASSES: priority_class_update_errors,
    catalogue.LEASE_CANDIDATES: lease_candidate_update_errors,
    catalogue.RUNTIME_CLASSES: runtime_class_update_errors,
}
