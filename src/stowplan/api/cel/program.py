"""Checked expressions made into functions: compiled once, evaluated as often as there are devices.

A node becomes a closure that takes the frame of an evaluation and gives a value, with what it costs added to
the frame. Selections and indexes are collected into one lookup (`Attribute`), as their cost is counted by
step. Constants are worked out at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stowplan.api.cel import cost, values
from stowplan.api.cel.checker import Checked
from stowplan.api.cel.cost import LIST_COST, MAP_COST, STRUCT_COST, CostRelease
from stowplan.api.cel.declarations import Overload
from stowplan.api.cel.functions import IMPLEMENTATIONS, contains, matches, sort_by_keys
from stowplan.api.cel.lookups import (
    Attribute,
    Conditional,
    Const,
    CostLimitError,
    LookupFrame,
    LookupPlan,
    Plain,
    Qualifier,
    Run,
)
from stowplan.api.cel.recursion import EXPRESSION, DeepStack
from stowplan.api.cel.syntax import (
    ACCUMULATOR,
    Call,
    CelError,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    StructNode,
    SyntaxNode,
    depth,
)
from stowplan.api.cel.types import Type
from stowplan.api.cel.values import NO_SUCH_OVERLOAD, EvaluationFailure, Map, Optional, Struct, UInt, Value
from stowplan.gocompat import regexps

LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
INTERRUPTED: Final = "operation interrupted"
_SHALLOW: Final = 40
"""Depth of nodes that can be evaluated at any depth of the caller's stack."""


class EvaluationOutcome(NamedTuple):
    """Result of an evaluation: a value (or a Failure), and its cost."""

    value: Value
    cost: int


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that can be evaluated."""

    run: Run
    variables: tuple[str, ...]
    slots: int
    is_deep: bool = False
    """True if evaluating it needs more room on the stack than there usually is."""

    def evaluate(
        self, variables: Mapping[str, Value], limit: int, work: int = values.MAX_WORK
    ) -> EvaluationOutcome:
        """The value of the expression. Never raises: what goes wrong is an `EvaluationFailure`.

        `limit` is what it may cost, `work` how many elements it may look at beyond that.
        """
        if not self.is_deep:
            return self._evaluate(variables, limit, work)
        with DeepStack(EXPRESSION):
            return self._evaluate(variables, limit, work)

    def _evaluate(self, variables: Mapping[str, Value], limit: int, work: int) -> EvaluationOutcome:
        slots: list[Value] = [variables[name] for name in self.variables]
        slots += [None] * (self.slots - len(slots))
        frame = LookupFrame(slots, limit)
        values.begin_work(work)
        try:
            return EvaluationOutcome(self.run(frame), frame.cost)
        except CostLimitError:
            return EvaluationOutcome(EvaluationFailure(LIMIT_EXCEEDED), frame.cost)
        except (values.WorkLimitError, RecursionError, MemoryError):
            return EvaluationOutcome(EvaluationFailure(INTERRUPTED), frame.cost)


def plan(checked: Checked, variables: Sequence[str], release: CostRelease) -> Program:
    """The program of an expression. Raises CelError if a constant part of it fails."""
    planner = _Planner(checked, variables, release)
    run = planner.plan(checked.root).run()
    return Program(run, tuple(variables), planner.slots, is_deep=depth(checked.root) > _SHALLOW)


class _Lazy:
    """The initial value of an accumulator, worked out when it is first asked for."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint")
)
_UNGUARDED: Final = frozenset(("contains", "endsWith", "startsWith", "flatten"))
_VARIADIC: Final = frozenset(
    (
        "string_format",
        "list_slice",
        "string_find_all_string_int",
        "string_index_of_string_int",
        "string_last_index_of_string_int",
        "string_replace_string_string",
        "string_replace_string_string_int",
        "string_split_string_int",
        "string_substring_int_int",
        "@mapInsert_map_key_value",
    )
)
"""Overloads that stop at the first argument that fails."""


class _Planner:
    def __init__(self, checked: Checked, variables: Sequence[str], release: CostRelease) -> None:
        self._checked = checked
        self._release = release
        self._scopes: dict[str, list[int]] = {name: [at] for at, name in enumerate(variables)}
        self.slots = len(variables)

    def plan(self, node: SyntaxNode) -> LookupPlan:
        constant = self._checked.constants.get(id(node))
        if constant is not None:
            return Const(constant)
        match node:
            case Literal():
                return Const(node.value)
            case Ident():
                return Attribute(self._variable(node.name))
            case Select() if (name := self._checked.names.get(id(node))) is not None:
                return Attribute(self._variable(name))
            case Select():
                qualifier = Qualifier(node.field, test=node.test)
                return self._attribute(node.operand).with_qualifier(qualifier)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)
        raise CelError(f"unexpected part of an expression: {type(node).__name__}")

    def _attribute(self, node: SyntaxNode) -> Attribute:
        plan = self.plan(node)
        return plan if isinstance(plan, Attribute) else Attribute(plan.run())

    def _variable(self, name: str) -> Run:
        slot = self._scopes[name.removeprefix(".")][-1]

        def run(frame: LookupFrame) -> Value:
            value = frame.slots[slot]
            if type(value) is _Lazy:
                value = frame.slots[slot] = value.run(frame)
            return value

        return run

    def _list(self, node: ListNode) -> LookupPlan:
        plans = [self.plan(item) for item in node.items]
        runs, optional = [plan.run() for plan in plans], node.optional

        def run(frame: LookupFrame) -> Value:
            items: list[Value] = []
            failed = False
            for at, item in enumerate(runs):
                value = item(frame)
                if type(value) is EvaluationFailure:
                    failed = True
                    break
                if at in optional:
                    if type(value) is not Optional:
                        value = EvaluationFailure(
                            "cannot initialize optional list element from non-optional value "
                            f"{values.shown(value)}"
                        )
                        failed = True
                        break
                    if not value.present:
                        continue
                    value = value.value
                items.append(value)
            frame.spend(LIST_COST)
            return value if failed else items

        return self._folded(plans, run)

    def _map(self, node: MapNode) -> LookupPlan:
        plans = [(self.plan(entry.key), self.plan(entry.value)) for entry in node.entries]
        runs = [
            (key.run(), value.run(), entry.optional)
            for (key, value), entry in zip(plans, node.entries, strict=True)
        ]

        def run(frame: LookupFrame) -> Value:
            made = Map()
            failure: EvaluationFailure | None = None
            for key_of, value_of, optional in runs:
                key = key_of(frame)
                if type(key) is EvaluationFailure:
                    failure = key
                    break
                value = value_of(frame)
                if type(value) is EvaluationFailure:
                    failure = value
                    break
                if optional:
                    if type(value) is not Optional:
                        failure = EvaluationFailure(
                            f"cannot initialize optional entry '{values.shown(key)}' from non-optional value "
                            f"{values.shown(value)}"
                        )
                        break
                    if not value.present:
                        continue
                    value = value.value
                made.insert(key, value)
            frame.spend(MAP_COST)
            return made if failure is None else failure

        return self._folded([one for pair in plans for one in pair], run)

    def _struct(self, node: StructNode) -> LookupPlan:
        made_type = node.name
        runs = [(one.name, self.plan(one.value).run(), one.optional) for one in node.fields]

        def run(frame: LookupFrame) -> Value:
            fields: dict[str, Value] = {}
            for name, value_of, optional in runs:
                value = value_of(frame)
                if type(value) is EvaluationFailure:
                    return value
                if optional:
                    if type(value) is not Optional:
                        shown = values.shown(value)
                        text = f"cannot initialize optional entry '{name}' from non-optional value {shown}"
                        return EvaluationFailure(text)
                    if not value.present:
                        continue
                    value = value.value
                fields[name] = value
            frame.spend(STRUCT_COST)
            return Struct.of(made_type, fields)

        return Plain(run)

    def _folded(self, parts: list[LookupPlan], run: Run) -> LookupPlan:
        """A list or map of constants is a constant."""
        if not all(isinstance(part, Const) for part in parts):
            return Plain(run)
        return Const(run(LookupFrame([], cost.MAX)))

    def _call(self, node: Call) -> LookupPlan:
        if node.function in ("_&&_", "_||_"):
            return self._logical(node)
        if node.function == "_?_:_":
            condition = self.plan(node.args[0]).run()
            return Conditional(condition, self._attribute(node.args[1]), self._attribute(node.args[2]))
        if node.function in ("_[_]", "_[?_]", "_?._"):
            return self._index(node)
        if node.function in ("or", "orValue"):
            return self._alternative(node)
        appended = self._appended(node)
        if appended is not None:
            return appended
        plans = [self.plan(operand) for operand in node.operands]
        overloads = self._checked.overloads[id(node)]
        overload = overloads[0].id if len(overloads) == 1 else ""
        if overload == "in_list" and isinstance(plans[1], Const):
            member = _membership(plans[0].run(), plans[1].value)
            if member is not None:
                return member
        runs = [plan.run() for plan in plans]
        spent = cost.actual(node.function, overload, self._release)
        implementation, variadic = self._implementation(node, overloads, plans)
        if variadic:
            run = _variadic_call(runs, implementation, spent)
        else:
            run = _strict_call(runs, implementation, spent, strict=node.function != "@not_strictly_false")
        if node.function in _CONVERSIONS and len(plans) == 1 and isinstance(plans[0], Const):
            return self._converted(run)
        return Plain(run)

    def _converted(self, run: Run) -> LookupPlan:
        value = run(LookupFrame([], cost.MAX))
        if type(value) is EvaluationFailure:
            raise CelError(value.message)
        return Const(value)

    def _implementation(
        self, node: Call, overloads: tuple[Overload, ...], plans: list[LookupPlan]
    ) -> tuple[Callable[..., Value], bool]:
        """Implementation of a call, and True if it stops at the first argument that fails."""
        if node.function in _OPERATORS:
            pattern = plans[1] if node.function == "matches" else None
            if isinstance(pattern, Const) and isinstance(pattern.value, str):
                return _matcher, True
            return _OPERATORS[node.function], False
        if node.function in ("find", "findAll") and isinstance(plans[1], Const):
            pattern = plans[1]
            if isinstance(pattern.value, str):
                try:
                    regexps.compile(pattern.value)
                except regexps.RegexpError as error:
                    raise CelError(str(error)) from None
                return _unguarded_find(IMPLEMENTATIONS[overloads[0].id]), True
        if len(overloads) == 1:
            only = overloads[0]
            return _guarded(node.function, (only,)), only.id in _VARIADIC
        return _guarded(node.function, overloads), True

    def _logical(self, node: Call) -> LookupPlan:
        decisive = node.function == "_||_"
        left, right = [self.plan(argument).run() for argument in node.args]

        def run(frame: LookupFrame) -> Value:
            first = left(frame)
            if first is decisive:
                return decisive
            second = right(frame)
            if second is decisive:
                return decisive
            for value in (first, second):
                if type(value) is not bool:
                    return value if type(value) is EvaluationFailure else NO_SUCH_OVERLOAD
            return not decisive

        return Plain(run)

    def _index(self, node: Call) -> LookupPlan:
        optional = node.function != "_[_]"
        plan = self.plan(node.args[1])
        if isinstance(plan, Const):
            qualifier = Qualifier(plan.value, optional=optional)
        elif isinstance(plan, Attribute):
            qualifier = Qualifier(key_of=plan.resolve(), optional=optional)
        else:
            qualifier = Qualifier(key_of=plan.run(), optional=optional)
        return self._attribute(node.args[0]).with_qualifier(qualifier)

    def _alternative(self, node: Call) -> LookupPlan:
        """`or` and `orValue`, which look at the alternative only if they need it."""
        left, right = [self.plan(operand).run() for operand in node.operands]
        unwrap = node.function == "orValue"

        def run(frame: LookupFrame) -> Value:
            value = left(frame)
            if type(value) is EvaluationFailure:
                return value
            if type(value) is not Optional:
                return NO_SUCH_OVERLOAD
            if not value.present:
                return right(frame)
            return value.value if unwrap else value

        return Plain(run)

    def _appended(self, node: Call) -> LookupPlan | None:
        """Steps of loops that make a list or map: nothing else uses the accumulator, so it grows in place."""
        first = node.args[0] if node.args else None
        if not isinstance(first, Ident) or first.name != ACCUMULATOR:
            return None
        accumulated = self.plan(first).run()
        if node.function == "_+_" and isinstance(node.args[1], ListNode):
            return Plain(_append(accumulated, self.plan(node.args[1]).run()))
        if node.function == "cel.@mapInsert":
            return Plain(_insert(accumulated, [self.plan(argument).run() for argument in node.args[1:]]))
        return None

    def _comprehension(self, node: Comprehension) -> LookupPlan:
        initial_plan = self.plan(node.initial)
        over = self.plan(node.range).run()
        accumulator = self._enter(node.accumulator)
        first = self._enter(node.variable)
        second = self._enter(node.second) if node.second else -1
        condition, step = self.plan(node.condition).run(), self.plan(node.step).run()
        self._leave(node.variable)
        if node.second:
            self._leave(node.second)
        result = self.plan(node.result).run()
        self._leave(node.accumulator)
        lazy = _Lazy(_fresh(initial_plan))
        if node.is_binding or (isinstance(node.range, ListNode) and not node.range.items):

            def bind(frame: LookupFrame) -> Value:
                frame.slots[accumulator] = lazy
                return result(frame)

            return Plain(bind)
        return Plain(_loop(over, lazy, (accumulator, first, second), condition, step, result))

    def _enter(self, name: str) -> int:
        slot = self.slots
        self.slots += 1
        self._scopes.setdefault(name, []).append(slot)
        return slot

    def _leave(self, name: str) -> None:
        self._scopes[name].pop()


def _fresh(plan: LookupPlan) -> Run:
    """The initial value of an accumulator; an empty list or map is a new one for every loop."""
    if isinstance(plan, Const) and plan.value == [] and type(plan.value) is list:
        return lambda frame: []
    if isinstance(plan, Const) and isinstance(plan.value, Map) and not len(plan.value):
        return lambda frame: Map()
    return plan.run()


def _loop(over: Run, lazy: _Lazy, slots: tuple[int, int, int], condition: Run, step: Run, result: Run) -> Run:
    accumulator, first, second = slots

    def run(frame: LookupFrame) -> Value:
        items = over(frame)
        kind = type(items)
        if kind is EvaluationFailure:
            return items
        if kind is not list and not isinstance(items, Map):
            if second >= 0:
                return EvaluationFailure(f"unsupported comprehension range type: {values.go_type(items)}")
            return EvaluationFailure(f"got '{values.go_type(items)}', expected iterable type")
        variables = frame.slots
        variables[accumulator] = lazy
        if second >= 0:
            pairs = enumerate(items) if kind is list else items.items()
            for variables[first], variables[second] in pairs:
                if condition(frame) is False:
                    break
                variables[accumulator] = step(frame)
        else:
            for variables[first] in items if kind is list else items.keys():
                if condition(frame) is False:
                    break
                variables[accumulator] = step(frame)
        return result(frame)

    return run


def _append(accumulated: Run, added: Run) -> Run:
    def run(frame: LookupFrame) -> Value:
        items = accumulated(frame)
        more = added(frame)
        frame.spend(1)
        if type(items) is list and type(more) is list:
            items.extend(more)
            return items
        return (
            items
            if type(items) is EvaluationFailure
            else more
            if type(more) is EvaluationFailure
            else NO_SUCH_OVERLOAD
        )

    return run


def _insert(accumulated: Run, parts: list[Run]) -> Run:
    def run(frame: LookupFrame) -> Value:
        target = accumulated(frame)
        found: list[Value] = []
        for at, part in enumerate(parts):
            value = part(frame)
            if type(value) is EvaluationFailure and at < len(parts) - 1:
                return value
            found.append(value)
        frame.spend(1)
        failure = next((one for one in (target, *found) if type(one) is EvaluationFailure), None)
        if failure is not None:
            return failure
        entries = [tuple(found)] if len(found) == 2 else list(found[0].items())
        for key, value in entries:
            if target.has(key):
                return EvaluationFailure(f"insert failed: key {values.shown(key)} already exists")
            target.insert(key, value)
        return target

    return run


_PRIMITIVE: Final = frozenset((bool, int, UInt, float, str))


def _membership(run: Run, items: list[Value]) -> LookupPlan | None:
    """`in` with a list of constants, which costs nothing; None if they cannot be put into a set."""
    if not items:
        return Const(False)
    if any(type(item) not in _PRIMITIVE for item in items):
        return None
    known = Map(iter([(item, True) for item in items]))

    def member(frame: LookupFrame) -> Value:
        value = run(frame)
        return value if type(value) is EvaluationFailure else known.has(value)

    return Plain(member)


def _strict_call(
    runs: list[Run], work: Callable[..., Value], spent: cost.Actual | int, *, strict: bool
) -> Run:
    """A call whose arguments are all worked out before one that failed counts."""
    if len(runs) == 2 and strict:
        return _binary_call(runs[0], runs[1], work, spent)

    def run(frame: LookupFrame) -> Value:
        args = [argument(frame) for argument in runs]
        result = next((one for one in args if type(one) is EvaluationFailure), None) if strict else None
        if result is None:
            result = work(*args)
        frame.spend(spent if isinstance(spent, int) else spent(args, result))
        return result

    return run


def _binary_call(left: Run, right: Run, work: Callable[..., Value], spent: cost.Actual | int) -> Run:
    def run(frame: LookupFrame) -> Value:
        first, second = left(frame), right(frame)
        if type(first) is EvaluationFailure:
            result = first
        elif type(second) is EvaluationFailure:
            result = second
        else:
            result = work(first, second)
        frame.cost += spent if type(spent) is int else spent((first, second), result)  # type: ignore[operator]
        if frame.cost > frame.limit:
            raise CostLimitError
        return result

    return run


def _variadic_call(runs: list[Run], work: Callable[..., Value], spent: cost.Actual | int) -> Run:
    """A call that ends, at no extra cost, with the first argument that fails, if it is not the last."""
    last = len(runs) - 1

    def run(frame: LookupFrame) -> Value:
        args: list[Value] = []
        failure: EvaluationFailure | None = None
        for at, argument in enumerate(runs):
            value = argument(frame)
            if type(value) is EvaluationFailure:
                if at < last:
                    return value
                failure = value
            args.append(value)
        result = work(*args) if failure is None else failure
        frame.spend(spent if isinstance(spent, int) else spent(args, result))
        return result

    return run


def _comparison(operator: str, accepted: tuple[int, ...]) -> Callable[[Value, Value], Value]:
    def compare(left: Value, right: Value) -> Value:
        if not values.is_ordered(left):
            return EvaluationFailure(f"no such overload: {operator}")
        order = values.compare(left, right)
        return order if type(order) is EvaluationFailure else order in accepted

    return compare


def _contained(item: Value, container: Value) -> Value:
    if type(container) is list:
        return contains(container, item)
    return container.has(item) if isinstance(container, Map) else NO_SUCH_OVERLOAD


def _size(value: Value) -> Value:
    size = values.size(value)
    return EvaluationFailure("no such overload: size") if size is None else size


def _matcher(text: Value, pattern: Value) -> Value:
    return matches(text, pattern) if type(text) is str else NO_SUCH_OVERLOAD


def _sorted(items: Value) -> Value:
    return sort_by_keys(items, items) if type(items) is list else EvaluationFailure("no such overload: sort")


_OPERATORS: Final[dict[str, Callable[..., Value]]] = {
    "_==_": values.equals,
    "_!=_": lambda left, right: values.equals(left, right) is not True,
    "_+_": values.add,
    "_-_": values.subtract,
    "_*_": values.multiply,
    "_/_": values.divide,
    "_%_": values.modulo,
    "-_": values.negate,
    "!_": lambda value: not value if type(value) is bool else NO_SUCH_OVERLOAD,
    "_<_": _comparison("_<_", (-1,)),
    "_<=_": _comparison("_<=_", (-1, 0)),
    "_>_": _comparison("_>_", (1,)),
    "_>=_": _comparison("_>=_", (1, 0)),
    "@in": _contained,
    "@not_strictly_false": lambda value: value if type(value) is bool else True,
    "size": _size,
    "type": values.type_of,
    "dyn": lambda value: value,
    "matches": matches,
    "sort": _sorted,
    "@sortByAssociatedKeys": sort_by_keys,
}
"""Functions that check the types of their arguments themselves, for all overloads."""


def _guarded(function: str, overloads: tuple[Overload, ...]) -> Callable[..., Value]:
    """The overload that goes with the arguments."""
    choices = [(one.args, IMPLEMENTATIONS[one.id]) for one in overloads]
    loose = function in _UNGUARDED
    text_only = loose and function != "flatten"

    def work(*args: Value) -> Value:
        if loose:
            if text_only and not all(type(one) is str for one in args):
                return NO_SUCH_OVERLOAD
            return choices[0][1](*args)
        for wanted, implementation in choices:
            if len(wanted) == len(args) and all(_fits(*pair) for pair in zip(wanted, args, strict=True)):
                return implementation(*args)
        given = ", ".join([values.type_name(one) for one in args])
        return EvaluationFailure(f"no such overload: {function}({given})")

    return work


def _unguarded_find(implementation: Callable[..., Value]) -> Callable[..., Value]:
    def work(text: Value, pattern: Value, *limit: Value) -> Value:
        if type(text) is not str or any(type(one) is not int for one in limit):
            return NO_SUCH_OVERLOAD
        return implementation(text, pattern, *limit)

    return work


def _fits(wanted: Type, value: Any) -> bool:
    """True if a value may be an argument of a type; a list or map is judged by its first element."""
    if wanted.is_dyn or wanted.kind == "param":
        return True
    if wanted.name != values.type_name(value):
        return False
    if wanted.kind == "list":
        return not value or _fits(wanted.params[0], value[0])
    if wanted.kind == "map" and len(value):
        key, item = next(value.items())
        return _fits(wanted.params[0], key) and _fits(wanted.params[1], item)
    return True
