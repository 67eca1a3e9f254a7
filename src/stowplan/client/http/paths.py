"""Where on a server an object, a list or a watch is found."""

import re
from typing import Final
from urllib.parse import quote, urlencode

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Selection

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
    """The path with what is asked for, in the order of the names; empty values are left out."""
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
