"""CEL rules of custom resources (`x-kubernetes-validations`): compiled once per schema, evaluated per object.

A rule sees `self`, the value it stands at, with the types of the schema, and `oldSelf`, the value it
replaces. A rule that compares with `oldSelf` is evaluated on updates only, unless it takes it as an optional.
A rule that cannot be compiled here is not evaluated; the writer of the definition gets a warning with the
reason.

Lists are compared in order also where the schema declares them as sets or maps.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from stowplan.api.cel import types, values
from stowplan.api.cel.checker import Environment
from stowplan.api.cel.compiler import Expression, compile_expression
from stowplan.api.cel.cost import CostRelease
from stowplan.api.cel.declarations import functions
from stowplan.api.cel.program import LIMIT_EXCEEDED
from stowplan.api.cel.syntax import CelError, Ident, walk
from stowplan.api.cel.types import Type
from stowplan.api.cel.values import EvaluationFailure, Map, Optional, Value
from stowplan.api.fielderrors import (
    OMITTED,
    FieldError,
    Kind,
    child,
    duplicate,
    forbidden,
    invalid,
    required,
)
from stowplan.api.requests import Json
from stowplan.localcluster.customresources.structural import ABSENT, StructuralSchema

CALL_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation of a rule."""
BUDGET: Final = 10_000_000
"""Cost limit of all rules for an object together."""

_NO_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_MAX_MESSAGE: Final = 5 * 1024
_STRINGS: Final = {
    "byte": types.BYTES,
    "duration": types.DURATION,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
}
_SCALARS: Final = {"boolean": types.BOOL, "integer": types.INT, "number": types.DOUBLE}
_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def identifiers(name: str) -> tuple[str, ...]:
    """The identifiers that stand for a property: none if its name cannot be one.

    Reserved words are escaped, but rules in use also select them as they are (`metadata.namespace`).
    """
    if not re.fullmatch(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", name):
        return ()
    if name in _RESERVED:
        return f"__{name}__", name
    return (re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name),)


class DeclaredTypes:
    """The types of a schema for CEL, and its values as CEL has them."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, Type]] = {}

    def declare(self, schema: StructuralSchema, name: str, *, is_object: bool = False) -> Type | None:
        """The type of a schema, None if rules cannot see what it describes."""
        if schema.int_or_string:
            return types.DYN
        if schema.type == "array":
            items = None if schema.items is None else self.declare(schema.items, f"{name}.@items")
            return None if items is None else types.list_of(items)
        if schema.type == "object":
            if schema.additional is not None and not schema.properties:
                value = self.declare(schema.additional, f"{name}.@values")
                return None if value is None else types.map_of(types.STRING, value)
            return self._struct(schema, name, is_object=is_object or schema.embedded)
        if schema.type == "string":
            return _STRINGS.get(schema.format, types.STRING)
        return _SCALARS.get(schema.type)

    def _struct(self, schema: StructuralSchema, name: str, *, is_object: bool) -> Type:
        declared: dict[str, Type] = {}
        for key, part in schema.properties.items():
            inner = self.declare(part, f"{name}.{key}")
            if inner is not None:
                declared |= dict.fromkeys(identifiers(key), inner)
        if is_object:
            metadata = Type("struct", f"{name}.metadata")
            self.fields[metadata.name] = {"name": types.STRING, "generateName": types.STRING}
            declared |= {"apiVersion": types.STRING, "kind": types.STRING, "metadata": metadata}
        self.fields[name] = declared
        return Type("struct", name)


def value_of(schema: StructuralSchema, raw: Any, *, is_object: bool = False) -> Value:
    """A value of a schema as CEL has it."""
    if raw is None or schema.int_or_string:
        return raw
    if isinstance(raw, list | tuple) and schema.items is not None:
        return [value_of(schema.items, one) for one in raw]
    if isinstance(raw, dict):
        if schema.additional is not None and not schema.properties:
            return Map.of_strings({key: value_of(schema.additional, one) for key, one in raw.items()})
        found = {
            identifier: value_of(schema.properties[key], one)
            for key, one in raw.items()
            if key in schema.properties
            for identifier in identifiers(key)
        }
        if is_object or schema.embedded:
            metadata = raw.get("metadata") or {}
            names = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
            found |= {key: raw[key] for key in ("apiVersion", "kind") if key in raw}
            found["metadata"] = Map.of_strings(names)
        return Map.of_strings(found)
    if schema.type == "number" and isinstance(raw, int):
        return float(raw)
    return _string_value(schema, raw) if isinstance(raw, str) else raw


def _string_value(schema: StructuralSchema, raw: str) -> Value:
    declared = _STRINGS.get(schema.format)
    if declared is None:
        return raw
    if declared == types.BYTES:
        try:
            return base64.b64decode(raw, validate=True)
        except (binascii.Error, ValueError):
            return raw
    text = f"{raw}T00:00:00Z" if schema.format == "date" else raw
    read = values.to_duration(text) if declared == types.DURATION else values.to_timestamp(text)
    return raw if isinstance(read, EvaluationFailure) else read


class CelRule(NamedTuple):
    """A rule, ready to be evaluated."""

    raw: Json
    expression: Expression
    message: Expression | None
    uses_old: bool

    @property
    def optional_old(self) -> bool:
        return bool(self.raw.get("optionalOldSelf"))

    @property
    def shown(self) -> str:
        return str(self.raw.get("message") or self.raw["rule"]).strip()


class CelRules(NamedTuple):
    """The rules of one node of a schema, and why others of it are not evaluated."""

    rules: list[CelRule]
    refused: list[str]


_compiled: WeakKeyDictionary[StructuralSchema, CelRules] = WeakKeyDictionary()


def compiled_rules(schema: StructuralSchema, *, is_root: bool = False) -> CelRules:
    """The rules of a node of a schema, compiled when they are first asked for."""
    known = _compiled.get(schema)
    if known is None:
        known = _compiled[schema] = _compile(schema, is_root=is_root)
    return known


def _compile(schema: StructuralSchema, *, is_root: bool) -> CelRules:
    found = CelRules([], [])
    shape = DeclaredTypes()
    declared = shape.declare(schema, "selfType", is_object=is_root)
    for raw in schema.rules:
        if declared is None:
            found.refused.append(f"{raw.get('rule')}: the schema has no type that rules can see")
            continue
        try:
            found.rules.append(_rule(raw, declared, shape))
        except CelError as error:
            found.refused.append(f"{raw.get('rule')}: {error}")
    return found


def _rule(raw: Json, declared: Type, shape: DeclaredTypes) -> CelRule:
    old = types.optional_of(declared) if raw.get("optionalOldSelf") else declared
    environment = Environment(functions(), {"self": declared, "oldSelf": old}, shape.fields)
    expression = compile_expression(raw.get("rule") or "", environment, CostRelease())
    output = expression.checked.type(expression.checked.root)
    if output != types.BOOL:
        raise CelError("cel expression must evaluate to a bool")
    message = None
    if raw.get("messageExpression"):
        message = compile_expression(raw["messageExpression"], environment, CostRelease())
    names = (node.name for node in walk(expression.checked.root) if isinstance(node, Ident))
    return CelRule(raw, expression, message, "oldSelf" in names)


def refused_rules(schema: StructuralSchema) -> Iterator[str]:
    """The rules anywhere in a schema that are not evaluated, with the reasons."""
    waiting = [(schema, True)]
    while waiting:
        part, is_root = waiting.pop()
        if part.rules:
            yield from compiled_rules(part, is_root=is_root).refused
        inner = [
            *part.properties.values(),
            *[one for one in (part.items, part.additional) if one is not None],
        ]
        waiting += [(one, False) for one in inner]


class _OutOfBudgetError(Exception):
    """The rules for an object cost more than they may."""


def rule_errors(schema: StructuralSchema, new: Json, old: Json | None) -> list[FieldError]:
    """Errors of an object according to the rules of a schema."""
    evaluation = _Evaluation()
    with suppress(_OutOfBudgetError):
        evaluation.check(schema, new, ABSENT if old is None else old, "", is_root=True)
    return evaluation.errors


class _Evaluation:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._budget = BUDGET

    def check(
        self, schema: StructuralSchema, new: Any, old: Any, path: str, *, is_root: bool = False
    ) -> None:
        """Evaluate the rules of a node and of everything below it."""
        if new is None or not schema.has_rules:
            return
        if schema.rules:
            self._node(schema, new, old, path, is_root=is_root)
        if isinstance(new, dict):
            for name in sorted(new):
                part = schema.child(name)
                if part is not None:
                    before = old.get(name, ABSENT) if isinstance(old, dict) else ABSENT
                    here = child(path, name) if name in schema.properties else f"{path}[{name}]"
                    self.check(part, new[name], before, here)
        elif isinstance(new, list | tuple) and schema.items is not None:
            for at, one in enumerate(new):
                self.check(schema.items, one, _correlated(schema, one, old), f"{path}[{at}]")

    def _node(self, schema: StructuralSchema, new: Any, old: Any, path: str, *, is_root: bool) -> None:
        current = value_of(schema, new, is_object=is_root)
        missing = old is ABSENT or old is None
        before = None if missing else value_of(schema, old, is_object=is_root)
        where = path or "<nil>"
        for rule in compiled_rules(schema, is_root=is_root).rules:
            if rule.uses_old and missing and not rule.optional_old:
                continue
            optional = values.NONE if missing else Optional(True, before)
            variables = {"self": current, "oldSelf": optional if rule.optional_old else before}
            result = self._evaluate(rule.expression, variables, where, schema)
            if isinstance(result, EvaluationFailure):
                self.errors.append(invalid(where, schema.type, _failure(result.message, rule)))
                if result.message == LIMIT_EXCEEDED:
                    raise _OutOfBudgetError
            elif result is not True and not (not rule.uses_old and not missing and old == new):
                self._refuse(rule, schema, new, variables, where)

    def _evaluate(
        self, expression: Expression, variables: dict[str, Value], where: str, schema: StructuralSchema
    ) -> Value:
        outcome = expression.program.evaluate(variables, CALL_LIMIT)
        if outcome.cost > self._budget:
            self.errors.append(invalid(where, schema.type, _NO_BUDGET))
            raise _OutOfBudgetError
        self._budget -= outcome.cost
        return outcome.value

    def _refuse(
        self, rule: CelRule, schema: StructuralSchema, new: Any, variables: dict[str, Value], where: str
    ) -> None:
        raw = rule.raw
        if raw.get("fieldPath"):
            where = ("" if where == "<nil>" else where) + raw["fieldPath"]
            where = where.removeprefix(".")
        detail = str(raw.get("message") or f"failed rule: {rule.shown}").strip()
        if rule.message is not None:
            told = self._evaluate(rule.message, variables, where, schema)
            text = told.strip() if isinstance(told, str) else ""
            if text and len(text.encode()) <= _MAX_MESSAGE and not re.search(r"[\r\n]", text):
                detail = text
        match raw.get("reason"):
            case "FieldValueForbidden":
                error = forbidden(where, detail)
            case "FieldValueRequired":
                error = required(where, detail)
            case "FieldValueDuplicate":
                error = duplicate(where, new)
            case _ if schema.type in ("object", "array"):
                error = FieldError(where, Kind.INVALID, OMITTED, detail)
            case _:
                error = invalid(where, new, detail)
        self.errors.append(error)


def _failure(message: str, rule: CelRule) -> str:
    if message.startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{message}': {what}: {rule.shown}"
    if message == LIMIT_EXCEEDED:
        what = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{message}': {what}: {rule.shown}"
    return f"{message} evaluating rule: {rule.shown}"


def _correlated(schema: StructuralSchema, element: Any, old: Any) -> Any:
    """The element that an element of a list of the type map replaces."""
    if schema.list_type != "map" or not isinstance(old, list | tuple) or not isinstance(element, dict):
        return ABSENT
    wanted = [element.get(key) for key in schema.list_keys]
    for one in old:
        if isinstance(one, dict) and [one.get(key) for key in schema.list_keys] == wanted:
            return one
    return ABSENT
