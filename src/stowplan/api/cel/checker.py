"""The type checker: the overload of every call and the type of every part.

The results are kept per node: the type, the overloads of a call, the constant a name stands for.
"""

from collections.abc import Callable
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from stowplan.api.cel import types, values
from stowplan.api.cel.declarations import TYPE_NAMES, Overload
from stowplan.api.cel.formatting import FormatError, check_format
from stowplan.api.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    Issue,
    ListNode,
    Literal,
    MapNode,
    Select,
    StructNode,
    SyntaxNode,
    walk,
)
from stowplan.api.cel.types import Mapping, Type
from stowplan.gocompat import regexps


class FieldTypes(Protocol):
    """The types of the fields of a struct, by name."""

    def get(self, name: str, /) -> Type | None: ...


MadeType = Callable[[str], FieldTypes | None]
"""The fields of a type that expressions may make, by its name; None for a name that is no such type."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of an expression: functions, variables, and the fields of struct types.

    A variable may have a dotted name (`authorizer.requestResource`). `makes`: types for `Name{field: value}`.
    """

    functions: ReadOnly[str, tuple[Overload, ...]]
    variables: ReadOnly[str, Type]
    fields: ReadOnly[str, FieldTypes]
    makes: MadeType = lambda name: None


@dataclass(slots=True)
class Checked:
    """A checked expression. The tables are by the identity of nodes."""

    root: SyntaxNode
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    constants: dict[int, Type] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """Selections that are dotted names of variables."""

    def type(self, node: SyntaxNode) -> Type:
        return self.types[id(node)]


def check(root: SyntaxNode, environment: Environment) -> tuple[Checked, list[Issue]]:
    """The expression with its types, and what is wrong with it."""
    checker = _Checker(root, environment)
    checker.check(root)
    checked = checker.checked
    for node, known in checked.types.items():
        checked.types[node] = checker.mapping.substitute(known, free_to_dyn=True)
    if not checker.issues:
        checker.issues += _literal_issues(checked)
    return checked, checker.issues


class _Checker:
    def __init__(self, root: SyntaxNode, environment: Environment) -> None:
        self.checked = Checked(root)
        self.issues: list[Issue] = []
        self.mapping = Mapping()
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []
        self._fresh = 0

    def check(self, node: SyntaxNode) -> None:
        if id(node) in self.checked.types:
            return
        match node:
            case Literal():
                self._set(node, values.type_of(node.value))
            case Ident():
                self._ident(node)
            case Select():
                self._select(node)
            case Call():
                self._call(node)
            case ListNode():
                self._list(node)
            case MapNode():
                self._map(node)
            case Comprehension():
                self._comprehension(node)
            case StructNode():
                self._struct(node)

    def _set(self, node: SyntaxNode, known: Type) -> None:
        self.checked.types[id(node)] = known

    def _type(self, node: SyntaxNode) -> Type:
        return self.checked.types[id(node)]

    def _wrong(self, node: SyntaxNode, message: str) -> None:
        self.issues.append(Issue(node.offset, message))

    def _mismatch(self, node: SyntaxNode, expected: Type, actual: Type) -> None:
        self._wrong(node, f"expected type '{expected.described()}' but found '{actual.described()}'")

    def _assignable(self, first: Type, second: Type) -> bool:
        trial = Mapping(self.mapping)
        if not trial.assignable(first, second):
            return False
        self.mapping = trial
        return True

    def _type_variable(self) -> Type:
        self._fresh += 1
        return types.param(f"_var{self._fresh - 1}")

    def _lookup(self, name: str) -> Type | None:
        if not name.startswith("."):
            for scope in reversed(self._scopes):
                if name in scope:
                    return scope[name]
        return self._environment.variables.get(name.removeprefix("."))

    def _ident(self, node: Ident) -> None:
        known = self._lookup(node.name)
        if known is None and (named := TYPE_NAMES.get(node.name.removeprefix("."))) is not None:
            self.checked.constants[id(node)] = named
            known = types.type_of(named)
        if known is None:
            self._wrong(node, f"undeclared reference to '{node.name}' (in container '')")
        self._set(node, known or types.ERROR)

    def _select(self, node: Select) -> None:
        name = _qualified(node)
        if name is not None and name in TYPE_NAMES:
            self.checked.constants[id(node)] = TYPE_NAMES[name]
            self._set(node, types.type_of(TYPE_NAMES[name]))
            return
        if name is not None and not node.test and self._is_variable(name):
            self.checked.names[id(node)] = name.removeprefix(".")
            self._set(node, self._environment.variables[name.removeprefix(".")])
            return
        result = self._field(node, node.operand, node.field, optional=False)
        self._set(node, types.BOOL if node.test else self.mapping.substitute(result))

    def _is_variable(self, name: str) -> bool:
        """True for the dotted name of a variable that no loop variable hides."""
        if name.removeprefix(".") not in self._environment.variables:
            return False
        root = name.partition(".")[0]
        return not any(root in scope for scope in self._scopes)

    def _struct(self, node: StructNode) -> None:
        """A value that the expression makes: each field must have the type that is declared."""
        fields = self._environment.makes(node.name)
        if fields is None:
            self._wrong(node, f"undeclared reference to '{node.name}' (in container '')")
            self._set(node, types.ERROR)
            return
        self._set(node, Type("struct", node.name))
        for offset, name, value, optional in node.fields:
            self.check(value)
            given = self._inside(value, optional=optional)
            wanted = fields.get(name)
            if wanted is None:
                self.issues.append(Issue(offset, f"undefined field '{name}'"))
            elif not self._assignable(wanted, given):
                text = f"expected type of field '{name}' is '{wanted.described()}' but provided type is"
                self.issues.append(Issue(offset, f"{text} '{given.described()}'"))

    def _field(self, node: SyntaxNode, operand: SyntaxNode, name: str, *, optional: bool) -> Type:
        self.check(operand)
        target, was_optional = types.unwrapped(self.mapping.substitute(self._type(operand)))
        result = types.DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            fields = self._environment.fields.get(target.name)
            fields = self._environment.makes(target.name) if fields is None else fields
            known = None if fields is None else fields.get(name)
            if known is None:
                missing = fields is None
                what = f"unexpected failed resolution of '{target.name}'" if missing else ""
                self._wrong(node, what or f"undefined field '{name}'")
            result = known or types.ERROR
        elif target.kind == "param":
            self._assignable(types.DYN, target)
        elif not target.is_dyn and target.kind != "error":
            self._wrong(node, f"type '{target.described()}' does not support field selection")
        return types.optional_of(result) if optional or was_optional else result

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            operand, name = node.args
            assert isinstance(name, Literal)
            self._set(name, types.STRING)
            result = self._field(node, operand, name.value, optional=True)
            self._set(node, self.mapping.substitute(result))
            self.checked.overloads[id(node)] = (_OPTIONAL_SELECT,)
            return
        for argument in node.args:
            self.check(argument)
        if node.target is not None:
            prefix = _qualified(node.target)
            full = f"{prefix}.{node.function}" if prefix is not None else ""
            if full.removeprefix(".") in self._environment.functions:
                node.function, node.target = full.removeprefix("."), None
            else:
                self.check(node.target)
        node.function = node.function.removeprefix(".") if node.target is None else node.function
        overloads = self._environment.functions.get(node.function)
        if overloads is None:
            self._wrong(node, f"undeclared reference to '{node.function}' (in container '')")
            self._set(node, types.ERROR)
            return
        self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        given = tuple([self._type(argument) for argument in node.operands])
        if node.function in ("_&&_", "_||_"):
            self._set(node, types.BOOL if self._all_bool(node, given) else types.ERROR)
            self.checked.overloads[id(node)] = overloads
            return
        found: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_member is not (node.target is not None):
                continue
            fresh = Mapping({one: self._type_variable() for one in overload.params})
            wanted = tuple([fresh.substitute(one) for one in overload.args])
            trial = Mapping(self.mapping)
            if not trial.assignable_list(given, wanted):
                continue
            self.mapping = trial
            found.append(overload)
            own = trial.substitute(fresh.substitute(overload.result))
            if result is None:
                result = own
            elif not result.is_dyn and own != result:
                result = types.DYN
        if result is None:
            shown = [self.mapping.substitute(one, free_to_dyn=True).described() for one in given]
            target = f"{shown.pop(0)}." if node.target is not None else ""
            signature = f"{target}({', '.join(shown)})"
            self._wrong(node, f"found no matching overload for '{node.function}' applied to '{signature}'")
            result = types.ERROR
        self.checked.overloads[id(node)] = tuple(found)
        self._set(node, result)

    def _all_bool(self, node: Call, given: tuple[Type, ...]) -> bool:
        fine = True
        for argument, known in zip(node.args, given, strict=True):
            if not self._assignable(known, types.BOOL):
                self._mismatch(argument, types.BOOL, known)
                fine = False
        return fine

    def _list(self, node: ListNode) -> None:
        common: Type | None = None
        for at, item in enumerate(node.items):
            self.check(item)
            known = self._inside(item, optional=at in node.optional)
            common = self._joined(common, known)
        self._set(node, types.list_of(common or self._type_variable()))

    def _map(self, node: MapNode) -> None:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key = self._joined(key, self._type(entry.key))
            self.check(entry.value)
            value = self._joined(value, self._inside(entry.value, optional=entry.optional))
        self._set(node, types.map_of(key or self._type_variable(), value or self._type_variable()))

    def _inside(self, node: SyntaxNode, *, optional: bool) -> Type:
        """The type of an element; of one marked with `?` that of the value in the optional."""
        known = self._type(node)
        if not optional:
            return known
        inner, was_optional = types.unwrapped(known)
        if not was_optional and not inner.is_dyn:
            self._mismatch(node, types.optional_of(inner), inner)
        return inner

    def _joined(self, previous: Type | None, current: Type) -> Type:
        """The type of elements of two types; whether they may differ is said by `_literal_issues`."""
        if previous is None:
            return current
        if self._assignable(previous, current):
            return types.most_general(previous, current)
        return types.DYN

    def _comprehension(self, node: Comprehension) -> None:
        self.check(node.range)
        self.check(node.initial)
        over = self.mapping.substitute(self._type(node.range))
        accumulated = self._type(node.initial)
        first, second = self._iterated(node, over)
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append({node.variable: first} | ({node.second: second} if node.second else {}))
        self.check(node.condition)
        self._must_be(node.condition, types.BOOL)
        self.check(node.step)
        self._must_be(node.step, accumulated)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        self._set(node, self.mapping.substitute(self._type(node.result)))

    def _iterated(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of the iteration variables."""
        if over.kind == "list":
            return (types.INT, over.params[0]) if node.second else (over.params[0], types.DYN)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self._assignable(types.DYN, over)
            return types.DYN, types.DYN
        self._wrong(
            node.range,
            f"expression of type '{over.described()}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def _must_be(self, node: SyntaxNode, wanted: Type) -> None:
        if not self._assignable(wanted, self._type(node)):
            self._mismatch(node, wanted, self._type(node))


_OPTIONAL_SELECT: Final = Overload(
    "select_optional_field", "_?._", False, (types.DYN, types.STRING), types.DYN, ()
)


def _qualified(node: SyntaxNode) -> str | None:
    """`a.b.c` as a name, None if it is anything else."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])


def _literal_issues(checked: Checked) -> list[Issue]:
    """Mistakes in literals: durations, timestamps, patterns, formats, and lists of several types."""
    issues: list[Issue] = []
    exempt: set[int] = set()
    for node in walk(checked.root):
        if isinstance(node, Call):
            if node.function in _LITERAL_CHECKS and node.args and isinstance(node.args[0], Literal):
                value = node.args[0].value
                if not _LITERAL_CHECKS[node.function](value):
                    issues.append(Issue(node.args[0].offset, f"invalid {node.function} argument"))
            if node.function == "format":
                exempt.update(id(part) for part in walk(node))
                issues += _format_issues(node, checked)
        elif isinstance(node, ListNode) and id(node) not in exempt:
            issues += _mixed(checked, [(item, at in node.optional) for at, item in enumerate(node.items)])
        elif isinstance(node, MapNode) and id(node) not in exempt:
            issues += _mixed(checked, [(entry.key, False) for entry in node.entries])
            issues += _mixed(checked, [(entry.value, entry.optional) for entry in node.entries])
    return issues


def _mixed(checked: Checked, items: list[tuple[SyntaxNode, bool]]) -> list[Issue]:
    first: Type | None = None
    for node, optional in items:
        known = checked.type(node)
        known = known.params[0] if optional and known.params else known
        if first is None:
            first = known
        elif not types.equivalent(first, known):
            wrong = f"expected type '{first.described()}' but found '{known.described()}'"
            return [Issue(node.offset, wrong)]
    return []


def _format_issues(node: Call, checked: Checked) -> list[Issue]:
    if not (isinstance(node.target, Literal) and isinstance(node.target.value, str)):
        return []
    if len(node.args) != 1 or not isinstance(node.args[0], ListNode):
        return []
    try:
        used = check_format(node.target.value, node.args[0].items, checked.type)
    except FormatError as issue:
        return [Issue(issue.offset if issue.offset is not None else node.offset, str(issue))]
    given = len(node.args[0].items)
    if given > used:
        wrong = f"too many arguments supplied to string.format (expected {used}, got {given})"
        return [Issue(node.offset, wrong)]
    return []


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return True
    try:
        regexps.compile(value)
    except regexps.RegexpError:
        return False
    return True


_LITERAL_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "matches": _is_pattern,
    "duration": lambda value: not isinstance(values.to_duration(value), values.EvaluationFailure),
    "timestamp": lambda value: not isinstance(values.to_timestamp(value), values.EvaluationFailure),
}
