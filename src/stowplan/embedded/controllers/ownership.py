"""Whose objects are whose: orphans that fit are adopted, those that fit no more are let go."""

from stowplan.api.catalogue import Resource
from stowplan.api.labels import Selector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Controller
from stowplan.embedded.controllers.informers import Informer, namespace_of
from stowplan.embedded.controllers.objects import (
    controller_reference,
    is_controlled_by,
    is_deleting,
    is_finished,
    labels_of,
    name_of,
    owners_of,
    uid_of,
)


async def claimed(
    controller: Controller, owned: Informer, owners: Resource, owner: Json, selector: Selector
) -> list[Json]:
    """The objects that an owner controls, after adopting what fits and letting go of what does not."""
    found: list[Json] = []
    for obj in list(owned.by_owner[uid_of(owner)].values()):
        if not is_controlled_by(obj, owner):
            continue
        if selector.matches(labels_of(obj)) or is_deleting(owner) or is_deleting(obj):
            found.append(obj)
        else:
            await _release(controller, owned.resource, owner, obj)
    orphans = [] if is_deleting(owner) else adoptable(owned, owner, selector)
    if orphans and await _is_current(controller, owners, owner):
        found += [await _adopt(controller, owned.resource, owners, owner, obj) for obj in orphans]
    return found


def adoptable(owned: Informer, owner: Json, selector: Selector) -> list[Json]:
    """Objects in the owner's namespace that nobody controls and that it selects."""
    return [
        obj
        for obj in owned.orphans[namespace_of(owner)].values()
        if not is_deleting(obj) and not is_finished(obj) and selector.matches(labels_of(obj))
    ]


async def _is_current(controller: Controller, resource: Resource, owner: Json) -> bool:
    """Whether the owner is still there: who is about to go must not adopt."""
    try:
        fresh = await controller.client.get(resource, namespace_of(owner), name_of(owner))
    except ApiError as error:
        if error.is_not_found:
            return False
        raise
    return uid_of(fresh) == uid_of(owner) and not is_deleting(fresh)


async def _adopt(
    controller: Controller, resource: Resource, owners: Resource, owner: Json, obj: Json
) -> Json:
    references = [*owners_of(obj), controller_reference(owners, owner)]
    return await controller.change(resource, obj, {"metadata": {"ownerReferences": references}})


async def _release(controller: Controller, resource: Resource, owner: Json, obj: Json) -> None:
    references = [one for one in owners_of(obj) if one.get("uid") != uid_of(owner)]
    await controller.change(resource, obj, {"metadata": {"ownerReferences": references or None}})
