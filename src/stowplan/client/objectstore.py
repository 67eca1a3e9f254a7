"""The objects of one resource as a reflector last saw them, and how each change is passed on.

No waiting and no I/O here. Every handler gets, for each object, `added` first and once, then `updated` any
number of times, then `deleted`; together they add up to what the store holds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from stowplan.api.meta import Object
from stowplan.client.interface import Unreadable
from stowplan.runtime.sharding import ShardedDict

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


class Handler(Protocol[T_contra]):
    """An event handler. It must not wait, and its exceptions end the reflector."""

    def added(self, new: T_contra, /) -> None: ...

    def updated(self, old: T_contra, new: T_contra, /) -> None: ...

    def deleted(self, last: T_contra, /) -> None: ...


@runtime_checkable
class BulkHandler(Handler[T_contra], Protocol[T_contra]):
    """An event handler that takes additions of many objects at once faster than one by one."""

    def added_all(self, new: Sequence[T_contra], /) -> None:
        """The same as `added` for each in turn."""


class _InTurn(Generic[T]):
    """Two event handlers for the same objects, called one after the other."""

    def __init__(self, first: Handler[T], second: Handler[T]) -> None:
        self._first = first
        self._second = second

    def added(self, new: T, /) -> None:
        self._first.added(new)
        self._second.added(new)

    def updated(self, old: T, new: T, /) -> None:
        self._first.updated(old, new)
        self._second.updated(old, new)

    def deleted(self, last: T, /) -> None:
        self._first.deleted(last)
        self._second.deleted(last)


class _InTurnAtOnce(_InTurn[T]):
    """The same where the first of them takes many additions at once."""

    def __init__(self, first: BulkHandler[T], second: Handler[T]) -> None:
        super().__init__(first, second)
        self._add_all = first.added_all

    def added_all(self, new: Sequence[T], /) -> None:
        self._add_all(new)
        for obj in new:
            self._second.added(obj)


KEYS: Final = 50
"""Number of keys whose creation takes about as long as passing one object on."""


_FEW: Final = 20
_MANY: Final = 100


class ObjectStore(Generic[T]):
    """The objects of one resource as last seen.

    An object that cannot be read is skipped: its last readable state stays. Each is reported once, until
    it becomes readable or goes. With a `transform` objects are kept and shown as it gives them back.
    """

    def __init__(
        self,
        handler: Handler[T],
        report: Callable[[Unreadable], None],
        transform: Callable[[T], T] | None = None,
    ) -> None:
        self._handler = handler
        self._bulk: BulkHandler[T] | None = handler if isinstance(handler, BulkHandler) else None
        self._transform = transform
        self._report = report
        self._objects: ShardedDict[T] = ShardedDict()
        self._unreadable: dict[str, Unreadable] = {}
        self.skipped = 0

    @property
    def objects(self) -> Mapping[str, T]:
        """Objects by `namespace/name`."""
        return self._objects

    @property
    def at_once(self) -> int:
        """Number of objects to pass at once, so that handling them takes a few milliseconds."""
        return _FEW if self._bulk is None else _MANY

    @property
    def unreadable(self) -> Mapping[str, Unreadable]:
        """Objects whose present state cannot be read, by `namespace/name`."""
        return self._unreadable

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell another handler too: of what is there now, and after the others of what happens to it."""
        for obj in list(self._objects.values()):
            handler.added(obj)
        if self._bulk is None:
            self._handler = _InTurn(self._handler, handler)
        else:
            self._handler = self._bulk = _InTurnAtOnce(self._bulk, handler)

    def restore(self, objects: Iterable[T]) -> None:
        """Hold these objects without telling the handler, which knows of them."""
        self._objects.update((obj.key, obj) for obj in objects)

    def put(self, key: str, obj: T) -> None:
        """An object is there, new or changed. Another object of the same name first ends the old one."""
        if self._unreadable:
            self._unreadable.pop(key, None)
        if self._transform is not None:
            obj = self._transform(obj)
        objects = self._objects
        old = objects.get(key)
        if old is None:
            objects[key] = obj
            self._handler.added(obj)
            return
        before, now = old.metadata, obj.metadata
        if before.uid != now.uid:
            self.remove(key)
            objects[key] = obj
            self._handler.added(obj)
        elif before.resource_version != now.resource_version:
            objects[key] = obj
            self._handler.updated(old, obj)

    def remove(self, key: str, last: T | None = None) -> None:
        """An object is gone; `last` is its last state, if that is known better than here."""
        self._unreadable.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            if last is None or last.metadata.uid != old.metadata.uid:
                last = old
            elif self._transform is not None:
                last = self._transform(last)
            self._handler.deleted(last)

    def skip(self, unreadable: Unreadable) -> None:
        """An object is there, but cannot be read. Another object of the same name is gone."""
        self.skipped += 1
        key, uid = unreadable.key, unreadable.uid
        last = self._objects.get(key)
        if last is not None and uid and last.metadata.uid != uid:
            self.remove(key)
        before = self._unreadable.get(key)
        self._unreadable[key] = unreadable
        if before is None or before.uid != uid:
            self._report(unreadable)

    def replace(self, wanted: ShardedDict[T], unreadable: Iterable[Unreadable] = ()) -> Iterator[None]:
        """Replace all objects, step by step: the caller may pause between the steps but must take all.

        Objects are taken out of `wanted`, and dropped ones are released one at a time: freeing tens of
        thousands at once takes long.
        """
        skipped = {one.key: one for one in unreadable}
        for number, key in enumerate(_keys(self._objects), 1):
            if key not in wanted and key not in skipped:
                self.remove(key)
                yield
            elif not number % KEYS:
                yield
        self._unreadable = {key: one for key, one in self._unreadable.items() if key in skipped}
        for key in _keys(wanted):
            self.put(key, wanted.pop(key))
            yield
        for one in skipped.values():
            self.skip(one)
            yield

    def put_all(self, new: Mapping[str, T]) -> None:
        """Add or update objects: `put` for each, but together if all of them are new."""
        if self._bulk is None or self._objects.has_any(new):
            for key, obj in new.items():
                self.put(key, obj)
        elif new:
            if self._unreadable:
                for key in new:
                    self._unreadable.pop(key, None)
            if self._transform is not None:
                new = {key: self._transform(obj) for key, obj in new.items()}
            self._objects.add_all(new)
            self._bulk.added_all(list(new.values()))


def _keys(objects: ShardedDict[T]) -> Iterator[str]:
    """The keys of objects, which may be taken out meanwhile but not added to."""
    return chain.from_iterable(list(shard) for shard in objects.shards())
