"""The syntax of CEL expressions, and what a constant one evaluates to. Nothing is evaluated here.

Names and the types of fields are not checked, so an expression that is refused is refused by a real API
server too, but not the other way round.
"""

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<double>\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<text>(?P<prefix>[rRbB]{0,2})(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
  | (?P<name>[A-Za-z_]\w*|`[\w.\-/\ ]+`)
  | (?P<sign>==|!=|<=|>=|&&|\|\||[<>?:\[\]{}().,\-!*/%+])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERANDS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
_DEEPEST: Final = 100
_RELATIONS: Final = ("<", "<=", ">=", ">", "==", "!=", "in")
_BOOLEAN_CALLS: Final = ("has", "all", "exists", "exists_one")
_CONSTANTS: Final = {"true": "bool", "false": "bool", "null": "null_type"}


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


class _SyntaxProblemError(Exception):
    def __init__(self, token: _Token, text: str) -> None:
        super().__init__(text)
        self.place, self.text = token.place, text


def expression_problem(expression: str, *, boolean: bool = True) -> str:
    """What is wrong with an expression, which may have to be a condition; empty if nothing is."""
    tokens, problems = _tokens(expression)
    parser = _Parser(tokens)
    found = "dyn"
    try:
        found = parser.expression()
        parser.end()
    except _SyntaxProblemError as problem:
        problems.append((problem.place, problem.text))
    if problems:
        shown = "\n".join(_shown(expression, place, text) for place, text in problems)
        return f"compilation failed: {shown}"
    if boolean and found not in ("bool", "dyn"):
        return f"must evaluate to bool or the unknown type, not {found}"
    return ""


def _tokens(expression: str) -> tuple[list[_Token], list[tuple[int, str]]]:
    tokens: list[_Token] = []
    problems: list[tuple[int, str]] = []
    place = 0
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        if match is None:
            problems.append((place, f"token recognition error at: '{expression[place]}'"))
            place += 1
            continue
        kind = match.lastgroup or ""
        if kind == "prefix" or match["text"] is not None:
            kind = "bytes" if "b" in (match["prefix"] or "").lower() else "string"
        if kind != "space":
            tokens.append(_Token(kind, match[0], place))
        place = match.end()
    tokens.append(_Token("end", "<EOF>", len(expression)))
    return tokens, problems


def _shown(expression: str, place: int, text: str) -> str:
    line = expression.count("\n", 0, place)
    column = place - (expression.rfind("\n", 0, place) + 1)
    source = expression.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: Syntax error: {text}\n | {source}\n | {'.' * column}^"


class _Parser:
    """Reads an expression by CEL's grammar; every method gives the type of what it has read."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expression(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _SyntaxProblemError(self._next, "expression recursion limit exceeded")
        found = self._either()
        if self._takes("?"):
            yes = self._either()
            self._expect(":")
            no = self.expression()
            found = yes if yes == no else "dyn"
        self._depth -= 1
        return found

    def end(self) -> None:
        if self._next.kind != "end":
            raise _SyntaxProblemError(self._next, f"extraneous input '{self._next.text}' expecting <EOF>")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _takes(self, *texts: str) -> str:
        """The next token's text if it is one of these, which is read then."""
        token = self._next
        if token.kind in ("sign", "name") and token.text in texts:
            self._at += 1
            return token.text
        return ""

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise _SyntaxProblemError(self._next, f"mismatched input '{self._next.text}' expecting '{text}'")

    def _either(self) -> str:
        found = self._both()
        while self._takes("||"):
            self._both()
            found = "bool"
        return found

    def _both(self) -> str:
        found = self._relation()
        while self._takes("&&"):
            self._relation()
            found = "bool"
        return found

    def _relation(self) -> str:
        found = self._sum()
        while self._takes(*_RELATIONS):
            self._sum()
            found = "bool"
        return found

    def _sum(self) -> str:
        found = self._product()
        while self._takes("+", "-"):
            found = found if self._product() == found else "dyn"
        return found

    def _product(self) -> str:
        found = self._unary()
        while self._takes("*", "/", "%"):
            found = found if self._unary() == found else "dyn"
        return found

    def _unary(self) -> str:
        if self._takes("!"):
            while self._takes("!"):
                pass
            self._member()
            return "bool"
        while self._takes("-"):
            pass
        return self._member()

    def _member(self) -> str:
        found = self._primary()
        while True:
            if self._takes("."):
                self._takes("?")
                name = self._name()
                found = "bool" if self._arguments() and name in _BOOLEAN_CALLS else "dyn"
            elif self._takes("["):
                self._takes("?")
                self.expression()
                self._expect("]")
                found = "dyn"
            elif self._next.text == "{" and found == "dyn" and self._tokens[self._at - 1].kind == "name":
                self._entries(named=True)
            else:
                return found

    def _primary(self) -> str:
        token = self._next
        if token.kind in ("double", "uint", "int", "string", "bytes"):
            self._at += 1
            return token.kind
        if self._takes("("):
            found = self.expression()
            self._expect(")")
            return found
        if self._takes("["):
            self._items("]")
            return "list"
        if token.text == "{" and token.kind == "sign":
            self._entries(named=False)
            return "map"
        if token.kind == "sign" and token.text == ".":
            self._at += 1
        elif token.kind != "name" or token.text == "in":
            raise _SyntaxProblemError(token, f"mismatched input '{token.text}' expecting {_OPERANDS}")
        name = self._name()
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        return "bool" if self._arguments() and name in _BOOLEAN_CALLS else "dyn"

    def _name(self) -> str:
        token = self._next
        if token.kind != "name":
            raise _SyntaxProblemError(token, f"no viable alternative at input '{token.text}'")
        self._at += 1
        return token.text

    def _arguments(self) -> bool:
        if not self._takes("("):
            return False
        self._items(")")
        return True

    def _items(self, close: str) -> None:
        while not self._takes(close):
            self._takes("?")
            self.expression()
            if not self._takes(","):
                self._expect(close)
                return

    def _entries(self, *, named: bool) -> None:
        self._expect("{")
        while not self._takes("}"):
            self._takes("?")
            if named:
                self._name()
            else:
                self.expression()
            self._expect(":")
            self.expression()
            if not self._takes(","):
                self._expect("}")
                return
