"""Requests to a server: paths with their queries, bodies, and the messages made of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import RESOURCE_CLAIMS, Resource
from stowplan.api.devices import with_deep_values
from stowplan.api.meta import Object
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Selection
from stowplan.client.http.settings import Address
from stowplan.client.interface import Body

_PLAIN: Final = re.compile(r"[A-Za-z0-9_~:-][A-Za-z0-9._~:-]*")


def collection_path(resource: Resource, namespace: str = "") -> str:
    """Of one namespace, or of all."""
    if namespace and resource.namespaced:
        return f"{resource.prefix}/namespaces/{_segment('namespace', namespace)}/{resource.plural}"
    return f"{resource.prefix}/{resource.plural}"


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """Raises `ApiError` 400 for what is no name."""
    if resource.namespaced and not namespace:
        raise status.bad_request(
            f"namespace: expected the namespace of {resource.qualified} {name!r}, got nothing"
        )
    path = f"{collection_path(resource, namespace)}/{_segment('name', name)}"
    return f"{path}/{subresource}" if subresource else path


def with_query(path: str, selection: Selection, **query: str) -> str:
    """The path with a query, in the order of the names; empty values are left out."""
    asked = {name: value for name, value in query.items() if value}
    if not selection.is_empty:
        if not selection.labels.is_empty:
            asked["labelSelector"] = selection.label_text
        if selection.fields:
            asked["fieldSelector"] = selection.field_text
    return f"{path}?{urlencode(sorted(asked.items()), quote_via=quote)}" if asked else path


def with_timeout(path: str, timeout: str) -> str:
    """The path with a word to the server on how long we are going to wait."""
    return f"{path}{'&' if '?' in path else '?'}timeout={timeout}" if timeout else path


def _segment(field: str, text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise status.bad_request(f"{field}: expected one part of a path, got {text!r}")
    return quote(text, safe="")


_encode: Final = msgspec.json.Encoder().encode
_kinds: dict[Resource, bytes] = {}
_ORDINARY: Final = b'{"kind":"DeleteOptions","apiVersion":"v1"}'


def body_of(resource: Resource, body: Body) -> bytes:
    """An object as JSON. Kind and version are put in front if it does not say them itself."""
    text = _encode(body)
    if resource.kind == RESOURCE_CLAIMS.kind:
        text = with_deep_values(text)
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


class Common:
    """Common parts of requests of one method to one server, in both versions of HTTP.

    `prefix` precedes the path in HTTP/1.1, where a proxy needs the whole address.
    """

    __slots__ = ("fields", "may_be_empty", "path", "start", "tail")

    def __init__(
        self, method: str, address: Address, headers: Sequence[tuple[str, str]], prefix: str = ""
    ) -> None:
        self.start = f"{method} {prefix}{address.path}".encode()
        self.path = address.path.encode()
        lines = [" HTTP/1.1", f"Host: {address.authority}", *(f"{name}: {value}" for name, value in headers)]
        self.tail = "\r\n".join(lines).encode()
        self.may_be_empty = method in ("GET", "DELETE")
        pseudo = ((":method", method), (":scheme", address.scheme), (":authority", address.authority))
        self.fields = tuple((name.lower().encode(), value.encode()) for name, value in (*pseudo, *headers))


class Message(NamedTuple):
    """One request."""

    common: Common
    path: str
    body: bytes = b""

    @property
    def text(self) -> bytes:
        """As it is sent in HTTP/1.1."""
        common, path, body = self
        if not body and common.may_be_empty:
            return b"%b%b%b\r\n\r\n" % (common.start, path.encode(), common.tail)
        return b"%b%b%b\r\nContent-Length: %d\r\n\r\n%b" % (
            common.start,
            path.encode(),
            common.tail,
            len(body),
            body,
        )
