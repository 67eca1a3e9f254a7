"""The Endpoints controller: the pods behind a service in one object, and its mirror in slices.

Endpoints of users for a service without a selector are mirrored to EndpointSlices.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from stowplan.api.catalogue import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, gather_writes
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.services.endpointslice import (
    MANAGED_BY,
    SERVICE_NAME,
    SlicePlan,
    ports_key,
    ports_of,
    slice_port,
    slices_service,
)
from stowplan.localcluster.controllers.services.servicepods import (
    HEADLESS,
    TRIGGER_TIME,
    KeptByPod,
    ServicePods,
    TriggerTimes,
    addresses_of,
    families_of,
    family_of,
    has_endpoint,
    hostname_for,
    is_headless,
    is_published,
    ready_changed,
    selector_of,
)
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_reference,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    uid_of,
)

ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"
MAX_ADDRESSES: Final = 1000


def address_of(pod: Json, service: Json, ip: str) -> Json:
    """A pod as an address of a service."""
    metadata = pod["metadata"]
    address: Json = {"ip": ip}
    hostname = hostname_for(pod, service)
    if hostname:
        address["hostname"] = hostname
    if node_of(pod):
        address["nodeName"] = node_of(pod)
    address["targetRef"] = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return address


class AddressedPod(NamedTuple):
    """A pod as Endpoints have it: whether traffic goes to it, its address (None without one), its ports."""

    name: str
    ready_changed: str
    published: bool
    address: Json | None
    ports: list[Json]


def addressed_pod(pod: Json, service: Json, _: str = "") -> AddressedPod:
    publish = bool(spec_of(service).get("publishNotReadyAddresses"))
    address: Json | None = None
    ports: list[Json] = []
    if has_endpoint(pod, terminating=publish):
        ips, ports = addresses_of(pod, families_of(service)[0]), _ports_on(pod, service)
        if ips and (ports or _is_portless(service)):
            address = address_of(pod, service, ips[0])
    return AddressedPod(name_of(pod), ready_changed(pod), is_published(pod, service), address, ports)


def subsets_of(pods: Iterable[AddressedPod]) -> tuple[list[Json], bool]:
    """The subsets of a service: pods with the same ports together; and whether some were left out.

    Of more addresses than fit the ready ones are kept first.
    """
    found = [(pod.published, pod.address, pod.ports) for pod in pods if pod.address is not None]
    found.sort(key=lambda one: (not one[0], one[1]["ip"]))
    kept = found[:MAX_ADDRESSES]
    return _grouped(kept), len(kept) < len(found)


def _ports_on(pod: Json, service: Json) -> list[Json]:
    """The ports that slices have, too, but one without a name has none at all here."""
    found = sorted(ports_of(pod, service), key=lambda one: (one["name"], one["port"], one["protocol"]))
    return [{name: value for name, value in one.items() if name != "name" or value} for one in found]


def _is_portless(service: Json) -> bool:
    return is_headless(service) and not spec_of(service).get("ports")


def _grouped(addresses: Iterable[tuple[bool, Json, list[Json]]]) -> list[Json]:
    groups: dict[Any, Json] = {}
    for ready, address, ports in addresses:
        subset = groups.setdefault(ports_key(ports), {"ports": ports})
        subset.setdefault("addresses" if ready else "notReadyAddresses", []).append(address)
    order = ("addresses", "notReadyAddresses", "ports")
    return [{name: groups[key][name] for name in order if groups[key].get(name)} for key in sorted(groups)]


class EndpointsController(Controller):
    """Keeps the Endpoints of services with a selector."""

    name: ClassVar[str] = "endpoint-controller"
    workers: ClassVar[int] = 5

    def __init__(self, context: ControllerContext, members: ServicePods) -> None:
        super().__init__(context)
        self.members = members
        self.services = members.services
        self.endpoints = self.informer(ENDPOINTS)
        self._triggers = TriggerTimes()
        self._kept = KeptByPod(addressed_pod)
        members.add_listener(self.queue.add)
        self.endpoints.add_handler(self._endpoints_changed)

    def _endpoints_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None and _is_selecting(self.services.get(_key(old))):
            self.queue.add(_key(old))

    async def sync(self, key: str) -> None:
        service, current = self.services.get(key), self.endpoints.get(key)
        if service is None:
            self._triggers.forget(key)
            self._kept.forget(key)
            if current is not None:
                await self.delete(ENDPOINTS, current)
            return
        if not _is_selecting(service):
            return
        members = self.members.of(key)
        self.rest(key, len(members))
        pods = self._kept.all(key, service, members, lambda pod: "")
        subsets, truncated = subsets_of(pods)
        trigger = self._triggers.next(key, service, {pod.name: pod.ready_changed for pod in pods})
        labels = {**labels_of(service), ENDPOINTS_MANAGED_BY: self.name}
        if is_headless(service):
            labels[HEADLESS] = ""
        else:
            labels.pop(HEADLESS, None)
        annotations = {TRIGGER_TIME: trigger or None, OVER_CAPACITY: TRUNCATED if truncated else None}
        if current is None:
            metadata: Json = {"name": name_of(service), "namespace": namespace_of(service), "labels": labels}
            held = {name: value for name, value in annotations.items() if value}
            if held:
                metadata["annotations"] = held
            body = {"metadata": metadata, "subsets": subsets} if subsets else {"metadata": metadata}
            await self.create(ENDPOINTS, body)
        elif _differs(current, subsets, labels, truncated):
            wanted = {name: value for name, value in annotations.items() if value or _has(current, name)}
            metadata = {"labels": {**dict.fromkeys(labels_of(current)), **labels}}
            if wanted:
                metadata["annotations"] = wanted
            await self.change(ENDPOINTS, current, {"metadata": metadata, "subsets": subsets or None})


def _differs(current: Json, subsets: list[Json], labels: dict[str, str], truncated: bool) -> bool:
    return (
        _sorted_subsets(current.get("subsets") or ()) != _sorted_subsets(subsets)
        or labels_of(current) != labels
        or _has(current, OVER_CAPACITY) != truncated
    )


def _sorted_subsets(subsets: Iterable[Json]) -> list[Any]:
    """Subsets without their order, which the server may have changed."""

    def addresses(subset: Json, name: str) -> list[Json]:
        return sorted(subset.get(name) or (), key=lambda one: str(one.get("ip")))

    return sorted(
        (
            [ports_key(one.get("ports")), addresses(one, "addresses"), addresses(one, "notReadyAddresses")]
            for one in subsets
        ),
        key=lambda one: one[0],
    )


def _has(obj: Json, annotation: str) -> bool:
    return annotation in annotations_of(obj)


def _is_selecting(service: Json | None) -> bool:
    return (
        service is not None and bool(selector_of(service)) and spec_of(service).get("type") != "ExternalName"
    )


def _key(obj: Json) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}"


MIRROR_MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_MIRRORED: Final = (TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")


def mirrored(endpoints: Json) -> tuple[dict[tuple[Any, ...], Json], int, int]:
    """The slices that endpoints become, by family and ports; addresses that are none, and those too many."""
    found: dict[tuple[Any, ...], Json] = {}
    invalid = skipped = 0
    for subset in endpoints.get("subsets") or ():
        ports = [slice_port(one, one["port"]) for one in subset.get("ports") or ()]
        added = 0
        told = [(one, True) for one in subset.get("addresses") or ()]
        told += [(one, False) for one in subset.get("notReadyAddresses") or ()]
        for address, ready in told:
            family = family_of(address.get("ip", ""))
            if not family:
                invalid += 1
            elif added == MAX_ADDRESSES:
                skipped += 1
            else:
                added += 1
                contents = {"addressType": family, "endpoints": [], "ports": ports}
                one = found.setdefault((family, ports_key(ports)), contents)
                one["endpoints"].append(_slice_endpoint(address, ready))
    return found, invalid, skipped


def _slice_endpoint(address: Json, ready: bool) -> Json:
    endpoint: Json = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for name in ("hostname", "targetRef", "nodeName"):
        if address.get(name):
            endpoint[name] = address[name]
    return endpoint


class EndpointSliceMirroringController(Controller):
    """Mirrors Endpoints of services without a selector to slices."""

    name: ClassVar[str] = "endpoint-slice-mirroring-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.services = self.follow(SERVICES)
        self.endpoints = self.follow(ENDPOINTS)
        self.slices = self.informer(ENDPOINT_SLICES)
        self._of_endpoints = self.slices.index(lambda one: slices_service(one, MIRROR_MANAGER))
        self.slices.add_handler(self._slice_changed)

    def _slice_changed(self, old: Json | None, new: Json | None) -> None:
        for one in (old, new):
            for key in () if one is None else slices_service(one, MIRROR_MANAGER):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        service, endpoints = self.services.get(key), self.endpoints.get(key)
        existing = list(self._of_endpoints[key].values())
        if endpoints is None or not _is_mirrored(endpoints) or service is None or selector_of(service):
            await gather_writes(self.delete(ENDPOINT_SLICES, one) for one in existing)
            return
        wanted, invalid, skipped = mirrored(endpoints)
        if invalid:
            note = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            await self.record_event(endpoints, "InvalidIPAddress", note, WARNING)
        if skipped:
            note = (
                f"A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{skipped + invalid} addresses were skipped"
            )
            await self.record_event(endpoints, "TooManyAddressesToMirror", note, WARNING)
        await self._write(endpoints, self._plan(endpoints, wanted, existing))

    def _plan(
        self, endpoints: Json, wanted: dict[tuple[Any, ...], Json], existing: Sequence[Json]
    ) -> SlicePlan:
        plan = SlicePlan()
        for one in existing:
            key = (one.get("addressType"), ports_key(one.get("ports")))
            contents = wanted.pop(key, None)
            if contents is None:
                plan.delete.append(one)
            elif not _is_mirror(one, endpoints, contents):
                plan.update.append((one, contents))
        plan.create = list(wanted.values())
        plan.recycle()
        return plan

    async def _write(self, endpoints: Json, plan: SlicePlan) -> None:
        labels, annotations = _mirror_labels(endpoints), _mirror_annotations(endpoints)
        owner = [controller_reference(ENDPOINTS, endpoints)]
        if not is_deleting(endpoints):
            for contents in plan.create:
                metadata: Json = {
                    "generateName": f"{name_of(endpoints)}-",
                    "namespace": namespace_of(endpoints),
                    "labels": labels,
                    "ownerReferences": owner,
                }
                if annotations:
                    metadata["annotations"] = annotations
                await self.create(ENDPOINT_SLICES, {"metadata": metadata, **contents})
        for one, contents in plan.update:
            metadata = {
                "labels": {**dict.fromkeys(labels_of(one)), **labels},
                "annotations": {**dict.fromkeys(annotations_of(one)), **annotations},
                "ownerReferences": owner,
            }
            await self.change(ENDPOINT_SLICES, one, {"metadata": metadata, **contents})
        await gather_writes(self.delete(ENDPOINT_SLICES, one) for one in plan.delete)


def _is_mirrored(endpoints: Json) -> bool:
    return labels_of(endpoints).get(SKIP_MIRROR) != "true" and _LEADER not in annotations_of(endpoints)


def _mirror_labels(endpoints: Json) -> dict[str, str]:
    return {**labels_of(endpoints), SERVICE_NAME: name_of(endpoints), MANAGED_BY: MIRROR_MANAGER}


def _mirror_annotations(endpoints: Json) -> dict[str, str]:
    return {name: value for name, value in annotations_of(endpoints).items() if name not in _NOT_MIRRORED}


def _is_mirror(one: Json, endpoints: Json, contents: Json) -> bool:
    def endpoint_set(told: Any) -> list[Json]:
        return sorted(told or (), key=lambda endpoint: str(endpoint.get("addresses")))

    owners = one["metadata"].get("ownerReferences") or ()
    return (
        endpoint_set(one.get("endpoints")) == endpoint_set(contents["endpoints"])
        and labels_of(one) == _mirror_labels(endpoints)
        and annotations_of(one) == _mirror_annotations(endpoints)
        and any(owner.get("uid") == uid_of(endpoints) for owner in owners)
    )
