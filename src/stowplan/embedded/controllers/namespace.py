"""Namespaces: one that is deleted is emptied first."""

from collections.abc import Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import BUILT_IN, CORE_EVENTS, EVENTS, NAMESPACES, Resource
from stowplan.api.meta import AnyObject
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller, gather_writes
from stowplan.embedded.controllers.objects import is_deleting, name_of, spec_of, status_of, with_condition

KUBERNETES: Final = "kubernetes"
"""The finalizer in a namespace's spec that stands for its contents."""

LOOK_AGAIN: Final = 1.0
_LAST: Final = (CORE_EVENTS, EVENTS)


def contents() -> list[Resource]:
    """Kinds that live in namespaces; events come last, for what is deleted may cause some."""
    kinds = [one for one in BUILT_IN if one.namespaced and one not in _LAST]
    return [*kinds, *_LAST]


class NamespaceController(Controller):
    """Empties namespaces that are deleted, then lets them go."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.namespaces = self.informer(NAMESPACES)
        self.namespaces.add_handler(self._namespace_changed)

    def _namespace_changed(self, old: Json | None, new: Json | None) -> None:
        namespace = new if new is not None else old
        if namespace is not None and (new is None or is_deleting(new)):
            self.queue.add(name_of(namespace))

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is not None and not is_deleting(namespace):
            return
        left = await self._empty(key)
        if left:
            if namespace is not None:
                await self._tell_left(namespace, left)
            self.queue.add_after(key, LOOK_AGAIN)
        elif namespace is not None and KUBERNETES in (spec_of(namespace).get("finalizers") or ()):
            kept = [one for one in spec_of(namespace)["finalizers"] if one != KUBERNETES]
            body = {**namespace, "spec": {**spec_of(namespace), "finalizers": kept}}
            await self.client.update(NAMESPACES, body, subresource="finalize")

    async def _empty(self, namespace: str) -> dict[str, int]:
        """Delete all there is; how many objects of which kind were left."""
        left: dict[str, int] = {}
        for resource in contents():
            found = await self._list(resource, namespace)
            await gather_writes(
                self.delete(resource, one.data) for one in found if one.metadata.deletion_timestamp is None
            )
            found = await self._list(resource, namespace) if found else []
            if found:
                left[resource.qualified] = len(found)
        return left

    async def _list(self, resource: Resource, namespace: str) -> Sequence[AnyObject]:
        """The objects in a namespace; of a kind that the server does not have there are none."""
        try:
            return (await self.client.list(resource, AnyObject, namespace=namespace)).items
        except ApiError as error:
            if error.is_not_found:
                return []
            raise

    async def _tell_left(self, namespace: Json, left: dict[str, int]) -> None:
        listed = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(left.items()))
        condition = {
            "type": "NamespaceContentRemaining",
            "status": "True",
            "reason": "SomeResourcesRemain",
            "message": f"Some resources are remaining: {listed}",
        }
        held = with_condition(status_of(namespace).get("conditions") or (), condition, self.stamp())
        await self.set_status(NAMESPACES, namespace, {"conditions": held})
