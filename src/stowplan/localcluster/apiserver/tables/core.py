"""Tables of the core group."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    TableColumn,
    age_of,
    field_cell,
    first_of,
    labels_text,
    selector_text,
    spec_of,
    status_of,
)

_NONE: Final = "<none>"


_ROLE: Final = "node-role.kubernetes.io/"


def _node_status(node: Json, now: float) -> str:
    states: list[str] = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            states.append("Ready" if condition.get("status") == "True" else "NotReady")
    if not states:
        states.append("Unknown")
    if (node.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(node: Json, now: float) -> str:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE) and key != _ROLE:
            roles.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or "<none>"


def _node_info(node: Json, field: str, unknown: str = "<unknown>") -> Any:
    return ((node.get("status") or {}).get("nodeInfo") or {}).get(field) or unknown


def _node_address(node: Json, kind: str) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address"))
    return "<none>"


NODES: Final = (
    NAME,
    TableColumn("Status", _node_status),
    TableColumn("Roles", _roles),
    AGE,
    TableColumn("Version", lambda node, now: _node_info(node, "kubeletVersion", "")),
    TableColumn("Internal-IP", lambda node, now: _node_address(node, "InternalIP"), usual=False),
    TableColumn("External-IP", lambda node, now: _node_address(node, "ExternalIP"), usual=False),
    TableColumn("OS-Image", lambda node, now: _node_info(node, "osImage"), usual=False),
    TableColumn("Kernel-Version", lambda node, now: _node_info(node, "kernelVersion"), usual=False),
    TableColumn(
        "Container-Runtime", lambda node, now: _node_info(node, "containerRuntimeVersion"), usual=False
    ),
)
_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _phase(obj: Json, now: float) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(status_of(obj).get("phase", ""))


def _modes(modes: Any) -> str:
    """Access modes in a fixed order."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _count(field: str) -> Any:
    return lambda obj, now: len(obj.get(field) or ())


NAMESPACES: Final = (NAME, TableColumn("Status", lambda obj, now: str(status_of(obj).get("phase", ""))), AGE)


def _ports(service: Json, now: float) -> str:
    shown = []
    for port in spec_of(service).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _external(service: Json, now: float) -> str:
    spec = spec_of(service)
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    given = [*(spec.get("externalIPs") or ())]
    given += [
        entry.get("ip") or entry.get("hostname")
        for entry in (status_of(service).get("loadBalancer") or {}).get("ingress") or ()
    ]
    return ",".join(given) or ("<pending>" if spec.get("type") == "LoadBalancer" else "<none>")


SERVICES: Final = (
    NAME,
    TableColumn("Type", lambda obj, now: spec_of(obj).get("type", "")),
    TableColumn("Cluster-IP", lambda obj, now: spec_of(obj).get("clusterIP") or "<none>"),
    TableColumn("External-IP", _external),
    TableColumn("Port(s)", _ports),
    AGE,
    TableColumn("Selector", lambda obj, now: selector_text(spec_of(obj).get("selector")), usual=False),
)


def _first_seen(event: Json, now: float) -> str:
    return age_of(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Json, now: float) -> str:
    series = event.get("series")
    if series is not None:
        return age_of(series.get("lastObservedTime"), now)
    last = event.get("lastTimestamp")
    return age_of(last, now) if last else _first_seen(event, now)


def _count_of(event: Json, now: float) -> int:
    series = event.get("series")
    return int(series.get("count") or 0) if series is not None else event.get("count") or 1


def _object(event: Json, now: float) -> str:
    about = event.get("involvedObject") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: Json, now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


EVENTS: Final = (
    TableColumn("Last Seen", _last_seen),
    TableColumn("Type", field_cell("type", "")),
    TableColumn("Reason", field_cell("reason", "")),
    TableColumn("Object", _object),
    TableColumn(
        "Subobject",
        lambda obj, now: (obj.get("involvedObject") or {}).get("fieldPath") or "",
        usual=False,
    ),
    TableColumn("Source", _source, usual=False),
    TableColumn("Message", lambda obj, now: (obj.get("message") or "").strip()),
    TableColumn("First Seen", _first_seen, usual=False),
    TableColumn("Count", _count_of, usual=False),
    NAME._replace(usual=False),
)


def _claim(volume: Json, now: float) -> str:
    reference = spec_of(volume).get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


VOLUMES: Final = (
    NAME,
    TableColumn("Capacity", lambda obj, now: (spec_of(obj).get("capacity") or {}).get("storage", "")),
    TableColumn("Access Modes", lambda obj, now: _modes(spec_of(obj).get("accessModes"))),
    TableColumn("Reclaim Policy", lambda obj, now: spec_of(obj).get("persistentVolumeReclaimPolicy", "")),
    TableColumn("Status", _phase),
    TableColumn("Claim", _claim),
    TableColumn("StorageClass", lambda obj, now: spec_of(obj).get("storageClassName", "")),
    TableColumn(
        "VolumeAttributesClass", lambda obj, now: spec_of(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    TableColumn("Reason", lambda obj, now: status_of(obj).get("reason", "")),
    AGE,
    TableColumn("VolumeMode", lambda obj, now: spec_of(obj).get("volumeMode", ""), usual=False),
)
CLAIMS: Final = (
    NAME,
    TableColumn("Status", _phase),
    TableColumn("Volume", lambda obj, now: spec_of(obj).get("volumeName", "")),
    TableColumn("Capacity", lambda obj, now: (status_of(obj).get("capacity") or {}).get("storage", "")),
    TableColumn("Access Modes", lambda obj, now: _modes(status_of(obj).get("accessModes"))),
    TableColumn("StorageClass", lambda obj, now: spec_of(obj).get("storageClassName", "")),
    TableColumn(
        "VolumeAttributesClass", lambda obj, now: spec_of(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    AGE,
    TableColumn("VolumeMode", lambda obj, now: spec_of(obj).get("volumeMode", ""), usual=False),
)
CONFIG_MAPS: Final = (
    NAME,
    TableColumn("Data", lambda obj, now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
    AGE,
)
SECRETS: Final = (
    NAME,
    TableColumn("Type", field_cell("type", "Opaque")),
    TableColumn("Data", _count("data")),
    AGE,
)
SERVICE_ACCOUNTS: Final = (NAME, AGE)


def _endpoints(endpoints: Json, now: float) -> str:
    """The addresses of a service's pods, each with each port."""
    found: list[str] = []
    for subset in endpoints.get("subsets") or ():
        addresses = [str(address.get("ip")) for address in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:
            found += addresses
        for port in ports or ():
            found += [_host_port(address, port.get("port")) for address in addresses]
    return first_of(found, none="" if endpoints.get("subsets") else _NONE)


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _quota(limits: bool) -> Any:
    """The cell with what of a quota is used, of requests or of limits."""

    def cell(quota: Json, now: float) -> str:
        status = status_of(quota)
        used, hard = status.get("used") or {}, status.get("hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


def _template_containers(field: str) -> Any:
    def cell(obj: Json, now: float) -> str:
        containers = ((obj.get("template") or {}).get("spec") or {}).get("containers") or ()
        return ",".join(container.get(field, "") for container in containers)

    return cell


ENDPOINTS: Final = (NAME, TableColumn("Endpoints", _endpoints), AGE)
QUOTAS: Final = (NAME, TableColumn("Request", _quota(False)), TableColumn("Limit", _quota(True)), AGE)
POD_TEMPLATES: Final = (
    NAME,
    TableColumn("Containers", _template_containers("name")),
    TableColumn("Images", _template_containers("image")),
    TableColumn(
        "Pod Labels",
        lambda obj, now: labels_text(((obj.get("template") or {}).get("metadata") or {}).get("labels")),
    ),
)


def _healthy(field: str) -> Any:
    """The cell with a part of what a component says of its health."""

    def cell(component: Json, now: float) -> str:
        for condition in component.get("conditions") or ():
            if condition.get("type") == "Healthy":
                if field == "status":
                    return "Healthy" if condition.get("status") == "True" else "Unhealthy"
                return str(condition.get(field, ""))
        return "Unknown" if field == "status" else ""

    return cell


COMPONENT_STATUSES: Final = (
    NAME,
    TableColumn("Status", _healthy("status")),
    TableColumn("Message", _healthy("message")),
    TableColumn("Error", _healthy("error")),
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.NODES: NODES,
    catalogue.NAMESPACES: NAMESPACES,
    catalogue.SERVICES: SERVICES,
    catalogue.CORE_EVENTS: EVENTS,
    catalogue.EVENTS: EVENTS,
    catalogue.PERSISTENT_VOLUMES: VOLUMES,
    catalogue.PERSISTENT_VOLUME_CLAIMS: CLAIMS,
    catalogue.CONFIG_MAPS: CONFIG_MAPS,
    catalogue.SECRETS: SECRETS,
    catalogue.SERVICE_ACCOUNTS: SERVICE_ACCOUNTS,
    catalogue.ENDPOINTS: ENDPOINTS,
    catalogue.RESOURCE_QUOTAS: QUOTAS,
    catalogue.POD_TEMPLATES: POD_TEMPLATES,
    catalogue.COMPONENT_STATUSES: COMPONENT_STATUSES,
}
