"""The tables of everything else."""

from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, age_of
from stowplan.embedded.apiserver.tables.workloads import selector_text

_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _spec(obj: Json) -> Any:
    return obj.get("spec") or {}


def _status(obj: Json) -> Any:
    return obj.get("status") or {}


def _phase(obj: Json, now: float) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(_status(obj).get("phase", ""))


def _modes(modes: Any) -> str:
    return ",".join(_SHORT_MODES.get(mode, mode) for mode in modes or ())


def _field(name: str, default: str = "<none>") -> Any:
    """The cell of a field at the top of an object."""
    return lambda obj, now: obj.get(name) or default


NAMESPACES: Final = (NAME, Column("Status", lambda obj, now: str(_status(obj).get("phase", ""))), AGE)


def _ports(service: Json, now: float) -> str:
    shown = []
    for port in _spec(service).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _external(service: Json, now: float) -> str:
    spec = _spec(service)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    given = [*(spec.get("externalIPs") or ())]
    given += [
        entry.get("ip") or entry.get("hostname")
        for entry in (_status(service).get("loadBalancer") or {}).get("ingress") or ()
    ]
    return ",".join(given) or ("<pending>" if spec.get("type") == "LoadBalancer" else "<none>")


SERVICES: Final = (
    NAME,
    Column("Type", lambda obj, now: _spec(obj).get("type", "")),
    Column("Cluster-IP", lambda obj, now: _spec(obj).get("clusterIP") or "<none>"),
    Column("External-IP", _external),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", lambda obj, now: selector_text(_spec(obj).get("selector")), usual=False),
)


def _seen(event: Json, now: float) -> str:
    """When an event was last seen, and how often until then."""
    series = event.get("series") or {}
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    shown = age_of(last or event["metadata"].get("creationTimestamp"), now)
    count = series.get("count") or event.get("count") or 1
    first = event.get("firstTimestamp") or event.get("eventTime")
    return f"{shown} (x{count} over {age_of(first, now)})" if count > 1 and first else shown


def _object(event: Json, now: float) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _source(event: Json, now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


EVENTS: Final = (
    Column("Last Seen", _seen),
    Column("Type", _field("type", "")),
    Column("Reason", _field("reason", "")),
    Column("Object", _object),
    Column(
        "Subobject",
        lambda obj, now: (obj.get("involvedObject") or {}).get("fieldPath") or "",
        usual=False,
    ),
    Column("Source", _source, usual=False),
    Column("Message", lambda obj, now: (obj.get("message") or "").strip()),
    Column(
        "First Seen",
        lambda obj, now: age_of(
            obj.get("firstTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"), now
        ),
        usual=False,
    ),
    Column(
        "Count",
        lambda obj, now: str((obj.get("series") or {}).get("count") or obj.get("count") or 1),
        usual=False,
    ),
    NAME._replace(usual=False),
)


def _claim(volume: Json, now: float) -> str:
    reference = _spec(volume).get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


VOLUMES: Final = (
    NAME,
    Column("Capacity", lambda obj, now: (_spec(obj).get("capacity") or {}).get("storage", "")),
    Column("Access Modes", lambda obj, now: _modes(_spec(obj).get("accessModes"))),
    Column("Reclaim Policy", lambda obj, now: _spec(obj).get("persistentVolumeReclaimPolicy", "")),
    Column("Status", _phase),
    Column("Claim", _claim),
    Column("StorageClass", lambda obj, now: _spec(obj).get("storageClassName", "")),
    Column(
        "VolumeAttributesClass", lambda obj, now: _spec(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    Column("Reason", lambda obj, now: _status(obj).get("reason", "")),
    AGE,
    Column("VolumeMode", lambda obj, now: _spec(obj).get("volumeMode", ""), usual=False),
)
CLAIMS: Final = (
    NAME,
    Column("Status", _phase),
    Column("Volume", lambda obj, now: _spec(obj).get("volumeName", "")),
    Column("Capacity", lambda obj, now: (_status(obj).get("capacity") or {}).get("storage", "")),
    Column("Access Modes", lambda obj, now: _modes(_status(obj).get("accessModes"))),
    Column("StorageClass", lambda obj, now: _spec(obj).get("storageClassName", "")),
    Column(
        "VolumeAttributesClass", lambda obj, now: _spec(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    AGE,
    Column("VolumeMode", lambda obj, now: _spec(obj).get("volumeMode", ""), usual=False),
)
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def _class_name(obj: Json, now: float) -> str:
    name: str = obj["metadata"]["name"]
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    return f"{name} (default)" if is_default else name


STORAGE_CLASSES: Final = (
    Column("Name", _class_name, format="name"),
    Column("Provisioner", _field("provisioner", "")),
    Column("ReclaimPolicy", _field("reclaimPolicy", "Delete")),
    Column("VolumeBindingMode", _field("volumeBindingMode", "Immediate")),
    Column("AllowVolumeExpansion", lambda obj, now: bool(obj.get("allowVolumeExpansion")), "boolean"),
    AGE,
)


def _limit(budget: Json, field: str) -> str:
    value = _spec(budget).get(field)
    return "N/A" if value is None else str(value)


BUDGETS: Final = (
    NAME,
    Column("Min Available", lambda obj, now: _limit(obj, "minAvailable")),
    Column("Max Unavailable", lambda obj, now: _limit(obj, "maxUnavailable")),
    Column("Allowed Disruptions", lambda obj, now: _status(obj).get("disruptionsAllowed") or 0, "integer"),
    AGE,
)
PRIORITY_CLASSES: Final = (
    NAME,
    Column("Value", lambda obj, now: obj.get("value") or 0, "integer"),
    Column("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), "boolean"),
    AGE,
    Column("PreemptionPolicy", _field("preemptionPolicy", "PreemptLowerPriority")),
)
LEASES: Final = (NAME, Column("Holder", lambda obj, now: _spec(obj).get("holderIdentity") or ""), AGE)


def _count(field: str) -> Any:
    return lambda obj, now: len(obj.get(field) or ())


CONFIG_MAPS: Final = (
    NAME,
    Column("Data", lambda obj, now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
    AGE,
)
SECRETS: Final = (
    NAME,
    Column("Type", _field("type", "Opaque")),
    Column("Data", _count("data"), "integer"),
    AGE,
)
SERVICE_ACCOUNTS: Final = (NAME, Column("Secrets", _count("secrets"), "integer"), AGE)


def _device_state(claim: Json, now: float) -> str:
    told = _status(claim)
    states = [
        word
        for word, shown in (("allocated", told.get("allocation")), ("reserved", told.get("reservedFor")))
        if shown
    ]
    if "deletionTimestamp" in claim["metadata"]:
        states.insert(0, "deleted")
    return ",".join(states) or "pending"


RESOURCE_CLAIMS: Final = (NAME, Column("State", _device_state), AGE)
RESOURCE_SLICES: Final = (
    NAME,
    Column("Node", lambda obj, now: _spec(obj).get("nodeName") or "<none>"),
    Column("Driver", lambda obj, now: _spec(obj).get("driver", "")),
    Column("Pool", lambda obj, now: (_spec(obj).get("pool") or {}).get("name", "")),
    AGE,
)
CSI_NODES: Final = (
    NAME,
    Column("Drivers", lambda obj, now: len(_spec(obj).get("drivers") or ()), "integer"),
    AGE,
)
CSI_DRIVERS: Final = (
    NAME,
    Column("AttachRequired", lambda obj, now: _spec(obj).get("attachRequired", True), "boolean"),
    Column("PodInfoOnMount", lambda obj, now: bool(_spec(obj).get("podInfoOnMount")), "boolean"),
    Column("StorageCapacity", lambda obj, now: bool(_spec(obj).get("storageCapacity")), "boolean"),
    AGE,
)
ATTACHMENTS: Final = (
    NAME,
    Column("Attacher", lambda obj, now: _spec(obj).get("attacher", "")),
    Column("PV", lambda obj, now: (_spec(obj).get("source") or {}).get("persistentVolumeName") or ""),
    Column("Node", lambda obj, now: _spec(obj).get("nodeName", "")),
    Column("Attached", lambda obj, now: bool(_status(obj).get("attached")), "boolean"),
    AGE,
)


def _addresses(slice_: Json, now: float) -> str:
    found = [address for end in slice_.get("endpoints") or () for address in end.get("addresses") or ()]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or "<unset>"


ENDPOINT_SLICES: Final = (
    NAME,
    Column("AddressType", _field("addressType", "")),
    Column(
        "Ports",
        lambda obj, now: ",".join(str(port.get("port")) for port in obj.get("ports") or ()) or "<unset>",
    ),
    Column("Endpoints", _addresses),
    AGE,
)
DEVICE_CLASSES: Final = (NAME, AGE)
