"""Objects that a controller owns: pods from templates, adoption and release by its selector."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.labels import Selector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.controllerruntime.controller import Controller
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.objects.fields import (
    controller_reference,
    finalizers_of,
    is_controlled_by,
    is_deleting,
    is_finished,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    uid_of,
)

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters that make no words."""

_MAX_PREFIX: Final = 57


def pod_from(
    template: Json,
    resource: Resource,
    owner: Json,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """A pod of a template that `owner` controls; without a name it gets one that begins with its owner's."""
    given = template.get("metadata") or {}
    metadata: Json = {
        "namespace": namespace_of(owner),
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "annotations": {**(given.get("annotations") or {}), **(annotations or {})},
        "ownerReferences": [controller_reference(resource, owner)],
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{name_of(owner)[:_MAX_PREFIX]}-"
    held = [*(given.get("finalizers") or ()), *finalizers]
    if held:
        metadata["finalizers"] = held
    return {"metadata": metadata, "spec": {**(template.get("spec") or {}), **(spec or {})}}


def short_hash(data: Any, salt: int = 0) -> str:
    """A short name for some data, the same for equal data with maps in any order."""
    text = msgspec.json.encode(data, order="deterministic") + str(salt).encode() * bool(salt)
    found = 2166136261
    for byte in text:
        found = ((found ^ byte) * 16777619) & 0xFFFFFFFF
    return "".join(_LETTERS[int(digit) % len(_LETTERS)] for digit in str(found))


def scaled_value(value: Any, total: int, default: str | int, *, round_up: bool) -> int:
    """A number, or a percentage of a total: `25%`."""
    if value is None:
        value = default
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("%")
    percent = parse_count(text) or 0
    exact = percent * total
    return -(-exact // 100) if round_up else exact // 100


def _any(obj: Json) -> bool:
    return True


async def claim_objects(
    controller: Controller,
    owned: Informer,
    owners: Resource,
    owner: Json,
    selector: Selector,
    is_member: Callable[[Json], bool] = _any,
    *,
    finalizer: str = "",
) -> list[Json]:
    """The objects that an owner controls, after adopting matching ones and releasing others.

    A match is selected by labels and, if the owner has more conditions, meets them. An adopted object is held
    by a `finalizer`, if there is one.
    """
    found: list[Json] = []
    for obj in list(owned.by_owner[uid_of(owner)].values()):
        if not is_controlled_by(obj, owner):
            continue
        fits = selector.matches(labels_of(obj)) and is_member(obj)
        if fits or is_deleting(owner) or is_deleting(obj):
            found.append(obj)
        else:
            await _release(controller, owned.resource, owner, obj)
    orphans = [] if is_deleting(owner) else [*filter(is_member, adoptable(owned, owner, selector))]
    if orphans and await _is_current(controller, owners, owner):
        found += [await _adopt(controller, owned.resource, owners, owner, obj, finalizer) for obj in orphans]
    return found


def adoptable(owned: Informer, owner: Json, selector: Selector) -> list[Json]:
    """Objects in the owner's namespace without a controller that it selects."""
    return [
        obj
        for obj in owned.orphans[namespace_of(owner)].values()
        if not is_deleting(obj) and not is_finished(obj) and selector.matches(labels_of(obj))
    ]


async def _is_current(controller: Controller, resource: Resource, owner: Json) -> bool:
    """True if the owner still exists: one that is being deleted must not adopt."""
    try:
        fresh = await controller.client.get(resource, namespace_of(owner), name_of(owner))
    except ApiError as error:
        if error.is_not_found:
            return False
        raise
    return uid_of(fresh) == uid_of(owner) and not is_deleting(fresh)


async def _adopt(
    controller: Controller, resource: Resource, owners: Resource, owner: Json, obj: Json, finalizer: str
) -> Json:
    change: Json = {"ownerReferences": [*owners_of(obj), controller_reference(owners, owner)]}
    if finalizer and finalizer not in finalizers_of(obj):
        change["finalizers"] = [*finalizers_of(obj), finalizer]
    return await controller.change(resource, obj, {"metadata": change})


async def _release(controller: Controller, resource: Resource, owner: Json, obj: Json) -> None:
    references = [one for one in owners_of(obj) if one.get("uid") != uid_of(owner)]
    await controller.change(resource, obj, {"metadata": {"ownerReferences": references or None}})
