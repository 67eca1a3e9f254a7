"""The checks of the Pod Security standards: what baseline and restricted forbid, by version of Kubernetes.

A check takes a pod's annotations and spec and returns what is forbidden in them. Reasons and details have
upstream's words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote

BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"


class Violation(NamedTuple):
    """Something that a standard forbids: in a word, and where in this pod."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


CheckFunction = Callable[[Json, Json], Violation | None]


class VersionedCheck(NamedTuple):
    """A check from a minor version of Kubernetes on; it replaces the baseline checks that it `overrides`."""

    since: int
    run: CheckFunction
    overrides: tuple[str, ...] = ()


class Check(NamedTuple):
    name: str
    level: str
    versions: Sequence[VersionedCheck]


def containers(spec: Json) -> Iterator[Json]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _context(holder: Json) -> Json:
    return holder.get("securityContext") or {}


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _counted(singular: str, items: Sequence[str], plural: str = "") -> str:
    return singular if len(items) == 1 else plural or f"{singular}s"


def _named(names: Sequence[str]) -> str:
    """`container "a"` or `containers "a", "b"`."""
    return f"{_counted('container', names)} {_quoted(names)}"


def _setters(spec: Json, is_bad: Callable[[Json], bool]) -> list[str]:
    """Places with a bad security context: the pod, and its containers together."""
    found = ["pod"] if is_bad(_context(spec)) else []
    bad = [one["name"] for one in containers(spec) if is_bad(_context(one))]
    return [*found, _named(bad)] if bad else found


def _is_windows(spec: Json) -> bool:
    return bool((spec.get("os") or {}).get("name") == "windows")


def _not_on_windows(check: CheckFunction) -> CheckFunction:
    """The check for pods that say they are for another system: fields that it requires do not exist there."""
    return lambda annotations, spec: None if _is_windows(spec) else check(annotations, spec)


def _not_with_user_namespace(check: CheckFunction) -> CheckFunction:
    """The check for pods without a user namespace: root of a user namespace is nobody outside."""
    return lambda annotations, spec: None if spec.get("hostUsers") is False else check(annotations, spec)


# Baseline


def _app_armor(annotations: Json, spec: Json) -> Violation | None:
    values: set[str] = set()

    def is_bad(context: Json) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, is_bad)
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    named = sorted(
        f"{key}={quote(value)}"
        for key, value in annotations.items()
        if key.startswith(prefix)
        and not (not value or value == "runtime/default" or value.startswith("localhost/"))
    )
    if named:
        setters.append(_counted("annotation", named))
    if not setters:
        return None
    shown = [*sorted(values), *named]
    reason = _counted("forbidden AppArmor profile", shown)
    return Violation(
        reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(shown)}"
    )


_DEFAULT_CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)


def _added(spec: Json, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Containers that add other capabilities, and these."""
    bad: list[str] = []
    found: set[str] = set()
    for one in containers(spec):
        more = set((_context(one).get("capabilities") or {}).get("add") or ()) - allowed
        if more:
            bad.append(one["name"])
            found |= more
    return bad, sorted(found)


def _capabilities(_: Json, spec: Json) -> Violation | None:
    bad, found = _added(spec, _DEFAULT_CAPABILITIES)
    if not bad:
        return None
    detail = f"{_named(bad)} must not include {_quoted(found)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def _host_namespaces(_: Json, spec: Json) -> Violation | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_paths(_: Json, spec: Json) -> Violation | None:
    found = [one["name"] for one in spec.get("volumes") or () if one.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_counted('volume', found)} {_quoted(found)}") if found else None


def _host_ports(_: Json, spec: Json) -> Violation | None:
    ports = {
        one["name"]: {str(port["hostPort"]) for port in one.get("ports") or () if port.get("hostPort")}
        for one in containers(spec)
    }
    bad = [name for name, used in ports.items() if used]
    if not bad:
        return None
    used = sorted(set().union(*ports.values()))
    uses = _counted("uses", bad, "use")
    return Violation("hostPort", f"{_named(bad)} {uses} {_counted('hostPort', used)} {', '.join(used)}")


def _host_handlers(_: Json, spec: Json) -> Violation | None:
    """Probes and lifecycle handlers that connect to a host of their choice."""
    hosts = {one["name"]: {*_handler_hosts(one)} for one in containers(spec)}
    bad = sorted(name for name, found in hosts.items() if found)
    if not bad:
        return None
    found = sorted(set().union(*hosts.values()))
    what = _counted("probe or lifecycle host", found)
    return Violation(
        "probe or lifecycle host", f"{_named(bad)} {_counted('uses', bad, 'use')} {what} {_quoted(found)}"
    )


def _handler_hosts(container: Json) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = (container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe"))
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(action) or {}).get("host")
            if host:
                yield host


def _privileged(_: Json, spec: Json) -> Violation | None:
    bad = [one["name"] for one in containers(spec) if _context(one).get("privileged")]
    text = f"{_named(bad)} must not set securityContext.privileged=true"
    return Violation("privileged", text) if bad else None


def _proc_mount(_: Json, spec: Json) -> Violation | None:
    kinds = {one["name"]: _context(one).get("procMount") for one in containers(spec)}
    bad = {name: kind for name, kind in kinds.items() if kind not in (None, "Default")}
    if not bad:
        return None
    found = _quoted(sorted(set(bad.values())))
    return Violation("procMount", f"{_named([*bad])} must not set securityContext.procMount to {found}")


def _seccomp_annotations(annotations: Json, spec: Json) -> Violation | None:
    names = [
        "seccomp.security.alpha.kubernetes.io/pod",
        *(f"container.seccomp.security.alpha.kubernetes.io/{one['name']}" for one in containers(spec)),
    ]
    found = sorted(
        {
            f"{name}={quote(annotations[name])}"
            for name in names
            if name in annotations
            and annotations[name] not in ("runtime/default", "docker/default")
            and not annotations[name].startswith("localhost/")
        }
    )
    if not found:
        return None
    return Violation("seccompProfile", f"forbidden {_counted('annotation', found)} {', '.join(found)}")


_SECCOMP: Final = ("Localhost", "RuntimeDefault")


def _seccomp_set(_: Json, spec: Json) -> Violation | None:
    """Profiles that are set must be confined ones."""
    values: set[str] = set()

    def is_bad(context: Json) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in _SECCOMP:
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    text = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to"
    return Violation("seccompProfile", f"{text} {_quoted(sorted(values))}")


_SELINUX_TYPES: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def _se_linux(allowed: frozenset[str]) -> CheckFunction:
    def check(_: Json, spec: Json) -> Violation | None:
        kinds: set[str] = set()
        fields: set[str] = set()

        def is_bad(context: Json) -> bool:
            options = context.get("seLinuxOptions") or {}
            others = {field for field in ("user", "role") if options.get(field)}
            fields.update(others)
            kind = options.get("type") or ""
            if kind not in allowed:
                kinds.add(kind)
            return bool(others) or kind not in allowed

        setters = _setters(spec, is_bad)
        if not setters:
            return None
        found = sorted(kinds)
        told = [f"{_counted('type', found)} {_quoted(found)}"] if found else []
        told += [f"{field} may not be set" for field in ("user", "role") if field in fields]
        text = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(told)}"
        return Violation("seLinuxOptions", text)

    return check


_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37: Final = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}


def _sysctls(allowed: frozenset[str]) -> CheckFunction:
    def check(_: Json, spec: Json) -> Violation | None:
        names = [one.get("name", "") for one in _context(spec).get("sysctls") or ()]
        found = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(found)) if found else None

    return check


def _host_process(_: Json, spec: Json) -> Violation | None:
    setters = _setters(spec, lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")))
    text = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", text) if setters else None


# Restricted


def _escalation(_: Json, spec: Json) -> Violation | None:
    bad = [
        one["name"] for one in containers(spec) if _context(one).get("allowPrivilegeEscalation") is not False
    ]
    text = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text) if bad else None


def _capabilities_dropped(_: Json, spec: Json) -> Violation | None:
    kept = [
        one["name"]
        for one in containers(spec)
        if "ALL" not in ((_context(one).get("capabilities") or {}).get("drop") or ())
    ]
    details = []
    if kept:
        details.append(f'{_named(kept)} must set securityContext.capabilities.drop=["ALL"]')
    bad, found = _added(spec, frozenset(("NET_BIND_SERVICE",)))
    if bad:
        text = f"{_named(bad)} must not include {_quoted(found)} in securityContext.capabilities.add"
        details.append(text)
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


_VOLUMES: Final = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    )
)
_OTHER_VOLUMES: Final = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *("flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte"),
    *("azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)


def _volumes(_: Json, spec: Json) -> Violation | None:
    bad: list[str] = []
    kinds: set[str] = set()
    for volume in spec.get("volumes") or ():
        if not any(volume.get(kind) is not None for kind in _VOLUMES):
            bad.append(volume["name"])
            kinds.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not bad:
        return None
    found = sorted(kinds)
    detail = (
        f"{_counted('volume', bad)} {_quoted(bad)} {_counted('uses', bad, 'use')} "
        f"{_counted('restricted volume type', found)} {_quoted(found)}"
    )
    return Violation("restricted volume types", detail)


def _non_root(_: Json, spec: Json) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        text = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", text)
    if _context(spec).get("runAsNonRoot"):
        return None
    bad = [one["name"] for one in containers(spec) if _context(one).get("runAsNonRoot") is None]
    text = f"pod or {_named(bad)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", text) if bad else None


def _user(_: Json, spec: Json) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    text = f"{' and '.join(setters)} must not set runAsUser=0"
    return Violation("runAsUser=0", text) if setters else None


def _seccomp_required(annotations: Json, spec: Json) -> Violation | None:
    found = _seccomp_set(annotations, spec)
    if found is not None or _context(spec).get("seccompProfile") is not None:
        return found
    bad = [one["name"] for one in containers(spec) if _context(one).get("seccompProfile") is None]
    text = f"pod or {_named(bad)} must set securityContext.seccompProfile.type to"
    return Violation("seccompProfile", f'{text} "RuntimeDefault" or "Localhost"') if bad else None


def _since(*versions: Any) -> tuple[VersionedCheck, ...]:
    return tuple(VersionedCheck(*one) for one in versions)


CHECKS: Final = (
    Check("appArmorProfile", BASELINE, _since((0, _app_armor))),
    Check("capabilities_baseline", BASELINE, _since((0, _capabilities))),
    Check("hostNamespaces", BASELINE, _since((0, _host_namespaces))),
    Check("hostPathVolumes", BASELINE, _since((0, _host_paths))),
    Check("hostPorts", BASELINE, _since((0, _host_ports))),
    Check("hostProbesAndHostLifecycle", BASELINE, _since((34, _host_handlers))),
    Check("privileged", BASELINE, _since((0, _privileged))),
    Check("procMount", BASELINE, _since((0, _proc_mount), (35, _not_with_user_namespace(_proc_mount)))),
    Check("seLinuxOptions", BASELINE, _since(
        (0, _se_linux(_SELINUX_TYPES)), (31, _se_linux(_SELINUX_TYPES | {"container_engine_t"}))
    )),
    Check("seccompProfile_baseline", BASELINE, _since((0, _seccomp_annotations), (19, _seccomp_set))),
    Check("sysctls", BASELINE, _since(
        (0, _sysctls(_SYSCTLS)), (27, _sysctls(_SYSCTLS_27)), (29, _sysctls(_SYSCTLS_29)),
        (32, _sysctls(_SYSCTLS_32)), (37, _sysctls(_SYSCTLS_37)),
    )),
    Check("windowsHostProcess", BASELINE, _since((0, _host_process))),
    Check("allowPrivilegeEscalation", RESTRICTED, _since(
        (8, _escalation), (25, _not_on_windows(_escalation))
    )),
    Check("capabilities_restricted", RESTRICTED, _since(
        (22, _capabilities_dropped, ("capabilities_baseline",)),
        (25, _not_on_windows(_capabilities_dropped), ("capabilities_baseline",)),
    )),
    Check("procMount_restricted", RESTRICTED, _since((35, _proc_mount, ("procMount",)))),
    Check("restrictedVolumes", RESTRICTED, _since((0, _volumes, ("hostPathVolumes",)))),
    Check("runAsNonRoot", RESTRICTED, _since((0, _non_root), (35, _not_with_user_namespace(_non_root)))),
    Check("runAsUser", RESTRICTED, _since((23, _user), (35, _not_with_user_namespace(_user)))),
    Check("seccompProfile_restricted", RESTRICTED, _since(
        (19, _seccomp_required, ("seccompProfile_baseline",)),
        (25, _not_on_windows(_seccomp_required), ("seccompProfile_baseline",)),
    )),
)  # fmt: skip
"""All checks, baseline first, in the order in which their violations are named."""


def checks_of(level: str, minor: int) -> tuple[CheckFunction, ...]:
    """Checks of a level in a minor version of Kubernetes. Restricted includes baseline."""
    found = {check.name: (check.level, _at(check, minor)) for check in CHECKS}
    if level == BASELINE:
        return tuple(one.run for at, one in found.values() if one is not None and at == BASELINE)
    overridden = {
        name for at, one in found.values() if one is not None and at == RESTRICTED for name in one.overrides
    }
    return tuple(one.run for name, (_, one) in found.items() if one is not None and name not in overridden)


def _at(check: Check, minor: int) -> VersionedCheck | None:
    return next((one for one in reversed(check.versions) if one.since <= minor), None)
