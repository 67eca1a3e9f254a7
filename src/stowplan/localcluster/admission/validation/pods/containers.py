"""Validation of containers: ports, environment, mounts, probes, resources, security."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stowplan.api.fielderrors import FieldError, Kind, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import (
    config_key_problems,
    dns_label_problems,
    http_header_problems,
    port_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import (
    NOT_NEGATIVE,
    PORT_RANGE,
    name_errors,
    requirement_errors,
)
from stowplan.localcluster.admission.validation.pods.volumes import (
    ENV_FIELDS,
    backstep_errors,
    descending_errors,
    field_ref_errors,
    resource_ref_errors,
)

Errors = Iterator[FieldError]
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_ID_RANGE: Final = "must be between 0 and 2147483647, inclusive"
_MAX_ID: Final = (1 << 31) - 1


class PodContext(NamedTuple):
    """Parts of a pod that its containers are checked against.

    `volumes`: by name, True for a claim (or a claim's template), which alone can be a device. `claims`: the
    names of its resource claims.
    """

    volumes: Mapping[str, bool]
    claims: frozenset[str]
    grace_period: int | None
    restart_policy: str
    host_users: bool
    is_pod: bool = False


def containers_errors(spec: Json, path: str, pod: PodContext) -> Errors:
    """Errors of the containers of a pod, of all three kinds."""
    containers, init = spec.get("containers") or (), spec.get("initContainers") or ()
    if not containers:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for i, container in enumerate(containers):
        here = f"{path}.containers[{i}]"
        yield from _common_errors(container, here, pod)
        yield from _name_taken(container, here, seen)
        yield from _hook_errors(container, here, pod)
    yield from _host_port_errors(containers, f"{path}.containers")
    for i, container in enumerate(init):
        here = f"{path}.initContainers[{i}]"
        yield from _common_errors(container, here, pod)
        yield from _name_taken(container, here, seen)
        yield from _host_port_errors((container,), f"{path}.initContainers")
        yield from _init_errors(container, here, pod)
    others = set(seen)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        here = f"{path}.ephemeralContainers[{i}]"
        yield from _common_errors(container, here, pod)
        yield from _name_taken(container, here, seen)
        yield from _ephemeral_errors(container, here, others)


def _name_taken(container: Json, path: str, seen: set[str]) -> Errors:
    name = container.get("name") or ""
    if name and name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name)


def _common_errors(container: Json, path: str, pod: PodContext) -> Errors:
    yield from name_errors(f"{path}.name", container.get("name"), dns_label_problems)
    if not container.get("image"):
        yield required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "File")
    if policy not in ("File", "FallbackToLogsOnError"):
        yield not_supported(f"{path}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    if container.get("ports"):
        yield from _port_errors(container["ports"], f"{path}.ports")
    for i, variable in enumerate(container.get("env") or ()):
        yield from _env_errors(variable, f"{path}.env[{i}]")
    for i, source in enumerate(container.get("envFrom") or ()):
        yield from _env_from_errors(source, f"{path}.envFrom[{i}]", f"{path}.envFrom")
    if container.get("volumeMounts") or container.get("volumeDevices"):
        yield from _mount_errors(container, path, pod)
        yield from _device_errors(container, path, pod)
    pull = container.get("imagePullPolicy", "Always")
    if pull not in _PULLS:
        yield not_supported(f"{path}.imagePullPolicy", pull, _PULLS)
    yield from requirement_errors(container.get("resources"), f"{path}.resources", pod.claims)
    yield from _resize_policy_errors(container, f"{path}.resizePolicy", pod)
    if container.get("securityContext"):
        yield from _security_errors(container["securityContext"], f"{path}.securityContext", pod)


def _port_errors(ports: Iterable[Json], path: str) -> Errors:
    names: set[str] = set()
    for i, port in enumerate(ports):
        here, name = f"{path}[{i}]", port.get("name")
        if name:
            problems = port_name_problems(name)
            yield from (invalid(f"{here}.name", name, problem) for problem in problems)
            if not problems and name in names:
                yield duplicate(f"{here}.name", name)
            names.add(name)
        number = port.get("containerPort")
        if not number:
            yield required(f"{here}.containerPort")
        elif not 0 < number < 65536:
            yield invalid(f"{here}.containerPort", number, PORT_RANGE)
        host = port.get("hostPort")
        if host and not 0 < host < 65536:
            yield invalid(f"{here}.hostPort", host, PORT_RANGE)
        protocol = port.get("protocol", "TCP")
        if protocol not in _PROTOCOLS:
            yield not_supported(f"{here}.protocol", protocol, _PROTOCOLS)


def _host_port_errors(containers: Iterable[Json], path: str) -> Errors:
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            address = f"{port.get('protocol', 'TCP')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if address in seen:
                yield duplicate(f"{path}[{i}].ports[{j}].hostPort", address)
            seen.add(address)


_ENV_NAME: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_ENV_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _env_name_errors(name: str, path: str) -> Errors:
    if any(not " " <= character <= "~" or character == "=" for character in name):
        yield invalid(path, name, _ENV_NAME)


def _env_errors(variable: Json, path: str) -> Errors:
    name = variable.get("name")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from _env_name_errors(name, f"{path}.name")
    source = variable.get("valueFrom")
    if source is None:
        return
    here = f"{path}.valueFrom"
    given = [kind for kind in _ENV_SOURCES if source.get(kind) is not None]
    for kind in given:
        yield from _env_source_errors(kind, source[kind], f"{here}.{kind}")
    if not given:
        shown = ", ".join(f"`{kind}`" for kind in _ENV_SOURCES[:-1])
        yield invalid(here, "", f"must specify one of: {shown} or `fileKeyRef`")
    elif variable.get("value"):
        yield invalid(here, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(here, "", "may not have more than one field specified at a time")


def _env_source_errors(kind: str, source: Json, path: str) -> Errors:
    if kind == "fieldRef":
        yield from field_ref_errors(source, path, ENV_FIELDS)
    elif kind == "resourceFieldRef":
        yield from resource_ref_errors(source, path, in_volume=False)
    elif kind == "fileKeyRef":
        yield from name_errors(f"{path}.key", source.get("key"), lambda key: [])
        yield from name_errors(f"{path}.volumeName", source.get("volumeName"), dns_label_problems)
        yield from name_errors(f"{path}.path", source.get("path"), lambda key: [])
        yield from backstep_errors(source.get("path") or "", f"{path}.path")
    else:
        name = source.get("name") or ""
        yield from (invalid(f"{path}.name", name, problem) for problem in subdomain_problems(name))
        yield from name_errors(f"{path}.key", source.get("key"), config_key_problems)


def _env_from_errors(source: Json, path: str, top: str) -> Errors:
    if source.get("prefix"):
        yield from _env_name_errors(source["prefix"], f"{path}.prefix")
    given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    for kind in given:
        yield from name_errors(f"{path}.{kind}.name", source[kind].get("name"), subdomain_problems)
    if not given:
        yield invalid(top, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(given) > 1:
        yield invalid(top, "", "may not have more than one field specified at a time")


def _mount_errors(container: Json, path: str, pod: PodContext) -> Errors:
    devices = container.get("volumeDevices") or ()
    names = {device.get("name") for device in devices}
    paths = {device.get("devicePath") for device in devices}
    top, seen = f"{path}.volumeMounts", set()
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, target = f"{top}[{i}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{here}.name")
        if name not in pod.volumes:
            yield FieldError(f"{here}.name", Kind.NOT_FOUND, name)
        if not target:
            yield required(f"{here}.mountPath")
        if target in seen:
            yield invalid(f"{here}.mountPath", target, "must be unique")
        seen.add(target)
        if name in names:
            yield invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if target in paths:
            text = "must not already exist as a path in volumeDevices"
            yield invalid(f"{here}.mountPath", target, text)
        yield from _sub_path_errors(mount, here, top)
        yield from _propagation_errors(mount, container, top)


def _sub_path_errors(mount: Json, path: str, top: str) -> Errors:
    below, expression = mount.get("subPath"), mount.get("subPathExpr")
    if below:
        yield from descending_errors(below, f"{top}.subPath")
    if expression:
        if below:
            text = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{path}.subPathExpr", expression, text)
        yield from descending_errors(expression, f"{top}.subPathExpr")


def _propagation_errors(mount: Json, container: Json, top: str) -> Errors:
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            yield not_supported(f"{top}.mountPropagation", propagation, _PROPAGATIONS)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            text = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{top}.mountPropagation", text)
    recursive = mount.get("recursiveReadOnly")
    if recursive in (None, "Disabled"):
        return
    here = f"{top}.recursiveReadOnly"
    if recursive not in ("Enabled", "IfPossible"):
        yield not_supported(here, recursive, ("Disabled", "Enabled", "IfPossible"))
        return
    if not mount.get("readOnly"):
        yield forbidden(here, "may only be specified when readOnly is true")
    if propagation not in (None, "None"):
        yield forbidden(here, "may only be specified when mountPropagation is None or not specified")


def _device_errors(container: Json, path: str, pod: PodContext) -> Errors:
    mounts = container.get("volumeMounts") or ()
    mounted = {mount.get("name") for mount in mounts}
    targets = {mount.get("mountPath") for mount in mounts}
    names: set[str] = set()
    paths: set[str] = set()
    for i, device in enumerate(container.get("volumeDevices") or ()):
        here = f"{path}.volumeDevices[{i}]"
        name, target = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield required(f"{here}.name")
        if name in names:
            yield invalid(f"{here}.name", name, "must be unique")
        if name in pod.volumes and not pod.volumes[name]:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{here}.name", name, text)
        if name not in pod.volumes:
            yield FieldError(f"{here}.name", Kind.NOT_FOUND, name)
        if not target:
            yield required(f"{here}.devicePath")
        if target in paths:
            yield invalid(f"{here}.devicePath", target, "must be unique")
        if target:
            yield from backstep_errors(target, f"{here}.devicePath")
        names.add(name)
        paths.add(target)
        if name in mounted:
            yield invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if target in targets:
            yield invalid(f"{here}.devicePath", target, "must not already exist as a path in volumeMounts")


_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def _hook_errors(container: Json, path: str, pod: PodContext) -> Errors:
    """Lifecycle hooks and probes."""
    for hook in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is not None:
            yield from _handler_errors(handler, f"{path}.lifecycle.{hook}", pod)
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        here = f"{path}.{kind}"
        yield from _handler_errors(probe, here, pod)
        for field in _PROBE_NUMBERS:
            if (probe.get(field) or 0) < 0:
                yield invalid(f"{here}.{field}", probe[field], NOT_NEGATIVE)
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            yield invalid(f"{here}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if kind == "readinessProbe":
            if grace is not None:
                text = "must not be set for readinessProbes"
                yield invalid(f"{here}.terminationGracePeriodSeconds", grace, text)
        elif probe.get("successThreshold", 1) != 1:
            yield invalid(f"{here}.successThreshold", probe["successThreshold"], "must be 1")


def _handler_errors(handler: Json, path: str, pod: PodContext) -> Errors:
    given = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    if not given:
        yield required(path, "must specify a handler type")
        return
    kind = given[0]
    action, here = handler[kind], f"{path}.{kind}"
    if kind == "exec":
        if not action.get("command"):
            yield required(f"{here}.command")
    elif kind == "sleep":
        seconds = action.get("seconds") or 0
        if pod.grace_period is not None and not 0 <= seconds <= pod.grace_period:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({pod.grace_period})"
            yield invalid(here, seconds, text)
    else:
        yield from _target_port_errors(action.get("port", 0), f"{here}.port")
        if kind == "httpGet":
            if action.get("scheme", "HTTP") not in ("HTTP", "HTTPS"):
                yield not_supported(f"{here}.scheme", action["scheme"], ("HTTP", "HTTPS"))
            for header in action.get("httpHeaders") or ():
                name = header.get("name") or ""
                for problem in http_header_problems(name):
                    yield invalid(f"{here}.httpHeaders", name, problem)


def _target_port_errors(port: Any, path: str) -> Errors:
    if isinstance(port, str):
        yield from (invalid(path, port, problem) for problem in port_name_problems(port))
    elif not 0 < port < 65536:
        yield invalid(path, port, PORT_RANGE)


_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"


def _init_errors(container: Json, path: str, pod: PodContext) -> Errors:
    policy = container.get("restartPolicy")
    if policy not in (None, "Always", "OnFailure", "Never"):
        yield not_supported(f"{path}.restartPolicy", policy, ("Always", "OnFailure", "Never"))
    if policy == "Always":
        yield from _hook_errors(container, path, pod)
        return
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(field) is not None:
            yield forbidden(f"{path}.{field}", _ONLY_SIDECARS)


_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


def _ephemeral_errors(container: Json, path: str, others: set[str]) -> Errors:
    image = container.get("image") or ""
    if image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    target = container.get("targetContainerName")
    if target and target not in others:
        yield FieldError(f"{path}.targetContainerName", Kind.NOT_FOUND, target)
    text = "cannot be set for an Ephemeral Container"
    yield from (forbidden(f"{path}.{field}", text) for field in _NOT_EPHEMERAL if container.get(field))
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield forbidden(f"{path}.volumeMounts[{i}].{field}", text)


def _resize_policy_errors(container: Json, path: str, pod: PodContext) -> Errors:
    seen: set[str] = set()
    for i, policy in enumerate(container.get("resizePolicy") or ()):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            yield duplicate(path, resource)
        seen.add(resource)
        if resource not in ("cpu", "memory"):
            supported = not_supported(f"{path}[{i}].resourceName", resource, ("cpu", "memory"))
            yield supported if resource else required(f"{path}[{i}].resourceName")
        if restart not in ("NotRequired", "RestartContainer"):
            supported = not_supported(
                f"{path}[{i}].restartPolicy", restart, ("NotRequired", "RestartContainer")
            )
            yield supported if restart else required(f"{path}[{i}].restartPolicy")
        if pod.restart_policy == "Never" and restart not in ("", "NotRequired"):
            text = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            yield invalid(f"{path}[{i}].restartPolicy", restart, text)


def _security_errors(context: Json, path: str, pod: PodContext) -> Errors:
    yield from id_errors(context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        yield not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    if mount == "Unmasked" and pod.host_users:
        yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from profile_errors(context, path)
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid(path, context, text)


def id_errors(context: Json, fields: Iterable[str], path: str) -> Errors:
    """User and group ids."""
    for field in fields:
        number = context.get(field)
        if number is not None and not 0 <= number <= _MAX_ID:
            yield invalid(f"{path}.{field}", number, _ID_RANGE)


_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def profile_errors(context: Json, path: str) -> Errors:
    """Seccomp and AppArmor profiles."""
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field)
        if profile is None:
            continue
        here, kind, file = f"{path}.{field}", profile.get("type"), profile.get("localhostProfile")
        if not kind:
            yield required(f"{here}.type", "type is required when " + field + " is set")
        elif kind not in _PROFILES:
            yield not_supported(f"{here}.type", kind, _PROFILES)
        elif kind == "Localhost" and not file:
            yield required(f"{here}.localhostProfile", f"must be set when {_short(field)} type is Localhost")
        elif kind != "Localhost" and file is not None:
            text = f"can only be set when {_short(field)} type is Localhost"
            yield invalid(f"{here}.localhostProfile", file, text)


def _short(field: str) -> str:
    return "seccomp" if field == "seccompProfile" else "AppArmor"
