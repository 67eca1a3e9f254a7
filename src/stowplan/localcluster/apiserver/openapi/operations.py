"""The paths of OpenAPI documents of version 3: what can be asked for, with which parameters and bodies.

Clients are generated from these, and requests (`stowplan lab fuzz --openapi`). Documents of version 2 have
the operations alone (documents.py), as kubectl looks at no more of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.apiserver.discovery import DiscoveryEntry, entries_of

SchemaOf = Callable[[DiscoveryEntry], str | None]
"""The name of the schema of an entry's kind, None if there is none."""

_INTEGERS: Final = frozenset(("gracePeriodSeconds", "limit", "timeoutSeconds"))
_BOOLEANS: Final = frozenset(
    ("allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch")
)
_SELECTING: Final = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
)
_LISTING: Final = (*_SELECTING, "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds", "watch")
_DELETING: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITING: Final = ("dryRun", "fieldManager", "fieldValidation", "pretty")
_ANY: Final = "*/*"
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_PATCH: Final[Json] = {"type": "object", "description": "A patch in the form that the content type names."}
DELETE_OPTIONS: Final = "meta.v1.DeleteOptions"
DELETE_OPTIONS_NAME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"

_METHODS: Final = {
    "list": ("get", _LISTING),
    "create": ("post", _WRITING),
    "deletecollection": ("delete", (*_SELECTING, *_DELETING)),
    "get": ("get", ("pretty",)),
    "update": ("put", _WRITING),
    "patch": ("patch", (*_WRITING, "force")),
    "delete": ("delete", _DELETING),
}
"""Methods and parameters of verbs."""
_OF_MANY: Final = ("list", "create", "deletecollection")
_ACTIONS: Final = {"create": "post", "update": "put"}
"""Verbs that the documents call by their methods."""


def paths_of(resource: Resource, schema_of: SchemaOf) -> Json:
    """The paths of a resource and of its subresources, with their operations."""
    paths: Json = {}
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    for entry in entries_of(resource):
        plural, _, part = entry.name.partition("/")
        many = f"{resource.prefix}{scope}/{plural}"
        one = f"{many}/{{name}}"
        if part:
            _add(paths, f"{one}/{part}", entry, resource, schema_of, entry.verbs)
            continue
        _add(paths, many, entry, resource, schema_of, [verb for verb in _OF_MANY if verb in entry.verbs])
        _add(paths, one, entry, resource, schema_of, [verb for verb in entry.verbs if verb not in _OF_MANY])
        if scope and "list" in entry.verbs:
            _add(
                paths, f"{resource.prefix}/{plural}", entry, resource, schema_of, ["list"], "ForAllNamespaces"
            )
    return paths


def _add(
    paths: Json,
    path: str,
    entry: DiscoveryEntry,
    resource: Resource,
    schema_of: SchemaOf,
    verbs: Sequence[str],
    ending: str = "",
) -> None:
    known = [verb for verb in verbs if verb in _METHODS]
    if not known:
        return
    item: Json = {
        _METHODS[verb][0]: _operation(verb, entry, resource, schema_of(entry), ending) for verb in known
    }
    within = [_within_path(name) for name in ("namespace", "name") if f"{{{name}}}" in path]
    if within:
        item["parameters"] = within
    paths[path] = item


def _operation(verb: str, entry: DiscoveryEntry, resource: Resource, schema: str | None, ending: str) -> Json:
    said = _METHODS[verb][1]
    action = _ACTIONS.get(verb, verb)
    found: Json = {
        "operationId": _operation_id(action, entry, resource) + ending,
        "parameters": [_in_query(name) for name in said],
        "responses": dict(_responses(verb, schema)),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": entry.group or resource.group,
            "kind": entry.kind,
            "version": entry.version or resource.version,
        },
    }
    body = _body(verb, schema)
    if body is not None:
        found["requestBody"] = body
    return found


def _operation_id(action: str, entry: DiscoveryEntry, resource: Resource) -> str:
    group = (resource.group or "core").split(".")[0].capitalize()
    scope = "Namespaced" if resource.namespaced else ""
    part = entry.name.partition("/")[2].capitalize()
    return f"{action}{group}{resource.version.capitalize()}{scope}{resource.kind}{part}" + (
        "List" if action == "list" else ""
    )


def _reference(schema: str | None) -> Json:
    return {"type": "object"} if schema is None else {"$ref": f"#/components/schemas/{schema}"}


def _body(verb: str, schema: str | None) -> Json | None:
    """The request body, None if there is none."""
    if verb in ("create", "update"):
        return (
            None if schema is None else {"content": {_ANY: {"schema": _reference(schema)}}, "required": True}
        )
    if verb == "patch":
        # Without strategic merge patches: kubectl would make them from these schemas, which lack merge keys,
        # instead of from its own types, and every apply of a list would change it.
        types = (_APPLY, *(kind.value for kind in PatchType if kind is not PatchType.STRATEGIC))
        return {"content": {kind: {"schema": dict(_PATCH)} for kind in sorted(types)}, "required": True}
    if verb in ("delete", "deletecollection"):
        return {"content": {_ANY: {"schema": _reference(DELETE_OPTIONS_NAME)}}}
    return None


def _responses(verb: str, schema: str | None) -> Iterator[tuple[str, Json]]:
    """Good answers as they are; all others are a Status, which the documents leave out as upstream's do."""
    described: Json = {}
    if schema is not None and verb in ("get", "create", "update", "patch"):
        described = {"content": {_JSON: {"schema": _reference(schema)}}}
    elif schema is not None and verb == "list":
        items = {"type": "array", "items": _reference(schema)}
        of_list = {"type": "object", "required": ["items"], "properties": {"items": items}}
        described = {"content": {_JSON: {"schema": of_list}}}
    yield "200", {"description": "OK", **described}
    if verb in ("create", "update", "patch"):
        yield "201", {"description": "Created", **described}
    if verb in ("create", "delete"):
        yield "202", {"description": "Accepted"}
    yield "401", {"description": "Unauthorized"}


def _in_query(name: str) -> Json:
    kind = "integer" if name in _INTEGERS else "boolean" if name in _BOOLEANS else "string"
    return {"name": name, "in": "query", "schema": {"type": kind}}


def _within_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
