"""Objects that plugins look up by kind: custom resources with a type, and hosts without informers."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from stowplan.api import catalogue
from stowplan.api.meta import AnyObject, Object

T = TypeVar("T")

Lookup = Callable[[str], Mapping[str, Object]]
"""The objects of a kind, named as in events, by `namespace/name`. Raises LookupError for an unknown kind."""

_log: Final = logging.getLogger("stowplan.plugins")


class TypedObjects(Mapping[str, T], Generic[T]):
    """Custom resources as a dataclass or Struct, read when they are looked at and once per version.

    Objects that cannot be read as the type are left out, with a warning in the log.
    """

    def __init__(
        self, objects: Mapping[str, Object], cls: type[T], read: dict[str, tuple[Object, Any]]
    ) -> None:
        self._objects = objects
        self._cls = cls
        self._read = read
        if len(read) > 2 * len(objects) + 16:
            for key in read.keys() - objects.keys():
                del read[key]

    def __getitem__(self, key: str) -> T:
        found: T | None = self._of(key, self._objects[key])
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key, obj in self._objects.items() if self._of(key, obj) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _of(self, key: str, obj: Object) -> Any:
        kept = self._read.get(key)
        if kept is None or kept[0] is not obj:
            kept = self._read[key] = (obj, self._decoded(obj))
        return kept[1]

    def _decoded(self, obj: Object) -> T | None:
        if isinstance(obj, self._cls):
            return obj
        data = obj.data if isinstance(obj, AnyObject) else msgspec.to_builtins(obj)
        try:
            return msgspec.convert(data, self._cls)
        except msgspec.ValidationError as error:
            _log.warning("%s %s was left out: %s", obj.kind or type(obj).__name__, obj.key, error)
            return None


class KnownObjects:
    """The objects of a cluster in memory by kind, as informers give them in a scheduler."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], dict[str, Object]] = {}
        self._plurals: dict[tuple[str, str], str] = {}

    def put(self, obj: Object) -> None:
        """Take in an object, new or changed."""
        self._by_kind.setdefault(_place(obj), {})[obj.key] = obj
        if obj.kind == "CustomResourceDefinition" and isinstance(obj, AnyObject):
            spec = obj.data.get("spec", {})
            names = spec.get("names", {})
            self._plurals[spec.get("group", ""), names.get("plural", "")] = names.get("kind", "")

    def discard(self, obj: Object) -> None:
        """Forget an object."""
        self._by_kind.get(_place(obj), {}).pop(obj.key, None)

    def of(self, kind: str) -> Mapping[str, Object]:
        """The objects of a kind, named as in events, such as `storage.k8s.io/CSINode`."""
        plural, _, rest = kind.partition(".")
        version, dot, group = rest.partition(".")
        if not dot or "/" in kind:
            return self._by_kind.get(("", kind.rpartition("/")[2]), {})
        known = next((one.kind for one in catalogue.BUILT_IN if one.dotted == kind), None)
        if known is not None:
            return self._by_kind.get(("", known), {})
        api_version = f"{group}/{version}"
        defined = self._plurals.get((group, plural))
        for (api, name), objects in self._by_kind.items():
            if api == api_version and (name == defined or (defined is None and _plural(name) == plural)):
                return objects
        return {}


def _place(obj: Object) -> tuple[str, str]:
    """API version and kind of an object; kinds that are built in are known by their name."""
    return (obj.api_version, obj.kind) if isinstance(obj, AnyObject) else ("", type(obj).__name__)


def _plural(kind: str) -> str:
    """The plural that a kind has by convention, which its CustomResourceDefinition may say otherwise."""
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"
