"""Which objects a list shows: label and field selectors as predicates, and pages.

Every page shows the state of the first one, as long as the history reaches back to it.
"""

from bisect import bisect_left, bisect_right
from typing import Any, Final, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.localcluster.store.objects import Key, labels_of
from stowplan.localcluster.store.watchcache import Collection, Predicate

_OWN: Final = ("metadata.name", "metadata.namespace")
_WHEN_ABSENT: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.replicas": "0"}


def predicate(resource: Resource, namespace: str, selection: Selection) -> Predicate | None:
    """Test if an object is in a namespace (empty: any) and selected; None if every object is.

    Raises `ApiError` 400 for a field that cannot be selected by.
    """
    terms = list(selection.fields)
    if namespace and resource.namespaced:
        terms.append(FieldTerm("metadata.namespace", namespace))
    questions = _field_predicates(resource, terms)
    if not selection.labels.is_empty:
        labels = selection.labels
        questions.append(lambda obj: labels.matches(labels_of(obj)))
    if len(questions) <= 1:
        return questions[0] if questions else None
    return lambda obj: all(question(obj) for question in questions)


def _field_predicates(resource: Resource, terms: list[FieldTerm]) -> list[Predicate]:
    """One question for each field that has to have a value, one for all values another must not have."""
    questions: list[Predicate] = []
    unwanted: dict[str, set[str]] = {}
    for term in terms:
        _check_field(resource, term.path)
        if term.equal:
            questions.append(_field_predicate(term.path, {term.value}, wanted=True))
        else:
            unwanted.setdefault(term.path, set()).add(term.value)
    return questions + [_field_predicate(path, values, wanted=False) for path, values in unwanted.items()]


def _check_field(resource: Resource, path: str) -> None:
    if path in _OWN or path in resource.fields:
        return
    if resource.fields or resource.custom:
        raise status.bad_request(f"field label not supported: {path}")
    raise status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _field_predicate(path: str, values: set[str], *, wanted: bool) -> Predicate:
    """Test if a field's value is among some values, or is none of them."""
    section, _, field = path.rpartition(".")
    absent = _WHEN_ABSENT.get(path, "")
    if "." in section:
        return _nested_predicate(path.split("."), values, wanted=wanted)

    def question(obj: Json) -> bool:
        part = obj.get(section) if section else obj
        value = part.get(field) if type(part) is dict else None
        if type(value) is not str:
            value = _shown(value, absent)
        return (value in values) is wanted

    return question


def _nested_predicate(path: list[str], values: set[str], *, wanted: bool) -> Predicate:
    """The same for a field further down, as custom resources may have them."""

    def question(obj: Json) -> bool:
        value: Any = obj
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return (_shown(value, "") in values) is wanted

    return question


def _shown(value: Any, absent: str) -> str:
    if value is None:
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)


class PageRequest(NamedTuple):
    """Which page is meant: after which object, at which version, how many objects at most (0: all)."""

    after: Key | None = None
    version: int | None = None
    limit: int = 0


FIRST_PAGE: Final = PageRequest()


class ListPage(NamedTuple):
    """Objects, the version of their state, and the last of them if more follow.

    `remaining` is the number of objects that follow, None if that would need a look at all of them.
    """

    items: list[Json]
    version: int
    last: Key | None = None
    remaining: int | None = None


def page_of(
    collection: Collection, namespace: str, chosen: Predicate | None, place: PageRequest, now: int
) -> ListPage:
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
        return ListPage([obj for obj in found if chosen is None or chosen(obj)], version)
    return _limited(objects, order, first, chosen, place.limit, version)


def _limited(
    objects: dict[Key, Json], order: list[Key], first: int, chosen: Predicate | None, limit: int, version: int
) -> ListPage:
    items: list[Json] = []
    last: Key | None = None
    for number in range(first, len(order)):
        obj = objects[order[number]]
        if chosen is not None and not chosen(obj):
            continue
        if len(items) == limit:
            return ListPage(items, version, last, len(order) - number if chosen is None else None)
        items.append(obj)
        last = order[number]
    return ListPage(items, version)
