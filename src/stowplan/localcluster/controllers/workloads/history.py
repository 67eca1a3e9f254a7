"""ControllerRevisions: the templates that StatefulSets and DaemonSets have had.

StatefulSets and DaemonSets label them differently: `hash_label` says how.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from stowplan.api.catalogue import CONTROLLER_REVISIONS, Resource
from stowplan.api.labels import Selector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.controllers.workloads.podcontrol import adoptable, claim_objects, short_hash
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_reference,
    count_in,
    is_controlled_by,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)

HASH: Final = "controller-revision-hash"
REVISION_HASH: Final = "controller.kubernetes.io/hash"


def data_of(owner: Json) -> Json:
    """Data of a revision: a patch that restores the template."""
    template = spec_of(owner).get("template") or {}
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: Json) -> Json:
    template = revision["data"]["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


def new_revision(resource: Resource, owner: Json, number: int, collisions: int, hash_label: str) -> Json:
    data = data_of(owner)
    digest = short_hash(data, collisions)
    labels = (spec_of(owner).get("template") or {}).get("metadata", {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{name_of(owner)}-{digest}",
            "namespace": namespace_of(owner),
            "labels": {**labels, hash_label: digest},
            "annotations": annotations_of(owner),
            "ownerReferences": [controller_reference(resource, owner)],
        },
        # Go writes the keys of a map in order, and clients compare the bytes with their own.
        "data": msgspec.json.decode(msgspec.json.encode(data, order="deterministic")),
        "revision": number,
    }


async def claim_revisions(
    controller: Controller, informer: Informer, resource: Resource, owner: Json, selector: Selector
) -> list[Json]:
    """All revisions of an owner, the latest last. One that goes counts those that it has orphaned."""
    found = await claim_objects(controller, informer, resource, owner, selector)
    if is_deleting(owner):
        found += adoptable(informer, owner, selector)
    return sorted(found, key=lambda one: (count_in(one, "revision"), name_of(one)))


async def present_revision(
    controller: Controller, resource: Resource, owner: Json, held: Sequence[Json], hash_label: str
) -> tuple[Json, int]:
    """The revision of the present template, which becomes the latest, and how many names were taken.

    It is created if there is none.
    """
    data = data_of(owner)
    collisions = count_in(status_of(owner), "collisionCount")
    latest = count_in(held[-1], "revision") if held else 0
    same = next((one for one in reversed(held) if one.get("data") == data), None)
    if same is not None:
        if count_in(same, "revision") == latest:
            return same, collisions
        newest = await controller.change(CONTROLLER_REVISIONS, same, {"revision": latest + 1})
        return newest, collisions
    while True:
        body = new_revision(resource, owner, latest + 1, collisions, hash_label)
        try:
            return await controller.create(CONTROLLER_REVISIONS, body), collisions
        except ApiError as error:
            if not error.is_already_exists:
                raise
        there = await controller.client.get(
            CONTROLLER_REVISIONS, namespace_of(owner), body["metadata"]["name"]
        )
        if there.get("data") == data and is_controlled_by(there, owner):
            return there, collisions
        collisions += 1


async def forget_old(
    controller: Controller, owner: Json, held: Sequence[Json], in_use: Collection[str]
) -> None:
    """Delete the oldest revisions that no pod is of; they are in use by their name or by their hash."""
    limit = count_in(spec_of(owner), "revisionHistoryLimit", 10)
    unused = [one for one in held if not {name_of(one), labels_of(one).get(HASH)} & set(in_use)]
    for one in unused[: max(len(unused) - limit, 0)]:
        await controller.delete(CONTROLLER_REVISIONS, one)
