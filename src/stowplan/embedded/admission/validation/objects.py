"""Nodes, services, configuration, priorities, budgets, leases."""

from collections.abc import Iterator
from typing import Final

from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import config_key_problems, dns_label_problems, label_key_problems
from stowplan.api.requests import Json
from stowplan.embedded.admission.furnishing import SYSTEM_PRIORITIES
from stowplan.embedded.admission.validation.amounts import amount_errors
from stowplan.embedded.admission.validation.placement import selector_errors

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_HIGHEST: Final = 1_000_000_000
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"


def node_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        here, key = f"metadata.taints[{i}]", taint.get("key") or ""
        errors += [invalid(f"{here}.key", key, problem) for problem in label_key_problems(key)]
        effect = taint.get("effect") or ""
        if effect not in _EFFECTS:
            errors.append(not_supported(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            errors.append(duplicate(here, {"key": key, "effect": effect}))
        seen.add((key, effect))
    told = obj.get("status") or {}
    for field in ("capacity", "allocatable"):
        errors += amount_errors(told.get(field), f"status.{field}")
    return errors


def service_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    errors: list[FieldError] = []
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        errors.append(required("spec.externalName"))
    seen: set[str] = set()
    for i, port in enumerate(ports):
        errors += _port_errors(port, f"spec.ports[{i}]", named=len(ports) > 1, seen=seen)
    return errors


def _port_errors(port: Json, path: str, *, named: bool, seen: set[str]) -> Iterator[FieldError]:
    name = port.get("name")
    if not name and named:
        yield required(f"{path}.name")
    elif name:
        yield from (invalid(f"{path}.name", name, problem) for problem in dns_label_problems(name))
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
    number = port.get("port") or 0
    if not 0 < number < 65536:
        yield invalid(f"{path}.port", number, _PORT_RANGE)
    if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
        yield not_supported(f"{path}.protocol", port.get("protocol") or "", ["SCTP", "TCP", "UDP"])


def config_errors(obj: Json) -> list[FieldError]:
    """ConfigMaps and Secrets: the keys of their data."""
    errors: list[FieldError] = []
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            errors += [invalid(f"{field}[{key}]", key, problem) for problem in config_key_problems(key)]
    return errors


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
    elif value > _HIGHEST:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        errors.append(forbidden("value", text))
    policy = obj.get("preemptionPolicy")
    if policy not in ("PreemptLowerPriority", "Never"):
        errors.append(not_supported("preemptionPolicy", policy or "", ["Never", "PreemptLowerPriority"]))
    return errors


def budget_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", {key: spec[key] for key in ("minAvailable", "maxUnavailable")}, text))
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
    return errors
