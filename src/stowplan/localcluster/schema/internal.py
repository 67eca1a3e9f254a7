"""Objects as the API server's messages show them: the fields of its internal types, in their order.

When an immutable part of a spec changes, upstream's message has the difference of the two specs as JSON of
its unversioned types. These differ from the served ones in names (`DNSPolicy`), in order, in that every field
is written, and in the places of a few of a pod's fields.
"""

import difflib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from stowplan.api.quantity import QuantityError, quantity_of

Json = dict[str, Any]
_MOST_COMPARED: Final = 2_000
"""Lines of an object up to which two are compared: the time grows with their square."""

_IN_SECURITY_CONTEXT: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS: Final[Mapping[str, Any]] = {"string": "", "int": 0, "bool": False, "quantity": "0", "intstr": 0}


def difference(type_: str, old: Json, new: Json) -> str:
    """How two objects of a type differ, as a unified diff without its header."""
    before, after = (_text(type_, obj).splitlines() for obj in (old, new))
    if max(len(before), len(after)) > _MOST_COMPARED:
        return f"  ... // {len(before)} and {len(after)} lines, too many to compare\n"
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)


def _text(type_: str, obj: Json) -> str:
    return json.dumps(internal(type_, obj), indent=1, ensure_ascii=False)


def internal(type_: str, obj: Json) -> Json:
    """An object in the form of the server's own type."""
    if type_ == "PodSpec":
        moved = {field: obj[field] for field in _IN_SECURITY_CONTEXT if field in obj}
        obj = {**obj, "securityContext": {**(obj.get("securityContext") or {}), **moved}}
    given = {name.lower(): value for name, value in obj.items()}
    return {name: _value(form, given.get(name.lower())) for name, form in _types()[type_].items()}


def _value(form: str, given: Any) -> Any:
    if form.startswith("*"):
        return None if given is None else _value(form[1:], given)
    if form.startswith("["):
        return [_value(form[1:-1], item) for item in given] if given else None
    if form.startswith("{"):
        return {key: _value(form[1:-1], given[key]) for key in sorted(given)} if given else None
    if form in _types():
        return internal(form, given or {})
    if given is None:
        return _ZEROS.get(form)
    return _amount(given) if form == "quantity" else given


def _amount(given: Any) -> Any:
    try:
        return str(quantity_of(given))
    except (QuantityError, TypeError):
        return given


@cache
def _types() -> Mapping[str, Mapping[str, str]]:
    text = files(__package__).joinpath("internal.txt").read_text("utf-8")
    types: dict[str, Mapping[str, str]] = {}
    for line in text.replace("\n  ", " ").splitlines():
        if line and not line.startswith("#"):
            name, *fields = line.split()
            types[name] = {field: form for field, _, form in (word.partition(":") for word in fields)}
    return types
