"""Planned parts of an expression: constants, and lookups of fields and elements step by step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from stowplan.api.cel import values
from stowplan.api.cel.values import NO_SUCH_OVERLOAD, NONE, EvaluationFailure, Map, Optional, UInt, Value


class CostLimitError(Exception):
    """An evaluation that costs more than it may."""


class LookupFrame:
    """One evaluation: the variables, and what it has cost so far."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, slots: list[Value], limit: int) -> None:
        self.slots = slots
        self.limit = limit
        self.cost = 0

    def spend(self, amount: int) -> None:
        self.cost += amount
        if self.cost > self.limit:
            raise CostLimitError


Run = Callable[[LookupFrame], Value]


class LookupPlan(ABC):
    """A planned node."""

    @abstractmethod
    def run(self) -> Run:
        """The function that evaluates it."""


class Const(LookupPlan):
    def __init__(self, value: Value) -> None:
        self.value = value

    def run(self) -> Run:
        value = self.value
        return lambda frame: value


class Plain(LookupPlan):
    def __init__(self, run: Run) -> None:
        self._run = run

    def run(self) -> Run:
        return self._run


class Qualifier(NamedTuple):
    """One step of a lookup: by a constant key, or by one that `key_of` gives."""

    key: Value = None
    key_of: Run | None = None
    optional: bool = False
    test: bool = False


class Attribute(LookupPlan):
    """A variable (or a value) and the steps from it."""

    def __init__(self, base: Run, qualifiers: tuple[Qualifier, ...] = ()) -> None:
        self._base = base
        self._qualifiers = qualifiers

    def with_qualifier(self, qualifier: Qualifier) -> "Attribute":
        return Attribute(self._base, (*self._qualifiers, qualifier))

    def resolve(self) -> Run:
        """The lookup without the cost of the attribute itself."""
        if not self._qualifiers:
            return self._base
        if any(one.key_of is not None or one.optional or one.test for one in self._qualifiers):
            return _general_lookup(self._base, self._qualifiers)
        return _constant_lookup(self._base, tuple([one.key for one in self._qualifiers]))

    def run(self) -> Run:
        resolve = self.resolve()
        tested = bool(self._qualifiers) and self._qualifiers[-1].test
        if tested:
            return _presence(resolve)

        def run(frame: LookupFrame) -> Value:
            value = resolve(frame)
            frame.cost += 1
            if frame.cost > frame.limit:
                raise CostLimitError
            return value

        return run


class Conditional(Attribute):
    """`a ? b : c`: further steps go to both branches."""

    def __init__(self, condition: Run, true: Attribute, false: Attribute) -> None:
        self._condition, self._true, self._false = condition, true, false

    def with_qualifier(self, qualifier: Qualifier) -> Attribute:
        both = self._true.with_qualifier(qualifier), self._false.with_qualifier(qualifier)
        return Conditional(self._condition, *both)

    def resolve(self) -> Run:
        condition, true, false = self._condition, self._true.resolve(), self._false.resolve()

        def run(frame: LookupFrame) -> Value:
            chosen = condition(frame)
            if chosen is True:
                return true(frame)
            if chosen is False:
                return false(frame)
            return chosen if type(chosen) is EvaluationFailure else NO_SUCH_OVERLOAD

        return run

    def run(self) -> Run:
        return self.resolve()


def _presence(resolve: Run) -> Run:
    def run(frame: LookupFrame) -> Value:
        value = resolve(frame)
        return value.present if type(value) is Optional else value

    return run


def _constant_lookup(base: Run, keys: tuple[Value, ...]) -> Run:
    def run(frame: LookupFrame) -> Value:
        value = base(frame)
        kind = type(value)
        if kind is EvaluationFailure:
            return value
        if kind is Optional:
            return _optional_steps(frame, value, keys)
        for key in keys:
            frame.cost += 1
            if frame.cost > frame.limit:
                raise CostLimitError
            value = look_up(value, key)
            if type(value) is EvaluationFailure:
                return value
        return value

    return run


def _optional_steps(frame: LookupFrame, value: Optional, keys: tuple[Value, ...]) -> Value:
    for key in keys:
        if not value.present:
            return value
        found = find(value.value, key)
        if type(found) is EvaluationFailure:
            return found
        if found is _ABSENT:
            return NONE
        frame.spend(1)
        value = Optional(True, found)
    return value


def _general_lookup(base: Run, qualifiers: tuple[Qualifier, ...]) -> Run:
    def run(frame: LookupFrame) -> Value:
        value = base(frame)
        if type(value) is EvaluationFailure:
            return value
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return value
            value = value.value
        for qualifier in qualifiers:
            optional = optional or qualifier.optional
            value = _step(frame, value, qualifier, optional=optional)
            if type(value) is EvaluationFailure or (value is NONE and optional):
                return value
        return Optional(True, value) if optional else value

    return run


def _step(frame: LookupFrame, value: Value, qualifier: Qualifier, *, optional: bool) -> Value:
    key = qualifier.key if qualifier.key_of is None else qualifier.key_of(frame)
    if type(key) is EvaluationFailure:
        frame.spend(1)
        return key
    if not optional and not qualifier.test:
        frame.spend(1)
        return look_up(value, key)
    found = find(value, key)
    if type(found) is EvaluationFailure:
        frame.spend(0 if optional else 1)
        return found
    if found is not _ABSENT or not optional:
        frame.spend(1)
    if qualifier.test:
        return found is not _ABSENT
    return NONE if found is _ABSENT else found


_ABSENT: Final = object()


def look_up(value: Value, key: Value) -> Value:
    """The element of a list or map, a Failure if there is none."""
    found = find(value, key)
    if found is not _ABSENT:
        return found
    what = "index out of bounds" if type(value) is list else "no such key"
    return EvaluationFailure(f"{what}: {values.shown(key)}")


def find(value: Value, key: Value) -> Value:
    """The element of a list or map, `_ABSENT` if there is none; a Failure if the key cannot be one."""
    if isinstance(value, Map):
        found, present = value.find(key)
        return found if present else _ABSENT
    if type(value) is not list:
        return _ABSENT
    kind = type(key)
    if kind is float:
        if not key.is_integer():
            return EvaluationFailure(f"unsupported index value {values.shown(key)} in list")
        key = int(key)
    elif kind is not int and kind is not UInt:
        return EvaluationFailure(f"unsupported index type '{values.type_name(key)}' in list")
    return value[key] if 0 <= key < len(value) else _ABSENT
