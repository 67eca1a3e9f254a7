"""Addresses of Ingresses and Gateways whose class names our controllers.

An IngressClass or GatewayClass says which controller acts on its objects. Those of ours only write a status:
nothing listens at the addresses.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, INGRESS_CLASSES, INGRESSES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, RetryLater
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.controllers.customkinds import resource_of
from stowplan.localcluster.controllers.services.loadbalancers import AddressPool, PoolError, addresses_in
from stowplan.localcluster.objects.fields import (
    annotations_of,
    key_of,
    name_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)

INGRESS_CONTROLLER: Final = "pretend.stowplan.io/ingress-controller"
GATEWAY_CONTROLLER: Final = "pretend.stowplan.io/gateway-controller"
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_GATEWAYS: Final = "gateways.gateway.networking.k8s.io"
_GATEWAY_CLASSES: Final = "gatewayclasses.gateway.networking.k8s.io"


class IngressController(Controller):
    """Shows the address of its class in the status of every Ingress of ours."""

    name: ClassVar[str] = "pretend-ingress-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext, pool: AddressPool) -> None:
        super().__init__(context)
        self._pool = pool
        self._ingresses = self.informer(INGRESSES)
        self._classes = self.informer(INGRESS_CLASSES)
        self._ingresses.add_handler(self._ingress_changed)
        self._classes.add_handler(self._class_changed)

    def _ingress_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and self._class_of(new) is not None:
            self.queue.add(key_of(new))

    def _class_changed(self, old: Json | None, new: Json | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        if new is None:
            self._pool.release(_holder(changed))
        for ingress in self._ingresses:
            if _class_name(ingress) == name_of(changed):
                self.queue.add(key_of(ingress))

    def _class_of(self, ingress: Json) -> Json | None:
        """The class of an Ingress, None if another controller acts on it."""
        found = self._classes.get(_class_name(ingress))
        return found if found is not None and spec_of(found).get("controller") == INGRESS_CONTROLLER else None

    async def sync(self, key: str) -> None:
        ingress = self._ingresses.get(key)
        of_class = None if ingress is None else self._class_of(ingress)
        if ingress is None or of_class is None:
            return
        for address in addresses_in(status_of(ingress)):
            self._pool.restore(_holder(of_class), address)
        # All Ingresses of a class are served by one controller, at one address.
        try:
            address = self._pool.assign(_holder(of_class))
        except PoolError as error:
            await self.record_event(ingress, "NoAddress", str(error), WARNING)
            raise RetryLater from None
        await self.set_status(INGRESSES, ingress, {"loadBalancer": {"ingress": [{"ip": address}]}})


def _class_name(ingress: Json) -> str:
    name: str = spec_of(ingress).get("ingressClassName") or annotations_of(ingress).get(_CLASS_ANNOTATION, "")
    return name


class GatewayController(Controller):
    """Accepts GatewayClasses of ours and programs their Gateways, where their CRDs are installed.

    The objects come from the informers of the garbage collector, which watches every custom kind.
    """

    name: ClassVar[str] = "pretend-gateway-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext, pool: AddressPool) -> None:
        super().__init__(context)
        self._pool = pool
        self._followed: dict[str, Informer] = {}
        self.informer(CUSTOM_RESOURCE_DEFINITIONS).add_handler(self._definition_changed)

    def _definition_changed(self, old: Json | None, new: Json | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        name = name_of(changed)
        if name not in (_GATEWAYS, _GATEWAY_CLASSES):
            return
        resource = None if new is None else resource_of(new)
        if resource is None:
            self._followed.pop(name, None)
            return
        informer = self.informer(resource)
        if self._followed.get(name) is informer:
            return
        self._followed[name] = informer
        informer.add_handler(self._gateway_changed if name == _GATEWAYS else self._class_changed)
        for obj in informer:
            self._enqueue(name, obj)

    def _gateway_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            assert old is not None
            self._pool.release(_holder(old))
        else:
            self._enqueue(_GATEWAYS, new)

    def _class_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            return
        self._enqueue(_GATEWAY_CLASSES, new)
        for gateway in self._followed.get(_GATEWAYS) or ():
            if spec_of(gateway).get("gatewayClassName") == name_of(new):
                self._enqueue(_GATEWAYS, gateway)

    def _enqueue(self, kind: str, obj: Json) -> None:
        self.queue.add(f"{kind} {key_of(obj)}")

    async def sync(self, key: str) -> None:
        kind, _, name = key.partition(" ")
        informer = self._followed.get(kind)
        obj = None if informer is None else informer.get(name)
        if informer is None or obj is None:
            return
        if kind == _GATEWAYS and self._is_ours(obj):
            await self.set_status(informer.resource, obj, self._gateway_status(obj))
        elif kind == _GATEWAY_CLASSES and spec_of(obj).get("controllerName") == GATEWAY_CONTROLLER:
            conditions = self._conditions(obj, status_of(obj), ("Accepted",))
            await self.set_status(informer.resource, obj, {"conditions": conditions})

    def _is_ours(self, gateway: Json) -> bool:
        classes = self._followed.get(_GATEWAY_CLASSES)
        found = None if classes is None else classes.get(spec_of(gateway).get("gatewayClassName") or "")
        return found is not None and spec_of(found).get("controllerName") == GATEWAY_CONTROLLER

    def _gateway_status(self, gateway: Json) -> Json:
        status, spec = status_of(gateway), spec_of(gateway)
        for known in status.get("addresses") or ():
            self._pool.restore(_holder(gateway), known.get("value") or "")
        wanted = next((one.get("value") or "" for one in spec.get("addresses") or ()), "")
        try:
            address = self._pool.assign(_holder(gateway), wanted)
        except PoolError as error:
            conditions = self._conditions(gateway, status, ("Accepted", "Programmed"), str(error))
            return {"conditions": conditions}
        before = {one.get("name"): one for one in status.get("listeners") or ()}
        return {
            "addresses": [{"type": "IPAddress", "value": address}],
            "conditions": self._conditions(gateway, status, ("Accepted", "Programmed")),
            "listeners": [
                self._listener_status(gateway, name, before.get(name) or {})
                for name in (one.get("name") or "" for one in spec.get("listeners") or ())
            ],
        }

    def _listener_status(self, gateway: Json, name: str, before: Json) -> Json:
        return {
            "name": name,
            "supportedKinds": before.get("supportedKinds") or [],
            "attachedRoutes": before.get("attachedRoutes") or 0,
            "conditions": self._conditions(gateway, before, ("Accepted", "Programmed", "ResolvedRefs")),
        }

    def _conditions(self, obj: Json, status: Json, types: Sequence[str], problem: str = "") -> list[Json]:
        """Conditions that are True; with a problem the one named Programmed is False."""
        conditions: list[Json] = list(status.get("conditions") or ())
        for type_ in types:
            fails = bool(problem) and type_ == "Programmed"
            new = {
                "type": type_,
                "status": "False" if fails else "True",
                "reason": "AddressNotUsable" if fails else type_,
                "message": problem if fails else "",
                "observedGeneration": obj["metadata"].get("generation", 1),
            }
            conditions = with_condition(conditions, new, self.stamp())
        return conditions


def _holder(obj: Json) -> str:
    return f"{obj.get('kind', '')} {uid_of(obj)}"
