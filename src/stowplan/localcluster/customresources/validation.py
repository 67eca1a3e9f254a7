"""Validation of custom objects by their schema, with the messages of the Kubernetes API.

On an update, what is wrong with a part that stays as it was is not held against the writer ("ratcheting"): a
schema may have become stricter since.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, Kind, child, duplicate, invalid, required
from stowplan.api.names import (
    label_key_problems,
    label_value_problems,
    path_segment_problems,
    service_name_problems,
)
from stowplan.api.requests import Json
from stowplan.gocompat import regexps
from stowplan.gocompat.jsontext import as_json, float_text
from stowplan.gocompat.numbers import fits_int64
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.customresources.structural import ABSENT, StructuralSchema

NOWHERE: Final = "<nil>"
"""The path of an error about the object as a whole."""

_TYPE_NAMES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_MAX_FLOAT32: Final = 3.4028234663852886e38


class SchemaProblem(str):
    """One thing wrong with a value: the message. `shown` makes it a field error at a path."""

    name: str
    shown: Callable[[str], FieldError]

    def __new__(cls, message: str, name: str, shown: Callable[[str], FieldError]) -> "SchemaProblem":
        problem = super().__new__(cls, message)
        problem.name, problem.shown = name, shown
        return problem


class SchemaResult:
    """Problems, each once, and how many checks were made: that tells which alternative was nearest."""

    __slots__ = ("checks", "problems")

    def __init__(self) -> None:
        self.problems: dict[str, SchemaProblem] = {}
        self.checks = 0

    def add(self, problem: SchemaProblem | None) -> None:
        if problem is not None:
            self.problems.setdefault(str(problem), problem)

    def merge(self, other: "SchemaResult") -> None:
        for problem in other.problems.values():
            self.add(problem)
        self.checks += other.checks


def schema_errors(
    schema: StructuralSchema, value: Any, path: str = "", old: Any = ABSENT
) -> list[FieldError]:
    """Errors of a value. `path` is its place in the object; `old` is the value it replaces."""
    found = _validate(schema, value, "", old)
    errors = []
    for problem in found.problems.values():
        name = problem.name.removeprefix(".")
        errors.append(problem.shown((child(path, name) if name else path) or NOWHERE))
    return errors


def _validate(schema: StructuralSchema, value: Any, path: str, old: Any) -> SchemaResult:
    result = _checked(schema, value, path, old)
    if result.problems and old is not ABSENT and _same(old, value):
        result.problems = {}
    return result


def _checked(schema: StructuralSchema, value: Any, path: str, old: Any) -> SchemaResult:
    result = SchemaResult()
    if value is None:
        if schema.types and not schema.nullable:
            result.add(_wrong_type(path, ",".join(schema.types), "null"))
        result.add(_enum_problem(schema, value, path))
        return result
    if isinstance(value, int) and not isinstance(value, bool) and not fits_int64(value):
        value = float(value) if abs(value) < 10**308 else math.inf
    if schema.types or schema.checked_format:
        result.add(_type_problem(schema, value, path))
        result.checks += 1
    if schema.is_composed:
        _compose(schema, value, path, old, result)
    result.checks += 2
    if isinstance(value, str):
        result.add(_string_problem(schema, value, path))
        if schema.format_check is not None and not schema.format_check(value):
            result.add(_wrong_type(path, schema.checked_format, value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for problem in _number_problems(schema, value, path):
            result.add(problem)
    elif isinstance(value, list | tuple):
        _check_list(schema, value, path, old, result)
    result.add(_enum_problem(schema, value, path))
    if isinstance(value, dict):
        _check_map(schema, value, path, old, result)
    result.checks += 2
    return result


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "array" if isinstance(value, tuple) else "object")


def _wrong_type(path: str, expected: str, found: str) -> SchemaProblem:
    message = f"{path} in body must be of type {expected}: {quote(found)}"
    return SchemaProblem(message, path, lambda at: FieldError(at, Kind.TYPE_INVALID, found, message))


def _invalid(path: str, value: Any, message: str) -> SchemaProblem:
    return SchemaProblem(message, path, lambda at: invalid(at, ordered(value), message))


def _plain(message: str) -> SchemaProblem:
    """An error about more than one field: shown without a path."""
    return SchemaProblem(message, "", lambda at: invalid(at, "", message))


def _type_problem(schema: StructuralSchema, value: Any, path: str) -> SchemaProblem | None:
    types, found = schema.types, _type_name(value)
    if schema.checked_format and found in ("string", "array") and not {"number", "integer"} & {*types}:
        return None
    if found in types or (found == "integer" and "number" in types):
        return None
    if found == "number" and "integer" in types and _is_integral(value):
        return None
    return _wrong_type(path, ",".join(types), found) if types else None


def _is_integral(value: float) -> bool:
    return math.isfinite(value) and value == math.floor(value)


def _enum_problem(schema: StructuralSchema, value: Any, path: str) -> SchemaProblem | None:
    if not schema.enum or any(_same(choice, value) for choice in schema.enum if choice is not None):
        return None
    choices = [choice if isinstance(choice, str) else as_json(ordered(choice)) for choice in schema.enum]
    listed = ", ".join(quote(choice) for choice in choices)
    message = f"{path} in body should be one of [{' '.join(choices)}]"
    detail = f"supported values: {listed}"
    return SchemaProblem(message, path, lambda at: FieldError(at, Kind.NOT_SUPPORTED, ordered(value), detail))


def _string_problem(schema: StructuralSchema, value: str, path: str) -> SchemaProblem | None:
    if schema.max_length is not None and len(value) > schema.max_length:
        detail = f"may not be more than {schema.max_length} bytes"
        message = f"{path} in body should be at most {schema.max_length} chars long"
        return SchemaProblem(message, path, lambda at: FieldError(at, Kind.TOO_LONG, "", detail))
    if schema.min_length is not None and len(value) < schema.min_length:
        return _invalid(path, value, f"{path} in body should be at least {schema.min_length} chars long")
    if schema.regexp is None:
        return None
    try:
        if schema.regexp.matches(value):
            return None
    except regexps.TooCostlyError as error:
        return _invalid(path, value[:100], f"{path} in body could not be held against its pattern: {error}")
    return _invalid(path, value, f"{path} in body should match '{schema.pattern}'")


def _number_problems(schema: StructuralSchema, value: float, path: str) -> Iterator[SchemaProblem]:
    kind = schema.types[0] if len(schema.types) == 1 and schema.types[0] in ("integer", "number") else ""
    out_of_range = _range_problem(value, kind, schema.checked_format, "Checked", path)
    if out_of_range is not None:
        yield out_of_range
    if schema.multiple_of is not None:
        yield from _multiple_problems(schema, value, path, kind)
    for name, bound in (("Minimum boundary", schema.minimum), ("Maximum boundary", schema.maximum)):
        if bound is None:
            continue
        wrong = _range_problem(bound, kind, schema.checked_format, name, path)
        if wrong is not None:
            yield wrong
        elif isinstance(value, int):
            bound = int(bound)
        exceeded = (
            _below_problem(schema, value, bound, path)
            if name.startswith("Min")
            else _above_problem(schema, value, bound, path)
        )
        if exceeded is not None:
            yield exceeded


def _below_problem(schema: StructuralSchema, value: float, bound: float, path: str) -> SchemaProblem | None:
    if value > bound or (value == bound and not schema.exclusive_minimum):
        return None
    how = "greater than" if schema.exclusive_minimum else "greater than or equal to"
    return _invalid(path, value, f"{path} in body should be {how} {_number(bound)}")


def _above_problem(schema: StructuralSchema, value: float, bound: float, path: str) -> SchemaProblem | None:
    if value < bound or (value == bound and not schema.exclusive_maximum):
        return None
    how = "less than" if schema.exclusive_maximum else "less than or equal to"
    return _invalid(path, value, f"{path} in body should be {how} {_number(bound)}")


def _multiple_problems(
    schema: StructuralSchema, value: float, path: str, kind: str
) -> Iterator[SchemaProblem]:
    factor: float = schema.multiple_of or 0
    wrong = _range_problem(factor, kind, schema.checked_format, "MultipleOf", path)
    if wrong is not None:
        yield wrong
    elif isinstance(value, int):
        factor = int(factor)
    if factor <= 0:
        message = f"factor MultipleOf declared for {path} must be positive: {_number(factor)}"
        yield _invalid(path, factor, message)
    elif value % factor if isinstance(value, int) else not _is_integral(value / factor):
        yield _invalid(path, value, f"{path} in body should be a multiple of {_number(factor)}")


def _range_problem(value: float, kind: str, format_: str, what: str, path: str) -> SchemaProblem | None:
    if kind == "integer":
        bits = 31 if format_ == "int32" else 63
        fits = _is_integral(value) and -(2**bits) <= value < 2**bits
    else:
        fits = format_ != "float" or abs(value) <= _MAX_FLOAT32
    if fits:
        return None
    how = f"with format {format_}" if format_ else "(default format)"
    return _plain(f"{what} value must be of type {kind} {how} in {path}")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return float_text(value) if math.isfinite(value) else "+Inf"


def _check_list(schema: StructuralSchema, value: Any, path: str, old: Any, result: SchemaResult) -> None:
    if schema.items is not None:
        before = _by_key(schema, old)
        for i, element in enumerate(value):
            counterpart = ABSENT if before is None else before.get(_key_of(schema, element), ABSENT)
            result.merge(_validate(schema.items, element, f"{path}[{i}]", counterpart))
    size = len(value)
    if schema.min_items is not None and size < schema.min_items:
        result.add(_invalid(path, size, f"{path} in body should have at least {schema.min_items} items"))
    if schema.max_items is not None and size > schema.max_items:
        result.add(_too_many(path, size, schema.max_items, "items"))
    result.checks += 1


def _by_key(schema: StructuralSchema, old: Any) -> dict[str, Any] | None:
    """The elements of the list that is replaced by their keys, None if they have none."""
    if schema.list_type != "map" or not isinstance(old, list | tuple):
        return None
    return {_key_of(schema, element): element for element in old if isinstance(element, dict)}


def _key_of(schema: StructuralSchema, element: Any) -> str:
    if not isinstance(element, dict):
        return ""
    return as_json([ordered(element.get(key)) for key in schema.list_keys])


def _too_many(path: str, size: int, limit: int, what: str) -> SchemaProblem:
    message = f"{path} in body should have at most {limit} {what}"
    return SchemaProblem(
        message, path, lambda at: FieldError(at, Kind.TOO_MANY, size, f"must have at most {limit} items")
    )


def _check_map(schema: StructuralSchema, value: Json, path: str, old: Any, result: SchemaResult) -> None:
    size = len(value)
    if schema.min_properties is not None and size < schema.min_properties:
        text = f"{path} in body should have at least {schema.min_properties} properties"
        result.add(_invalid(path, size, text))
    if schema.max_properties is not None and size > schema.max_properties:
        result.add(_too_many(path, size, schema.max_properties, "properties"))
    before = old if isinstance(old, dict) and schema.map_type != "atomic" else {}
    for key, part in value.items():
        known = schema.properties.get(key)
        here = f"{path}.{key}" if path else key
        if known is not None:
            result.merge(_validate(known, part, here, before.get(key, ABSENT)))
        elif schema.forbids_additional:
            result.add(_invalid(path, key, f"{path}.{key} in body is a forbidden property"))
        elif schema.additional is not None:
            result.merge(_validate(schema.additional, part, f"{path}.{key}", before.get(key, ABSENT)))
    for key in schema.required:
        if key not in value:
            message = f"{path}.{key} in body is required"
            result.add(SchemaProblem(message, f"{path}.{key}", required))


def _compose(schema: StructuralSchema, value: Any, path: str, old: Any, result: SchemaResult) -> None:
    if schema.any_of:
        _any_of(schema.any_of, value, path, old, result)
    if schema.one_of:
        _one_of(schema.one_of, value, path, old, result)
    if schema.all_of:
        results = [_checked(part, value, path, old) for part in schema.all_of]
        for found in results:
            result.merge(found)
        valid = sum(not found.problems for found in results)
        if valid < len(results):
            none = "" if valid else ". None validated"
            result.add(_plain(f"{quote(path)} must validate all the schemas (allOf){none}"))
    if schema.not_ is not None and not _checked(schema.not_, value, path, old).problems:
        result.add(_plain(f"{quote(path)} must not validate the schema (not)"))
    result.checks += 1


def _any_of(parts: Iterable[StructuralSchema], value: Any, path: str, old: Any, result: SchemaResult) -> None:
    nearest: SchemaResult | None = None
    for part in parts:
        found = _checked(part, value, path, old)
        if not found.problems:
            result.merge(found)
            return
        if nearest is None or found.checks > nearest.checks:
            nearest = found
    result.add(_plain(f"{quote(path)} must validate at least one schema (anyOf)"))
    if nearest is not None:
        result.merge(nearest)


def _one_of(parts: Iterable[StructuralSchema], value: Any, path: str, old: Any, result: SchemaResult) -> None:
    valid: list[SchemaResult] = []
    nearest: SchemaResult | None = None
    for part in parts:
        found = _checked(part, value, path, old)
        if not found.problems:
            valid.append(found)
            nearest = None
        elif not valid and (nearest is None or found.checks > nearest.checks):
            nearest = found
    if len(valid) == 1:
        result.merge(valid[0])
        return
    how_many = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result.add(_plain(f"{quote(path)} must validate one and only one schema (oneOf). {how_many}"))
    if nearest is not None:
        result.merge(nearest)


def _same(one: Any, other: Any) -> bool:
    """True if two values are the same JSON: true is not 1."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(part, other[key]) for key, part in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def ordered(value: Any) -> Any:
    """The value with the keys of maps in order, as Go shows them."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(part) for part in value] if isinstance(value, list | tuple) else value


def list_errors(schema: StructuralSchema, value: Any, path: str = "") -> Iterator[FieldError]:
    """Elements that repeat in lists of type set and map."""
    if isinstance(value, dict):
        for key, part in value.items():
            known = schema.properties.get(key)
            if known is not None:
                yield from list_errors(known, part, child(path, key))
            elif schema.additional is not None:
                yield from list_errors(schema.additional, part, f"{path}[{key}]")
    elif isinstance(value, list | tuple):
        yield from _repeated(schema, value, path)
        if schema.items is not None:
            for i, element in enumerate(value):
                yield from list_errors(schema.items, element, f"{path}[{i}]")


def _repeated(schema: StructuralSchema, value: Any, path: str) -> Iterator[FieldError]:
    if schema.list_type == "set":
        keys = [ordered(element) for element in value]
    elif schema.list_type == "map":
        for i, element in enumerate(value):
            if element is not None and not isinstance(element, dict):
                yield invalid(f"{path}[{i}]", element, "must be an object for an array of list-type map")
                return
        keys = [
            {key: element[key] for key in sorted(schema.list_keys) if key in element} if element else {}
            for element in value
        ]
    else:
        return
    seen: dict[str, int] = {}
    for i, key in enumerate(keys):
        text = as_json(key)
        seen[text] = times = seen.get(text, 0) + 1
        if times == 2:
            yield duplicate(f"{path}[{i}]", key)


def embedded_errors(schema: StructuralSchema, value: Any, path: str = "") -> Iterator[FieldError]:
    """Errors of the kind and metadata of objects within an object."""
    if isinstance(value, dict):
        if schema.embedded:
            yield from _embedded_object_errors(value, path)
        for key, part in value.items():
            known = schema.properties.get(key)
            if known is not None:
                yield from embedded_errors(known, part, child(path, key))
            elif schema.additional is not None:
                yield from embedded_errors(schema.additional, part, f"{path}[{key}]")
    elif isinstance(value, list | tuple) and schema.items is not None:
        for i, element in enumerate(value):
            yield from embedded_errors(schema.items, element, f"{path}[{i}]")


def _embedded_object_errors(obj: Json, path: str) -> Iterator[FieldError]:
    for field in ("apiVersion", "kind"):
        here, text = child(path, field), obj.get(field, ABSENT)
        if text is ABSENT:
            yield required(here)
        elif not isinstance(text, str):
            yield invalid(here, ordered(text), "must be a string")
        elif not text:
            yield invalid(here, text, "must not be empty")
        elif field == "kind":
            problems = service_name_problems(text.lower())
            if problems:
                how = "may have mixed case, but should otherwise match: " + ",".join(problems)
                yield invalid(here, text, how)
        elif text.count("/") > 1:
            yield invalid(here, text, f"unexpected GroupVersion string: {text}")
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        yield from _embedded_metadata_errors(metadata, child(path, "metadata"))
    elif metadata is not None:
        yield invalid(child(path, "metadata"), ordered(metadata), "expected a map")


def _embedded_metadata_errors(metadata: Json, path: str) -> Iterator[FieldError]:
    name = metadata.get("name")
    if isinstance(name, str) and name:
        yield from (invalid(f"{path}.name", name, problem) for problem in path_segment_problems(name))
    labels = metadata.get("labels")
    if not isinstance(labels, dict):
        return
    for key, text in labels.items():
        yield from (invalid(f"{path}.labels", key, problem) for problem in label_key_problems(key))
        if isinstance(text, str):
            yield from (invalid(f"{path}.labels", text, problem) for problem in label_value_problems(text))


_BLOCKING: Final = frozenset(
    (Kind.NOT_SUPPORTED, Kind.REQUIRED, Kind.TOO_LONG, Kind.TOO_MANY, Kind.TYPE_INVALID)
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)


def unchecked_rules_error(schema: StructuralSchema, errors: Iterable[FieldError]) -> list[FieldError]:
    """The note that rules were not looked at, if there are any and an error is in their way."""
    if schema.has_rules and any(error.kind in _BLOCKING for error in errors):
        return [invalid(NOWHERE, None, _NOT_CHECKED)]
    return []
