"""Macros: calls that stand for loops, tests and bindings, and are replaced by them while parsing."""

from collections.abc import Callable
from typing import Final

from stowplan.api.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    SyntaxNode,
)


class MacroError(Exception):
    """A macro with arguments it does not take."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset, self.message = offset, message


_Macro = Callable[[int, SyntaxNode | None, list[SyntaxNode]], SyntaxNode | None]
_UNUSED: Final = "#unused"
_SORT_INPUT: Final = "@__sortBy_input__"


def _variable(node: SyntaxNode, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, message)
    if node.name == "__result__":
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(args: list[SyntaxNode], two: bool, message: str) -> tuple[str, str, list[SyntaxNode]]:
    """The iteration variables and what follows them."""
    first = _variable(args[0], message)
    if not two:
        return first, "", args[1:]
    second = _variable(args[1], message)
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second, args[2:]


def _quantifier(kind: str, *, two: bool = False) -> _Macro:
    def expand(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
        first, second, (predicate,) = _variables(args, two, "argument must be a simple name")
        assert target is not None

        def accumulated() -> SyntaxNode:
            return Ident(offset, ACCUMULATOR)

        def call(function: str, *parts: SyntaxNode) -> SyntaxNode:
            return Call(offset, function, None, list(parts))

        result = accumulated()
        if kind == "all":
            initial: SyntaxNode = Literal(offset, True)
            condition = call("@not_strictly_false", accumulated())
            step = call("_&&_", accumulated(), predicate)
        elif kind == "exists":
            initial = Literal(offset, False)
            condition = call("@not_strictly_false", call("!_", accumulated()))
            step = call("_||_", accumulated(), predicate)
        else:
            initial, condition = Literal(offset, 0), Literal(offset, True)
            counted = call("_+_", accumulated(), Literal(offset, 1))
            step = call("_?_:_", predicate, counted, accumulated())
            result = call("_==_", accumulated(), Literal(offset, 1))
        return Comprehension(offset, target, first, second, ACCUMULATOR, initial, condition, step, result)

    return expand


def _transformed(*, two: bool = False, into_map: str = "") -> _Macro:
    """`map` and the `transform...` macros: every element (that passes a filter) becomes another one."""
    message = "argument must be a simple name" if two else "argument is not an identifier"

    def expand(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
        first, second, rest = _variables(args, two, message)
        assert target is not None
        accumulated = Ident(offset, ACCUMULATOR)
        initial: SyntaxNode = MapNode(offset, []) if into_map else ListNode(offset, [])
        if into_map == "value":
            step = Call(offset, "cel.@mapInsert", None, [accumulated, Ident(offset, first), rest[-1]])
        elif into_map:
            step = Call(offset, "cel.@mapInsert", None, [accumulated, rest[-1]])
        else:
            step = Call(offset, "_+_", None, [accumulated, ListNode(offset, [rest[-1]])])
        return _loop(offset, target, (first, second), initial, step, rest[:-1])

    return expand


def _filter(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    first, second, (predicate,) = _variables(args, False, "argument is not an identifier")
    assert target is not None
    kept = ListNode(offset, [Ident(args[0].offset, first)])
    step = Call(offset, "_+_", None, [Ident(offset, ACCUMULATOR), kept])
    return _loop(offset, target, (first, second), ListNode(offset, []), step, [predicate])


def _loop(
    offset: int,
    target: SyntaxNode,
    variables: tuple[str, str],
    initial: SyntaxNode,
    step: SyntaxNode,
    predicate: list[SyntaxNode],
) -> SyntaxNode:
    if predicate:
        step = Call(offset, "_?_:_", None, [predicate[0], step, Ident(offset, ACCUMULATOR)])
    condition, result = Literal(offset, True), Ident(offset, ACCUMULATOR)
    return Comprehension(offset, target, *variables, ACCUMULATOR, initial, condition, step, result)


def _has(offset: int, _: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    argument = args[0]
    if not isinstance(argument, Select):
        raise MacroError(argument.offset, "invalid argument to has() macro")
    return Select(offset, argument.operand, argument.field, test=True)


def _binding(offset: int, name: str, value: SyntaxNode, result: SyntaxNode) -> SyntaxNode:
    condition = Literal(offset, False)
    step = Ident(offset, name)
    return Comprehension(offset, ListNode(offset, []), _UNUSED, "", name, value, condition, step, result)


def _bind(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, "cel.bind() variable names must be simple identifiers")
    return _binding(offset, args[0].name, args[1], args[2])


def _optional_map(*, flat: bool) -> _Macro:
    def expand(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
        if not isinstance(args[0], Ident):
            name = "optFlatMap" if flat else "optMap"
            raise MacroError(args[0].offset, f"{name}() variable name must be a simple identifier")
        assert target is not None
        bound = _binding(offset, args[0].name, Call(offset, "value", target, []), args[1])
        mapped = bound if flat else Call(offset, "optional.of", None, [bound])
        present = Call(offset, "hasValue", target, [])
        return Call(offset, "_?_:_", None, [present, mapped, Call(offset, "optional.none", None, [])])

    return expand


def _sort_by(offset: int, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    assert target is not None
    if isinstance(target, Literal | MapNode):
        wrong = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.offset, wrong)
    keys = _transformed()(offset, Ident(offset, _SORT_INPUT), args)
    assert keys is not None
    ordered = Call(offset, "@sortByAssociatedKeys", Ident(offset, _SORT_INPUT), [keys])
    return _binding(offset, _SORT_INPUT, target, ordered)


MACROS: Final[dict[tuple[str, int, bool], _Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier("all"),
    ("exists", 2, True): _quantifier("exists"),
    ("exists_one", 2, True): _quantifier("exists_one"),
    ("existsOne", 2, True): _quantifier("exists_one"),
    ("all", 3, True): _quantifier("all", two=True),
    ("exists", 3, True): _quantifier("exists", two=True),
    ("exists_one", 3, True): _quantifier("exists_one", two=True),
    ("existsOne", 3, True): _quantifier("exists_one", two=True),
    ("map", 2, True): _transformed(),
    ("map", 3, True): _transformed(),
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transformed(two=True),
    ("transformList", 4, True): _transformed(two=True),
    ("transformMap", 3, True): _transformed(two=True, into_map="value"),
    ("transformMap", 4, True): _transformed(two=True, into_map="value"),
    ("transformMapEntry", 3, True): _transformed(two=True, into_map="entry"),
    ("transformMapEntry", 4, True): _transformed(two=True, into_map="entry"),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map(flat=False),
    ("optFlatMap", 2, True): _optional_map(flat=True),
    ("sortBy", 2, True): _sort_by,
}
