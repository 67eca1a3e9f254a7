"""Validation of services."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    port_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import PORT_RANGE, label_errors
from stowplan.localcluster.admission.validation.pods.pods import ip_errors

Errors = Iterator[FieldError]
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS: Final = 86400


def service_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    headless = _is_headless(spec)
    errors: list[FieldError] = []
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        errors += _external_name_errors(spec)
    seen: set[str] = set()
    for i, port in enumerate(ports):
        errors += _port_errors(port, f"spec.ports[{i}]", named=len(ports) > 1, seen=seen)
    if spec.get("selector"):
        errors += label_errors(spec["selector"], "spec.selector")
    errors += _affinity_errors(spec)
    if kind != "ExternalName":
        errors += _address_errors(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        errors += ip_errors(address, f"spec.externalIPs[{i}]")
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    errors += _node_port_errors(spec)
    errors += _balancer_errors(spec)
    errors += _traffic_errors(spec)
    return errors


def _is_headless(spec: Json) -> bool:
    return bool(spec.get("clusterIPs") == ["None"] or spec.get("clusterIP") == "None")


def _external_name_errors(spec: Json) -> Errors:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    yield from (invalid("spec.externalName", name, text) for text in subdomain_problems(name) if name)


def _port_errors(port: Json, path: str, *, named: bool, seen: set[str]) -> Errors:
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
        yield invalid(f"{path}.port", number, PORT_RANGE)
    protocol = port.get("protocol", "TCP")
    if protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    target: Any = port.get("targetPort", number)
    if isinstance(target, str):
        problems = port_name_problems(target)
        yield from (invalid(f"{path}.targetPort", target, problem) for problem in problems)
    elif not 0 < target < 65536:
        yield invalid(f"{path}.targetPort", target, PORT_RANGE)
    used = port.get("appProtocol")
    if used is not None:
        yield from (invalid(f"{path}.appProtocol", used, text) for text in label_key_problems(used))


def _affinity_errors(spec: Json) -> Errors:
    affinity = spec.get("sessionAffinity", "None")
    if affinity not in ("ClientIP", "None"):
        yield not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        seconds = config.get("timeoutSeconds", 1)
        if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}")


def _address_errors(spec: Json) -> Errors:
    path, first, addresses = "spec.clusterIPs", spec.get("clusterIP"), spec.get("clusterIPs") or []
    if first:
        if not addresses:
            yield required(path)
        elif addresses[0] != first:
            yield invalid(path, addresses, "first value must match `clusterIP`")
    elif addresses:
        yield invalid(path, addresses, "must be empty when `clusterIP` is not specified")
    seen: set[str] = set()
    for i, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield not_supported(f"spec.ipFamilies[{i}]", family, ("IPv4", "IPv6"))
        if family in seen:
            yield duplicate(f"spec.ipFamilies[{i}]", family)
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if policy is not None and policy not in policies:
        yield not_supported("spec.ipFamilyPolicy", policy, policies)
    if addresses[:1] == ["None"]:
        if len(addresses) > 1:
            yield invalid(path, addresses, "'None' must be the first and only value")
        return
    for i, address in enumerate(addresses):
        yield from ip_errors(address, f"{path}[{i}]")
    if len(addresses) > 2:
        yield invalid(path, addresses, "may only hold up to 2 values")


def _node_port_errors(spec: Json) -> Errors:
    ports = spec.get("ports") or ()
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        yield from (
            forbidden(f"spec.ports[{i}].nodePort", text)
            for i, port in enumerate(ports)
            if port.get("nodePort")
        )
    on_nodes: set[object] = set()
    numbers: set[object] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol", "TCP"), port.get("nodePort"))
        if port.get("nodePort") and key in on_nodes:
            yield duplicate(f"spec.ports[{i}].nodePort", port["nodePort"])
        on_nodes.add(key)
    for i, port in enumerate(ports):
        key = (port.get("protocol", "TCP"), port.get("port"))
        if key in numbers:
            yield duplicate(f"spec.ports[{i}]", _as_go(port))
        numbers.add(key)


def _as_go(port: Json) -> Json:
    """A port as Go shows the parts that have to be unique."""
    return {
        "Name": "",
        "Protocol": port.get("protocol", "TCP"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }


def _balancer_errors(spec: Json) -> Errors:
    balanced, text = spec.get("type") == "LoadBalancer", "may only be used when `type` is 'LoadBalancer'"
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if ranges and not balanced:
        yield forbidden("spec.LoadBalancerSourceRanges", text)
    for i, given in enumerate(ranges):
        try:
            ipaddress.ip_network(given.strip(), strict=False)
        except ValueError:
            wanted = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid(f"spec.LoadBalancerSourceRanges[{i}]", given, wanted)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        yield forbidden("spec.allocateLoadBalancerNodePorts", text)
    kind = spec.get("loadBalancerClass")
    if kind is not None:
        if not balanced:
            yield forbidden("spec.loadBalancerClass", text)
        yield from (invalid("spec.loadBalancerClass", kind, problem) for problem in label_key_problems(kind))


def _traffic_errors(spec: Json) -> Errors:
    kind, external = spec.get("type"), spec.get("externalTrafficPolicy")
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if not reachable:
        if external:
            text = "may only be set for externally-accessible services"
            yield invalid("spec.externalTrafficPolicy", external, text)
    elif external not in ("Cluster", "Local"):
        yield not_supported("spec.externalTrafficPolicy", external or "", ("Cluster", "Local"))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and external == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text)
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in ("Cluster", "Local"):
        yield not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def service_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors: list[FieldError] = []
    if "ExternalName" not in (before.get("type"), after.get("type")):
        held, given = before.get("clusterIPs") or [], after.get("clusterIPs") or []
        if held and not given:
            errors.append(invalid("spec.clusterIPs[0]", given, "primary clusterIP can not be unset"))
        for i, (one, other) in enumerate(zip(held, given, strict=False)):
            if one != other:
                errors.append(invalid(f"spec.clusterIPs[{i}]", given, "may not change once set"))
    both = before.get("type") == after.get("type") == "LoadBalancer"
    if both and before.get("loadBalancerClass") != after.get("loadBalancerClass"):
        text = "may not change once set"
        errors.append(invalid("spec.loadBalancerClass", after.get("loadBalancerClass"), text))
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.SERVICES: service_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.SERVICES: service_update_errors,
}
