"""One requirement on one label: `key operator values`, the brick of label and node selectors."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from stowplan.api import fielderrors
from stowplan.api.int64 import parse_int64
from stowplan.api.names import label_key_problems, label_value_problems

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER_THAN: Final = "Gt"
LESS_THAN: Final = "Lt"
EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="

ONE_OF: Final = frozenset((IN, EQUALS, DOUBLE_EQUALS))
NONE_OF: Final = frozenset((NOT_IN, NOT_EQUALS))
_PRINTED = {
    IN: " in ",
    NOT_IN: " notin ",
    EQUALS: "=",
    DOUBLE_EQUALS: "==",
    NOT_EQUALS: "!=",
    GREATER_THAN: ">",
    LESS_THAN: "<",
}


class Requirement(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What one label must be. `values` is sorted, so equal requirements are equal and hash equal."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches_value(self, value: str | None) -> bool:
        """Whether a label with this value (None: no such label) satisfies the requirement."""
        operator = self.operator
        if operator in ONE_OF:
            return value in self.values
        if operator in NONE_OF:
            return value not in self.values
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        if operator in (GREATER_THAN, LESS_THAN):
            return self._compares(value)
        return False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def without_spelling(self) -> "Requirement":
        """The same requirement in its one preferred spelling: `a=b`, `a==b` and `a in (b)` mean the same."""
        operator = IN if self.operator in ONE_OF else NOT_IN if self.operator in NONE_OF else self.operator
        return Requirement(self.key, operator, tuple(dict.fromkeys(self.values)))

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(self.values)
        if self.operator in (IN, NOT_IN):
            values = f"({values})"
        return f"{self.key}{_PRINTED[self.operator]}{values}"

    def _compares(self, value: str | None) -> bool:
        number = None if value is None else parse_int64(value)
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GREATER_THAN else number < bound


def sorted_requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    return Requirement(key, operator, tuple(sorted(values)))


def requirement_errors(key: str, operator: str, values: Sequence[str], path: str = "") -> list[str]:
    """What makes a requirement unusable, with the path of each field; nothing if it is fine."""
    if is_usable(key, operator, values):
        return []
    errors = key_field_errors(key, fielderrors.child(path, "key"))
    values_path = fielderrors.child(path, "values")
    errors += _values_errors(operator, values, values_path)
    for i, value in enumerate(values):
        problems = label_value_problems(value)
        if problems:
            errors.append(fielderrors.invalid(f"{values_path}[{i}][{key}]", value, "; ".join(problems)))
    return errors


def is_usable(key: str, operator: str, values: Sequence[str]) -> bool:
    """Whether nothing is wrong with a requirement: the quick way to know, for the usual case."""
    if operator in (IN, NOT_IN):
        wrong = not values
    elif operator in (EXISTS, DOES_NOT_EXIST):
        wrong = bool(values)
    else:
        wrong = len(values) != 1 or (operator in (GREATER_THAN, LESS_THAN) and parse_int64(values[0]) is None)
    return not wrong and not label_key_problems(key) and not any(map(label_value_problems, values))


def key_field_errors(key: str, path: str) -> list[str]:
    problems = label_key_problems(key)
    return [fielderrors.invalid(path, key, "; ".join(problems))] if problems else []


def _values_errors(operator: str, values: Sequence[str], path: str) -> list[str]:
    if operator in (IN, NOT_IN):
        wrong, rule = not values, "for 'in', 'notin' operators, values set can't be empty"
    elif operator in (EXISTS, DOES_NOT_EXIST):
        wrong, rule = bool(values), "values set must be empty for exists and does not exist"
    elif operator in (GREATER_THAN, LESS_THAN):
        wrong, rule = len(values) != 1, "for 'Gt', 'Lt' operators, exactly one value is required"
    else:
        wrong, rule = len(values) != 1, "exact-match compatibility requires one single value"
    errors: list[str] = [fielderrors.invalid(path, values, rule)] if wrong else []
    if operator in (GREATER_THAN, LESS_THAN):
        errors += [
            fielderrors.invalid(
                f"{path}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"
            )
            for i, value in enumerate(values)
            if parse_int64(value) is None
        ]
    return errors
