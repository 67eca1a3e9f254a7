"""Validation of the status of ResourceClaims: allocation, reservations, and what drivers report."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.conditions import conditions_errors
from stowplan.localcluster.admission.validation.devices.deviceparts import (
    MAX_CONFIGS,
    MAX_REQUESTS,
    Errors,
    binding_errors,
    driver_errors,
    label_errors,
    list_errors,
    opaque_errors,
    pool_name_errors,
    raw_errors,
    reference_errors,
    request_names,
    same,
    skipped_operations_errors,
    toleration_errors,
    too_long,
    too_many,
)
from stowplan.localcluster.admission.validation.meta import IMMUTABLE
from stowplan.localcluster.admission.validation.pods.placement import node_selector_errors

_MAX_RESERVED: Final = 256
_MAX_RESULTS: Final = 32
_MAX_CONDITIONS: Final = 8
_MAX_DATA: Final = 10 * 1024
_MAX_IPS: Final = 16
_MAX_INTERFACE: Final = 256
_MAX_HARDWARE: Final = 128
_SOURCES: Final = ("FromClaim", "FromClass")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Known = Mapping[str, frozenset[str]]


def claim_status_errors(old: Json, new: Json) -> list[FieldError]:
    """Errors of a claim's status, or of its change."""
    before, after = old.get("status") or {}, new.get("status") or {}
    known = request_names((old.get("spec") or {}).get("devices") or {})
    reserved = after.get("reservedFor") or ()
    errors = [*list_errors(reserved, "status.reservedFor", _MAX_RESERVED, _consumer_errors, _uid)]
    allocation = after.get("allocation")
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = {_device(result) for result in results}

    def device_errors(device: Json, path: str) -> Errors:
        return _device_status_errors(device, path, allocated)

    errors += list_errors(after.get("devices") or (), "status.devices", -1, device_errors, _device)
    if reserved:
        errors += _reservation_errors(old, before, after)
    if before.get("allocation") is not None and allocation is not None:
        if before["allocation"] != allocation:
            errors.append(invalid("status.allocation", allocation, IMMUTABLE))
    elif allocation is not None:
        errors += _allocation_errors(allocation, "status.allocation", known)
    return errors


def _uid(consumer: Json) -> str:
    return consumer.get("uid") or ""


def _consumer_errors(consumer: Json, path: str) -> Errors:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            yield required(f"{path}.{field}")


def _reservation_errors(claim: Json, before: Json, after: Json) -> Errors:
    if after.get("allocation") is None:
        text = "may not be specified when `allocated` is not set"
        yield forbidden("status.reservedFor", text)
    elif "deletionTimestamp" in claim["metadata"]:
        known = before.get("reservedFor") or []
        if any(one not in known for one in after["reservedFor"]):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield forbidden("status.reservedFor", text)


# Allocation


def _allocation_errors(allocation: Json, path: str, known: Known) -> Errors:
    devices = allocation.get("devices") or {}

    def result_errors(result: Json, here: str) -> Errors:
        return _result_errors(result, here, known)

    def config_errors(config: Json, here: str) -> Errors:
        return _config_errors(config, here, known)

    results, here = devices.get("results") or (), f"{path}.devices"
    yield from list_errors(results, f"{here}.results", _MAX_RESULTS, result_errors)
    yield from list_errors(devices.get("config") or (), f"{here}.config", 2 * MAX_CONFIGS, config_errors)
    if allocation.get("nodeSelector") is not None:
        yield from node_selector_errors(allocation["nodeSelector"], f"{path}.nodeSelector")


def _result_errors(result: Json, path: str, known: Known) -> Errors:
    yield from reference_errors(result.get("request") or "", f"{path}.request", known)
    yield from driver_errors(result.get("driver"), f"{path}.driver")
    yield from pool_name_errors(result.get("pool"), f"{path}.pool")
    yield from label_errors(result.get("device"), f"{path}.device")
    yield from binding_errors(result, path)
    for i, toleration in enumerate(result.get("tolerations") or ()):
        yield from toleration_errors(toleration, f"{path}.tolerations[{i}]")
    yield from _share_errors(result.get("shareID"), f"{path}.shareID")
    yield from skipped_operations_errors(result, path)


def _share_errors(share: Any, path: str) -> Errors:
    if share is not None and not _UUID.fullmatch(str(share)):
        text = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        yield invalid(path, share, text)


def _config_errors(config: Json, path: str, known: Known) -> Errors:
    source = config.get("source") or ""
    if not source:
        yield required(f"{path}.source")
    elif source not in _SOURCES:
        yield not_supported(f"{path}.source", source, _SOURCES)

    def errors(name: str, here: str) -> Errors:
        return reference_errors(name, here, known)

    yield from list_errors(config.get("requests") or (), f"{path}.requests", MAX_REQUESTS, errors, same)
    yield from opaque_errors(config, path)


# Reports of drivers


def _device(device: Json) -> str:
    """A device, or a share of one, as errors name it."""
    name = "/".join(device.get(part) or "" for part in ("driver", "pool", "device"))
    return f"{name}/{device['shareID']}" if device.get("shareID") else name


def _device_status_errors(device: Json, path: str, allocated: set[str]) -> Errors:
    yield from driver_errors(device.get("driver"), f"{path}.driver")
    yield from pool_name_errors(device.get("pool"), f"{path}.pool")
    yield from label_errors(device.get("device"), f"{path}.device")
    yield from _share_errors(device.get("shareID"), f"{path}.shareID")
    if _device(device) not in allocated:
        yield invalid(path, _device(device), "must be an allocated device in the claim")
    conditions = device.get("conditions") or ()
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS)
    yield from conditions_errors(conditions, f"{path}.conditions")
    if device.get("data") is not None:
        yield from raw_errors(device["data"], f"{path}.data", _MAX_DATA)
    if device.get("networkData") is not None:
        yield from _network_errors(device["networkData"], f"{path}.networkData")


def _network_errors(network: Json, path: str) -> Errors:
    for field, most in (("interfaceName", _MAX_INTERFACE), ("hardwareAddress", _MAX_HARDWARE)):
        if len((network.get(field) or "").encode()) > most:
            yield too_long(f"{path}.{field}", most)
    yield from list_errors(network.get("ips") or (), f"{path}.ips", _MAX_IPS, _address_errors, same)


def _address_errors(address: str, path: str) -> Errors:
    try:
        network = ipaddress.ip_interface(address)
    except ValueError:
        network = None
    if network is None or "/" not in address:
        yield invalid(
            path, address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        )
