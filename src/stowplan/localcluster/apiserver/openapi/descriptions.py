"""Descriptions of kinds, types and fields, from `descriptions.txt`."""

from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class _Descriptions(NamedTuple):
    """Texts by name, and by field those for all types that match a pattern, the longest pattern first."""

    named: dict[str, str]
    patterns: dict[str, list[tuple[str, str]]]


@cache
def described(type_name: str, field: str = "") -> str:
    """Description of a type, or of a field of it; empty if there is none."""
    found = _read()
    name = f"{type_name}.{field}" if field else type_name
    if name in found.named or not field:
        return found.named.get(name, "")
    matching = (text for pattern, text in found.patterns.get(field, ()) if fnmatchcase(type_name, pattern))
    return next(matching, "")


@cache
def _read() -> _Descriptions:
    named: dict[str, str] = {}
    patterns: dict[str, list[tuple[str, str]]] = {}
    for line in files(__package__).joinpath("descriptions.txt").read_text("utf-8").splitlines():
        name, _, text = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if "*" in name:
            pattern, _, field = name.partition(".")
            patterns.setdefault(field, []).append((pattern, text))
        else:
            named[name] = text
    for found in patterns.values():
        found.sort(key=lambda entry: -len(entry[0]))
    return _Descriptions(named, patterns)
