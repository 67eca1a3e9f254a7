"""Validation of pods, of the pod specs in templates, and of updates of pods."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.meta import (
    NOT_NEGATIVE,
    label_errors,
    name_errors,
    quantity_errors,
    requirement_errors,
    selector_errors,
)

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_MAX_CACHED: Final = 1000
_MAX_CACHED_BYTES: Final = 16_384
_valid_specs: set[bytes] = set()


def pod_errors(pod: Json) -> list[FieldError]:
    """What is wrong with a pod. Most pods are made from a template: a spec found good is remembered."""
    spec = pod.get("spec") or {}
    text = msgspec.json.encode(spec)
    if text in _valid_specs:
        return []
    errors = [*pod_spec_errors(spec, "spec")]
    if not errors and len(text) <= _MAX_CACHED_BYTES:
        if len(_valid_specs) >= _MAX_CACHED:
            _valid_specs.clear()
        _valid_specs.add(text)
    return errors


def pod_spec_errors(spec: Json, path: str, claims: Sequence[str] = ()) -> Iterator[FieldError]:
    """What is wrong with what a pod is to be. `claims`: volumes that are not in the spec itself."""
    volumes = _volume_names(spec).union(claims)
    yield from _volume_errors(spec, f"{path}.volumes")
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield from _container_errors(container, f"{path}.{kind}[{i}]", volumes, seen)
    yield from _choice(spec, "restartPolicy", _RESTARTS, path)
    yield from _choice(spec, "dnsPolicy", _DNS, path)
    for field in ("terminationGracePeriodSeconds", "activeDeadlineSeconds"):
        least = 1 if field == "activeDeadlineSeconds" else 0
        number = spec.get(field)
        if number is not None and number < least:
            text = NOT_NEGATIVE if not least else "must be between 1 and 2147483647, inclusive"
            yield invalid(f"{path}.{field}", number, text)
    if spec.get("nodeSelector"):
        yield from label_errors(spec["nodeSelector"], f"{path}.nodeSelector")
    for field in ("nodeName", "serviceAccountName", "priorityClassName", "schedulerName"):
        name = spec.get(field)
        if name:
            yield from (invalid(f"{path}.{field}", name, problem) for problem in subdomain_problems(name))
    if spec.get("hostname"):
        yield from name_errors(f"{path}.hostname", spec["hostname"], dns_label_problems)
    yield from quantity_errors(spec.get("overhead"), f"{path}.overhead")
    yield from placement_errors(spec, path)


def _choice(obj: Json, field: str, choices: tuple[str, ...], path: str) -> Iterator[FieldError]:
    given = obj.get(field)
    if given is not None and given not in choices:
        yield not_supported(f"{path}.{field}", given, sorted(choices))


def _volume_names(spec: Json) -> set[str]:
    return {volume.get("name", "") for volume in spec.get("volumes") or ()}


def _volume_errors(spec: Json, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, volume in enumerate(spec.get("volumes") or ()):
        here, name = f"{path}[{i}]", volume.get("name")
        yield from name_errors(f"{here}.name", name, dns_label_problems)
        if name in seen:
            yield duplicate(f"{here}.name", name)
        seen.add(name or "")
        sources = [field for field in volume if field != "name"]
        if len(sources) > 1:
            yield forbidden(f"{here}.{sources[1]}", "may not specify more than 1 volume type")
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            yield required(f"{here}.persistentVolumeClaim.claimName")


def _container_errors(container: Json, path: str, volumes: set[str], seen: set[str]) -> Iterator[FieldError]:
    name = container.get("name")
    yield from name_errors(f"{path}.name", name, dns_label_problems)
    if name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name or "")
    image = container.get("image")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _choice(container, "imagePullPolicy", _PULLS, path)
    for i, port in enumerate(container.get("ports") or ()):
        yield from _port_errors(port, f"{path}.ports[{i}]")
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _mount_errors(mount, f"{path}.volumeMounts[{i}]", volumes)
    for i, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{path}.env[{i}].name")
    yield from requirement_errors(container.get("resources"), f"{path}.resources")


def _port_errors(port: Json, path: str) -> Iterator[FieldError]:
    number = port.get("containerPort")
    if not number:
        yield required(f"{path}.containerPort")
    elif not 0 < number < 65536:
        yield invalid(f"{path}.containerPort", number, _PORT_RANGE)
    host = port.get("hostPort")
    if host and not 0 < host < 65536:
        yield invalid(f"{path}.hostPort", host, _PORT_RANGE)
    yield from _choice(port, "protocol", _PROTOCOLS, path)


def _mount_errors(mount: Any, path: str, volumes: set[str]) -> Iterator[FieldError]:
    name = mount.get("name")
    if not name:
        yield required(f"{path}.name")
    elif name not in volumes:
        yield FieldError(f"{path}.name", Kind.NOT_FOUND, name)
    if not mount.get("mountPath"):
        yield required(f"{path}.mountPath")


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """What is wrong with a pod's wishes."""
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_errors(toleration, f"{path}.tolerations[{i}]")
    affinity = spec.get("affinity")
    if affinity:
        yield from _affinity_errors(affinity, f"{path}.affinity")
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread_errors(constraint, f"{path}.topologySpreadConstraints[{i}]")
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        here = f"{path}.schedulingGates[{i}]"
        yield from (invalid(here, name, problem) for problem in label_key_problems(name))


def _toleration_errors(toleration: Json, path: str) -> Iterator[FieldError]:
    key, operator = toleration.get("key"), toleration.get("operator")
    if key:
        yield from (invalid(f"{path}.key", key, problem) for problem in label_key_problems(key))
    elif operator != "Exists":
        yield invalid(
            f"{path}.operator",
            operator or "",
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield invalid(
            f"{path}.effect",
            toleration.get("effect") or "",
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    if operator not in (None, "", "Equal", "Exists", "Lt", "Gt"):
        yield not_supported(f"{path}.operator", operator, ["Equal", "Exists"])
    elif operator == "Exists" and toleration.get("value"):
        yield invalid(
            f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
        )
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        yield not_supported(f"{path}.effect", toleration["effect"], sorted(_EFFECTS))


def _affinity_errors(affinity: Json, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    here = f"{path}.nodeAffinity"
    needed = node.get(_REQUIRED)
    if needed is not None:
        terms = needed.get("nodeSelectorTerms")
        if not terms:
            text = "must have at least one node selector term"
            yield required(f"{here}.{_REQUIRED}.nodeSelectorTerms", text)
        for i, term in enumerate(terms or ()):
            yield from _node_term_errors(term, f"{here}.{_REQUIRED}.nodeSelectorTerms[{i}]")
    for i, preference in enumerate(node.get(_PREFERRED) or ()):
        place = f"{here}.{_PREFERRED}[{i}]"
        yield from _weight_errors(preference, place)
        yield from _node_term_errors(preference.get("preference") or {}, f"{place}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity_errors(affinity.get(kind) or {}, f"{path}.{kind}")


def _pod_affinity_errors(affinity: Json, path: str) -> Iterator[FieldError]:
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield from _pod_term_errors(term, f"{path}.{_REQUIRED}[{i}]")
    for i, preference in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{i}]"
        yield from _weight_errors(preference, here)
        yield from _pod_term_errors(preference.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _weight_errors(preference: Json, path: str) -> Iterator[FieldError]:
    weight = preference.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term_errors(term: Json, path: str) -> Iterator[FieldError]:
    for i, wish in enumerate(term.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{i}]", wish.get("operator"), wish.get("values")
        if operator not in _NODE_OPERATORS:
            yield invalid(f"{here}.operator", operator or "", "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        elif operator in ("Gt", "Lt") and len(values or ()) != 1:
            yield required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        key = wish.get("key") or ""
        yield from (invalid(f"{here}.key", key, problem) for problem in label_key_problems(key))


def _pod_term_errors(term: Json, path: str) -> Iterator[FieldError]:
    key = term.get("topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, problem) for problem in label_key_problems(key))
    yield from selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")


def _spread_errors(constraint: Json, path: str) -> Iterator[FieldError]:
    skew = constraint.get("maxSkew") or 0
    if skew <= 0:
        yield invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    key = constraint.get("topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, problem) for problem in label_key_problems(key))
    action = constraint.get("whenUnsatisfiable") or ""
    if action not in _WHEN_UNSATISFIABLE:
        yield not_supported(f"{path}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
    least = constraint.get("minDomains")
    if least is not None and least <= 0:
        yield invalid(f"{path}.minDomains", least, "must be greater than zero")
    elif least is not None and action != "DoNotSchedule":
        yield invalid(
            f"{path}.minDomains",
            least,
            f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
        )
    yield from selector_errors(constraint.get("labelSelector"), f"{path}.labelSelector")


_POD_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_POD_MUTABLE: Final = frozenset(("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"))


def pod_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = _toleration_update_errors(before, after)
    errors += _gate_update_errors(before, after)
    free = set(_POD_MUTABLE) | {"schedulingGates"}
    if before.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    if _immutable_fields(before, free) != _immutable_fields(after, free):
        errors.append(forbidden("spec", _POD_RULE))
    return errors


def _immutable_fields(spec: Json, free: set[str]) -> Json:
    """What of a pod's spec has to stay."""
    core = {
        field: value for field, value in spec.items() if field not in free and value not in (None, [], {})
    }
    for kind in ("containers", "initContainers"):
        if core.get(kind):
            core[kind] = [{key: value for key, value in c.items() if key != "image"} for c in core[kind]]
    return core


def _toleration_update_errors(before: Json, after: Json) -> list[FieldError]:
    kept = after.get("tolerations") or []
    for toleration in before.get("tolerations") or ():
        same = {key: value for key, value in toleration.items() if key != "tolerationSeconds"}
        if not any({k: v for k, v in other.items() if k != "tolerationSeconds"} == same for other in kept):
            return [
                forbidden(
                    "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
                )
            ]
    return []


def _gate_update_errors(before: Json, after: Json) -> list[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    added = [
        gate.get("name", "") for gate in after.get("schedulingGates") or () if gate.get("name") not in known
    ]
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    return [
        forbidden(
            "spec.schedulingGates", f"only deletion is allowed, but found new scheduling gates [{shown}]"
        )
    ]


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PODS: pod_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PODS: pod_update_errors,
}
