"""Label selectors, compiled: built once, matched often, interned by equality."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.fielderrors import aggregate, quote
from stowplan.api.meta import LabelSelector
from stowplan.api.requirement import (
    DOES_NOT_EXIST,
    EQUALS,
    EXISTS,
    IN,
    NOT_IN,
    Requirement,
    requirement_errors,
    sorted_requirement,
)
from stowplan.api.selectortext import SelectorError, parse_requirements

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Requirement",
    "Selector",
    "SelectorError",
    "compile_selector",
    "parse_selector",
    "selector_from_labels",
]

_OPERATORS: Final = frozenset((IN, NOT_IN, EXISTS, DOES_NOT_EXIST))


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """Requirements that are ANDed, ordered by key; or nothing at all.

    Two selectors are equal when they make the same demands, however those were ordered or spelled.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    _identity: frozenset[Requirement] | None = field(init=False, repr=False)
    _index: "_Index | None" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", None)
        identity = None if self.nothing else frozenset(r.without_spelling() for r in self.requirements)
        object.__setattr__(self, "_identity", identity)

    @property
    def is_empty(self) -> bool:
        """Whether everything is selected because nothing is demanded."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        if len(self.requirements) > _MANY:
            if self._index is None:
                object.__setattr__(self, "_index", _Index(self.requirements))
            assert self._index is not None
            return self._index.matches(labels)
        for demand in self.requirements:  # noqa: SIM110 - a plain loop is twice as fast here
            if not demand.matches_value(labels.get(demand.key)):
                return False
        return True

    def adding(self, other: "Selector") -> "Selector":
        """This selector with the demands of another; one that selects nothing has no demands to add."""
        if self.nothing or not other.requirements:
            return self
        return _by_key([*self.requirements, *other.requirements])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_MANY: Final = 16


class _Index:
    """Very many requirements by key, so that labels are looked at one by one and not the requirements."""

    __slots__ = ("_by_key", "_needed")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self._by_key: dict[str, list[Requirement]] = {}
        for demand in requirements:
            self._by_key.setdefault(demand.key, []).append(demand)
        self._needed = {demand.key for demand in requirements if not demand.matches_value(None)}

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._needed) > len(labels) or not self._needed <= labels.keys():
            return False
        return all(
            demand.matches_value(value)
            for key, value in labels.items()
            for demand in self._by_key.get(key, ())
        )


NOTHING: Final = Selector(nothing=True)
EVERYTHING: Final = Selector()


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a selector from an object: absent selects nothing, empty everything. Raises `SelectorError`."""
    if selector is None:
        return NOTHING
    found = [_checked(key, EQUALS, (value,)) for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        if expression.operator not in _OPERATORS:
            raise SelectorError(f"{quote(expression.operator)} is not a valid label selector operator")
        found.append(_checked(expression.key, expression.operator, expression.values))
    return _by_key(found) if found else EVERYTHING


def selector_from_labels(labels: Mapping[str, str]) -> Selector:
    """Demand exactly these labels, unchecked; no labels select everything."""
    return _by_key([Requirement(key, EQUALS, (value,)) for key, value in labels.items()])


def parse_selector(text: str) -> Selector:
    """Compile a selector written as text, such as `app=web,tier in (a,b)`. Raises `SelectorError`."""
    return _by_key(parse_requirements(text))


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = requirement_errors(key, operator, values)
    if errors:
        raise SelectorError(aggregate(errors))
    return sorted_requirement(key, operator, values)


def _by_key(requirements: list[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda demand: demand.key)))
