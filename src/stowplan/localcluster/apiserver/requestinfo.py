"""Attributes of a request for authorization, as rules of roles name them, read from its path alone.

A resource need not be served: without the right to read a kind a client does not learn if it exists.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from stowplan.api.labels import SelectorError
from stowplan.api.names import path_segment_problems
from stowplan.api.requests import Selection
from stowplan.localcluster.apiserver.request import flag
from stowplan.localcluster.auth.rbac import Attributes
from stowplan.localcluster.auth.users import User

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_PATH_VERBS: Final = ("proxy", "watch")
_OF_NAMESPACES: Final = ("status", "finalize")


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Attributes of a request. `path` is as it was sent."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    is_resource = len(parts) >= 3 and (parts[0] == "api" or (parts[0] == "apis" and len(parts) >= 4))
    if not is_resource:
        return Attributes(user, method.lower(), path=unquote(path))
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    verb = _VERBS.get(method, "")
    if rest[0] in _PATH_VERBS and len(rest) > 1:
        verb, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if verb == "proxy":
        subresource = ""
    if verb == "get" and not name:
        verb = "watch" if flag(query, "watch") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Attributes(user, verb, group, resource, subresource, namespace, name)


def _selected_name(selector: str) -> str:
    """The one name that a field selector asks for, if it does."""
    if not selector:
        return ""
    try:
        terms = Selection.parse("", selector).fields
    except SelectorError:
        return ""
    for term in terms:
        if term.path == "metadata.name" and term.equal and not path_segment_problems(term.value):
            return term.value
    return ""
