"""The service controller: pretended load balancers, as the controller of a cloud provider makes them.

Every Service of type LoadBalancer gets an address from a range. Nothing listens there.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from stowplan.api.catalogue import NODES, SERVICES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, RetryLater
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.objects.fields import (
    annotations_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    spec_of,
    status_of,
    uid_of,
)

AddressRange = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_RANGE: Final[AddressRange] = ipaddress.ip_network("10.96.255.0/24")
OUR_CLASS: Final = "pretend.stowplan.io/load-balancer"
"""A loadBalancerClass that is handled, next to Services without one."""

FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
_EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
_COMPARED: Final = (
    "type",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "sessionAffinity",
    "sessionAffinityConfig",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "ipFamilies",
)
"""Fields of a Service whose change has its load balancer ensured again."""


class PoolError(ValueError):
    """An address that cannot be given."""


class AddressPool:
    """Addresses of load balancers by the key of their holder, from a range without its first and last."""

    def __init__(self, addresses: AddressRange = DEFAULT_RANGE) -> None:
        self.range = addresses
        self._held: dict[str, str] = {}

    def held(self, holder: str) -> str:
        """The address of a holder, empty if it has none."""
        return self._held.get(holder, "")

    def restore(self, holder: str, address: str) -> None:
        """Note an address that a status shows, unless another holder has it."""
        if holder not in self._held and self._is_free(address):
            self._held[holder] = address

    def assign(self, holder: str, wanted: str = "") -> str:
        """The address of a holder: the one it wants, the one it has, or the first free one. Raises
        PoolError."""
        held = self.held(holder)
        if held and wanted in ("", held):
            return held
        if wanted:
            if not self._is_in_range(wanted):
                raise PoolError(f"requested address {wanted} is not in {self.range}")
            if not self._is_free(wanted):
                raise PoolError(f"requested address {wanted} is already in use")
        taken = set(self._held.values())
        address = wanted or next((one for one in self._all() if one not in taken), "")
        if not address:
            raise PoolError(f"all addresses of {self.range} are in use")
        self._held[holder] = address
        return address

    def release(self, holder: str) -> None:
        self._held.pop(holder, None)

    def _all(self) -> Iterator[str]:
        return map(str, self.range.hosts())

    def _is_free(self, address: str) -> bool:
        return self._is_in_range(address) and address not in self._held.values()

    def _is_in_range(self, address: str) -> bool:
        try:
            return ipaddress.ip_address(address) in self.range
        except ValueError:
            return False


def addresses_in(status: Json) -> list[str]:
    """The addresses in the status of a Service or an Ingress."""
    shown = (status.get("loadBalancer") or {}).get("ingress") or ()
    return [one["ip"] for one in shown if one.get("ip")]


def wants_balancer(service: Json) -> bool:
    spec = spec_of(service)
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") in (None, "", OUR_CLASS)


def needs_cleanup(service: Json) -> bool:
    """True if a Service has a load balancer that it needs no longer."""
    has_one = FINALIZER in finalizers_of(service)
    return has_one and (is_deleting(service) or spec_of(service).get("type") != "LoadBalancer")


class ServiceController(Controller):
    """Gives Services of type LoadBalancer an address, and takes it back."""

    name: ClassVar[str] = "service-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext, pool: AddressPool) -> None:
        super().__init__(context)
        self._pool = pool
        self._nodes = self.informer(NODES)
        self._services = self.informer(SERVICES)
        self._services.add_handler(self._service_changed)

    def _service_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._pool.release(_holder(old))
            return
        if old is not None and uid_of(old) != uid_of(new):
            self._pool.release(_holder(old))
            old = None
        if old is None:
            if wants_balancer(new):
                for address in addresses_in(status_of(new)):
                    self._pool.restore(_holder(new), address)
            if wants_balancer(new) or needs_cleanup(new):
                self.queue.add(key_of(new))
        elif needs_cleanup(new) or _needs_update(old, new):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        service = self._services.get(key)
        if service is None:
            return
        if wants_balancer(service) and not needs_cleanup(service) and not is_deleting(service):
            await self._ensure(service)
        elif FINALIZER in finalizers_of(service):
            await self._remove(service)

    async def _ensure(self, service: Json) -> None:
        await self.record_event(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        held = finalizers_of(service)
        if FINALIZER not in held:
            # The finalizer comes first: a Service that is deleted now waits until its address is returned.
            service = await self.change(SERVICES, service, {"metadata": {"finalizers": [*held, FINALIZER]}})
        if not any(_EXCLUDED not in labels_of(node) and not is_deleting(node) for node in self._nodes):
            text = "There are no available nodes for LoadBalancer"
            await self.record_event(service, "UnAvailableLoadBalancer", text, WARNING)
        try:
            address = self._pool.assign(_holder(service), spec_of(service).get("loadBalancerIP") or "")
        except PoolError as error:
            text = f"Error syncing load balancer: failed to ensure load balancer: {error}"
            await self.record_event(service, "SyncLoadBalancerFailed", text, WARNING)
            raise RetryLater from None
        await self.record_event(service, "EnsuredLoadBalancer", "Ensured load balancer")
        shown = {"ingress": [{"ip": address, "ipMode": "VIP"}]}
        if status_of(service).get("loadBalancer") != shown:
            await self.set_status(SERVICES, service, {"loadBalancer": shown})

    async def _remove(self, service: Json) -> None:
        await self.record_event(service, "DeletingLoadBalancer", "Deleting load balancer")
        self._pool.release(_holder(service))
        if not is_deleting(service) and addresses_in(status_of(service)):
            service = await self.set_status(SERVICES, service, {"loadBalancer": {}})
        kept = [one for one in finalizers_of(service) if one != FINALIZER]
        await self.change(SERVICES, service, {"metadata": {"finalizers": kept}})
        await self.record_event(service, "DeletedLoadBalancer", "Deleted load balancer")


def _needs_update(old: Json, new: Json) -> bool:
    if wants_balancer(old) != wants_balancer(new):
        return True
    if not wants_balancer(new):
        return False
    before, after = spec_of(old), spec_of(new)
    changed: Iterable[bool] = (before.get(field) != after.get(field) for field in _COMPARED)
    return any(changed) or annotations_of(old) != annotations_of(new)


def _holder(service: Json) -> str:
    return f"Service {uid_of(service)}"
