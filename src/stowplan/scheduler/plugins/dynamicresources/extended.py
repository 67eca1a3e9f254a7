"""Extended resources that are answered with devices: the claim that the scheduler makes for them."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from stowplan.api.devices import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from stowplan.api.meta import ObjectMeta, OwnerReference
from stowplan.api.pod import Container, ContainerExtendedResourceRequest, Pod
from stowplan.api.quantity import quantity_of
from stowplan.api.rules.resources import is_extended
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.table.devices import Claims, Classes

IN_MEMORY_NAME = "<extended-resources>"
"""The name of the claim as long as it is only in memory; no real claim can have it."""


class ExtendedRequests(NamedTuple):
    """The requests of the claim, and which of them stands for which resource of which container."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def asks_for_devices(pod: PodInfo, classes: Classes) -> bool:
    """True if a pod requests an extended resource that means devices."""
    return bool(classes.resources) and any(
        amount and may_mean_devices(name) and name in classes.resources
        for name, amount in pod.requests.scalars.items()
    )


def may_mean_devices(name: str) -> bool:
    return is_extended(name) or name.startswith("deviceclass.resource.kubernetes.io/")


def find_claim(pod: Pod, claims: Claims) -> ResourceClaim | None:
    """The claim that was made for a pod in an earlier attempt."""
    return claims.made_for(pod.metadata.uid)


def new_claim(pod: Pod) -> ResourceClaim:
    """The claim in memory, with a new uid so that its allocation can be in flight."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.metadata.uid, controller=True)
    return ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            generate_name=f"{pod.name}-extended-resources-",
            namespace=pod.namespace,
            uid=str(uuid4()),
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ),
    )


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """The claim as a node needs it."""
    return replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))


def requests_for(pod: Pod, resources: Sequence[str], classes: Classes) -> ExtendedRequests:
    """One request per container and resource; init containers use those of containers that run later."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.for_resource(resource)
        if device_class is not None:
            found = _for_resource(pod, resource, device_class.name)
            requests += found.requests
            mappings += found.mappings
    return ExtendedRequests(tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings))


def _for_resource(pod: Pod, resource: str, class_name: str) -> ExtendedRequests:
    containers = list(chain(pod.spec.init_containers, pod.spec.containers))
    initial = len(pod.spec.init_containers)
    short_lived = {index for index in range(initial) if containers[index].restart_policy != "Always"}
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[ContainerExtendedResourceRequest] = []
    for index, container in enumerate(containers):
        if index not in short_lived:
            request, mapped = _for_container(index, container, resource, class_name, ())
            mappings += mapped
            if request is not None:
                lasting[index] = request
    largest: DeviceRequest | None = None
    made: set[str] = set()
    short: list[ContainerExtendedResourceRequest] = []
    for index in sorted(short_lived):
        later = [request for place, request in lasting.items() if place >= index]
        request, mapped = _for_container(index, containers[index], resource, class_name, later)
        short += mapped
        if request is not None:
            made.add(request.name)
            if largest is None or _count(largest) < _count(request):
                largest = request
    if largest is not None:
        # Init containers run one after the other: the largest of their requests serves them all.
        short = [
            replace(one, request_name=largest.name) if one.request_name in made else one for one in short
        ]
    requests = (*([] if largest is None else [largest]), *lasting.values())
    return ExtendedRequests(requests, (*mappings, *short))


def _for_container(
    index: int, container: Container, resource: str, class_name: str, usable: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """Remaining request of a container besides requests it can use, and the requests it uses."""
    asked = {} if container.resources is None else container.resources.requests
    if resource not in asked:
        return None, []
    wanted = _whole(asked[resource])
    mappings: list[ContainerExtendedResourceRequest] = []
    if not wanted:
        return None, mappings

    def uses(request: DeviceRequest) -> None:
        mappings.append(
            ContainerExtendedResourceRequest(
                container_name=container.name, resource_name=resource, request_name=request.name
            )
        )

    covered = 0
    for request in usable:
        covered += _count(request)
        uses(request)
        if covered >= wanted:
            return None, mappings
    own = DeviceRequest(
        name=f"container-{index}-request-{sorted(asked).index(resource)}",
        exactly=ExactDeviceRequest(
            device_class_name=class_name, allocation_mode=EXACT_COUNT, count=wanted - covered
        ),
    )
    uses(own)
    return own, mappings


def _whole(raw: str | int | float) -> int:
    """A quantity that is a whole number; 0 for any other."""
    quantity = quantity_of(raw)
    return quantity.value() if quantity_of(str(quantity.value())) == quantity else 0


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count
