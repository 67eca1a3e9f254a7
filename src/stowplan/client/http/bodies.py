"""What is sent: objects with their kind, and how to delete."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions
from stowplan.client.interface import Body

_encode: Final = msgspec.json.Encoder().encode
_kinds: dict[Resource, bytes] = {}
_ORDINARY: Final = b'{"kind":"DeleteOptions","apiVersion":"v1"}'


def body_of(resource: Resource, body: Body) -> bytes:
    """An object as JSON. Kind and version are put in front if it does not say them itself."""
    text = _encode(body)
    kind = body.kind if isinstance(body, Object) else body.get("kind") if isinstance(body, Mapping) else ""
    if kind or not resource.kind or len(text) <= 2:
        return text
    start = _kinds.get(resource)
    if start is None:
        start = _encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","
        _kinds[resource] = start
    return start + text[1:]


def place_of(body: Body) -> tuple[str, str]:
    """Namespace and name of an object, as far as it has them."""
    if isinstance(body, Object):
        return body.metadata.namespace, body.metadata.name
    metadata: Any = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "", ""
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def deletion_body(options: DeleteOptions) -> bytes:
    if options is ORDINARY_DELETION:
        return _ORDINARY
    data: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if options.grace_period_seconds is not None:
        data["gracePeriodSeconds"] = options.grace_period_seconds
    conditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    conditions = {name: value for name, value in conditions.items() if value is not None}
    if conditions:
        data["preconditions"] = conditions
    if options.propagation:
        data["propagationPolicy"] = options.propagation
    return _encode(data)
