"""Validation as tables: which fields an object has to have, which values they take, and their parts.

A check looks at one value and its path and yields errors. `tables` makes checks of a text, one line a field,
in the order in which kube-apiserver reports errors:

    Example
      spec+
        failurePolicy    {Fail, Ignore}
        subjects[name]!  few each subject : must have at least one subject
          name!          subdomain
        & one_of_two

* after the name: `[]` for a list, `[=]` for one without duplicates, `[field]` for one of objects in which no
  two have the same `field`
* a mark: `!` must be there and not be empty, `*` must be there, `?` is not checked if it is empty, `+` is
  checked as if it were empty if it is left out
* checks: values in braces, a range of numbers, names of `FORMATS`, of checks that are handed in, or of tables
  above; those after `each` look at the elements of a list
* after a colon: the text of the error that the field is missing or out of range

Indented lines are the fields of the value or of the elements; `&` names a check of the whole.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from stowplan.api.catalogue import BUILT_IN, Resource
from stowplan.api.fielderrors import FieldError, Kind, child, duplicate, invalid, not_supported, required
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    path_segment_problems,
    service_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, selector_errors

Check = Callable[[Any, str], Iterator[FieldError]]

_LINE: Final = re.compile(
    r"(?P<name>\w+)(?:\[(?P<list>[\w=]*)\])?(?P<mark>[!*?+]?)(?P<checks>[^:]*)(?::\s*(?P<text>.+))?"
)
_CHECK: Final = re.compile(r"\{([^}]*)\}|(-?\d+)\.\.(\d*)|(\w+)")


def rules_of(made: Mapping[str, Check]) -> dict[Resource, Callable[[Json], list[FieldError]]]:
    """The validation of the kinds that have a table; names of tables of parts begin with a small letter."""
    kinds = {name for name in made if name[0].isupper()}
    return {one: _errors_of(made[one.kind]) for one in BUILT_IN if one.kind in kinds}


def _errors_of(check: Check) -> Callable[[Json], list[FieldError]]:
    return lambda obj: [*check(obj, "")]


def fixed(*paths: str) -> Callable[[Json, Json], list[FieldError]]:
    """The validation of an update: fields that must not change."""

    def check(old: Json, new: Json) -> list[FieldError]:
        found = ((path, _at(old, path), _at(new, path)) for path in paths)
        return [invalid(path, after, IMMUTABLE) for path, before, after in found if before != after]

    return check


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = (value or {}).get(name)
    return value or None


def tables(text: str, *checks: Check, **named_checks: Check) -> Mapping[str, Check]:
    """The checks that a text describes, by the names of its tables. Functions are known by their names."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    made: dict[str, Check] = {}
    known = {**FORMATS, **{check.__name__.lstrip("_"): check for check in checks}, **named_checks}
    for start, end in _blocks(lines):
        made[lines[start][1]] = _all(_rows(lines[start + 1 : end], {**known, **made}))
    return made


def _all(checks: Sequence[Check]) -> Check:
    def check(value: Any, path: str) -> Iterator[FieldError]:
        for one in checks:
            yield from one(value, path)

    return check


def _blocks(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """First and last line (exclusive) of everything that begins as far left as the first line."""
    starts = [at for at, (indent, _) in enumerate(lines) if indent == lines[0][0]]
    return pairwise([*starts, len(lines)])


def _rows(lines: Sequence[tuple[int, str]], known: Mapping[str, Check]) -> list[Check]:
    return [
        _row(lines[start][1], _rows(lines[start + 1 : end], known), known) for start, end in _blocks(lines)
    ]


def _row(line: str, parts: list[Check], known: Mapping[str, Check]) -> Check:
    if line.startswith("&"):
        return known[line[1:].strip()]
    found = _LINE.fullmatch(line)
    assert found is not None, line
    text = found["text"] or ""
    whole, _, each = found["checks"].partition(" each ")
    values, elements = _checks(whole, text, known), _checks(each, text, known)
    if found["list"] is None:
        values += parts
    else:
        values.append(_Elements((*elements, *parts), found["list"]))
    return _Field(found["name"], found["mark"], text, _all(values))


def _checks(text: str, message: str, known: Mapping[str, Check]) -> list[Check]:
    return [_check(found, message, known) for found in _CHECK.finditer(text)]


def _check(found: re.Match[str], message: str, known: Mapping[str, Check]) -> Check:
    choices, low, high, name = found.groups()
    if name is not None:
        return known[name]
    if choices is not None:
        return enum(*choices.split(", "))
    return within(int(low), int(high) if high else None, message)


@dataclass(frozen=True, slots=True)
class _Field:
    """A line of a table."""

    name: str
    mark: str
    text: str
    check: Check

    def __call__(self, holder: Json, path: str) -> Iterator[FieldError]:
        value, here = holder.get(self.name), child(path, self.name)
        if (value is None and self.mark == "*") or (not value and self.mark == "!"):
            yield required(here, self.text)
        elif self.mark == "+" or value or (value is not None and self.mark != "?"):
            yield from self.check({} if value is None else value, here)


@dataclass(frozen=True, slots=True)
class _Elements:
    """Checks of the elements of a list, and that none is there twice."""

    checks: Sequence[Check]
    unique: str

    def __call__(self, values: Sequence[Any], path: str) -> Iterator[FieldError]:
        seen: list[Any] = []
        for i, value in enumerate(values):
            here = f"{path}[{i}]"
            for check in self.checks:
                yield from check(value, here)
            if self.unique:
                key = value if self.unique == "=" else value.get(self.unique)
                if key in seen and (key or self.unique == "="):
                    yield duplicate(here if self.unique == "=" else child(here, self.unique), key)
                seen.append(key)


def enum(*choices: str) -> Check:
    def check(value: str, path: str) -> Iterator[FieldError]:
        if value not in choices:
            yield not_supported(path, value or "", choices)

    return check


def within(low: int, high: int | None, text: str) -> Check:
    def check(value: int, path: str) -> Iterator[FieldError]:
        number = value or 0
        if number < low or (high is not None and number > high):
            yield invalid(path, number, text)

    return check


def named(problems: Callable[[Any], Sequence[str]]) -> Check:
    """Checks of the syntax of a name: an error for each problem."""

    def check(value: Any, path: str) -> Iterator[FieldError]:
        text = "" if value == {} else value
        yield from (invalid(path, text, problem) for problem in problems(text))

    return check


def one_for_all(words: str) -> Check:
    """Checks of a list in which `*` stands for all and must then be alone."""

    def check(values: Sequence[str], path: str) -> Iterator[FieldError]:
        if len(values) > 1 and "*" in values:
            yield invalid(path, [*values], f"if '*' is present, must not specify other {words}")

    return check


def too_many(path: str, found: int, most: int) -> FieldError:
    return FieldError(path, Kind.TOO_MANY, found, f"must have at most {most} items")


FORMATS: Final[Mapping[str, Check]] = {
    "dns_label": named(dns_label_problems),
    "label_key": named(label_key_problems),
    "label_value": named(label_value_problems),
    "segment": named(path_segment_problems),
    "service_name": named(service_name_problems),
    "subdomain": named(subdomain_problems),
    "selector": selector_errors,
}
