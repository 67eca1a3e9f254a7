"""Lists in pages: every page shows the state of the first one, as long as that is remembered."""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from stowplan.api import status
from stowplan.api.requests import Json
from stowplan.embedded.store.collection import Collection
from stowplan.embedded.store.objects import Key
from stowplan.embedded.store.selecting import Predicate


class Place(NamedTuple):
    """Which page is meant: after which object, at which version, how many objects at most (0: all)."""

    after: Key | None = None
    version: int | None = None
    limit: int = 0


FIRST_PAGE: Final = Place()


class Page(NamedTuple):
    """Objects, the version at which they were so, and the last of them if more follow.

    `remaining` is how many follow, None if nobody knows without looking at all of them.
    """

    items: list[Json]
    version: int
    last: Key | None = None
    remaining: int | None = None


def page_of(collection: Collection, namespace: str, chosen: Predicate | None, place: Place, now: int) -> Page:
    """The objects of a page, in one namespace or (empty) in all.

    Raises `ApiError`: 410 for a version forgotten, 504 for one to come.
    """
    version = now if place.version is None else place.version
    if version > now:
        raise status.too_large_version(version, now)
    objects = collection.objects if version == now else collection.state_at(version)
    order = collection.order() if objects is collection.objects else sorted(objects)
    if namespace and collection.resource.namespaced:
        order = order[bisect_left(order, (namespace, "")) : bisect_left(order, (f"{namespace}\0", ""))]
    first = 0 if place.after is None else bisect_right(order, place.after)
    if not place.limit:
        found = [objects[key] for key in order[first:]]
        return Page([obj for obj in found if chosen is None or chosen(obj)], version)
    return _limited(objects, order, first, chosen, place.limit, version)


def _limited(
    objects: dict[Key, Json], order: list[Key], first: int, chosen: Predicate | None, limit: int, version: int
) -> Page:
    items: list[Json] = []
    last: Key | None = None
    for number in range(first, len(order)):
        obj = objects[order[number]]
        if chosen is not None and not chosen(obj):
            continue
        if len(items) == limit:
            return Page(items, version, last, len(order) - number if chosen is None else None)
        items.append(obj)
        last = order[number]
    return Page(items, version)
