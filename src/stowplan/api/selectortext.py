"""The string syntax of label selectors: `app=web,tier in (a,b),!legacy`."""

from typing import Final, NamedTuple

from stowplan.api.fielderrors import aggregate
from stowplan.api.requirement import (
    DOES_NOT_EXIST,
    DOUBLE_EQUALS,
    EQUALS,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_EQUALS,
    NOT_IN,
    Requirement,
    key_field_errors,
    requirement_errors,
    sorted_requirement,
)

_SYMBOLS: Final = "=!(),><"
_BLANKS: Final = " \t\r\n"
_NOT_IN_WORDS: Final = _SYMBOLS + _BLANKS + "\0"
_END: Final = "end"
_WORD: Final = "identifier"
_FIXED: Final = frozenset((")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("))
_OPERATORS: Final = {
    "in": IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    ">": GREATER_THAN,
    "<": LESS_THAN,
    "notin": NOT_IN,
    "!=": NOT_EQUALS,
}


class SelectorError(ValueError):
    """A selector that cannot be read."""


class _Token(NamedTuple):
    kind: str
    text: str


def parse_requirements(text: str) -> list[Requirement]:
    """The requirements of a selector in the order written. Raises `SelectorError`."""
    return _Parser(_tokens(text)).requirements()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while True:
        while position < len(text) and text[position] in _BLANKS:
            position += 1
        if position == len(text) or text[position] == "\0":
            return [*tokens, _Token(_END, "")]
        read = _symbol if text[position] in _SYMBOLS else _word
        token, position = read(text, position)
        tokens.append(token)
        if text[position : position + 1] == "\0":
            position += 1


def _word(text: str, start: int) -> tuple[_Token, int]:
    end = start
    while end < len(text) and text[end] not in _NOT_IN_WORDS:
        end += 1
    word = text[start:end]
    return _Token(word if word in _FIXED else _WORD, word), end


def _symbol(text: str, start: int) -> tuple[_Token, int]:
    """The longest run of symbols from here that is an operator."""
    end = start + 1
    while end < len(text) and text[end] in _SYMBOLS and text[start : end + 1] in _FIXED:
        end += 1
    return _Token(text[start:end], text[start:end]), end


class _Parser:
    """Reads requirements from tokens; `in` and `notin` are words wherever no operator can stand."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            token = self._peek()
            if token.kind == _END:
                return found
            if token.kind not in (_WORD, "!"):
                raise SelectorError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token.kind == _END:
                return found
            if token.kind != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")
            token = self._peek()
            if token.kind not in (_WORD, "!"):
                raise SelectorError(f"found '{token.text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key, operator = self._key()
        values: set[str] = set()
        if operator is None:
            operator = self._operator()
            values = self._values() if operator in (IN, NOT_IN) else {self._value()}
        listed = sorted(values)
        errors = requirement_errors(key, operator, listed)
        if errors:
            raise SelectorError(aggregate(errors))
        return sorted_requirement(key, operator, listed)

    def _key(self) -> tuple[str, str | None]:
        """The key, and the operator if there is no binary one."""
        token = self._take()
        negated = token.kind == "!"
        if negated:
            token = self._take()
        if token.kind != _WORD:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        errors = key_field_errors(token.text, "<nil>")
        if errors:
            raise SelectorError(errors[0])
        if negated:
            return token.text, DOES_NOT_EXIST
        return token.text, EXISTS if self._peek().kind in (_END, ",") else None

    def _operator(self) -> str:
        token = self._take(word=False)
        if token.kind not in _OPERATORS:
            raise SelectorError(f"found '{token.text}', expected: in, notin, =, ==, !=, gt, lt")
        return _OPERATORS[token.kind]

    def _value(self) -> str:
        if self._peek().kind in (_END, ","):
            return ""
        token = self._take()
        if token.kind != _WORD:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return token.text

    def _values(self) -> set[str]:
        token = self._take()
        if token.kind != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        first = self._peek()
        if first.kind == ")":
            self._take()
            return {""}
        if first.kind not in (_WORD, ","):
            raise SelectorError(f"found '{first.text}', expected: ',', ')' or identifier")
        values = self._listed_values()
        if self._take().kind != ")":
            raise SelectorError(f"found '{first.text}', expected: ')'")
        return values

    def _listed_values(self) -> set[str]:
        """Words and commas up to the closing parenthesis; nothing between commas is the empty value."""
        values: set[str] = set()
        while True:
            token = self._take()
            if token.kind not in (_WORD, ","):
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")
            following = self._peek()
            if token.kind == _WORD:
                values.add(token.text)
                if following.kind == ")":
                    return values
                if following.kind != ",":
                    raise SelectorError(f"found '{following.text}', expected: ',' or ')'")
            else:
                if not values or following.kind in (")", ","):
                    values.add("")
                if following.kind == ")":
                    return values

    def _peek(self) -> _Token:
        return _as_word(self._tokens[self._next])

    def _take(self, word: bool = True) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return _as_word(token) if word else token


def _as_word(token: _Token) -> _Token:
    return _Token(_WORD, token.text) if token.kind in ("in", "notin") else token
