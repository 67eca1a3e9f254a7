"""Where the services of a cluster are reached from this machine.

Pods are simulated, so nobody answers behind most services. A service is reached if the user said where
(`--service`), or if somebody wrote its endpoints by hand: an EndpointSlice, Endpoints, or an ExternalName.
Endpoints that controllers write for pods never count.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from stowplan.api.names import dns_label_problems
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.store.registry import Lookup

_SERVICE_NAME: Final = "kubernetes.io/service-name"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_OF_PODS: Final = "endpointslice-controller.k8s.io"
_TRIGGER: Final = "endpoints.kubernetes.io/managed-by"
_OF_ENDPOINTS: Final = "endpoint-controller"
_EXPECTED: Final = "expected NAME.NAMESPACE[:PORT]=HOST:PORT"


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServiceKey(NamedTuple):
    """A service and one of its ports; 0 stands for all of them."""

    namespace: str
    name: str
    port: int = 0


class UnreachableServiceError(Exception):
    """A service with nobody behind it, in kube-apiserver's words."""


class ServiceAddresses:
    """Finds the addresses of services. `given` are those that the user named."""

    def __init__(self, lookup: Lookup, given: Mapping[ServiceKey, Address] | None = None) -> None:
        self._lookup = lookup
        self._given = dict(given or {})

    def find(self, namespace: str, name: str, port: int) -> Address:
        """Address of a port of a service. Raises `UnreachableServiceError`."""
        for key in (ServiceKey(namespace, name, port), ServiceKey(namespace, name)):
            if key in self._given:
                return self._given[key]
        service = self._lookup.find(SERVICES, namespace, name)
        if service is None:
            raise UnreachableServiceError(f"service {quote(name)} not found")
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return Address(str(spec.get("externalName") or ""), port)
        found = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if found is None:
            text = f"no service port {port} found for service {quote(name)}"
            raise UnreachableServiceError(text)
        address = next(self._endpoints(namespace, name, found.get("name") or ""), None)
        if address is None:
            raise UnreachableServiceError(f"no endpoints available for service {quote(name)}")
        return address

    def is_reachable(self, namespace: str, name: str, port: int) -> bool:
        """True if there is an address, whoever answers there."""
        try:
            self.find(namespace, name, port)
        except UnreachableServiceError:
            return False
        return True

    def _endpoints(self, namespace: str, name: str, port: str) -> Iterator[Address]:
        """Endpoints that somebody wrote for a port of a service, by the port's name."""
        for one in self._lookup.within(ENDPOINT_SLICES, namespace):
            labels = one["metadata"].get("labels") or {}
            if labels.get(_SERVICE_NAME) == name and labels.get(_MANAGED_BY) != _OF_PODS:
                ready = [endpoint for endpoint in one.get("endpoints") or () if _is_written(endpoint)]
                hosts = (host for endpoint in ready for host in (endpoint.get("addresses") or ())[:1])
                yield from _addresses(hosts, one.get("ports") or (), port)
        written = self._lookup.find(ENDPOINTS, namespace, name)
        if written is None or (written["metadata"].get("labels") or {}).get(_TRIGGER) == _OF_ENDPOINTS:
            return
        for subset in written.get("subsets") or ():
            hosts = (one["ip"] for one in subset.get("addresses") or () if "targetRef" not in one)
            yield from _addresses(hosts, subset.get("ports") or (), port)


def _is_written(endpoint: Json) -> bool:
    """True for an endpoint that is ready, and no pod."""
    ready = (endpoint.get("conditions") or {}).get("ready")
    return ready is not False and "targetRef" not in endpoint


def _addresses(hosts: Iterable[str], ports: Iterable[Json], name: str) -> Iterator[Address]:
    numbers = [one["port"] for one in ports if (one.get("name") or "") == name and one.get("port")]
    return (Address(host, number) for host in hosts for number in numbers)


def read_services(texts: Iterable[str]) -> dict[ServiceKey, Address]:
    """The addresses that a user gives. Raises ValueError with a line that names the text and the form."""
    found: dict[ServiceKey, Address] = {}
    for text in texts:
        service, equals, where = text.partition("=")
        named, colon, port = service.partition(":")
        name, dot, namespace = named.partition(".")
        host, _, number = where.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        wrong_name = not dot or dns_label_problems(name) or dns_label_problems(namespace)
        if not equals or not host or wrong_name or _port(number) is None or (colon and _port(port) is None):
            raise ValueError(f"{_EXPECTED}, got {text!r}")
        key = ServiceKey(namespace, name, _port(port) or 0)
        if key in found:
            raise ValueError(f"{service!r} is given twice")
        found[key] = Address(host, _port(number) or 0)
    return found


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None


def unreachable(error: UnreachableServiceError) -> status.ApiError:
    """The error of a request whose server is not there."""
    return status.ApiError(503, "ServiceUnavailable", str(error))
