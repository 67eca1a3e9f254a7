"""Patches of every type, applied to an object and checked for what came out."""

from typing import Any

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json, PatchType
from stowplan.embedded.store.jsonpatch import apply_json_patch
from stowplan.embedded.store.mergekeys import merge_keys
from stowplan.embedded.store.mergepatch import merge
from stowplan.embedded.store.objects import checked
from stowplan.embedded.store.strategicpatch import strategic_merge


def patched(resource: Resource, obj: Json, patch: Any, kind: PatchType) -> Json:
    """The object with the patch applied; what the patch does not touch is shared.

    Raises `ApiError`: 400 if patch or result are malformed, 415 for a type the kind cannot be patched
    with, 422 if the patch does not fit the object.
    """
    try:
        return checked(resource, _applied(resource, obj, patch, kind))
    except RecursionError:
        raise status.bad_request("error decoding patch: nested too deeply") from None


def _applied(resource: Resource, obj: Json, patch: Any, kind: PatchType) -> Any:
    if kind is PatchType.JSON:
        return apply_json_patch(obj, patch)
    if kind is PatchType.MERGE:
        return merge(obj, patch)
    if resource.custom:
        raise status.unsupported_media_type([PatchType.JSON.value, PatchType.MERGE.value])
    return strategic_merge(obj, patch, merge_keys(resource))
