"""Addresses of services within the cluster, and their ports on nodes."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import SERVICES
from stowplan.api.fielderrors import FieldError, invalid
from stowplan.api.requests import Json
from stowplan.localcluster.admission.bootstrap import SERVICE_RANGE
from stowplan.localcluster.store.registry import Lookup

_FIRST_PORT: Final = 30000
_LAST_PORT: Final = 32767
_PORTS: Final = _LAST_PORT - _FIRST_PORT + 1
_WITH_PORTS: Final = ("NodePort", "LoadBalancer")
_OF_CLUSTER_IP: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ServiceAllocator:
    """Gives every service an address within the cluster, and ports on the nodes if its type has them.

    They are assigned in order, and those in use are skipped. A requested one has to be free.
    """

    def __init__(self) -> None:
        self._next_address = 2
        self._next_port = 0
        self._before = (self._next_address, self._next_port)

    def rewind(self) -> None:
        """Take back the last allocation: what it was for has not been written."""
        self._next_address, self._next_port = self._before

    def keep(self, old: Json, new: Json) -> None:
        """Keep allocated values that an update leaves out; drop those that the new type does not use."""
        before, spec = old.get("spec") or {}, new["spec"]
        if _has_address(before) and _has_address(spec):
            if not spec.get("clusterIP") and before.get("clusterIP"):
                spec["clusterIP"] = before["clusterIP"]
            if not spec.get("clusterIPs") and spec.get("clusterIP") == before.get("clusterIP"):
                spec["clusterIPs"] = before.get("clusterIPs")
            elif spec.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
                spec["clusterIPs"] = [spec["clusterIP"], *(before.get("clusterIPs") or ())[1:]]
            for field in ("ipFamilies", "ipFamilyPolicy"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
        if _has_ports(before) and _has_ports(spec):
            _keep_ports(before, spec)
            if before.get("healthCheckNodePort") and _is_local(spec):
                spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])
        _drop_unused(before, spec)

    def allocate(self, lookup: Lookup, obj: Json, old: Json | None) -> None:
        """Raises `ApiError` 422 if a requested address or port is taken or cannot be given."""
        self._before = (self._next_address, self._next_port)
        spec, before = obj["spec"], {} if old is None else old.get("spec") or {}
        if _has_address(spec):
            self._allocate_address(lookup, obj, before)
        if _has_ports(spec) and spec.get("allocateLoadBalancerNodePorts", True):
            self._allocate_ports(lookup, obj, before)
        elif _has_ports(spec):
            _check_ports(obj, before, _used_ports(lookup))

    def _allocate_address(self, lookup: Lookup, obj: Json, before: Json) -> None:
        spec = obj["spec"]
        wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if not wanted:
            spec["clusterIP"] = wanted = self._address(lookup)
        elif wanted != "None" and wanted != before.get("clusterIP"):
            _check_address(lookup, obj, wanted)
        spec["clusterIP"] = wanted
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = [wanted]
        if not spec.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = "SingleStack"
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = ["IPv6" if ":" in wanted else "IPv4"]

    def _allocate_ports(self, lookup: Lookup, obj: Json, before: Json) -> None:
        spec, used = obj["spec"], _used_ports(lookup)
        _check_ports(obj, before, used)
        taken = used | {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = self._port(obj, taken)
                taken.add(port["nodePort"])
        if spec["type"] == "LoadBalancer" and _is_local(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._port(obj, taken)

    def _address(self, lookup: Lookup) -> str:
        used = {(found.get("spec") or {}).get("clusterIP") for found in lookup.all(SERVICES)}
        most = SERVICE_RANGE.num_addresses - 2
        for _ in range(most):
            number, self._next_address = self._next_address, self._next_address % most + 1
            address = str(SERVICE_RANGE[number])
            if address not in used:
                return address
        raise status.ApiError(
            500, "InternalError", "Internal error occurred: failed to allocate a serviceIP: range is full"
        )

    def _port(self, obj: Json, used: Iterable[int]) -> int:
        for _ in range(_PORTS):
            port, self._next_port = _FIRST_PORT + self._next_port, (self._next_port + 1) % _PORTS
            if port not in used:
                return port
        text = "Internal error occurred: failed to allocate a nodePort: range is full"
        raise status.ApiError(500, "InternalError", text)


def _has_address(spec: Json) -> bool:
    return spec.get("type") != "ExternalName"


def _has_ports(spec: Json) -> bool:
    return spec.get("type") in _WITH_PORTS


def _is_local(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _ports(spec: Json) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def _keep_ports(before: Json, spec: Json) -> None:
    known = {
        (port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()
    }
    given = {*_ports(spec)}
    for port in spec.get("ports") or ():
        kept = known.get((port.get("protocol"), port.get("port")))
        if not port.get("nodePort") and kept and kept not in given:
            port["nodePort"] = kept
            given.add(kept)


def _drop_unused(before: Json, spec: Json) -> None:
    """Fields of a type that a service no longer is of go, unless the update itself sets them."""
    if _has_address(before) and not _has_address(spec):
        for field in _OF_CLUSTER_IP:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if _has_ports(before) and not _has_ports(spec):
        if _ports(before) == _ports(spec):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    health = "healthCheckNodePort"
    if _is_local(before) and not _is_local(spec) and spec.get(health) == before.get(health):
        spec.pop(health, None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)


def _used_ports(lookup: Lookup) -> set[int]:
    specs = [found.get("spec") or {} for found in lookup.all(SERVICES)]
    health = {spec["healthCheckNodePort"] for spec in specs if spec.get("healthCheckNodePort")}
    return health.union(*map(_ports, specs))


def _check_address(lookup: Lookup, obj: Json, wanted: str) -> None:
    problem = ""
    try:
        inside = ipaddress.ip_address(wanted) in SERVICE_RANGE
    except ValueError:
        inside = False
    if not inside:
        problem = "the provided network does not match the current range"
    elif any((found.get("spec") or {}).get("clusterIP") == wanted for found in lookup.all(SERVICES)):
        problem = "provided IP is already allocated"
    if problem:
        text = f"failed to allocate IP {wanted}: {problem}"
        _refuse(obj, [invalid("spec.clusterIPs", obj["spec"].get("clusterIPs") or [wanted], text)])


def _check_ports(obj: Json, before: Json, used: set[int]) -> None:
    own, errors = {*_ports(before)}, []
    for i, port in enumerate(obj["spec"].get("ports") or ()):
        number = port.get("nodePort")
        if not number or number in own:
            continue
        if not _FIRST_PORT <= number <= _LAST_PORT:
            text = "provided port is not in the valid range. The range of valid ports is "
            text += f"{_FIRST_PORT}-{_LAST_PORT}"
            errors.append(invalid(f"spec.ports[{i}].nodePort", number, text))
        elif number in used:
            errors.append(invalid(f"spec.ports[{i}].nodePort", number, "provided port is already allocated"))
    if errors:
        _refuse(obj, errors[:1])


def _refuse(obj: Json, errors: list[FieldError]) -> None:
    raise status.invalid(SERVICES, obj["metadata"]["name"], errors)
