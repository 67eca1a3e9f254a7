"""Objects that explanations need and no scheduler watches, and what of them could not be read."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from stowplan.api import catalogue
from stowplan.api.admission import LimitRange
from stowplan.api.catalogue import LIMIT_RANGES, PRIORITY_CLASSES, Resource
from stowplan.api.decode import DecodeError, convert
from stowplan.api.meta import Object
from stowplan.api.requests import FieldTerm, Selection
from stowplan.api.status import ApiError
from stowplan.api.workloads import PriorityClass
from stowplan.api.writes import CoreEvent
from stowplan.client import Reader
from stowplan.explain.layers.wider import Wider

T = TypeVar("T", bound=Object)

MayList = Callable[[Resource, str], Awaitable[bool]]
"""True if objects of a resource may be read in a namespace, "" for all of them."""

READ: Final = (
    catalogue.EVENTS,
    catalogue.LEASES,
    catalogue.DEPLOYMENTS,
    catalogue.DAEMON_SETS,
    catalogue.JOBS,
    catalogue.CRON_JOBS,
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS,
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS,
)
"""Resources that are read besides those that decisions depend on."""
MOST: Final = 2000
"""Objects of one list that are looked at."""


class ObjectReads(Protocol):
    """Reading for one answer. Nothing here raises: what cannot be read is noted in `unread`."""

    unread: dict[str, str]
    """By resource: why it was not read."""

    async def get(self, resource: Resource, cls: type[T], namespace: str, name: str) -> T | None: ...

    async def list(self, resource: Resource, cls: type[T], namespace: str = "", **fields: str) -> Sequence[T]:
        """Objects by fields, whose dots are written as `__`: `regarding__uid="…"`."""
        ...


class ClientReads:
    """Reads from an API server, and only what `may_list` permits."""

    def __init__(self, client: Reader, may_list: MayList | None = None) -> None:
        self.unread: dict[str, str] = {}
        self._client = client
        self._may_list = may_list
        self._lists: dict[tuple[Resource, str, tuple[FieldTerm, ...]], Sequence[Any]] = {}
        """Lists that were read: those of a namespace are needed for each of its workloads."""

    async def get(self, resource: Resource, cls: type[T], namespace: str, name: str) -> T | None:
        if not await self._allowed(resource, namespace):
            return None
        try:
            return convert(await self._client.get(resource, namespace, name), cls)
        except ApiError as error:
            if not error.is_not_found:
                self._note(resource, error.message)
        except DecodeError as error:
            self._note(resource, str(error))
        return None

    async def list(self, resource: Resource, cls: type[T], namespace: str = "", **fields: str) -> Sequence[T]:
        if not await self._allowed(resource, namespace):
            return ()
        terms = tuple(FieldTerm(_path(name), value) for name, value in sorted(fields.items()))
        key = (resource, namespace, terms)
        if key not in self._lists:
            self._lists[key] = await self._list(resource, cls, namespace, terms)
        return self._lists[key]

    async def _list(
        self, resource: Resource, cls: type[T], namespace: str, terms: tuple[FieldTerm, ...]
    ) -> Sequence[T]:
        try:
            found = await self._client.list(
                resource, cls, namespace=namespace, selection=Selection(fields=terms), not_older_than="0"
            )
        except ApiError as error:
            self._note(resource, error.message)
            return ()
        if len(found.items) > MOST:
            self._note(resource, f"only {MOST} of {len(found.items)} were looked at")
        return found.items[:MOST]

    async def _allowed(self, resource: Resource, namespace: str) -> bool:
        if self._may_list is None or await self._may_list(resource, namespace):
            return True
        where = f" in namespace {namespace}" if namespace else ""
        self._note(resource, f"reading {resource.qualified}{where} is not allowed")
        return False

    def _note(self, resource: Resource, problem: str) -> None:
        self.unread.setdefault(resource.plural, f"{resource.plural} could not be read: {problem}")


class DumpReads:
    """Reads from the objects of a dump. A kind of which there is none was probably not dumped."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.unread: dict[str, str] = {}
        self._by_type: dict[type[Object], list[Object]] = {}
        for obj in objects:
            obj = obj.as_event() if isinstance(obj, CoreEvent) else obj
            self._by_type.setdefault(type(obj), []).append(obj)

    async def get(self, resource: Resource, cls: type[T], namespace: str, name: str) -> T | None:
        found = await self.list(resource, cls, namespace)
        return next((one for one in found if one.name == name), None)

    async def list(self, resource: Resource, cls: type[T], namespace: str = "", **fields: str) -> Sequence[T]:
        known: Any = self._by_type.get(cls, ())
        if not known:
            self._note_none(resource)
        wanted = [(_path(name).split("."), value) for name, value in fields.items()]
        return [
            one
            for one in known
            if (not namespace or one.namespace == namespace)
            and all(_value(one, path) == value for path, value in wanted)
        ]

    def _note_none(self, resource: Resource) -> None:
        self.unread.setdefault(resource.plural, f"the dump has no {resource.plural}")


class ReadBefore(DumpReads):
    """Reads from objects that were read before, and from lists by resource where kinds share a type.

    `unread` has what was not read; of other kinds there is none.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        lists: Mapping[Resource, Sequence[Object]],
        unread: Mapping[str, str],
    ) -> None:
        super().__init__(objects)
        self._before = lists
        self.unread = dict(unread)

    async def list(self, resource: Resource, cls: type[T], namespace: str = "", **fields: str) -> Sequence[T]:
        known: Any = self._before.get(resource)
        return await super().list(resource, cls, namespace, **fields) if known is None else known

    def _note_none(self, resource: Resource) -> None:
        """There is none: nothing to note."""


def _path(name: str) -> str:
    return name.replace("__", ".")


def _value(obj: Any, path: Sequence[str]) -> Any:
    """The value of a field by its path in JSON."""
    for step in path:
        obj = getattr(obj, "".join(f"_{one.lower()}" if one.isupper() else one for one in step), None)
    return obj


async def read_wider(reads: ObjectReads, namespace: str) -> Wider:
    """The objects that decide which changes can be offered; "" for those of all namespaces."""
    classes = await reads.list(PRIORITY_CLASSES, PriorityClass)
    limits = tuple(await reads.list(LIMIT_RANGES, LimitRange, namespace))
    return Wider(tuple(classes), limits, unread=reads.unread.get(LIMIT_RANGES.plural, ""))
