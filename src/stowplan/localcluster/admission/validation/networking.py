"""Validation of networking.k8s.io and discovery.k8s.io, as tables."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import (
    FieldError,
    Kind,
    duplicate,
    forbidden,
    invalid,
    required,
)
from stowplan.api.names import (
    dns_label_problems,
    label_value_problems,
    port_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.table import (
    Check,
    enum,
    fixed,
    named,
    rules_of,
    tables,
    too_many,
)

_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_NOT_IP: Final = "must be a DNS name, not an IP address"
_WILDCARD: Final = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_PROBLEM: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
    "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    f"(e.g. '*.example.com', regex used for validation is '{_WILDCARD}')"
)
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


def is_ip(text: Any) -> bool:
    """True for the address of a host."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in str(text)


def port_number_problems(number: Any) -> list[str]:
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def _host_problems(host: str) -> list[str]:
    if "*" not in host:
        return subdomain_problems(host)
    return [] if re.fullmatch(_WILDCARD, host) else [_WILDCARD_PROBLEM]


# Ingresses


def _backend_or_rules(spec: Json, path: str) -> Iterator[FieldError]:
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield invalid(path, None, "either `defaultBackend` or `rules` must be specified")


def _one_class(obj: Json, path: str) -> Iterator[FieldError]:
    """A new Ingress that names its class in the old way, too, has to name the same."""
    name = (obj.get("spec") or {}).get("ingressClassName")
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    if "resourceVersion" not in obj["metadata"] and None not in (name, annotated) and name != annotated:
        text = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, text)


def _not_ip(host: str, path: str) -> Iterator[FieldError]:
    if is_ip(host):
        yield invalid(path, host, _NOT_IP)


def _url_path(found: Json, path: str) -> Iterator[FieldError]:
    kind, text, here = found["pathType"], found.get("path") or "", f"{path}.path"
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(here, text, "must be an absolute path")
    if kind == "ImplementationSpecific":
        return
    for part in ("//", "/./", "/../", "%2f", "%2F"):
        if part in text:
            yield invalid(here, text, f"must not contain '{part}'")
    for end in ("/..", "/."):
        if text.endswith(end):
            yield invalid(here, text, f"cannot end with '{end}'")


def _path(found: Json, path: str) -> Iterator[FieldError]:
    kind = found.get("pathType")
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind in _PATH_TYPES:
        yield from _url_path(found, path)
    yield from _TABLES["typed_path"](found, path)


_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")


def _backend(backend: Json, path: str) -> Iterator[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _TABLES["reference"](resource, f"{path}.resource")
    elif service is None:
        yield invalid(path, "", "resource or service backend is required")
    else:
        yield from _TABLES["service"](service, f"{path}.service")
        yield from _service_port(service.get("port") or {}, path)


def _service_port(port: Json, path: str) -> Iterator[FieldError]:
    """Errors about which of the two is given are reported at the path of the backend."""
    if port.get("name") and port.get("number"):
        yield invalid(path, "", "cannot set both port name & port number")
    elif not port.get("name") and not port.get("number"):
        yield required(path, "port name or number is required")
    else:
        yield from _TABLES["port"](port, f"{path}.service.port")


def _controller(controller: str, path: str) -> Iterator[FieldError]:
    if len(controller) > 250:
        yield FieldError(path, Kind.TOO_LONG, "", "may not be more than 250 bytes")
    host, slash, rest = controller.partition("/")
    if not (host and slash and rest):
        yield invalid(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from named(subdomain_problems)(host, path)


def _namespace_by_scope(parameters: Json, path: str) -> Iterator[FieldError]:
    scope, here = parameters.get("scope"), f"{path}.namespace"
    if scope == "Cluster" and parameters.get("namespace") is not None:
        yield forbidden(here, "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace":
        yield from _TABLES["namespaced"](parameters, path)


# Network policies


def _policy_port(port: Json, path: str) -> Iterator[FieldError]:
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from named(port_number_problems)(number, f"{path}.port")
        if end is not None:
            if end < number:
                yield invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
            yield from named(port_number_problems)(end, f"{path}.endPort")
        return
    if end is not None:
        why = "not specified" if number is None else "non-numeric"
        yield invalid(f"{path}.endPort", end, f"may not be specified when `port` is {why}")
    if number is not None:
        yield from named(port_name_problems)(number, f"{path}.port")


def _one_kind_of_peer(peer: Json, path: str) -> Iterator[FieldError]:
    given = [one for one in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(one) is not None]
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _exceptions(block: Json, path: str) -> Iterator[FieldError]:
    network = _network(block.get("cidr"))
    if network is None:
        return
    for i, text in enumerate(block.get("except") or ()):
        left_out = _network(text)
        if left_out is None:
            yield invalid(f"{path}.except[{i}]", text, _CIDR)
        elif left_out == network or not _is_within(left_out, network):
            yield invalid(f"{path}.except[{i}]", text, "must be a strict subset of `cidr`")


def _cidr(text: str, path: str) -> Iterator[FieldError]:
    if _network(text) is None:
        yield invalid(path, text, _CIDR)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(text: Any) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in str(text) else None
    except ValueError:
        return None


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _policy_types(types: Sequence[str], path: str) -> Iterator[FieldError]:
    if len(types) > 2:
        yield invalid(path, types, "may not specify more than two policyTypes")
        return
    for i, kind in enumerate(types):
        yield from enum("Ingress", "Egress")(kind, f"{path}[{i}]")


# Addresses of services


def _address_name(obj: Json, path: str) -> Iterator[FieldError]:
    name = obj["metadata"].get("name", "")
    if not is_ip(name):
        yield invalid("metadata.name", name, _IP)


def _cidrs(cidrs: Sequence[str], path: str) -> Iterator[FieldError]:
    if len(cidrs) > 2:
        yield invalid(path, cidrs, "may only hold up to 2 values")
    else:
        for i, cidr in enumerate(cidrs):
            yield from _cidr(cidr, f"{path}[{i}]")


# Endpoint slices

_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
_OWN_SLICE: Final = ("default", "kubernetes")
"""The slice of this server itself, which may well listen on a loopback address."""

_MAX_ENDPOINTS: Final = 1000
_MAX_ADDRESSES: Final = 100


def _hints(problems: Callable[[str], list[str]]) -> Check:
    def check(hints: Sequence[Json], path: str) -> Iterator[FieldError]:
        seen: set[str] = set()
        for i, hint in enumerate(hints):
            here, name = f"{path}[{i}].name", hint.get("name") or ""
            if name in seen:
                yield duplicate(here, name)
            seen.add(name)
            yield from named(problems)(name, here)

    return check


def _port_names(ports: Sequence[Json], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        name, here = port.get("name") or "", f"{path}[{i}]"
        if name:
            yield from named(dns_label_problems)(name, f"{here}.name")
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        yield from _TABLES["slice_port"](port, here)


def _endpoints(slice_: Json, path: str) -> Iterator[FieldError]:
    """The type of the addresses is a field of the whole slice."""
    endpoints, kind = slice_.get("endpoints") or (), slice_.get("addressType") or ""
    if len(endpoints) > _MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    is_own = (slice_["metadata"].get("namespace"), slice_["metadata"].get("name")) == _OWN_SLICE
    for i, endpoint in enumerate(endpoints):
        found = _addresses(endpoint.get("addresses") or (), kind, f"endpoints[{i}].addresses")
        yield from (error for error in found if not is_own or error.detail != _LOOPBACK)
        yield from _TABLES["endpoint"](endpoint, f"endpoints[{i}]")


def _addresses(addresses: Sequence[str], kind: str, path: str) -> Iterator[FieldError]:
    if not addresses:
        yield required(path, "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        yield too_many(path, len(addresses), _MAX_ADDRESSES)
    for i, address in enumerate(addresses):
        yield from _address_errors(address, kind, path, f"{path}[{i}]")


def _address_errors(address: str, kind: str, path: str, here: str) -> Iterator[FieldError]:
    if kind == "FQDN":
        text = address.removesuffix(".")
        problems = subdomain_problems(text)
        if not address:
            yield required(here)
        elif problems:
            yield invalid(here, text, ",".join(problems))
        elif "." not in text:
            yield invalid(here, text, "should be a domain with at least two segments separated by dots")
        return
    if kind not in ("IPv4", "IPv6"):
        return
    if not is_ip(address):
        yield invalid(here, address, _IP)
        return
    found = ipaddress.ip_address(address)
    if f"IPv{found.version}" != kind:
        yield invalid(path, address, f"must be an {kind} address")
    if found.is_unspecified:
        yield invalid(here, address, "may not be unspecified (0.0.0.0 or ::)")
    if found.is_loopback:
        yield invalid(here, address, _LOOPBACK)
    if found.is_link_local:
        text = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        yield invalid(here, address, text)


# All of it

_TABLES: Final = tables(
    """
    reference
      apiGroup             subdomain
      kind!                segment
      name!                segment
    service
      name!                service_name
    port
      name?                port_name
      number?              port_number
    typed_path
      pathType             {Exact, ImplementationSpecific, Prefix}
      backend+             backend
    Ingress
      spec+                backend_or_rules
        defaultBackend     backend
        rules[]
          host?            not_ip host
          http
            paths[]!       each path
        tls[]
          hosts[]          each host
          secretName?      subdomain
        ingressClassName   subdomain
      & one_class

    namespaced
      namespace*           dns_label : `parameters.scope` is set to 'Namespace'
    IngressClass
      spec+
        controller!        controller
        parameters         reference
          scope*           {Cluster, Namespace}
          & namespace_by_scope

    protocol_port
      protocol             {TCP, UDP, SCTP}
      & policy_port
    peer
      podSelector          selector
      namespaceSelector    selector
      ipBlock
        cidr!              cidr
        & exceptions
      & one_kind_of_peer
    NetworkPolicy
      spec+
        podSelector        selector
        ingress[]
          ports[]          each protocol_port
          from[]           each peer
        egress[]
          ports[]          each protocol_port
          to[]             each peer
        policyTypes        policy_types

    IPAddress
      & address_name
      spec+
        parentRef*
          group?           subdomain
          resource!        segment
          name!            segment
          namespace?       segment
    ServiceCIDR
      spec+
        cidrs!             cidrs : at least one CIDR required

    slice_port
      protocol+            {SCTP, TCP, UDP}
      appProtocol          label_key
    endpoint
      nodeName             subdomain
      hostname             dns_label
      hints
        forZones           zones
        forNodes           nodes
    EndpointSlice
      addressType!         {FQDN, IPv4, IPv6}
      ports                port_names
      & endpoints
    """,
    *(_backend, _backend_or_rules, _not_ip, _path, _one_class, _controller, _namespace_by_scope),
    *(_policy_port, _cidr, _exceptions, _one_kind_of_peer, _policy_types, _address_name, _cidrs),
    *(_port_names, _endpoints),
    port_name=named(port_name_problems),
    port_number=named(port_number_problems),
    host=named(_host_problems),
    zones=_hints(label_value_problems),
    nodes=_hints(subdomain_problems),
)
ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = rules_of(_TABLES)
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.INGRESS_CLASSES: fixed("spec.controller"),
    catalogue.ENDPOINT_SLICES: fixed("addressType"),
}
