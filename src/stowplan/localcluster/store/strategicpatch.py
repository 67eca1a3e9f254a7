"""Strategic merge patch: like a merge patch, but some lists are merged element by element.

Directives in the patch: `$patch` replaces or deletes a map or an element, `$retainKeys` drops all other
keys, `$deleteFromPrimitiveList/<list>` takes values out, `$setElementOrder/<list>` says how the result is
ordered. Nothing is changed in place.
"""

from collections import deque
from collections.abc import Mapping
from functools import cache
from operator import lt
from typing import Any, Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.localcluster.schema import Form, Schema, the_schema
from stowplan.localcluster.store.objects import LISTS

PRIMITIVE: Final = ""
"""The key of lists of plain values: the elements are their own keys."""


class MergeRules:
    """Which lists of a type are merged, and by which key; those of other fields' types come from `within`."""

    def __init__(self, schema: Schema, form: Form | None) -> None:
        self._schema = schema
        self._element = form.of if form is not None and form.shape == "map" else None
        type_ = None if form is None else schema.referred(form)
        self._fields = {} if type_ is None else type_.fields
        self._inner: dict[str, MergeRules] = {}
        self.keys: Mapping[str, str] = {
            field.name: field.merge_key
            for field in self._fields.values()
            if field.merge_key is not None and field.form.shape == "list"
        }

    def within(self, name: str) -> "MergeRules":
        """The rules for what is in a field: of a list, for its elements."""
        rules = self._inner.get(name)
        if rules is None:
            field = self._fields.get(name)
            form = self._element if field is None else field.form
            while form is not None and form.shape == "list":
                form = form.of
            if field is None and form is None:
                return self if not self._fields else _no_rules(self._schema)
            rules = MergeRules(self._schema, form)
            if field is not None:
                self._inner[name] = rules
        return rules


@cache
def _no_rules(schema: Schema) -> MergeRules:
    return MergeRules(schema, None)


@cache
def merge_rules(resource: Resource) -> MergeRules:
    """The rules for the objects of a resource."""
    schema = the_schema()
    type_ = schema.of_kind(resource.group, resource.version, resource.kind)
    return MergeRules(schema, None if type_ is None else Form("type", type_.full_name))


_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_Map = dict[str, Any]
_PLAIN: Final = (str, int, float, type(None))


def strategic_merge(document: _Map, patch: Any, rules: MergeRules) -> _Map:
    """The document with the patch laid over it.

    Raises `ApiError`: 400 if the patch is malformed, 422 if it does not fit the document.
    """
    if not isinstance(patch, dict):
        raise status.bad_request("error decoding patch: expected a map")
    return _merge_maps(document, patch, rules)


def _merge_maps(original: _Map, patch: _Map, rules: MergeRules) -> _Map:
    if _DIRECTIVE in patch:
        return _whole(patch)
    merged = _retained(original, patch)
    for key, value in patch.items():
        if key[:1] == "$" and _is_followed(key, value, merged, patch, rules.keys):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, key, patch, rules)
    return merged


def _is_followed(key: str, value: Any, merged: _Map, patch: _Map, keys: Mapping[str, str]) -> bool:
    """Do what a directive says; False if the key is none."""
    if key.startswith(_DELETE):
        name = key.removeprefix(_DELETE)
        if isinstance(merged.get(name), LISTS):
            gone = {(type(one), one) for one in _listed(value) if isinstance(one, _PLAIN)}
            merged[name] = [kept for kept in merged[name] if (type(kept), kept) not in gone]
        return True
    if key.startswith(_ORDER):
        name = key.removeprefix(_ORDER)
        if name in keys and name not in patch and isinstance(merged.get(name), LISTS):
            merged[name] = _ordered(merged[name], _listed(value), merged[name], keys[name])
        return True
    return key == _RETAIN


def _whole(patch: _Map) -> _Map:
    match patch[_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise status.bad_request(f"unknown patch type: {other} in map: {patch}")


def _retained(original: _Map, patch: _Map) -> _Map:
    """A copy of the original, without keys that are not to be retained."""
    if _RETAIN not in patch:
        return dict(original)
    kept = _listed(patch[_RETAIN])
    for key, value in patch.items():
        if value is not None and key not in kept and not key.startswith("$"):
            raise status.bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in kept}


def _merge_value(old: Any, new: Any, name: str, patch: _Map, rules: MergeRules) -> Any:
    if isinstance(new, dict):
        return _merge_maps(old if isinstance(old, dict) else {}, new, rules.within(name))
    keys = rules.keys
    if not isinstance(new, LISTS) or name not in keys:
        return new
    order = patch.get(_ORDER + name)
    original = list(old) if isinstance(old, LISTS) else []
    if keys[name] == PRIMITIVE:
        merged = list(dict.fromkeys(_scalar(value) for value in (*original, *new)))
        return _ordered(merged, list(new) if order is None else _listed(order), original, PRIMITIVE)
    return _merge_elements(original, list(new), order, keys[name], rules.within(name))


def _merge_elements(
    original: list[Any], patch: list[Any], order: Any, key: str, rules: MergeRules
) -> list[Any]:
    """Merge two lists of maps whose elements have `key` as merge key."""
    plain = [element for element in patch if _DIRECTIVE not in _map(element)]
    directed = [element for element in patch if _DIRECTIVE in element]
    if any(element[_DIRECTIVE] == "replace" for element in directed):
        return plain
    gone = {_key_of(element, key) for element in directed if _is_deletion(element)}
    kept = [element for element in original if not gone or _key_of(_map(element), key) not in gone]
    merged = list(kept)
    places = _places(kept, key)
    found: list[int] = []
    for element in plain:
        place = places.get(_key_of(element, key))
        if place is None:
            places[element[key]] = place = len(merged)
            merged.append(_merge_maps({}, element, rules))
        else:
            merged[place] = _merge_maps(merged[place], element, rules)
        found.append(place)
    if order is None:
        ascending = all(map(lt, found, found[1:]))
        if ascending and len(merged) == len(kept) == len(places):
            return merged
        if ascending and len(merged) == len(kept) + len(found):
            return merged[len(kept) :] + kept
        return _ordered(merged, plain, kept, key)
    _check_order(plain, _listed(order), key)
    return _ordered(merged, _listed(order), kept, key)


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The elements of a patch have to stand in the order it demands, and in its list."""
    places = _places(order, key)
    found = [places.get(_identity(element, key), -1) for element in patch]
    if -1 in found or found != sorted(found):
        raise status.unprocessable(
            f"The order in patch list: {patch} doesn't match $setElementOrder list: {order}"
        )


def _ordered(merged: list[Any], order: list[Any], original: list[Any], key: str) -> list[Any]:
    """Elements that `order` names as it orders them; the others in between, where they stood before."""
    wanted = _places(order, key)
    stood = _places(original, key)
    named = [element for element in merged if _identity(element, key) in wanted]
    named.sort(key=lambda element: wanted[_identity(element, key)])
    others = deque(element for element in merged if _identity(element, key) not in wanted)
    result: list[Any] = []
    for element in named:
        place = stood.get(_identity(element, key))
        while place is not None and others and stood[_identity(others[0], key)] < place:
            result.append(others.popleft())
        result.append(element)
    return [*result, *others]


def _places(elements: list[Any], key: str) -> dict[Any, int]:
    """Where each element first stands."""
    places: dict[Any, int] = {}
    for i, element in enumerate(elements):
        places.setdefault(_identity(element, key), i)
    return places


def _identity(element: Any, key: str) -> Any:
    return _scalar(element) if key == PRIMITIVE else _key_of(_map(element), key)


def _key_of(element: _Map, key: str) -> Any:
    value = element.get(key)
    if type(value) is not str and not isinstance(value, int):
        raise status.unprocessable(f"map: {element} does not contain declared merge key: {key}")
    return value


def _is_deletion(element: _Map) -> bool:
    if element[_DIRECTIVE] != "delete":
        raise status.bad_request(f"unknown patch type: {element[_DIRECTIVE]} in map: {element}")
    return True


def _map(element: Any) -> _Map:
    if not isinstance(element, dict):
        raise status.unprocessable(f"list element types are not identical: expected a map, got {element!r}")
    return element


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, LISTS):
        raise status.bad_request(f"error decoding patch: a directive expected a list, got {value!r}")
    return list(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        raise status.unprocessable(
            f"list element types are not identical: expected a plain value, got {value!r}"
        )
    return value
