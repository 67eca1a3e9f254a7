"""What is assumed of objects ahead of the API server's word for it."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from stowplan.api.meta import Object

T = TypeVar("T", bound=Object)


class AssumeError(Exception):
    """An object that cannot be assumed: it is gone, or it has changed meanwhile."""


class Assumptions(Generic[T]):
    """Objects as they will be once what was decided about them is written.

    An assumption holds for one version of its object: when the API server tells of another, that is what
    counts. `known` are the objects as the API server told of them; `plural` is their name in messages.
    """

    __slots__ = ("_assumed", "_known", "_plural", "version")

    def __init__(self, known: Mapping[str, T], plural: str) -> None:
        self._known = known
        self._plural = plural
        self._assumed: dict[str, T] = {}
        self.version = 0

    def get(self, key: str) -> T | None:
        """An object as it is assumed to be, or else as it is; None if there is none."""
        return self._assumed.get(key) or self._known.get(key)

    def all(self) -> list[T]:
        """What is assumed at present."""
        return list(self._assumed.values())

    def told(self, key: str) -> None:
        """The API server told of an object, or that it is gone."""
        assumed, known = self._assumed.get(key), self._known.get(key)
        if assumed is not None and (known is None or _version(known) != _version(assumed)):
            del self._assumed[key]

    def assume(self, obj: T) -> None:
        """Take an object to be as given. Raises AssumeError unless it was made from the version known."""
        key = obj.key
        known = self._known.get(key)
        if known is None:
            raise AssumeError(f'{self._plural} "{key}" not found')
        if _version(known) != _version(obj):
            raise AssumeError(f'"{key}" is out of sync (stored: {_version(known)}, assume: {_version(obj)})')
        self._assumed[key] = obj
        self.version += 1

    def restore(self, obj: T) -> bool:
        """Take back what was assumed; False if that was settled otherwise."""
        assumed = self._assumed.get(obj.key)
        if assumed is None or _version(assumed) != _version(obj):
            return False
        del self._assumed[obj.key]
        self.version += 1
        return True


def _version(obj: Object) -> str:
    return obj.metadata.resource_version
