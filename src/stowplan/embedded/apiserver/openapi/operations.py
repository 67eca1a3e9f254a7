"""The paths of the documents: which kind is found where, and what one can say besides."""

from typing import Any, Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_SAID: Final = ("dryRun", "fieldManager", "fieldValidation", "pretty")
_FORCE: Final = (*_SAID, "force")


def paths_of(resource: Resource, third: bool) -> Json:
    """The paths of a resource with their operations."""
    base = resource.prefix + ("/namespaces/{namespace}" if resource.namespaced else "")
    many, one = f"{base}/{resource.plural}", f"{base}/{resource.plural}/{{name}}"
    return {
        many: {
            "get": _operation(resource, "list", (), third),
            "post": _operation(resource, "post", _SAID, third),
        },
        one: {
            "get": _operation(resource, "get", (), third),
            "put": _operation(resource, "put", _SAID, third),
            "patch": _operation(resource, "patch", _FORCE, third),
            "delete": _operation(resource, "delete", ("dryRun",), third),
        },
    }


def _operation(resource: Resource, action: str, said: tuple[str, ...], third: bool) -> Json:
    group = "".join(part.capitalize() for part in (resource.group or "core").split(".")[:1])
    scope = "Namespaced" if resource.namespaced else ""
    return {
        "operationId": f"{action}{group}{resource.version.capitalize()}{scope}{resource.kind}"
        + ("List" if action == "list" else ""),
        "parameters": [_parameter(name, third) for name in said],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "kind": resource.kind,
            "version": resource.version,
        },
    }


def _parameter(name: str, third: bool) -> Json:
    kind: dict[str, Any] = {"type": "boolean" if name == "force" else "string"}
    return {"name": name, "in": "query", **({"schema": kind} if third else {**kind, "uniqueItems": True})}
