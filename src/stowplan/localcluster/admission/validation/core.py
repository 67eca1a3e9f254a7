"""Validation of nodes, namespaces, ConfigMaps and Secrets."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import config_key_problems, label_key_problems, label_value_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, amount_errors

Errors = Iterator[FieldError]
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def node_errors(obj: Json) -> list[FieldError]:
    errors = [*_taint_errors(obj)]
    status = obj.get("status") or {}
    for field in ("capacity", "allocatable"):
        for name, raw in (status.get(field) or {}).items():
            errors += amount_errors(name, raw, f"status.{field}.{name}")
    return errors


def _taint_errors(obj: Json) -> Errors:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        here, key, value = f"metadata.taints[{i}]", taint.get("key") or "", taint.get("value") or ""
        yield from (invalid(f"{here}.key", key, problem) for problem in label_key_problems(key))
        problems = label_value_problems(value)
        if problems:
            yield invalid(f"{here}.value", value, ";".join(problems))
        effect = taint.get("effect") or ""
        if not effect:
            yield required(f"{here}.effect")
        elif effect not in _EFFECTS:
            yield not_supported(f"{here}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = "taints must be unique by key and effect pair"
            yield FieldError(here, Kind.DUPLICATE, shown, text)
        seen.add((key, effect))


def node_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors: list[FieldError] = []
    seen: list[Json] = []
    for i, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            errors.append(duplicate(f"status.addresses[{i}]", shown))
        seen.append(address)
    if before.get("podCIDRs") and before["podCIDRs"] != after.get("podCIDRs"):
        text = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", text))
    if before.get("providerID") and before["providerID"] != after.get("providerID"):
        text = (
            "field cannot be modified once set"
            if after.get("providerID")
            else "field cannot be cleared once set"
        )
        errors.append(invalid("spec.providerID", None, text))
    return errors


def namespace_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        path = "spec.finalizers"
        errors += [invalid(path, finalizer, problem) for problem in label_key_problems(finalizer)]
        if "/" not in finalizer and finalizer not in ("kubernetes", "orphan", "foregroundDeletion"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(path, finalizer, text))
    return errors


_MAX_CONFIG_BYTES: Final = 1024 * 1024


def config_map_errors(obj: Json) -> list[FieldError]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors: list[FieldError] = []
    size = 0
    for key, value in data.items():
        errors += [invalid(f"data[{key}]", key, problem) for problem in config_key_problems(key)]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value.encode("utf-8", "surrogatepass"))
    for key, value in binary.items():
        errors += [invalid(f"binaryData[{key}]", key, problem) for problem in config_key_problems(key)]
        size += len(value) * 3 // 4
    if size > _MAX_CONFIG_BYTES:
        errors.append(_too_long("[]"))
    return errors


def _too_long(path: str) -> FieldError:
    return FieldError(path, Kind.TOO_LONG, "", f"may not be more than {_MAX_CONFIG_BYTES} bytes")


_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_DOCKER: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def secret_errors(obj: Json) -> list[FieldError]:
    data, kind = obj.get("data") or {}, obj.get("type", "Opaque")
    errors: list[FieldError] = []
    for key in data:
        errors += [invalid(f"data[{key}]", key, problem) for problem in config_key_problems(key)]
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_CONFIG_BYTES:
        errors.append(_too_long("data"))
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
            errors.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    elif kind == "kubernetes.io/basic-auth":
        if not {"username", "password"} & data.keys():
            errors += [required("data[username]"), required("data[password]")]
    elif kind in _DOCKER:
        errors += _docker_errors(data, _DOCKER[kind])
    errors += [required(f"data[{key}]") for key in _NEEDED.get(kind, ()) if key not in data]
    return errors


def _docker_errors(data: Json, key: str) -> Errors:
    if key not in data:
        yield required(f"data[{key}]")
        return
    try:
        msgspec.json.decode(base64.b64decode(data[key]), type=dict[str, object])
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError):
        yield invalid(f"data[{key}]", "<secret contents redacted>", "expected a JSON object")


def config_update_errors(old: Json, new: Json) -> list[FieldError]:
    """A ConfigMap or Secret that says it is immutable; a Secret's type never changes."""
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


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.NODES: node_errors,
    catalogue.NAMESPACES: namespace_errors,
    catalogue.CONFIG_MAPS: config_map_errors,
    catalogue.SECRETS: secret_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.NODES: node_update_errors,
    catalogue.CONFIG_MAPS: config_update_errors,
    catalogue.SECRETS: config_update_errors,
}
