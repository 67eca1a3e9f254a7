"""The EndpointSlice controller: the pods behind a service, at most a hundred to a slice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from stowplan.api.catalogue import ENDPOINT_SLICES, NODES, SERVICES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, gather_writes
from stowplan.localcluster.controllers.services.servicepods import (
    HEADLESS,
    TRIGGER_TIME,
    KeptByPod,
    ServicePods,
    TriggerTimes,
    addresses_of,
    families_of,
    find_port,
    has_endpoint,
    hostname_for,
    is_headless,
    ready_changed,
    selector_of,
)
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_reference,
    is_deleting,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    uid_of,
)

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
ZONE: Final = "topology.kubernetes.io/zone"
MAX_ENDPOINTS: Final = 100
NODE_RETRY: Final = 1.0
"""Seconds until a pod whose node is not known yet is looked at again."""

_RESERVED: Final = (SERVICE_NAME, MANAGED_BY, HEADLESS)
_CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")

NO_NODE: Final = "no such node"
"""Stands for the zone of a node that is not known; no zone is called so."""

PortsKey = tuple[Any, ...]


def endpoint_of(pod: Json, service: Json, family: str, zone: str) -> Json:
    """A pod as an endpoint of a service."""
    serving, terminating = is_ready(pod), is_deleting(pod)
    ready = bool(spec_of(service).get("publishNotReadyAddresses")) or (serving and not terminating)
    metadata = pod["metadata"]
    endpoint: Json = {
        "addresses": addresses_of(pod, family),
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
    }
    hostname = hostname_for(pod, service)
    if hostname:
        endpoint["hostname"] = hostname
    endpoint["targetRef"] = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    if node_of(pod):
        endpoint["nodeName"] = node_of(pod)
    if zone:
        endpoint["zone"] = zone
    hints = hints_for(endpoint, spec_of(service).get("trafficDistribution"))
    if hints:
        endpoint["hints"] = hints
    return endpoint


def hints_for(endpoint: Json, distribution: Any) -> Json:
    """Whose traffic an endpoint is for: only ready ones, of services that want it kept close."""
    if distribution not in _CLOSE or not endpoint["conditions"]["ready"]:
        return {}
    hints: Json = {}
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if "nodeName" in endpoint and distribution == "PreferSameNode":
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def ports_of(pod: Json, service: Json) -> list[Json]:
    """The ports of a service as they are on a pod; one that the pod does not have is left out."""
    found: list[Json] = []
    for port in spec_of(service).get("ports") or ():
        number = find_port(pod, port)
        if number is not None:
            found.append(slice_port(port, number))
    return found


def slice_port(port: Json, number: int) -> Json:
    """A port of a service or of Endpoints as slices have it."""
    one: Json = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP"), "port": number}
    if port.get("appProtocol") is not None:
        one["appProtocol"] = port["appProtocol"]
    return one


def ports_key(ports: Iterable[Json] | None) -> PortsKey:
    """Key that is equal for equal ports in any order."""
    return tuple(sorted(tuple(sorted(one.items())) for one in ports or ()))


def slice_labels(service: Json) -> dict[str, str]:
    """The labels of a service's slices."""
    labels = {key: value for key, value in labels_of(service).items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER}


class SlicedPod(NamedTuple):
    """A pod as slices have it: its ports, and its endpoint in each family (None if it has none)."""

    name: str
    uid: str
    ready_changed: str
    ports: list[Json]
    ports_key: PortsKey
    endpoints: dict[str, Json]


def sliced_pod(pod: Json, service: Json, zone: str) -> SlicedPod:
    ports = ports_of(pod, service)
    endpoints: dict[str, Json] = {}
    if has_endpoint(pod, terminating=True) and zone != NO_NODE:
        made = {family: endpoint_of(pod, service, family, zone) for family in families_of(service)}
        endpoints = {family: endpoint for family, endpoint in made.items() if endpoint["addresses"]}
    return SlicedPod(name_of(pod), uid_of(pod), ready_changed(pod), ports, ports_key(ports), endpoints)


@dataclass(slots=True)
class SlicePlan:
    """Changes of slices. Slices to create have no name yet."""

    create: list[Json] = field(default_factory=list)
    update: list[tuple[Json, Json]] = field(default_factory=list)
    delete: list[Json] = field(default_factory=list)

    def recycle(self) -> None:
        """Turn slices that are to go into those that are to come."""
        while self.create and self.delete:
            self.update.append((self.delete.pop(0), self.create.pop(0)))


def plan_for_ports(
    existing: Sequence[Json], desired: Mapping[str, Json], ports: list[Json], family: str
) -> SlicePlan:
    """Spread endpoints, by the uid of their pods, over the slices with these ports.

    Endpoints stay in their slice. New ones go to slices that change anyway, then all to one with enough
    room, then to new slices: as few objects as possible are written.
    """
    plan = SlicePlan()
    left = dict(desired)
    kept: list[Json] = []
    changed: list[tuple[Json, list[Json]]] = []
    for one in existing:
        endpoints: Sequence[Json] = one.get("endpoints") or ()
        wanted = [left.pop(uid) for uid in map(_target, endpoints) if uid in left]
        if list(endpoints) == wanted and wanted:
            kept.append(one)
        elif wanted:
            changed.append((one, wanted))
        else:
            plan.delete.append(one)
    waiting = list(left.values())
    for _, wanted in sorted(changed, key=lambda pair: -len(pair[1])):
        room = MAX_ENDPOINTS - len(wanted)
        wanted += waiting[:room]
        waiting = waiting[room:]
    if waiting:
        fitting = [one for one in kept if len(one["endpoints"]) + len(waiting) <= MAX_ENDPOINTS]
        if fitting:
            fullest = max(fitting, key=lambda one: len(one["endpoints"]))
            changed.append((fullest, [*fullest["endpoints"], *waiting]))
            waiting = []
    plan.update = [(one, _contents(wanted, ports, family)) for one, wanted in changed]
    for start in range(0, len(waiting), MAX_ENDPOINTS):
        plan.create.append(_contents(waiting[start : start + MAX_ENDPOINTS], ports, family))
    return plan


def _target(endpoint: Json) -> str:
    uid: str = (endpoint.get("targetRef") or {}).get("uid", "")
    return uid


def _contents(endpoints: list[Json], ports: list[Json], family: str) -> Json:
    return {"addressType": family, "endpoints": endpoints, "ports": ports}


class EndpointSliceController(Controller):
    """Keeps the slices of services with a selector."""

    name: ClassVar[str] = "endpoint-slice-controller"
    workers: ClassVar[int] = 5

    def __init__(self, context: ControllerContext, members: ServicePods) -> None:
        super().__init__(context)
        self.members = members
        self.services = members.services
        self.nodes = self.informer(NODES)
        self.slices = self.informer(ENDPOINT_SLICES)
        self._of_service = self.slices.index(lambda one: slices_service(one, MANAGER))
        self._triggers = TriggerTimes()
        self._kept = KeptByPod(sliced_pod)
        members.add_listener(self.queue.add)
        self.slices.add_handler(self._slice_changed)

    def _slice_changed(self, old: Json | None, new: Json | None) -> None:
        for one in (old, new):
            for key in () if one is None else slices_service(one, MANAGER):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        service = self.services.get(key)
        existing = list(self._of_service[key].values())
        if service is None:
            self._triggers.forget(key)
            self._kept.forget(key)
            await gather_writes(self.delete(ENDPOINT_SLICES, one) for one in existing)
            return
        if spec_of(service).get("type") == "ExternalName" or not selector_of(service):
            return
        members = self.members.of(key)
        self.rest(key, len(members))
        publishes = bool(spec_of(service).get("publishNotReadyAddresses"))
        pods = self._kept.all(key, service, members, lambda pod: self._zone_of(key, pod, publishes))
        plan = SlicePlan()
        for family in families_of(service):
            mine = [one for one in existing if one.get("addressType") == family and not is_deleting(one)]
            self._plan_family(plan, pods, family, mine)
        others = [one for one in existing if one.get("addressType") not in families_of(service)]
        plan.delete += others
        plan.recycle()
        trigger = self._triggers.next(key, service, {pod.name: pod.ready_changed for pod in pods})
        await self._write(service, plan, existing, trigger)

    def _zone_of(self, key: str, pod: Json, publishes: bool) -> str:
        """The zone of a pod's node; one whose node is not known (yet) is looked at again."""
        name = node_of(pod)
        node = self.nodes.get(name) if name else None
        if node is not None:
            return labels_of(node).get(ZONE, "")
        if not name or publishes:
            return ""
        if has_endpoint(pod, terminating=True):
            self.queue.add_after(key, NODE_RETRY)
        return NO_NODE

    def _plan_family(
        self, plan: SlicePlan, pods: Iterable[SlicedPod], family: str, existing: Sequence[Json]
    ) -> None:
        wanted: dict[PortsKey, tuple[list[Json], dict[str, Json]]] = {}
        for pod in pods:
            endpoint = pod.endpoints.get(family)
            if endpoint is not None:
                wanted.setdefault(pod.ports_key, (pod.ports, {}))[1][pod.uid] = endpoint
        if not wanted:
            wanted[()] = ([], {})
        by_ports: dict[PortsKey, list[Json]] = {}
        for one in existing:
            by_ports.setdefault(ports_key(one.get("ports")), []).append(one)
        for ports_id, (ports, endpoints) in wanted.items():
            there = by_ports.pop(ports_id, [])
            if not endpoints:
                self._plan_placeholder(plan, family, there)
                continue
            made = plan_for_ports(there, endpoints, ports, family)
            plan.create += made.create
            plan.update += made.update
            plan.delete += made.delete
        plan.delete += [one for rest in by_ports.values() for one in rest]

    def _plan_placeholder(self, plan: SlicePlan, family: str, there: list[Json]) -> None:
        """A service without endpoints has one empty slice."""
        empty = [one for one in there if not one.get("endpoints")]
        if not empty:
            plan.create.append(_contents([], [], family))
        plan.delete += [one for one in there if one not in empty[:1]]

    async def _write(self, service: Json, plan: SlicePlan, existing: Sequence[Json], trigger: str) -> None:
        labels = slice_labels(service)
        touched = {id(one) for one, _ in plan.update} | {id(one) for one in plan.delete}
        for one in existing:
            if id(one) not in touched and (labels_of(one) != labels or not _is_owned(one, service)):
                plan.update.append((one, {}))
        if not is_deleting(service):
            for contents in plan.create:
                await self.create(ENDPOINT_SLICES, self._new_slice(service, contents, labels, trigger))
        writes = [self._update(service, one, contents, labels, trigger) for one, contents in plan.update]
        await gather_writes([*writes, *(self.delete(ENDPOINT_SLICES, one) for one in plan.delete)])

    def _new_slice(self, service: Json, contents: Json, labels: Mapping[str, str], trigger: str) -> Json:
        metadata: Json = {
            "generateName": f"{name_of(service)}-",
            "namespace": namespace_of(service),
            "labels": dict(labels),
            "ownerReferences": [controller_reference(SERVICES, service)],
        }
        if trigger:
            metadata["annotations"] = {TRIGGER_TIME: trigger}
        return {"metadata": metadata, **contents}

    async def _update(
        self, service: Json, old: Json, contents: Json, labels: Mapping[str, str], trigger: str
    ) -> None:
        metadata: Json = {"labels": {**dict.fromkeys(labels_of(old)), **labels}}
        if trigger or TRIGGER_TIME in annotations_of(old):
            metadata["annotations"] = {TRIGGER_TIME: trigger or None}
        if not _is_owned(old, service):
            metadata["ownerReferences"] = [controller_reference(SERVICES, service)]
        changes = {name: value for name, value in contents.items() if value != (old.get(name) or [])}
        await self.change(ENDPOINT_SLICES, old, {"metadata": metadata, **changes})


def slices_service(one: Json, manager: str) -> list[str]:
    """The key of the service of a slice that this manager keeps."""
    labels = labels_of(one)
    if labels.get(MANAGED_BY) != manager or not labels.get(SERVICE_NAME):
        return []
    return [f"{namespace_of(one)}/{labels[SERVICE_NAME]}"]


def _is_owned(one: Json, service: Json) -> bool:
    return any(owner.get("uid") == uid_of(service) for owner in one["metadata"].get("ownerReferences") or ())
