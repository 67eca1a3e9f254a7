"""Validation of the core group but for pods: nodes, services, ConfigMaps, Secrets, volumes, claims."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import config_key_problems, dns_label_problems, label_key_problems
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.meta import (
    IMMUTABLE,
    fields_except,
    quantity_errors,
    read_quantity,
)

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
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
    status = obj.get("status") or {}
    for field in ("capacity", "allocatable"):
        errors += quantity_errors(status.get(field), f"status.{field}")
    return errors


def service_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    errors: list[FieldError] = []
    if kind not in _SERVICE_TYPES:
        errors.append(not_supported("spec.type", kind, _SERVICE_TYPES))
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


def service_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" in (before.get("type"), after.get("type")):
        return []
    address = before.get("clusterIP")
    if address and after.get("clusterIP") != address:
        return [invalid("spec.clusterIPs[0]", [after.get("clusterIP")], "may not change once set")]
    return []


def config_errors(obj: Json) -> list[FieldError]:
    """ConfigMaps and Secrets: the keys of their data."""
    errors: list[FieldError] = []
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            errors += [invalid(f"{field}[{key}]", key, problem) for problem in config_key_problems(key)]
    return errors


def config_update_errors(old: Json, new: Json) -> list[FieldError]:
    """A ConfigMap or Secret that says it is immutable."""
    errors: list[FieldError] = []
    if "type" in old and old.get("type") != new.get("type"):
        errors.append(invalid("type", new.get("type"), IMMUTABLE))
    if not old.get("immutable"):
        return errors
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        errors.append(forbidden("immutable", text))
    for field in ("data", "binaryData"):
        if (old.get(field) or {}) != (new.get(field) or {}):
            errors.append(forbidden(field, text))
    return errors


_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")


def volume_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_mode_errors(spec)]
    if not spec.get("capacity"):
        errors.append(required("spec.capacity"))
    errors += quantity_errors(spec.get("capacity"), "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy or "", RECLAIM_POLICIES))
    return errors


def claim_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_mode_errors(spec)]
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        errors.append(required("spec.resources[storage]"))
    errors += quantity_errors(requests, "spec.resources.requests")
    return errors


def _mode_errors(spec: Json) -> Iterator[FieldError]:
    modes = spec.get("accessModes")
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes or ():
        if mode not in _ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, _ACCESS_MODES)


_CLAIM_RULE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def claim_update_errors(old: Json, new: Json) -> list[FieldError]:
    """A claim may grow, and get a volume and a class if it had none; nothing else of it changes."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    free = {"resources", "volumeAttributesClassName"}
    if not before.get("volumeName"):
        free.add("volumeName")
    if "storageClassName" not in before:
        free.add("storageClassName")
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if fields_except(before, free) != fields_except(after, free) or (
        not bound and before.get("resources") != after.get("resources")
    ):
        return [forbidden("spec", _CLAIM_RULE)]
    wanted, asked = read_quantity(_storage(after)), read_quantity(_storage(before))
    given = read_quantity((old.get("status") or {}).get("capacity", {}).get("storage"))
    shrinks = wanted is not None and asked is not None and wanted < asked
    if shrinks and (given is None or wanted is None or wanted <= given):
        text = "field can not be less than status.capacity"
        return [forbidden("spec.resources.requests.storage", text)]
    return []


def _storage(spec: Json) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.NODES: node_errors,
    catalogue.SERVICES: service_errors,
    catalogue.CONFIG_MAPS: config_errors,
    catalogue.SECRETS: config_errors,
    catalogue.PERSISTENT_VOLUMES: volume_errors,
    catalogue.PERSISTENT_VOLUME_CLAIMS: claim_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.SERVICES: service_update_errors,
    catalogue.CONFIG_MAPS: config_update_errors,
    catalogue.SECRETS: config_update_errors,
    catalogue.PERSISTENT_VOLUME_CLAIMS: claim_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {}
