"""Addresses and node ports of services."""

from typing import Final

from stowplan.api.catalogue import SERVICES, Resource
from stowplan.api.requests import Json
from stowplan.embedded.store.registry import Lookup

_FIRST_PORT: Final = 30000
_PORTS: Final = 2768
_ADDRESSES: Final = 1 << 12


class Addresses:
    """Gives every service an address within the cluster, and a port on the nodes if it is to have one.

    They are handed out in order, and those in use are left out.
    """

    def __init__(self) -> None:
        self._next_address = 1
        self._next_port = 0

    def give(self, lookup: Lookup, resource: Resource, obj: Json, old: Json | None) -> None:
        if resource != SERVICES or obj["spec"].get("type") == "ExternalName":
            return
        spec, before = obj["spec"], {} if old is None else old.get("spec") or {}
        for field in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
            if before.get(field) and not spec.get(field):
                spec[field] = before[field]
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._address(lookup)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["type"] in ("NodePort", "LoadBalancer"):
            self._give_ports(lookup, spec, before)

    def _give_ports(self, lookup: Lookup, spec: Json, before: Json) -> None:
        known = {
            (port.get("name"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()
        }
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = known.get((port.get("name"), port.get("port"))) or self._port(lookup)

    def _address(self, lookup: Lookup) -> str:
        used = {found["spec"].get("clusterIP") for found in lookup.all(SERVICES) if "spec" in found}
        for _ in range(_ADDRESSES):
            number, self._next_address = self._next_address, self._next_address % (_ADDRESSES - 2) + 1
            address = f"10.96.{number >> 8}.{number & 255}"
            if address not in used:
                return address
        return "None"

    def _port(self, lookup: Lookup) -> int:
        services = (found.get("spec") or {} for found in lookup.all(SERVICES))
        used = {port.get("nodePort") for spec in services for port in spec.get("ports") or ()}
        for _ in range(_PORTS):
            port, self._next_port = _FIRST_PORT + self._next_port, (self._next_port + 1) % _PORTS
            if port not in used:
                return port
        return 0
