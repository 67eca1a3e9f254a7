"""Objects as the store holds them: immutable plain JSON data.

Writers hand over a copy; every change builds new dictionaries along the path to the change and shares the
rest.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import required
from stowplan.api.meta import ObjectMeta, Struct
from stowplan.api.requests import Json
from stowplan.localcluster.apply.managedfields import ManagedFields

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

LISTS: Final = (list, tuple)
"""Python types of a JSON array."""

Body = Mapping[str, Any] | Struct | bytes
"""Accepted bodies of writes: data, a typed object, or JSON text."""

_NOT_KEPT: Final = frozenset(("selfLink",))
_SECTIONS: Final = ("spec", "status")


def owned(body: Body | Sequence[Any]) -> Any:
    """The body as data that belongs to the store alone. Where Python has tuples, they stay tuples."""
    try:
        return (
            msgspec.json.decode(body)
            if isinstance(body, bytes)
            else msgspec.to_builtins(body, str_keys=True, enc_hook=_not_data)
        )
    except (msgspec.DecodeError, TypeError, RecursionError) as error:
        raise status.bad_request(f"the object provided is not JSON: {error}") from None


def _not_data(value: Any) -> None:
    """Managed fields are the server's: a writer in this process gives them back as they are, and unread."""
    if not isinstance(value, ManagedFields):
        raise TypeError(f"objects of type {type(value)} are not supported")


def owned_object(resource: Resource, body: Body) -> Json:
    """The body as an object of one kind that belongs to the store alone."""
    return checked(resource, owned(body), typed=isinstance(body, Struct))


def checked(resource: Resource, data: Any, *, typed: bool = False) -> Json:
    """A new map with the data of an object of one kind, its metadata without nulls.

    Metadata in which there is nothing to leave out is not copied. That of a `typed` object is known to be as
    it should, and what is no more than a name in a namespace, as events have it, is seen to be.
    Raises `ApiError` 400 if it is another kind or its outline is not that of an object.
    """
    if not isinstance(data, dict):
        raise status.bad_request("the object provided is unrecognized: expected a map")
    api_version, kind = resource.api_version, resource.kind
    if "apiVersion" in data and "kind" in data:
        obj = {**data}
    else:
        obj = {"apiVersion": api_version, "kind": kind, **data}
    if obj["apiVersion"] != api_version or obj["kind"] != kind:
        raise _wrong_kind(resource, obj)
    for section in () if resource.custom else _SECTIONS:
        if section in obj and not isinstance(obj[section], dict) and obj.pop(section) is not None:
            raise status.bad_request(f"{section}: expected a map")
    metadata = obj.get("metadata")
    if type(metadata) is not dict or None in metadata.values() or not _NOT_KEPT.isdisjoint(metadata):
        metadata = obj["metadata"] = _cleared(metadata)
    if len(metadata) == 2 and type(metadata.get("name")) is type(metadata.get("namespace")) is str:
        return obj
    if not typed:
        try:
            msgspec.convert(metadata, ObjectMeta)
        except msgspec.ValidationError as error:
            raise status.bad_request(f"metadata: {error}") from None
    return obj


def _wrong_kind(resource: Resource, obj: Json) -> status.ApiError:
    field, expected = "kind", resource.kind
    if obj["apiVersion"] != resource.api_version:
        field, expected = "apiVersion", resource.api_version
    return status.bad_request(
        f"the {field} in the data ({obj[field]}) does not match the expected {field} ({expected})"
    )


def _cleared(metadata: Any) -> Json:
    """The metadata without what is not kept."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise status.bad_request("metadata: expected a map")
    return {f: value for f, value in metadata.items() if value is not None and f not in _NOT_KEPT}


def key_of(resource: Resource, metadata: Json, namespace: str = "") -> Key:
    """Where an object with this metadata belongs; `namespace` is the one asked for, if any."""
    name = metadata.get("name", "")
    if not resource.namespaced:
        return "", name
    own = metadata.get("namespace") or namespace
    if namespace and own != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not own:
        raise status.invalid(resource, name, [required("metadata.namespace")])
    return own, name


def with_metadata(obj: Json, **fields: Any) -> Json:
    """The object with some of its metadata set anew."""
    return {**obj, "metadata": {**obj["metadata"], **fields}}


def labels_of(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def pod_condition(type_: str, value: str, stamp: str, **more: str) -> Json:
    """A condition as pods have them."""
    return {"type": type_, "status": value, "lastProbeTime": None, "lastTransitionTime": stamp, **more}


def conditions_of(obj: Json) -> list[Json]:
    """The conditions of an object; other values in their place count as none."""
    found = obj.get("status", {}).get("conditions")
    return [c for c in found if isinstance(c, dict)] if isinstance(found, LISTS) else []


def find_condition(obj: Json, type_: str) -> Json | None:
    return next((c for c in conditions_of(obj) if c.get("type") == type_), None)


def with_condition(obj: Json, new: Json) -> Json:
    """The status of an object with one condition set; its time stays if its value does."""
    status = obj.get("status", {})
    if not status.get("conditions"):
        return {**status, "conditions": [new]}
    conditions = conditions_of(obj)
    for i, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if old.get("status") == new["status"] and "lastTransitionTime" in old:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
            conditions[i] = new
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}
