"""Namespaces: one that is deleted is emptied first."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from stowplan.api.catalogue import (
    BUILT_IN,
    CORE_EVENTS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    Resource,
)
from stowplan.api.meta import AnyObject
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    BACKGROUND,
    Controller,
    ControllerContext,
    gather_writes,
)
from stowplan.localcluster.controllers.customkinds import resources_of
from stowplan.localcluster.objects.fields import (
    finalizers_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    with_condition,
)

KUBERNETES: Final = "kubernetes"
"""The finalizer in a namespace's spec that stands for its contents."""

LOOK_AGAIN: Final = 1.0


def contents(served: Iterable[Resource]) -> list[Resource]:
    """Kinds that live in namespaces; events come last, for what is deleted may cause some."""
    kinds = [
        one
        for one in served
        if one.namespaced and "delete" in one.verbs and not one.storage_version and one != CORE_EVENTS
    ]
    return [*kinds, CORE_EVENTS]


@dataclass(slots=True)
class Remaining:
    """Number of objects left in a namespace, by kind and by finalizer."""

    kinds: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)


_DONE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def deletion_conditions(namespace: Json, left: Remaining, stamp: str) -> list[Json]:
    """The conditions of a namespace that is being deleted."""
    problems: dict[str, tuple[str, str]] = {}
    if left.kinds:
        told = sorted(f"{kind} has {count} resource instances" for kind, count in left.kinds.items())
        message = f"Some resources are remaining: {', '.join(told)}"
        problems["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
    if left.finalizers:
        told = sorted(f"{name} in {count} resource instances" for name, count in left.finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(told)}"
        problems["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    conditions: list[Json] = list(status_of(namespace).get("conditions") or ())
    for kind, done in _DONE.items():
        reason, message = problems.get(kind, done)
        status = "True" if kind in problems else "False"
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        conditions = with_condition(conditions, new, stamp)
    return conditions


class NamespaceController(Controller):
    """Empties namespaces that are deleted, then lets them go."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, context: ControllerContext, served: Iterable[Resource] = BUILT_IN) -> None:
        super().__init__(context)
        self._contents = contents(served)
        self.namespaces = self.informer(NAMESPACES)
        self._definitions = self.informer(CUSTOM_RESOURCE_DEFINITIONS)
        self.namespaces.add_handler(self._namespace_changed)

    def _namespace_changed(self, old: Json | None, new: Json | None) -> None:
        namespace = new if new is not None else old
        if namespace is not None and (new is None or is_deleting(new)):
            self.queue.add(name_of(namespace))

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is not None and not is_deleting(namespace):
            return
        left = await self._empty([PODS], key)
        if left.kinds:
            left = Remaining()
            waits = True
        else:
            custom = [one for one in resources_of(self._definitions) if one.namespaced]
            left = await self._empty([*custom, *self._contents], key)
            waits = bool(left.kinds)
        if namespace is not None:
            conditions = deletion_conditions(namespace, left, self.stamp())
            namespace = await self.set_status(NAMESPACES, namespace, {"conditions": conditions})
        if waits:
            self.queue.add_after(key, LOOK_AGAIN)
        elif namespace is not None and KUBERNETES in (spec_of(namespace).get("finalizers") or ()):
            kept = [one for one in spec_of(namespace)["finalizers"] if one != KUBERNETES]
            body = {**namespace, "spec": {**spec_of(namespace), "finalizers": kept}}
            await self.client.update(NAMESPACES, body, subresource="finalize")

    async def _empty(self, kinds: Sequence[Resource], namespace: str) -> Remaining:
        """Delete all there is of some kinds; what was left."""
        left = Remaining()
        for resource in kinds:
            found = await self._list(resource, namespace)
            await gather_writes(
                self.delete(resource, one.data, BACKGROUND)
                for one in found
                if one.metadata.deletion_timestamp is None
            )
            for one in await self._list(resource, namespace) if found else ():
                left.kinds[f"{resource.plural}.{resource.group}"] += 1
                left.finalizers.update(finalizers_of(one.data))
        return left

    async def _list(self, resource: Resource, namespace: str) -> Sequence[AnyObject]:
        """The objects in a namespace; of a kind that the server does not have there are none."""
        try:
            return (await self.client.list(resource, AnyObject, namespace=namespace)).items
        except ApiError as error:
            if error.is_not_found:
                return []
            raise
