"""Validation of networking.k8s.io and discovery.k8s.io."""

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
    not_supported,
    required,
)
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    path_segment_problems,
    service_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, name_errors, selector_errors

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
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
    """Whether something is the address of a host."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in str(text)


def port_number_problems(number: Any) -> list[str]:
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name_problems(name: str) -> list[str]:
    problems = ["must be no more than 15 bytes"] if len(name) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def _host_problems(host: str) -> list[str]:
    if "*" not in host:
        return subdomain_problems(host)
    return [] if re.fullmatch(_WILDCARD, host) else [_WILDCARD_PROBLEM]


def _each(path: str, value: Any, problems: Sequence[str]) -> Iterator[FieldError]:
    yield from (invalid(path, value, problem) for problem in problems)


def ingress_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        errors.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        errors += _backend_errors(spec["defaultBackend"], "spec.defaultBackend")
    for i, rule in enumerate(spec.get("rules") or ()):
        errors += _rule_errors(rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            errors += _each(f"spec.tls[{i}].hosts[{j}]", host, _host_problems(host))
        secret = tls.get("secretName")
        if secret:
            errors += _each(f"spec.tls[{i}].secretName", secret, subdomain_problems(secret))
    name = spec.get("ingressClassName")
    if name is not None:
        errors += _each("spec.ingressClassName", name, subdomain_problems(name))
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    if "resourceVersion" not in obj["metadata"] and None not in (name, annotated) and name != annotated:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, text))
    return errors


def _rule_errors(rule: Json, path: str) -> Iterator[FieldError]:
    host = rule.get("host")
    if host:
        if is_ip(host):
            yield invalid(f"{path}.host", host, _NOT_IP)
        yield from _each(f"{path}.host", host, _host_problems(host))
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{path}.http.paths")
    for i, found in enumerate(http.get("paths") or ()):
        yield from _path_errors(found, f"{path}.http.paths[{i}]")


def _path_errors(found: Json, path: str) -> Iterator[FieldError]:
    kind, text = found.get("pathType"), found.get("path") or ""
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            yield invalid(f"{path}.path", text, "must be an absolute path")
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in text:
                yield invalid(f"{path}.path", text, f"must not contain '{part}'")
        for end in ("/..", "/."):
            if text.endswith(end):
                yield invalid(f"{path}.path", text, f"cannot end with '{end}'")
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            yield invalid(f"{path}.path", text, "must be an absolute path")
    else:
        yield not_supported(f"{path}.pathType", kind, ["Exact", "ImplementationSpecific", "Prefix"])
    yield from _backend_errors(found.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: Json, path: str) -> Iterator[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _typed_reference_errors(resource, f"{path}.resource")
    elif service is None:
        yield invalid(path, "", "resource or service backend is required")
    else:
        yield from name_errors(f"{path}.service.name", service.get("name"), service_name_problems)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            yield invalid(path, "", "cannot set both port name & port number")
        elif port.get("name"):
            yield from _each(f"{path}.service.port.name", port["name"], port_name_problems(port["name"]))
        elif port.get("number"):
            number = port["number"]
            yield from _each(f"{path}.service.port.number", number, port_number_problems(number))
        else:
            yield required(path, "port name or number is required")


def _typed_reference_errors(reference: Json, path: str) -> Iterator[FieldError]:
    group = reference.get("apiGroup")
    if group is not None:
        yield from _each(f"{path}.apiGroup", group, subdomain_problems(group))
    for field in ("kind", "name"):
        yield from name_errors(f"{path}.{field}", reference.get(field), path_segment_problems)


def ingress_class_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    controller, path = spec.get("controller") or "", "spec.controller"
    errors: list[FieldError] = []
    if len(controller) > 250:
        errors.append(FieldError(path, Kind.TOO_LONG, "", "may not be more than 250 bytes"))
    host, slash, rest = controller.partition("/")
    if not controller:
        errors.append(required(path))
    elif not (host and slash and rest):
        errors.append(invalid(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += _each(path, host, subdomain_problems(host))
    if spec.get("parameters") is not None:
        errors += _parameters_errors(spec["parameters"], "spec.parameters")
    return errors


def _parameters_errors(parameters: Json, path: str) -> Iterator[FieldError]:
    yield from _typed_reference_errors(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        yield required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        yield not_supported(f"{path}.scope", scope, ["Cluster", "Namespace"])
    elif scope == "Cluster" and namespace is not None:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from _each(f"{path}.namespace", namespace, dns_label_problems(str(namespace)))


def ingress_class_update_errors(old: Json, new: Json) -> list[FieldError]:
    after = (new.get("spec") or {}).get("controller")
    is_same = (old.get("spec") or {}).get("controller") == after
    return [] if is_same else [invalid("spec.controller", after, IMMUTABLE)]


def network_policy_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*selector_errors(spec.get("podSelector"), "spec.podSelector")]
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                errors += _policy_port_errors(port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                errors += _peer_errors(peer, f"{path}.{peers}[{j}]")
    types = spec.get("policyTypes") or ()
    if len(types) > 2:
        return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    for i, kind in enumerate(types):
        if kind not in ("Ingress", "Egress"):
            errors.append(not_supported(f"spec.policyTypes[{i}]", kind, ["Ingress", "Egress"]))
    return errors


def _policy_port_errors(port: Json, path: str) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if isinstance(number, int):
        yield from _each(f"{path}.port", number, port_number_problems(number))
        if end is not None:
            if end < number:
                yield invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
            yield from _each(f"{path}.endPort", end, port_number_problems(end))
        return
    if end is not None:
        why = "not specified" if number is None else "non-numeric"
        yield invalid(f"{path}.endPort", end, f"may not be specified when `port` is {why}")
    if number is not None:
        yield from _each(f"{path}.port", number, port_name_problems(number))


def _peer_errors(peer: Json, path: str) -> Iterator[FieldError]:
    given = [
        field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None
    ]
    for field in ("podSelector", "namespaceSelector"):
        yield from selector_errors(peer.get(field), f"{path}.{field}")
    if "ipBlock" in given:
        yield from _block_errors(peer["ipBlock"], f"{path}.ipBlock")
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block_errors(block: Json, path: str) -> Iterator[FieldError]:
    cidr = block.get("cidr")
    if not cidr:
        yield required(f"{path}.cidr")
        return
    network = _network(cidr)
    if network is None:
        yield invalid(f"{path}.cidr", cidr, _CIDR)
        return
    for i, text in enumerate(block.get("except") or ()):
        left_out = _network(text)
        if left_out is None:
            yield invalid(f"{path}.except[{i}]", text, _CIDR)
        elif left_out == network or not _is_within(left_out, network):
            yield invalid(f"{path}.except[{i}]", text, "must be a strict subset of `cidr`")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _network(text: Any) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in str(text) else None
    except ValueError:
        return None


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def ip_address_errors(obj: Json) -> list[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    errors: list[FieldError] = []
    if not is_ip(name):
        errors.append(invalid("metadata.name", name, _IP))
    parent = spec.get("parentRef")
    if parent is None:
        return [*errors, required("spec.parentRef")]
    group = parent.get("group")
    if group:
        errors += _each("spec.parentRef.group", group, subdomain_problems(group))
    for field in ("resource", "name"):
        errors += name_errors(f"spec.parentRef.{field}", parent.get(field), path_segment_problems)
    if parent.get("namespace"):
        problems = path_segment_problems(parent["namespace"])
        errors += _each("spec.parentRef.namespace", parent["namespace"], problems)
    return errors


def service_cidr_errors(obj: Json) -> list[FieldError]:
    cidrs, path = (obj.get("spec") or {}).get("cidrs") or (), "spec.cidrs"
    if not cidrs:
        return [required(path, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(path, cidrs, "may only hold up to 2 values")]
    return [invalid(f"{path}[{i}]", cidr, _CIDR) for i, cidr in enumerate(cidrs) if _network(cidr) is None]


_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
_OWN_SLICE: Final = ("default", "kubernetes")
"""The slice of this server itself, which may well listen on a loopback address."""

_MAX_ENDPOINTS: Final = 1000
_MAX_ADDRESSES: Final = 100


def endpoint_slice_errors(obj: Json) -> list[FieldError]:
    kind = obj.get("addressType")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    errors += _slice_port_errors(obj.get("ports") or ())
    endpoints = obj.get("endpoints") or ()
    if len(endpoints) > _MAX_ENDPOINTS:
        return [*errors, _too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    for i, endpoint in enumerate(endpoints):
        errors += _endpoint_errors(endpoint, kind or "", f"endpoints[{i}]")
    if (obj["metadata"].get("namespace"), obj["metadata"].get("name")) == _OWN_SLICE:
        errors = [error for error in errors if error.detail != _LOOPBACK]
    return errors


def _slice_port_errors(ports: Sequence[Json]) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        path, name, protocol = f"ports[{i}]", port.get("name") or "", port.get("protocol")
        if name:
            yield from _each(f"{path}.name", name, dns_label_problems(name))
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        if protocol not in _PROTOCOLS:
            yield not_supported(f"{path}.protocol", protocol or "", sorted(_PROTOCOLS))
        if port.get("appProtocol") is not None:
            text = port["appProtocol"]
            yield from _each(f"{path}.appProtocol", text, label_key_problems(text))


def _endpoint_errors(endpoint: Json, kind: str, path: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        yield _too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES)
    for i, address in enumerate(addresses):
        yield from _address_errors(address, kind, f"{path}.addresses", f"{path}.addresses[{i}]")
    node = endpoint.get("nodeName")
    if node is not None:
        yield from _each(f"{path}.nodeName", node, subdomain_problems(node))
    hostname = endpoint.get("hostname")
    if hostname is not None:
        yield from _each(f"{path}.hostname", hostname, dns_label_problems(hostname))
    hints = endpoint.get("hints") or {}
    for field, problems in (("forZones", label_value_problems), ("forNodes", subdomain_problems)):
        seen: set[str] = set()
        for i, hint in enumerate(hints.get(field) or ()):
            here, name = f"{path}.hints.{field}[{i}].name", hint.get("name") or ""
            if name in seen:
                yield duplicate(here, name)
            seen.add(name)
            yield from _each(here, name, problems(name))


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


def _too_many(path: str, found: int, most: int) -> FieldError:
    return FieldError(path, Kind.TOO_MANY, found, f"must have at most {most} items")


def endpoint_slice_update_errors(old: Json, new: Json) -> list[FieldError]:
    after = new.get("addressType")
    return [] if old.get("addressType") == after else [invalid("addressType", after, IMMUTABLE)]


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.INGRESSES: ingress_errors,
    catalogue.INGRESS_CLASSES: ingress_class_errors,
    catalogue.NETWORK_POLICIES: network_policy_errors,
    catalogue.IP_ADDRESSES: ip_address_errors,
    catalogue.SERVICE_CIDRS: service_cidr_errors,
    catalogue.ENDPOINT_SLICES: endpoint_slice_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.INGRESS_CLASSES: ingress_class_update_errors,
    catalogue.ENDPOINT_SLICES: endpoint_slice_update_errors,
}
