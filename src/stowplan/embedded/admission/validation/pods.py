"""Pods, and the specs of pods in templates."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stowplan.api.fielderrors import FieldError, Kind, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.amounts import NOT_NEGATIVE, amount_errors, requirement_errors
from stowplan.embedded.admission.validation.metadata import label_errors, name_errors
from stowplan.embedded.admission.validation.placement import placement_errors

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"


_MOST_REMEMBERED: Final = 1000
_LONGEST_REMEMBERED: Final = 16_384
_good_specs: set[bytes] = set()


def pod_errors(pod: Json) -> list[FieldError]:
    """What is wrong with a pod. Most pods are made from a template: a spec found good is remembered."""
    spec = pod.get("spec") or {}
    text = msgspec.json.encode(spec)
    if text in _good_specs:
        return []
    errors = [*pod_spec_errors(spec, "spec")]
    if not errors and len(text) <= _LONGEST_REMEMBERED:
        if len(_good_specs) >= _MOST_REMEMBERED:
            _good_specs.clear()
        _good_specs.add(text)
    return errors


def pod_spec_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """What is wrong with what a pod is to be."""
    volumes = _volume_names(spec)
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
    yield from amount_errors(spec.get("overhead"), f"{path}.overhead")
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
