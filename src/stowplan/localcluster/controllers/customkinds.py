"""Custom kinds as controllers see them: what the CustomResourceDefinitions of a server define."""

from collections.abc import Iterable, Iterator
from typing import Any

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json


def is_established(definition: Json) -> bool:
    conditions: list[Json] = (definition.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def resource_of(definition: Json) -> Resource | None:
    """The resource that is defined, in the version it is best read in; None while none is served."""
    spec: Any = definition.get("spec") or {}
    served = [one for one in spec.get("versions") or () if one.get("served")]
    if not served or not is_established(definition):
        return None
    version = next((one for one in served if one.get("storage")), served[0])
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    return Resource(
        spec["group"],
        version["name"],
        names.get("plural", ""),
        "",
        namespaced=spec.get("scope") == "Namespaced",
        custom=True,
    )


def resources_of(definitions: Iterable[Json]) -> Iterator[Resource]:
    """The resources that are defined and served."""
    for definition in definitions:
        resource = resource_of(definition)
        if resource is not None:
            yield resource


def kinds_of(definition: Json) -> Iterator[tuple[str, str]]:
    """Kinds of a definition's objects: `apiVersion` and `kind`, in each version."""
    spec: Any = definition.get("spec") or {}
    kind = ((definition.get("status") or {}).get("acceptedNames") or {}).get("kind", "")
    for version in spec.get("versions") or ():
        yield f"{spec['group']}/{version['name']}", kind
