"""The text of an expression: its tokens, the nodes it is parsed into, and errors that point into it.

Errors are written as cel-go writes them: line and column, the line of the text, and a mark below it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

MAX_SIZE: Final = 100_000
"""Characters of an expression; a longer one is refused."""

_MAX_SHOWN: Final = 16_384
_MAX_ERRORS: Final = 100


class CelError(Exception):
    """An expression that cannot be compiled; the message is the one of cel-go."""


class Issue(NamedTuple):
    """Error in an expression, and its place (None: nowhere in particular)."""

    offset: int | None
    message: str


def render(text: str, issues: Iterable[Issue]) -> str:
    """The issues in the order of the text, each with the line it is about."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    placed = []
    for issue in issues:
        if issue.offset is None or not text:
            placed.append((0 if issue.offset is None else 1, -1, issue.message))
            continue
        number = sum(1 for start in starts[1:] if start <= issue.offset)
        number = min(number, len(lines) - 1)
        placed.append((number + 1, issue.offset - starts[number], issue.message))
    placed.sort(key=lambda one: one[:2])
    shown = [_render(lines, *one) for one in placed[:_MAX_ERRORS]]
    if len(placed) > _MAX_ERRORS:
        shown.append(f"{len(placed) - _MAX_ERRORS} more errors were truncated")
    return "\n".join(shown)


def _render(lines: list[str], number: int, column: int, message: str) -> str:
    line = lines[number - 1].replace("\t", " ") if number > 0 else ""
    shown = f"ERROR: <input>:{number if number else -1}:{column + 1}: {message}"
    if column < 0 or len(line) > _MAX_SHOWN:
        return shown
    dots = "".join("." if one.isascii() else "\uff0e" for one in line[:column])
    mark = "^" if column >= len(line) or line[column].isascii() else "\uff3e"
    return f"{shown}\n | {line}\n | {dots}{mark}"


@dataclass(eq=False, slots=True)
class SyntaxNode:
    """A part of an expression. `offset` is where errors about it point to."""

    offset: int


@dataclass(eq=False, slots=True)
class Literal(SyntaxNode):
    value: Any


@dataclass(eq=False, slots=True)
class Ident(SyntaxNode):
    name: str


@dataclass(eq=False, slots=True)
class Select(SyntaxNode):
    """`operand.field`; with `test` it asks whether the field is there (`has()`)."""

    operand: SyntaxNode
    field: str
    test: bool = False


@dataclass(eq=False, slots=True)
class Call(SyntaxNode):
    """A function, an operator (`_+_`) or, with a target, a method."""

    function: str
    target: SyntaxNode | None
    args: list[SyntaxNode]

    @property
    def operands(self) -> list[SyntaxNode]:
        """Operands of the function, the target included."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListNode(SyntaxNode):
    items: list[SyntaxNode]
    optional: frozenset[int] = frozenset()


class MapEntry(NamedTuple):
    key: SyntaxNode
    value: SyntaxNode
    optional: bool


@dataclass(eq=False, slots=True)
class MapNode(SyntaxNode):
    entries: list[MapEntry]


class StructField(NamedTuple):
    offset: int
    name: str
    value: SyntaxNode
    optional: bool


@dataclass(eq=False, slots=True)
class StructNode(SyntaxNode):
    """`Name{field: value}`, for types that the environment can make."""

    name: str
    fields: list[StructField] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Comprehension(SyntaxNode):
    """The loop that macros such as `all` and `map` become; without a range it binds a variable."""

    range: SyntaxNode
    variable: str
    second: str
    accumulator: str
    initial: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode

    @property
    def is_binding(self) -> bool:
        return (
            isinstance(self.range, ListNode)
            and not self.range.items
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accumulator != ACCUMULATOR
        )


ACCUMULATOR: Final = "@result"


def children(node: SyntaxNode) -> list[SyntaxNode]:
    """The parts of a node, in the order of the text."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands
        case ListNode():
            return node.items
        case MapNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructNode():
            return [one.value for one in node.fields]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
    return []


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """A node and all nodes below it, each once (macros may use a part twice)."""
    waiting, seen = [node], set()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += reversed(children(current))


def depth(root: SyntaxNode) -> int:
    """Maximum depth of nested nodes."""
    known: dict[int, int] = {}
    waiting = [root]
    while waiting:
        below = children(waiting[-1])
        unknown = [child for child in below if id(child) not in known]
        if unknown:
            waiting += unknown
        else:
            known[id(waiting.pop())] = 1 + max((known[id(child)] for child in below), default=0)
    return known[id(root)]


class Token(NamedTuple):
    """`kind` is the text of an operator or word, or the name the grammar has for a class of tokens."""

    kind: str
    text: str
    offset: int


END: Final = "<EOF>"

_TRIPLE = r'"""(?:{0}|[^\\])*?"""|\'\'\'(?:{0}|[^\\])*?\'\'\''
_SINGLE = r'"(?:{0}|[^\\"\n\r])*"|\'(?:{0}|[^\\\'\n\r])*\''
_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_RAW = r"[rR]\"\"\"(?s:.*?)\"\"\"|[rR]\'\'\'(?s:.*?)\'\'\'|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'"
_STRING = "|".join((_RAW, _TRIPLE.replace("{0}", _ESCAPE), _SINGLE.replace("{0}", _ESCAPE)))

_TOKENS = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in {
            "HIDDEN": r"[\t \r\n\f]+|//[^\n]*",
            "BYTES": rf"[bB](?:{_STRING})",
            "STRING": _STRING,
            "NUM_FLOAT": r"[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+",
            "NUM_UINT": r"0x[0-9a-fA-F]+[uU]|[0-9]+[uU]",
            "NUM_INT": r"0x[0-9a-fA-F]+|[0-9]+",
            "IDENTIFIER": r"[A-Za-z_][A-Za-z0-9_]*",
            "ESC_IDENTIFIER": r"`[A-Za-z0-9_.\-/ ]+`",
            "OPERATOR": r"==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%]",
        }.items()
    )
)
_WORDS: Final = frozenset({"in", "true", "false", "null"})


def tokens(text: str, issues: list[Issue]) -> list[Token]:
    """The tokens of a text, with an end token; what is no token becomes an issue and is left out."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            length = _unrecognized(text, at)
            wrong = text[at : at + length].replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{wrong}'"))
            at += length
            continue
        kind = match.lastgroup or ""
        if kind != "HIDDEN":
            word = match[0]
            named = kind not in ("OPERATOR",) and not (kind == "IDENTIFIER" and word in _WORDS)
            found.append(Token(kind if named else word, word, at))
        at = match.end()
    found.append(Token(END, END, len(text)))
    return found


def _unrecognized(text: str, at: int) -> int:
    """Number of skipped characters: those that began a token, and the one that did not continue it."""
    first = text[at]
    if first in "&|=":
        return min(2, len(text) - at)
    if first in "\"'":
        end = at + 1
        while end < len(text) and text[end] not in "\r\n":
            end += 2 if text[end] == "\\" else 1
        return min(end, len(text)) - at
    return 1
