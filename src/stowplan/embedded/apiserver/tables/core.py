"""Tables of the core group."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    Column,
    age_of,
    field_cell,
    selector_text,
    spec_of,
    status_of,
)

_NONE: Final = "<none>"


def _pod_ready(pod: Json, now: float) -> str:
    statuses = _statuses(pod, "containerStatuses")
    total = len(pod.get("spec", {}).get("containers") or ())
    return f"{sum(1 for container in statuses if container.get('ready'))}/{total}"


def _pod_status(pod: Json, now: float) -> str:
    """What state a pod is in, in a word: the first trouble, or its phase."""
    status = pod.get("status") or {}
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    preparing = _preparing(pod)
    if preparing:
        reason = preparing
    else:
        reason = _containers_state(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _preparing(pod: Json) -> str:
    """The state of the container that prepares the pod at present, empty if none does."""
    statuses = _statuses(pod, "initContainerStatuses")
    for number, container in enumerate(statuses):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if container.get("started") and container.get("ready") and not ended:
            continue
        if ended:
            return f"Init:{_ending(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(statuses)}"
    return ""


def _containers_state(pod: Json, reason: str) -> str:
    running = False
    for container in reversed(_statuses(pod, "containerStatuses")):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _ending(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in (pod.get("status") or {}).get("conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return reason


def _ending(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(pod: Json, now: float) -> str:
    statuses = _statuses(pod, "containerStatuses")
    count = sum(container.get("restartCount") or 0 for container in statuses)
    last = max(
        (
            ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
            for container in statuses
        ),
        default="",
    )
    return f"{count} ({age_of(last, now)} ago)" if count and last else str(count)


def _gates(pod: Json, now: float) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates")
    if not gates:
        return _NONE
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in (pod.get("status") or {}).get("conditions") or ()
    }
    met = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{met}/{len(gates)}"


def _statuses(pod: Json, field: str) -> Any:
    return (pod.get("status") or {}).get(field) or []


PODS: Final = (
    NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", lambda pod, now: (pod.get("status") or {}).get("podIP") or _NONE, usual=False),
    Column("Node", lambda pod, now: (pod.get("spec") or {}).get("nodeName") or _NONE, usual=False),
    Column(
        "Nominated Node",
        lambda pod, now: (pod.get("status") or {}).get("nominatedNodeName") or _NONE,
        usual=False,
    ),
    Column("Readiness Gates", _gates, usual=False),
)
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
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", lambda node, now: _node_info(node, "kubeletVersion", "")),
    Column("Internal-IP", lambda node, now: _node_address(node, "InternalIP"), usual=False),
    Column("External-IP", lambda node, now: _node_address(node, "ExternalIP"), usual=False),
    Column("OS-Image", lambda node, now: _node_info(node, "osImage"), usual=False),
    Column("Kernel-Version", lambda node, now: _node_info(node, "kernelVersion"), usual=False),
    Column("Container-Runtime", lambda node, now: _node_info(node, "containerRuntimeVersion"), usual=False),
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
    return ",".join(_SHORT_MODES.get(mode, mode) for mode in modes or ())


def _count(field: str) -> Any:
    return lambda obj, now: len(obj.get(field) or ())


NAMESPACES: Final = (NAME, Column("Status", lambda obj, now: str(status_of(obj).get("phase", ""))), AGE)


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
    Column("Type", lambda obj, now: spec_of(obj).get("type", "")),
    Column("Cluster-IP", lambda obj, now: spec_of(obj).get("clusterIP") or "<none>"),
    Column("External-IP", _external),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", lambda obj, now: selector_text(spec_of(obj).get("selector")), usual=False),
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
    Column("Type", field_cell("type", "")),
    Column("Reason", field_cell("reason", "")),
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
    reference = spec_of(volume).get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


VOLUMES: Final = (
    NAME,
    Column("Capacity", lambda obj, now: (spec_of(obj).get("capacity") or {}).get("storage", "")),
    Column("Access Modes", lambda obj, now: _modes(spec_of(obj).get("accessModes"))),
    Column("Reclaim Policy", lambda obj, now: spec_of(obj).get("persistentVolumeReclaimPolicy", "")),
    Column("Status", _phase),
    Column("Claim", _claim),
    Column("StorageClass", lambda obj, now: spec_of(obj).get("storageClassName", "")),
    Column(
        "VolumeAttributesClass", lambda obj, now: spec_of(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    Column("Reason", lambda obj, now: status_of(obj).get("reason", "")),
    AGE,
    Column("VolumeMode", lambda obj, now: spec_of(obj).get("volumeMode", ""), usual=False),
)
CLAIMS: Final = (
    NAME,
    Column("Status", _phase),
    Column("Volume", lambda obj, now: spec_of(obj).get("volumeName", "")),
    Column("Capacity", lambda obj, now: (status_of(obj).get("capacity") or {}).get("storage", "")),
    Column("Access Modes", lambda obj, now: _modes(status_of(obj).get("accessModes"))),
    Column("StorageClass", lambda obj, now: spec_of(obj).get("storageClassName", "")),
    Column(
        "VolumeAttributesClass", lambda obj, now: spec_of(obj).get("volumeAttributesClassName") or "<unset>"
    ),
    AGE,
    Column("VolumeMode", lambda obj, now: spec_of(obj).get("volumeMode", ""), usual=False),
)
CONFIG_MAPS: Final = (
    NAME,
    Column("Data", lambda obj, now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
    AGE,
)
SECRETS: Final = (
    NAME,
    Column("Type", field_cell("type", "Opaque")),
    Column("Data", _count("data"), "integer"),
    AGE,
)
SERVICE_ACCOUNTS: Final = (NAME, Column("Secrets", _count("secrets"), "integer"), AGE)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.PODS: PODS,
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
}
