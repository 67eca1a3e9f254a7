"""The garbage collector: what belongs to something deleted goes too, in the background or the foreground.

Or it is orphaned, if that is the deletion's propagation policy.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence, Set
from enum import Enum, auto
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import BUILT_IN, CORE_EVENTS, CUSTOM_RESOURCE_DEFINITIONS, Catalogue, Resource
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    BACKGROUND,
    Controller,
    ControllerContext,
    RetryLater,
    gather_writes,
)
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllerruntime.informers import EventHandler, Index, Informer, owner_uids
from stowplan.localcluster.controllers.customkinds import kinds_of, resource_of, resources_of
from stowplan.localcluster.objects.fields import (
    finalizers_of,
    is_deleting,
    key_of,
    namespace_of,
    owners_of,
    uid_of,
)

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


def propagation_for(obj: Json) -> DeleteOptions:
    """How an object is deleted: as was asked for when it was deleted before, else in the background."""
    if ORPHAN in finalizers_of(obj):
        return DeleteOptions(propagation="Orphan")
    return DeleteOptions(propagation="Foreground") if FOREGROUND in finalizers_of(obj) else BACKGROUND


class CollectorAction(Enum):
    """Action of the garbage collector for an object."""

    STAY = auto()
    DISOWN = auto()
    DELETE = auto()
    DELETE_IN_FOREGROUND = auto()


def action_for(obj: Json, gone: Set[str], waiting: Set[str], has_dependents: bool) -> CollectorAction:
    """An object stays as long as one owner does; owners that wait for it to go want it to go first.

    `gone` and `waiting` are uids of owners: those that do not exist, and those being deleted in the
    foreground.
    """
    uids = {one.get("uid", "") for one in owners_of(obj)}
    lost = uids & (gone | waiting)
    if not lost:
        return CollectorAction.STAY
    if uids - lost:
        return CollectorAction.DISOWN
    if uids & waiting and has_dependents:
        return CollectorAction.DELETE_IN_FOREGROUND
    return CollectorAction.DELETE


def blocks_owner(obj: Json, owner: Json) -> bool:
    """True if an owner has to wait for an object's deletion."""
    return any(one.get("uid") == uid_of(owner) and one.get("blockOwnerDeletion") for one in owners_of(obj))


def waits_for_dependents(obj: Json) -> bool:
    """An object that is being deleted in the foreground."""
    return is_deleting(obj) and FOREGROUND in finalizers_of(obj)


def unblocked_owners(old: Json, new: Json) -> list[Json]:
    """References to owners that an object no longer holds up, because it has changed."""
    blocking = {one.get("uid") for one in owners_of(new) if one.get("blockOwnerDeletion")}
    return [one for one in owners_of(old) if one.get("blockOwnerDeletion") and one.get("uid") not in blocking]


WATCHED: Final = tuple(
    resource
    for resource in BUILT_IN
    if {"watch", "delete"} <= set(resource.verbs) and not resource.storage_version and resource != CORE_EVENTS
)
"""Kinds whose objects may own others and be owned, each in the version it is stored in."""

REMEMBERED: Final = 1000
"""Number of deleted owners that are remembered, to avoid a request for each of their objects."""


class GarbageCollector(Controller):
    """Follows who owns whom, over all kinds of objects."""

    name: ClassVar[str] = "garbage-collector-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext, watched: Sequence[Resource] = WATCHED) -> None:
        super().__init__(context)
        self._catalogue = Catalogue()
        self._informers: dict[str, Informer] = {}
        self._owned = Index(owner_uids)
        """The objects of all kinds by the uids of their owners, under the keys of the queue."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._uids: set[str] = set()
        """The uids of all objects that informers know."""
        for resource in watched:
            self._watch(resource)
        self._custom_kinds: dict[tuple[str, str], Resource] = {}
        self._definitions = self.informer(CUSTOM_RESOURCE_DEFINITIONS)
        self._definitions.add_handler(self._definition_changed)
        self._definitions_changed = asyncio.Event()

    def _watch(self, resource: Resource) -> Informer:
        informer = self._informers[resource.dotted] = self.informer(resource)
        for obj in informer:
            self._owned.put(_queue_key(resource, obj), None, obj)
            self._uids.add(uid_of(obj))
        informer.add_handler(self._listener(resource))
        return informer

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._follow_custom_kinds(),)

    # Custom kinds

    def _definition_changed(self, old: Json | None, new: Json | None) -> None:
        self._definitions_changed.set()

    async def _follow_custom_kinds(self) -> None:
        """Watch the objects of every CustomResourceDefinition for as long as it is served."""
        watches: dict[Resource, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._definitions_changed.clear()
                wanted = set(resources_of(self._definitions))
                for resource in watches.keys() - wanted:
                    watches.pop(resource).cancel()
                    self._forget(resource)
                for resource in wanted - watches.keys():
                    watches[resource] = group.create_task(self._watch(resource).reflector.run())
                self._custom_kinds = {
                    kind: found
                    for definition in self._definitions
                    if (found := resource_of(definition)) is not None
                    for kind in kinds_of(definition)
                }
                await self._definitions_changed.wait()

    def _forget(self, resource: Resource) -> None:
        """Whatever there was of a kind that is served no more is gone."""
        informer = self._informers.pop(resource.dotted)
        self.context.informers.drop(resource)
        for obj in informer:
            self._owned.put(_queue_key(resource, obj), obj, None)
        for obj in list(informer):
            self._uids.discard(uid_of(obj))
            self._has_gone(obj)

    def _kind(self, reference: Json) -> Resource | None:
        """The resource that a reference to an owner means, None if it is not known."""
        kind = (reference.get("apiVersion", ""), reference.get("kind", ""))
        return self._catalogue.of_kind(*kind) or self._custom_kinds.get(kind)

    # News

    def _listener(self, resource: Resource) -> EventHandler:
        def handler(old: Json | None, new: Json | None) -> None:
            changed = new if old is None else old
            assert changed is not None
            if (old is not None and owners_of(old)) or (new is not None and owners_of(new)):
                self._owned.put(_queue_key(resource, changed), old, new)
            if new is None:
                self._uids.discard(uid_of(changed))
                self._has_gone(changed)
            else:
                self._uids.add(uid_of(new))
                self._links_changed(resource, old, new)

        return handler

    def _links_changed(self, resource: Resource, old: Json | None, new: Json) -> None:
        """See what an object's change has to do with its owners and with those that it owns.

        An object that waits for its dependents is looked at when it begins to wait, and when one of them
        goes or no longer holds it up: among objects that own each other any more than that never ends.
        """
        began = old is None or not (is_deleting(old) and _held_by_us(old))
        if is_deleting(new) and _held_by_us(new) and began:
            self._add(resource, new)
            if waits_for_dependents(new):
                for kind, dependent in self._dependents(uid_of(new)):
                    self._add(kind, dependent)
        elif _has_other_owners(old, new):
            self._add(resource, new)
        if old is not None and owners_of(old):
            self._add_waiting_owners(new, unblocked_owners(old, new))

    def _has_gone(self, obj: Json) -> None:
        """Queue the dependents of a deleted object, and the owners that waited for it."""
        for resource, dependent in self._dependents(uid_of(obj)):
            self._remember_gone(uid_of(obj))
            self._add(resource, dependent)
        self._add_waiting_owners(obj, owners_of(obj))

    def _add_waiting_owners(self, obj: Json, references: Iterable[Json]) -> None:
        for reference in references:
            kind = self._kind(reference)
            owner = None if kind is None else self._known(kind, obj, reference)
            if owner is not None and kind is not None and is_deleting(owner):
                self._add(kind, owner)

    def _add(self, resource: Resource, obj: Json) -> None:
        self.queue.add(_queue_key(resource, obj))

    def _dependents(self, uid: str) -> Iterable[tuple[Resource, Json]]:
        for key, obj in list(self._owned[uid].items()):
            yield self._informers[key.partition(" ")[0]].resource, obj

    # Work

    async def sync(self, key: str) -> None:
        dotted, _, rest = key.partition(" ")
        informer = self._informers.get(dotted)
        obj = None if informer is None else informer.get(rest)
        if obj is None or informer is None:
            return
        if is_deleting(obj) and ORPHAN in finalizers_of(obj):
            await self._orphan(informer.resource, obj)
        elif waits_for_dependents(obj):
            await self._finish(informer.resource, obj)
        elif owners_of(obj) and not is_deleting(obj):
            await self._check_owners(informer.resource, obj)

    async def _orphan(self, resource: Resource, owner: Json) -> None:
        """Let everything that belongs to an object stay, and then the object go."""
        uid = uid_of(owner)
        await gather_writes(self._disown(kind, obj, {uid}) for kind, obj in self._dependents(uid))
        await self._drop(resource, owner, ORPHAN)

    async def _finish(self, resource: Resource, owner: Json) -> None:
        """Let an object go when everything that holds it up has gone.

        This is done for each dependent that goes, so it ends at the first that does not let it go. Dependents
        themselves were added when the object began to wait for them, and are whenever their owners change.
        """
        if not any(blocks_owner(obj, owner) for obj in self._owned[uid_of(owner)].values()):
            await self._drop(resource, owner, FOREGROUND)

    async def _drop(self, resource: Resource, obj: Json, finalizer: str) -> None:
        kept = [one for one in finalizers_of(obj) if one != finalizer]
        await self.change(resource, obj, {"metadata": {"finalizers": kept or None}})

    async def _check_owners(self, resource: Resource, obj: Json) -> None:
        gone: set[str] = set()
        waiting: set[str] = set()
        unseen: list[str] = []
        for reference in owners_of(obj):
            owner = await self._owner(obj, reference)
            if owner is not None and self._is_unseen(obj, reference):
                unseen.append(reference.get("name", ""))
            if owner is None:
                gone.add(reference.get("uid", ""))
            elif waits_for_dependents(owner):
                waiting.add(reference.get("uid", ""))
        if not gone and not waiting:
            if unseen:
                raise RetryLater(f"{unseen} may go before an informer has told of it")
            return
        has_dependents = any(True for _ in self._dependents(uid_of(obj)))
        fate = action_for(obj, gone, waiting, has_dependents)
        if fate is CollectorAction.DISOWN:
            await self._disown(resource, obj, gone | waiting)
        elif fate is CollectorAction.DELETE_IN_FOREGROUND:
            if any(waits_for_dependents(one) for one in self._owned[uid_of(obj)].values()):
                # A dependent waits already, maybe for this object: in a circle one has to let its owners go.
                obj = await self._unblock_owners(resource, obj)
            held = {"metadata": {"finalizers": [*finalizers_of(obj), FOREGROUND]}}
            obj = await self.change(resource, obj, held)
            await self.delete(resource, obj, propagation_for(obj))
        elif fate is CollectorAction.DELETE:
            await self.delete(resource, obj, propagation_for(obj))

    async def _disown(self, resource: Resource, obj: Json, uids: set[str]) -> None:
        kept = [one for one in owners_of(obj) if one.get("uid") not in uids]
        await self.change(resource, obj, {"metadata": {"ownerReferences": kept or None}})

    async def _unblock_owners(self, resource: Resource, obj: Json) -> Json:
        references = [
            {**one, "blockOwnerDeletion": False} if one.get("blockOwnerDeletion") else one
            for one in owners_of(obj)
        ]
        if references == [*owners_of(obj)]:
            return obj
        return await self.change(resource, obj, {"metadata": {"ownerReferences": references}})

    async def _owner(self, obj: Json, reference: Json) -> Json | None:
        """An owner as it is now, None if it is gone. One of an unknown kind is taken to be there."""
        uid = reference.get("uid", "")
        if uid in self._gone:
            return None
        resource = self._kind(reference)
        if resource is None:
            return {"metadata": {"name": reference.get("name", ""), "uid": uid}}
        known = self._known(resource, obj, reference)
        if known is not None:
            return known
        namespace = namespace_of(obj) if resource.namespaced else ""
        try:
            found = await self.client.get(resource, namespace, reference.get("name", ""))
        except ApiError as error:
            if not error.is_not_found:
                raise
            found = None
        if found is not None and uid_of(found) == uid:
            return found
        self._remember_gone(uid)
        if self._is_elsewhere(resource, uid):
            await self._tell_invalid(obj, reference)
        return None

    def _is_unseen(self, obj: Json, reference: Json) -> bool:
        """True if an informer should know an owner and does not: there would be no event of its end."""
        resource = self._kind(reference)
        watched = resource is not None and resource.dotted in self._informers
        return watched and resource is not None and self._known(resource, obj, reference) is None

    def _remember_gone(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def _is_elsewhere(self, resource: Resource, uid: str) -> bool:
        """True if there is an object with this uid after all, but not where an owner has to be."""
        return resource.dotted in self._informers and uid in self._uids

    async def _tell_invalid(self, obj: Json, reference: Json) -> None:
        owner = (
            f"[{reference.get('apiVersion', '')}/{reference.get('kind', '')}, "
            f"namespace: {namespace_of(obj)}, name: {reference.get('name', '')}, "
            f"uid: {reference.get('uid', '')}]"
        )
        note = f'ownerRef {owner} does not exist in namespace "{namespace_of(obj)}"'
        await self.record_event(obj, "OwnerRefInvalidNamespace", note, WARNING)

    def _known(self, resource: Resource, obj: Json, reference: Json) -> Json | None:
        informer = self._informers.get(resource.dotted)
        name = reference.get("name", "")
        key = f"{namespace_of(obj)}/{name}" if resource.namespaced else name
        found = None if informer is None else informer.get(key)
        return found if found is not None and uid_of(found) == reference.get("uid") else None


def _queue_key(resource: Resource, obj: Json) -> str:
    return f"{resource.dotted} {key_of(obj)}"


def _has_other_owners(old: Json | None, new: Json) -> bool:
    return bool(owners_of(new)) and (old is None or owners_of(old) != owners_of(new))


def _held_by_us(obj: Json) -> bool:
    held = finalizers_of(obj)
    return ORPHAN in held or FOREGROUND in held
