"""Expressions parsed into nodes: the grammar of CEL, with the macros expanded.

Syntax errors have the words of upstream's generated parser for the mistakes people make (something missing,
something too much); after the first few it does not guess how the text might go on.
"""

from collections.abc import Callable
from typing import Final

from stowplan.api.cel.macros import MACROS, MacroError
from stowplan.api.cel.syntax import (
    END,
    MAX_SIZE,
    Call,
    Ident,
    Issue,
    ListNode,
    Literal,
    MapEntry,
    MapNode,
    Select,
    StructField,
    StructNode,
    SyntaxNode,
    Token,
    children,
    tokens,
)
from stowplan.api.cel.values import UInt
from stowplan.gocompat.numbers import fits_int64

MAX_DEPTH: Final = 250
"""How deep expressions may nest."""

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_STARTS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
_STARTING: Final = frozenset(
    [
        "[",
        "{",
        "(",
        ".",
        "-",
        "!",
        "true",
        "false",
        "null",
        "NUM_FLOAT",
        "NUM_INT",
        "NUM_UINT",
        "STRING",
        "BYTES",
        "IDENTIFIER",
    ]
)
_CONTINUING: Final = frozenset(
    (".", "[", "*", "/", "%", "+", "-", "<", "<=", ">=", ">", "==", "!=", "in", "&&", "||")
)
"""Tokens that may follow any complete operand."""
_AFTER_NESTED: Final = frozenset(")")
_AFTER_INDEX: Final = frozenset("]")
_AFTER_ARGUMENT: Final = frozenset(",)")
_AFTER_ITEM: Final = frozenset(",]")
_AFTER_KEY: Final = frozenset(":")
_AFTER_VALUE: Final = frozenset(",}")
_RELATIONS: Final = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
_LEVELS: Final[tuple[frozenset[str], ...]] = (_RELATIONS, frozenset("+-"), frozenset("*/%"))
_FUNCTIONS: Final = {"in": "@in"}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)


class _StopError(Exception):
    """The text cannot be parsed any further; the issue is noted."""


def parse(text: str) -> tuple[SyntaxNode | None, list[Issue]]:
    """The expression, or None and what is wrong with the text."""
    if len(text) > MAX_SIZE:
        wrong = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_SIZE}"
        return None, [Issue(None, wrong)]
    issues: list[Issue] = []
    parser = _Parser(text, issues)
    try:
        node = parser.parse()
    except _StopError:
        return None, issues
    return (None if issues else node), issues


class _Parser:
    def __init__(self, text: str, issues: list[Issue]) -> None:
        self._issues = issues
        self._tokens = tokens(text, issues)
        self._at = 0
        self._after: frozenset[str] = frozenset()
        """Tokens that may follow the expression that is being parsed, beside operators."""
        self._missed_at = -1
        """Where a token was missing: until another one fits, further errors there are not reported."""

    def parse(self) -> SyntaxNode:
        if _nesting(self._tokens) >= MAX_DEPTH:
            self._fail(None, f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self._expr(frozenset((END,)))
        if self._next.kind != END:
            self._mismatch(END)
        if not self._issues:
            self._check_depth(node)
        return node

    def _check_depth(self, root: SyntaxNode) -> None:
        """Refuse chains of operators and selections that are too long to be worked on recursively."""
        waiting, seen = [(root, 1)], {id(root)}
        while waiting:
            node, counted = waiting.pop()
            if counted > MAX_DEPTH:
                self._fail(None, "max recursion depth exceeded")
            for child in children(node):
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append((child, counted + _is_counted(child)))

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str) -> Token | None:
        token = self._tokens[self._at]
        if token.kind != kind:
            return None
        self._at += 1
        return token

    def _need(self, kind: str, others: tuple[str, ...] = ()) -> Token:
        """The token, which must be there; `others` would be possible in its place."""
        return self._take(kind) or self._mismatch(kind, others)

    def _close(self, kind: str) -> Token:
        """The closing token of an operand. It is only missing if the next token may follow it."""
        token = self._take(kind)
        if token is not None:
            return token
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if following.kind == kind or self._next.kind not in _CONTINUING | self._after:
            return self._mismatch(kind)
        if self._missed_at != self._at:
            self._missed_at = self._at
            self._wrong(self._next.offset, f"Syntax error: missing '{kind}' at '{self._next.text}'")
        return self._next

    def _mismatch(self, kind: str, others: tuple[str, ...] = ()) -> Token:
        """Report an unexpected token. A single extra token is skipped."""
        token = self._next
        wanted = kind if kind == END or kind.isupper() else f"'{kind}'"
        if others:
            wanted = f"{{{wanted}, {', '.join(repr(other) for other in others)}}}"
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind != END and following.kind in (kind, *others):
            self._wrong(token.offset, f"Syntax error: extraneous input '{token.text}' expecting {wanted}")
            self._at += 1
            return self._need(kind, others)
        if self._missed_at == self._at:
            raise _StopError
        self._fail(token.offset, f"Syntax error: mismatched input '{token.text}' expecting {wanted}")
        raise AssertionError

    def _wrong(self, offset: int | None, message: str) -> None:
        self._issues.append(Issue(offset, message))

    def _fail(self, offset: int | None, message: str) -> None:
        self._wrong(offset, message)
        raise _StopError

    def _expr(self, after: frozenset[str]) -> SyntaxNode:
        outer, self._after = self._after, after | {"?"}
        condition = self._logical("||", self._and)
        question = self._take("?")
        if question is not None:
            self._after = _AFTER_KEY
            true = self._logical("||", self._and)
            self._need(":")
            false = self._expr(after)
            condition = Call(question.offset, "_?_:_", None, [condition, true, false])
        self._after = outer
        return condition

    def _and(self) -> SyntaxNode:
        return self._logical("&&", self._relation)

    def _relation(self) -> SyntaxNode:
        return self._binary(0)

    def _logical(self, operator: str, part: Callable[[], SyntaxNode]) -> SyntaxNode:
        terms, offsets = [part()], []
        while (token := self._take(operator)) is not None:
            offsets.append(token.offset)
            terms.append(part())
        return _balanced(f"_{operator}_", terms, offsets, 0, len(offsets) - 1) if offsets else terms[0]

    def _binary(self, level: int) -> SyntaxNode:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        while self._next.kind in _LEVELS[level]:
            token = self._next
            self._at += 1
            right = self._binary(level + 1)
            function = _FUNCTIONS.get(token.kind, f"_{token.kind}_")
            node = Call(token.offset, function, None, [node, right])
        return node

    def _unary(self) -> SyntaxNode:
        token = self._next
        if token.kind not in ("!", "-"):
            return self._member()
        following = self._tokens[self._at + 1].kind
        if token.kind == "-" and following in ("NUM_INT", "NUM_FLOAT"):
            return self._member()
        count = 0
        while self._next.kind == token.kind:
            count += 1
            self._at += 1
        if self._next.kind not in _STARTING or self._next.kind in "!-":
            wrong = f"extraneous input '{self._next.text}' expecting {_STARTS}"
            self._fail(self._next.offset, f"Syntax error: {wrong}")
        node = self._member()
        return Call(token.offset, f"{token.kind}_", None, [node]) if count % 2 else node

    def _member(self) -> SyntaxNode:
        node = self._primary()
        while True:
            if (token := self._take(".")) is not None:
                node = self._selected(node, token)
            elif (token := self._take("[")) is not None:
                function = "_[?_]" if self._take("?") else "_[_]"
                index = self._expr(_AFTER_INDEX)
                self._close("]")
                node = Call(token.offset, function, None, [node, index])
            else:
                return node

    def _selected(self, node: SyntaxNode, dot: Token) -> SyntaxNode:
        optional = self._take("?") is not None
        if self._next.kind == "ESC_IDENTIFIER":
            self._fail(self._next.offset, "unsupported syntax: '`'")
        if self._next.kind in ("true", "false", "null"):
            word = self._next
            self._fail(word.offset, f"Syntax error: mismatched input '{word.text}' expecting IDENTIFIER")
        name = self._need("IDENTIFIER")
        if optional:
            return Call(dot.offset, "_?._", None, [node, Literal(name.offset, name.text)])
        if (opening := self._take("(")) is not None:
            return self._call(opening.offset, name.text, node)
        return Select(dot.offset, node, name.text)

    def _call(self, offset: int, function: str, target: SyntaxNode | None) -> SyntaxNode:
        args: list[SyntaxNode] = []
        if not self._take(")"):
            args.append(self._expr(_AFTER_ARGUMENT))
            while self._take(","):
                args.append(self._expr(_AFTER_ARGUMENT))
            self._close(")")
        macro = MACROS.get((function, len(args), target is not None))
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as error:
                self._wrong(error.offset, error.message)
                return Literal(offset, None)
            if expanded is not None:
                return expanded
        return Call(offset, function, target, args)

    def _primary(self) -> SyntaxNode:
        token = self._next
        if token.kind not in _STARTING:
            following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            if token.kind == END or following.kind not in _STARTING:
                wrong = f"Syntax error: mismatched input '{token.text}' expecting {_STARTS}"
                self._fail(token.offset, wrong)
            self._wrong(token.offset, f"Syntax error: extraneous input '{token.text}' expecting {_STARTS}")
            self._at += 1
            return self._unary()
        self._at += 1
        match token.kind:
            case "(":
                node = self._expr(_AFTER_NESTED)
                self._close(")")
                return node
            case "[":
                return self._list(token)
            case "{":
                return MapNode(token.offset, self._entries())
            case ".":
                return self._named(self._need("IDENTIFIER"), ".")
            case "IDENTIFIER":
                return self._named(token, "")
            case "-":
                number = self._next
                self._at += 1
                return self._number(token.offset, number.kind, f"-{number.text}")
            case "true" | "false" | "null":
                return Literal(token.offset, {"true": True, "false": False}.get(token.kind))
            case "STRING":
                return Literal(token.offset, self._string(token.offset, token.text))
            case "BYTES":
                return Literal(token.offset, self._bytes(token.offset, token.text[1:]))
        return self._number(token.offset, token.kind, token.text)

    def _named(self, token: Token, dot: str) -> SyntaxNode:
        opening = self._take("(")
        if token.text in _RESERVED:
            self._wrong(token.offset, f"reserved identifier: {token.text}")
        if opening is not None:
            return self._call(opening.offset, dot + token.text, None)
        return self._struct(token, dot) or Ident(token.offset, dot + token.text)

    def _struct(self, token: Token, dot: str) -> SyntaxNode | None:
        """`a.b.C{...}`, which only its opening brace tells from a selection."""
        at, name = self._at, dot + token.text
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "IDENTIFIER":
            name += f".{self._tokens[at + 1].text}"
            at += 2
        if self._tokens[at].kind != "{":
            return None
        offset, self._at = self._tokens[at].offset, at + 1
        fields: list[StructField] = []
        while not self._take("}"):
            optional = self._take("?") is not None
            field = self._need("IDENTIFIER")
            colon = self._need(":")
            fields.append(StructField(colon.offset, field.text, self._expr(_AFTER_VALUE), optional))
            if not self._take(","):
                self._need("}", (",",))
                break
        return StructNode(offset, name, fields)

    def _list(self, opening: Token) -> SyntaxNode:
        items: list[SyntaxNode] = []
        optional: set[int] = set()
        while not self._take("]"):
            if self._take("?"):
                optional.add(len(items))
            items.append(self._expr(_AFTER_ITEM))
            if not self._take(","):
                self._need("]", (",",))
                break
        return ListNode(opening.offset, items, frozenset(optional))

    def _entries(self) -> list[MapEntry]:
        entries: list[MapEntry] = []
        while not self._take("}"):
            optional = self._take("?") is not None
            key = self._expr(_AFTER_KEY)
            self._need(":")
            entries.append(MapEntry(key, self._expr(_AFTER_VALUE), optional))
            if not self._take(","):
                self._need("}", (",",))
                break
        return entries

    def _number(self, offset: int, kind: str, text: str) -> SyntaxNode:
        if kind == "NUM_FLOAT":
            number = float(text)
            if number in (float("inf"), float("-inf")):
                self._fail(offset, "invalid double literal")
            return Literal(offset, number)
        unsigned = kind == "NUM_UINT"
        digits = text[:-1] if unsigned else text
        plain = digits.removeprefix("-")
        if len(plain) > 40:
            self._fail(offset, f"invalid {'uint' if unsigned else 'int'} literal")
        value = int(plain, 16) if plain.startswith("0x") else int(plain)
        value = -value if digits.startswith("-") else value
        if unsigned and value >= 2**64:
            self._fail(offset, "invalid uint literal")
        if not unsigned and not fits_int64(value):
            self._fail(offset, "invalid int literal")
        return Literal(offset, UInt(value) if unsigned else value)

    def _string(self, offset: int, text: str) -> str:
        content = _content(text)
        if content is not None:
            return content
        try:
            return "".join(chr(one) for one, _ in _unescaped(_quoted(text), is_bytes=False))
        except ValueError as error:
            self._wrong(offset, str(error))
            return ""

    def _bytes(self, offset: int, text: str) -> bytes:
        content = _content(text)
        if content is not None:
            return content.encode("utf-8", "surrogatepass")
        try:
            parts = _unescaped(_quoted(text), is_bytes=True)
            return b"".join(bytes((one,)) if is_byte else chr(one).encode() for one, is_byte in parts)
        except ValueError as error:
            self._wrong(offset, str(error))
            return b""


def _nesting(found: list[Token]) -> int:
    depth = deepest = 0
    for token in found:
        if token.kind in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif token.kind in _CLOSING:
            depth -= 1
        elif token.kind == "?":
            deepest += 1
    return deepest


def _is_counted(node: SyntaxNode) -> bool:
    if isinstance(node, Call):
        return node.function not in ("_&&_", "_||_", "!_", "-_")
    return isinstance(node, Select)


def _balanced(function: str, terms: list[SyntaxNode], offsets: list[int], low: int, high: int) -> SyntaxNode:
    """A chain of `&&` or `||` as a tree of the least depth."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, offsets, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, offsets, middle + 1, high)
    return Call(offsets[middle], function, None, [left, right])


def _quoted(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width]


def _content(text: str) -> str | None:
    """Content of a literal without escapes; None if it has any."""
    raw = text[:1] in ("r", "R")
    inner = _quoted(text[1:] if raw else text)
    return inner if raw or "\\" not in inner else None


_PLAIN_ESCAPES: Final = {
    "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "`": 96, "?": 63,
}  # fmt: skip


def _unescaped(text: str, *, is_bytes: bool) -> list[tuple[int, bool]]:
    """Code points, each with whether it stands for a single byte."""
    found: list[tuple[int, bool]] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            found.append((ord(text[at]), False))
            at += 1
            continue
        kind = text[at + 1]
        at += 2
        if kind in _PLAIN_ESCAPES:
            found.append((_PLAIN_ESCAPES[kind], False))
            continue
        length = {"x": 2, "X": 2, "u": 4, "U": 8}.get(kind)
        if length is None:
            value, at = int(text[at - 1 : at + 2], 8), at + 2
        else:
            if is_bytes and length > 2:
                raise ValueError("unable to unescape string")
            value, at = int(text[at : at + length], 16), at + length
        if not is_bytes and (value > 0x10FFFF or 0xD800 <= value <= 0xDFFF):
            raise ValueError("invalid unicode code point")
        found.append((value & 0xFF if is_bytes else value, is_bytes))
    return found
