"""Arguments of plugins: from a configuration to the dataclass or Struct of `Plugin[…]`, and back."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from re import Match
from re import compile as pattern
from typing import Any, Final

import msgspec
from msgspec import inspect

from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.status import ProfileError

_TYPE_META: Final = frozenset(("apiVersion", "kind"))
"""Fields that arguments may have in a configuration, whatever their type."""

_PLACE: Final = pattern(r"(?s)(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$")
_MISSING: Final = pattern(r"Object missing required field `(?P<field>.*)`$")
_UNKNOWN: Final = pattern(r"Object contains unknown field `(?P<field>.*)`$")


def decode_args(plugin: str, wanted: type[Any], given: Any) -> Any:
    """Arguments as the type that a plugin wants. None is a configuration without any.

    Raises ProfileError with the field that is wrong and what was expected. A ValueError that the type raises
    in `__post_init__` about its values is reported in its own words.
    """
    if isinstance(given, wanted):
        return given
    given = {} if given is None else given
    known = frozenset(name for name, _ in _fields(inspect.type_info(wanted)))
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key in known or key not in _TYPE_META}
    try:
        for place, field, expected in _unknown_fields(inspect.type_info(wanted), given):
            raise _refused(plugin, place, f"unknown field {quote(field)}, expected {_either(expected)}")
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        assert found is not None
        raise _said(plugin, found, own=isinstance(error.__cause__, ValueError)) from None


def _said(plugin: str, found: Match[str], *, own: bool) -> ProfileError:
    """The error for what msgspec says, such as "Expected `int`, got `str` - at `$.highest`"."""
    problem, path = found["problem"], found["path"] or ""
    if own:
        # What a type says about itself names its fields; the place is known only of types inside others.
        return _refused(plugin, path, problem) if path else ProfileError(_initializing(plugin, problem))
    if missing := _MISSING.match(problem):
        return _refused(plugin, f"{path}.{missing['field']}", "required")
    if unknown := _UNKNOWN.match(problem):
        return _refused(plugin, path, f"unknown field {quote(unknown['field'])}")
    return _refused(plugin, path, problem[:1].lower() + problem[1:].replace("`", ""))


def _refused(plugin: str, path: str, problem: str) -> ProfileError:
    return ProfileError(_initializing(plugin, f"args{path}: {problem}"))


def _initializing(plugin: str, problem: str) -> str:
    return f"initializing plugin {quote(plugin)}: {problem}"


def _unknown_fields(
    wanted: inspect.Type, given: Any, place: str = ""
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Fields that a type does not have, wherever they are: where, the field, and the fields there are.

    msgspec ignores these unless a Struct forbids them, and a misspelt argument would have its default.
    """
    known = dict(_fields(wanted))
    match wanted, given:
        case _, dict() if known:
            for key, value in given.items():
                if key not in known:
                    yield place, key, tuple(known)
                else:
                    yield from _unknown_fields(known[key], value, f"{place}.{key}")
        case inspect.DictType(value_type=inner), dict():
            for key, value in given.items():
                yield from _unknown_fields(inner, value, f"{place}.{key}")
        case ((inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner)), list() | tuple()):
            for number, value in enumerate(given):
                yield from _unknown_fields(inner, value, f"{place}[{number}]")
        case inspect.UnionType(types=types), _:
            described = [one for one in types if dict(_fields(one))]
            if len(described) == 1 and isinstance(given, dict):
                yield from _unknown_fields(described[0], given, place)


def _fields(wanted: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """The fields of a dataclass or Struct as they are written in a configuration."""
    if isinstance(wanted, inspect.StructType | inspect.DataclassType):
        for field in wanted.fields:
            yield field.encode_name, field.type


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "no fields"


def shown_args(args: Any) -> dict[str, Any]:
    """Typed arguments as a configuration has them, with all defaults."""
    if isinstance(args, msgspec.Struct):
        names = [(field.encode_name, field.name) for field in msgspec.structs.fields(args)]
    else:
        assert is_dataclass(args)
        names = [(field.name, field.name) for field in fields(args)]
    values = {shown: getattr(args, name) for shown, name in names}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return plain
