"""Validation of pods, and of the pod specs in templates."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.api.rules.resources import is_pod_level
from stowplan.localcluster.admission.validation.meta import (
    NOT_NEGATIVE,
    label_errors,
    name_errors,
    quantity_errors,
    requirement_errors,
)
from stowplan.localcluster.admission.validation.pods.containers import (
    PodContext,
    containers_errors,
    id_errors,
    profile_errors,
)
from stowplan.localcluster.admission.validation.pods.placement import (
    gate_errors,
    placement_errors,
    spreads_errors,
    tolerations_errors,
)
from stowplan.localcluster.admission.validation.pods.podupdates import pod_update_errors
from stowplan.localcluster.admission.validation.pods.volumes import volumes_errors

Errors = Iterator[FieldError]
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
TOKEN_VOLUME: Final = "kube-api-access-"
"""How the names of volumes with the token of a service account begin."""

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of pods that only show what a kubelet runs."""

_MAX_INT32: Final = (1 << 31) - 1
_MAX_CACHED: Final = 1000
_MAX_CACHED_BYTES: Final = 16_384
_valid_specs: set[bytes] = set()


def pod_errors(pod: Json) -> list[FieldError]:
    """Errors of a pod. Most pods are made from a template: a valid spec is remembered."""
    spec = pod.get("spec") or {}
    text = _shape(spec)
    if text in _valid_specs:
        return []
    errors = [*pod_spec_errors(spec, "spec", pod_name=pod["metadata"].get("name", ""), is_pod=True)]
    errors += _pod_only_errors(spec)
    if not errors and len(text) <= _MAX_CACHED_BYTES:
        if len(_valid_specs) >= _MAX_CACHED:
            _valid_specs.clear()
        _valid_specs.add(text)
    return errors


def _shape(spec: Json) -> bytes:
    """A spec as text, the same for all pods of a template: the name of its token volume is random."""
    text = msgspec.json.encode(spec)
    volumes = spec.get("volumes")
    name = volumes[-1].get("name") if volumes else None
    if isinstance(name, str) and name.startswith(TOKEN_VOLUME):
        text = text.replace(name.encode(), b"\0")
    return text


def pod_create_errors(pod: Json) -> list[FieldError]:
    """Errors of a pod that apply at its creation only."""
    spec = pod.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", text))
    mirrored = (pod["metadata"].get("annotations") or {}).get(MIRROR)
    if mirrored is not None and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"metadata.annotations[{MIRROR}]", mirrored, text))
    return errors


def _pod_only_errors(spec: Json) -> Errors:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        yield invalid("spec.terminationGracePeriodSeconds", grace, NOT_NEGATIVE)
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                yield invalid(f"spec.{kind}[{i}].image", image, text)


def pod_spec_errors(
    spec: Json, path: str, claims: Sequence[str] = (), *, pod_name: str = "", is_pod: bool = False
) -> Errors:
    """Errors of a pod's spec. `claims`: volumes that are not in the spec itself."""
    yield from volumes_errors(spec, f"{path}.volumes", pod_name)
    yield from _resource_claims_errors(spec, f"{path}.resourceClaims")
    yield from containers_errors(spec, path, _context(spec, claims, is_pod=is_pod))
    if spec.get("resources") is not None:
        yield from _pod_resources_errors(spec["resources"], f"{path}.resources")
    yield from _host_network_errors(spec, path, is_pod=is_pod)
    yield from _choice(spec, "restartPolicy", _RESTARTS, path)
    yield from _choice(spec, "dnsPolicy", _DNS, path)
    if spec.get("nodeSelector"):
        yield from label_errors(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext"):
        yield from _security_errors(spec["securityContext"], f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, text)
    yield from placement_errors(spec, path)
    yield from _dns_errors(spec, f"{path}.dnsConfig")
    yield from gate_errors(spec, path)
    yield from spreads_errors(spec, f"{path}.topologySpreadConstraints")
    yield from _host_users_errors(spec, path)
    yield from _name_errors(spec, path)
    if spec.get("tolerations"):
        yield from tolerations_errors(spec["tolerations"], f"{path}.tolerations")
    yield from _host_alias_errors(spec, f"{path}.hostAliases")
    yield from _class_errors(spec, path)
    if spec.get("schedulingGroup") is not None:
        yield from _group_errors(spec["schedulingGroup"], f"{path}.schedulingGroup.podGroupName")


def _group_errors(group: Json, path: str) -> Errors:
    """The pod group need not exist yet."""
    name = group.get("podGroupName")
    if name is None:
        yield invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from (invalid(path, name, text) for text in subdomain_problems(name))


def _context(spec: Json, claims: Sequence[str], *, is_pod: bool) -> PodContext:
    volumes = {
        volume.get("name", ""): bool(volume.get("persistentVolumeClaim") or volume.get("ephemeral"))
        for volume in spec.get("volumes") or ()
    }
    for claim in claims:
        volumes[claim] = True
    return PodContext(
        volumes,
        frozenset(claim.get("name", "") for claim in spec.get("resourceClaims") or ()),
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", "Always"),
        spec.get("hostUsers") is not False,
        is_pod,
    )


def _choice(obj: Json, field: str, choices: tuple[str, ...], path: str) -> Errors:
    given = obj.get(field)
    if given is not None and given not in choices:
        yield not_supported(f"{path}.{field}", given, choices)


def _resource_claims_errors(spec: Json, path: str) -> Errors:
    seen: set[str] = set()
    for i, claim in enumerate(spec.get("resourceClaims") or ()):
        here, name = f"{path}[{i}]", claim.get("name")
        if name and name in seen:
            yield duplicate(f"{here}.name", name)
        yield from name_errors(f"{here}.name", name, dns_label_problems)
        seen.add(name or "")
        named, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if named is not None and template is not None:
            shown = {"resourceClaimName": named, "resourceClaimTemplateName": template}
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(here, shown, text)
        if named is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid(here, {"name": name or ""}, text)
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            given = claim.get(field)
            if given is not None:
                yield from (invalid(f"{here}.{field}", given, text) for text in subdomain_problems(given))


def _pod_resources_errors(resources: Json, path: str) -> Errors:
    """Resources of the pod as a whole."""
    if resources.get("claims") is not None:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    for part in ("limits", "requests"):
        for name in resources.get(part) or ():
            if not is_pod_level(name):
                yield not_supported(f"{path}.{part}[{name}]", name, ("cpu", "hugepages-", "memory"))
    yield from requirement_errors(resources, path)


def _host_network_errors(spec: Json, path: str, *, is_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            host, inside = port.get("hostPort") or 0, port.get("containerPort")
            if (is_pod or host) and host != inside:
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}.containers[{i}].ports[{j}].hostPort", host, text)


def _security_errors(context: Json, path: str) -> Errors:
    yield from id_errors(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from id_errors({f"supplementalGroups[{i}]": group}, (f"supplementalGroups[{i}]",), path)
    yield from _choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    yield from profile_errors(context, path)
    yield from _choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)
    yield from _choice(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), path)


def _dns_errors(spec: Json, path: str) -> Errors:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", text)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > 3:
        yield invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for i, server in enumerate(servers):
        yield from ip_errors(server, f"{path}.nameservers[{i}]")
    if len(searches) > 32:
        yield invalid(f"{path}.searches", searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", searches, text)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{path}.options[{i}]", "must not be empty")


def ip_errors(address: Any, path: str) -> Errors:
    """An IP address, of either family."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid(path, address, text)


def _host_users_errors(spec: Json, path: str) -> Errors:
    if spec.get("hostUsers") is not False:
        return
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden(f"{path}.{shown}", "when `hostUsers` is false")


def _name_errors(spec: Json, path: str) -> Errors:
    """Names of other objects, and of the pod on the network."""
    for field in ("serviceAccountName", "nodeName"):
        name = spec.get(field)
        if name:
            yield from (invalid(f"{path}.{field}", name, problem) for problem in subdomain_problems(name))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = "must be between 1 and 2147483647, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, text)
    for field in ("hostname", "subdomain"):
        name = spec.get(field)
        if name:
            yield from (invalid(f"{path}.{field}", name, problem) for problem in dns_label_problems(name))


def _host_alias_errors(spec: Json, path: str) -> Errors:
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_errors(alias.get("ip") or "", f"{path}[{i}].ip")
        for j, name in enumerate(alias.get("hostnames") or ()):
            here = f"{path}[{i}].hostnames[{j}]"
            yield from (invalid(here, name, problem) for problem in subdomain_problems(name))


def _class_errors(spec: Json, path: str) -> Errors:
    for field in ("priorityClassName", "runtimeClassName"):
        name = spec.get(field)
        if name or (name is not None and field == "runtimeClassName"):
            yield from (invalid(f"{path}.{field}", name, problem) for problem in subdomain_problems(name))
    yield from _choice(spec, "preemptionPolicy", ("PreemptLowerPriority", "Never"), path)
    yield from quantity_errors(spec.get("overhead"), f"{path}.overhead")
    system = spec.get("os")
    if system is not None:
        if not system.get("name"):
            yield required(f"{path}.os.name", "cannot be empty")
        else:
            yield from _choice(system, "name", ("linux", "windows"), f"{path}.os")


def pod_status_errors(old: Json, new: Json) -> list[FieldError]:
    """Errors of a pod's new status."""
    before, after = old.get("status") or {}, new.get("status") or {}
    errors: list[FieldError] = []
    nominated = after.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        path = "status.nominatedNodeName"
        errors += [invalid(path, nominated, problem) for problem in subdomain_problems(nominated)]
    kind = before.get("qosClass")
    if kind and after.get("qosClass", kind) != kind:
        errors.append(invalid("status.qosClass", after["qosClass"], "field is immutable"))
    if after.get("conditions") is not before.get("conditions"):
        for i, condition in enumerate(after.get("conditions") or ()):
            path, name = f"status.conditions[{i}].type", condition.get("type") or ""
            errors += [invalid(path, name, problem) for problem in label_key_problems(name)]
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PODS: pod_errors,
}
ON_CREATE: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PODS: pod_create_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PODS: pod_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PODS: pod_status_errors,
}
