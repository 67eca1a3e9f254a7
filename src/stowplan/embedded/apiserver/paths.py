"""Addresses of objects: which resource, namespace, object and subresource a path means."""

from typing import NamedTuple
from urllib.parse import unquote

from stowplan.api.catalogue import NAMESPACES, Catalogue, Resource


class Target(NamedTuple):
    """What a request is about. Without a name it is all objects (of a namespace, or everywhere)."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Addresses:
    """Finds the target of a path among the resources of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._found: dict[tuple[str, str, str], Resource] = {}

    def target(self, path: str) -> Target | None:
        """What a path means, None if it is not the address of objects."""
        parts = path.split("/")
        if "%" in path:
            parts = [unquote(part) for part in parts]
        if parts[-1] == "":
            parts.pop()
        if path.startswith("/api/"):
            return self._within("", parts[2] if len(parts) > 2 else "", parts[3:])
        if path.startswith("/apis/") and len(parts) > 4:
            return self._within(parts[2], parts[3], parts[4:])
        return None

    def _within(self, group: str, version: str, rest: list[str]) -> Target | None:
        """The target below a group and version: [namespaces, namespace,] plural [, name [, subresource]]."""
        if not rest or not all(rest):
            return None
        if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_itself(rest):
            return self._named(group, version, rest[2], rest[1], rest[3:])
        return self._named(group, version, rest[0], "", rest[1:])

    def _named(self, group: str, version: str, plural: str, namespace: str, rest: list[str]) -> Target | None:
        resource = self._resource(group, version, plural)
        if resource is None or len(rest) > 2 or (namespace and not resource.namespaced):
            return None
        if rest and resource.namespaced and not namespace:
            return None
        return Target(resource, namespace, *rest)

    def _resource(self, group: str, version: str, plural: str) -> Resource | None:
        key = (group, version, plural)
        resource = self._found.get(key)
        if resource is None:
            resource = self._catalogue.named(f"{plural}.{version}.{group}")
            if resource is not None:
                self._found[key] = resource
        return resource


def _is_namespace_itself(rest: list[str]) -> bool:
    """Whether `namespaces/x/y` is a subresource of the namespace x rather than a resource within it."""
    return len(rest) == 3 and rest[2] in ("status", "finalize")


def namespace_of(target: Target) -> str:
    """The namespace a request concerns, as permissions see it."""
    return target.name if target.resource == NAMESPACES else target.namespace
