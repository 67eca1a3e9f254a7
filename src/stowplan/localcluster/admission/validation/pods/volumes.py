"""Validation of volume sources: those of pods, and those of PersistentVolumes.

The required fields of a source are a table; few have additional rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import name_errors, read_quantity

Errors = Iterator[FieldError]

_SOURCES: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
    "local",
)
"""All sources in the order in which they are checked."""

_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "image": ("reference",),
    "local": ("path",),
}
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE_TEXT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")


def volumes_errors(spec: Json, path: str, pod_name: str = "") -> Errors:
    """Errors of the volumes of a pod."""
    seen: set[str] = set()
    volumes = spec.get("volumes") or ()
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral") and pod_name}
    for i, volume in enumerate(volumes):
        here, name = f"{path}[{i}]", volume.get("name")
        wrong = [*source_errors(volume, here, persistent=False)]
        wrong += name_errors(f"{here}.name", name, dns_label_problems)
        if name in seen:
            wrong.append(duplicate(f"{here}.name", name))
        elif not wrong:
            seen.add(name or "")
        yield from wrong
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{here}.persistentVolumeClaim.claimName", claim, text)


def source_errors(volume: Json, path: str, *, persistent: bool) -> Errors:
    """Errors of a volume's source: exactly one source with its required fields."""
    found = ""
    for source in _SOURCES:
        given = volume.get(source)
        if given is None:
            continue
        if found:
            yield forbidden(f"{path}.{source}", "may not specify more than 1 volume type")
            continue
        found = source
        here = f"{path}.{source}"
        yield from (
            required(f"{here}.{field}") for field in _REQUIRED.get(source, ()) if not given.get(field)
        )
        if source in _WITH_MODE:
            yield from _mode_errors(given.get("defaultMode"), f"{here}.defaultMode")
        rules = _RULES.get(source)
        if rules is not None:
            yield from rules(given, here, persistent)
    if not found:
        yield required(path, "must specify a volume type")


def _mode_errors(mode: Any, path: str) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, _MODE_TEXT)


def _empty_dir(source: Json, path: str, persistent: bool) -> Errors:
    limit = read_quantity(source.get("sizeLimit", "0"))
    if limit is not None and limit.sign < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Json, path: str, persistent: bool) -> Errors:
    given = source.get("path")
    if not given:
        yield required(f"{path}.path")
        return
    yield from backstep_errors(given, f"{path}.path")
    if (source.get("type") or "") not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _nfs(source: Json, path: str, persistent: bool) -> Errors:
    if not source.get("server"):
        yield required(f"{path}.server")
    if not source.get("path"):
        yield required(f"{path}.path")
    if not (source.get("path") or "").startswith("/"):
        yield invalid(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _local(source: Json, path: str, persistent: bool) -> Errors:
    yield from backstep_errors(source.get("path") or "", f"{path}.path")


def _fc(source: Json, path: str, persistent: bool) -> Errors:
    if not source.get("targetWWNs") and not source.get("wwids"):
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if source.get("targetWWNs") and source.get("wwids"):
        text = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", source["targetWWNs"], text)
    if source.get("targetWWNs"):
        lun = source.get("lun")
        if lun is None:
            yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
        elif not 0 <= lun <= 255:
            yield invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive")


def _keyed(source: Json, path: str, persistent: bool) -> Errors:
    for i, item in enumerate(source.get("items") or ()):
        yield from _key_errors(item, f"{path}.items[{i}]")


def _key_errors(item: Json, path: str) -> Errors:
    if not item.get("key"):
        yield required(f"{path}.key")
    if not item.get("path"):
        yield required(f"{path}.path")
    yield from _target_errors(item.get("path") or "", f"{path}.path")
    yield from _mode_errors(item.get("mode"), f"{path}.mode")


def _downward(source: Json, path: str, persistent: bool) -> Errors:
    for item in source.get("items") or ():
        yield from _downward_errors(item, path)


def _downward_errors(item: Json, path: str) -> Errors:
    if not item.get("path"):
        yield required(f"{path}.path")
    yield from _target_errors(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_ref_errors(field, f"{path}.fieldRef", VOLUME_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", text)
    elif resource is not None:
        yield from resource_ref_errors(resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode_errors(item.get("mode"), f"{path}.mode")


def _projected(source: Json, path: str, persistent: bool) -> Errors:
    paths: set[str] = set()
    for i, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{i}]"
        kinds = [kind for kind in _PROJECTIONS if part.get(kind) is not None]
        for kind in kinds:
            yield from _projection_errors(kind, part[kind], f"{here}.{kind}", path, paths)
        if len(kinds) > 1:
            yield forbidden(here, "may not specify more than 1 volume type")


_PROJECTIONS: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)


def _projection_errors(kind: str, part: Json, path: str, top: str, paths: set[str]) -> Errors:
    given: list[tuple[str, str]] = []
    if kind in ("secret", "configMap"):
        if not part.get("name"):
            yield required(f"{path}.name")
        for i, item in enumerate(part.get("items") or ()):
            yield from _key_errors(item, f"{path}.items[{i}]")
            given.append((item.get("path") or "", part.get("name") or ""))
    elif kind == "downwardAPI":
        for item in part.get("items") or ():
            yield from _downward_errors(item, path)
            given.append((item.get("path") or "", item.get("path") or ""))
    elif kind == "serviceAccountToken":
        yield from _token_errors(part, path)
        given.append((part.get("path") or "", part.get("path") or ""))
    for target, shown in given:
        if target and target in paths:
            yield invalid(top, shown, "conflicting duplicate paths")
        paths.add(target)


def _token_errors(part: Json, path: str) -> Errors:
    seconds = part.get("expirationSeconds", 3600)
    if seconds < 600:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > 1 << 32:
        yield invalid(
            f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not part.get("path"):
        yield required(f"{path}.path")
    else:
        yield from _target_errors(part["path"], f"{path}.path")


def _csi(source: Json, path: str, persistent: bool) -> Errors:
    yield from name_errors(f"{path}.driver", source.get("driver"), lambda name: [])
    if persistent and not source.get("volumeHandle"):
        yield required(f"{path}.volumeHandle")


def _ephemeral(source: Json, path: str, persistent: bool) -> Errors:
    if source.get("volumeClaimTemplate") is None:
        yield required(f"{path}.volumeClaimTemplate")


_RULES: Final[Mapping[str, Callable[[Json, str, bool], Errors]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "nfs": _nfs,
    "local": _local,
    "fc": _fc,
    "secret": _keyed,
    "configMap": _keyed,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
}


def backstep_errors(target: str, path: str) -> Errors:
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def descending_errors(target: str, path: str) -> Errors:
    """A path below something else."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from backstep_errors(target, path)


def _target_errors(target: str, path: str) -> Errors:
    yield from descending_errors(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_KNOWN_FIELDS: Final = frozenset((*VOLUME_FIELDS, *ENV_FIELDS, "spec.restartPolicy", "spec.schedulerName"))
_RESOURCE_FIELDS: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_DIVISORS: Final = frozenset(
    ("1", *(f"1{unit}{suffix}" for unit in "kMGTPE" for suffix in ("", "i") if unit + suffix != "ki"), "1Ki")
)


def field_ref_errors(reference: Json, path: str, fields: Sequence[str]) -> Errors:
    """A field of the pod: one that may be referred to from here, or an entry of its labels or annotations."""
    if not reference.get("apiVersion"):
        yield required(f"{path}.apiVersion")
        return
    field = reference.get("fieldPath") or ""
    if not field:
        yield required(f"{path}.fieldPath")
        return
    base, bracket, subscript = field.partition("['")
    if bracket and field.endswith("']"):
        key = subscript[:-2]
        if base in ("metadata.annotations", "metadata.labels"):
            checked = key.lower() if base == "metadata.annotations" else key
            yield from (invalid(path, checked, problem) for problem in label_key_problems(checked))
        else:
            yield invalid(path, base, "does not support subscript")
    elif field not in _KNOWN_FIELDS:
        text = f"error converting fieldPath: field label not supported: {field}"
        yield invalid(f"{path}.fieldPath", field, text)
    elif field not in fields:
        yield not_supported(f"{path}.fieldPath", field, sorted(fields))


def resource_ref_errors(reference: Json, path: str, *, in_volume: bool) -> Errors:
    """A resource of a container, in some unit."""
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(
        ("requests.hugepages-", "limits.hugepages-")
    ):
        yield not_supported(f"{path}.resource", resource, _RESOURCE_FIELDS)
    divisor = str(reference.get("divisor") or "0")
    if divisor == "0":
        return
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(f"{path}.divisor", resource, text)
    elif divisor not in _DIVISORS:
        kind = "memory"
        if resource.endswith(".ephemeral-storage"):
            kind = "local ephemeral storage"
        elif "hugepages-" in resource:
            kind = "hugepages"
        text = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported "
        yield invalid(f"{path}.divisor", resource, text + f"with the {kind} resource")
