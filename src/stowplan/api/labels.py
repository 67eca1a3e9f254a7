"""Label selectors: requirements on labels, selectors made of them, and their string syntax.

Selectors are compiled once, matched often, and compare equal when they make the same demands.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from stowplan.api import fielderrors
from stowplan.api.fielderrors import aggregate
from stowplan.api.meta import LabelSelector
from stowplan.api.names import is_label_key, label_key_problems, label_value_problems
from stowplan.gocompat.numbers import parse_int64
from stowplan.gocompat.quoting import quote

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
_SELECTOR_OPERATORS: Final = frozenset((IN, NOT_IN, EXISTS, DOES_NOT_EXIST))


class SelectorError(ValueError):
    """A selector that cannot be read."""


class Requirement(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirement on one label. `values` is sorted, so equal requirements are equal and hash equal."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches_value(self, value: str | None) -> bool:
        """True if a label with this value (None: no such label) satisfies the requirement."""
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
        if len(self.values) <= 1:
            return self if operator == self.operator else Requirement(self.key, operator, self.values)
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
    return Requirement(key, operator, tuple(values if len(values) < 2 else sorted(values)))


def requirement_errors(key: str, operator: str, values: Sequence[str], path: str = "") -> list[str]:
    """Errors that make a requirement unusable, with the path of each field; empty if it is fine."""
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
    """True if a requirement has no errors: a quick check for the usual case."""
    if operator in (IN, NOT_IN):
        wrong = not values
    elif operator in (EXISTS, DOES_NOT_EXIST):
        wrong = bool(values)
    else:
        wrong = len(values) != 1 or (operator in (GREATER_THAN, LESS_THAN) and parse_int64(values[0]) is None)
    if wrong or not is_label_key(key):
        return False
    return not (
        label_value_problems(values[0]) if len(values) == 1 else any(map(label_value_problems, values))
    )


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


class Selector:
    """Requirements that are ANDed, ordered by key; or nothing at all. Never changed once it is made.

    Two selectors are equal when they make the same demands, however those were ordered or spelled.
    """

    __slots__ = ("_hash", "_identity", "_index", "nothing", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...] = (), nothing: bool = False) -> None:
        self.requirements = requirements
        self.nothing = nothing
        self._identity: frozenset[Requirement] | Requirement | None = None
        self._hash: int | None = None
        self._index: _Index | None = None

    def __repr__(self) -> str:
        return f"Selector({self.requirements!r}, nothing={self.nothing})"

    def _demands(self) -> frozenset[Requirement] | Requirement:
        """Key for comparisons: the only requirement, or the set of all of them."""
        identity = self._identity
        if identity is None:
            if len(self.requirements) == 1:
                identity = self.requirements[0].without_spelling()
            else:
                found = frozenset(demand.without_spelling() for demand in self.requirements)
                identity = next(iter(found)) if len(found) == 1 else found
            self._identity = identity
        return identity

    @property
    def is_empty(self) -> bool:
        """True if everything is selected because there are no requirements."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        if len(self.requirements) > _MANY:
            if self._index is None:
                self._index = _Index(self.requirements)
            return self._index.matches(labels)
        for demand in self.requirements:  # noqa: SIM110 - a plain loop is twice as fast here
            if not demand.matches_value(labels.get(demand.key)):
                return False
        return True

    def adding(self, other: "Selector") -> "Selector":
        """This selector with the demands of another; one that selects nothing has no demands to add."""
        if self.nothing or not other.requirements:
            return self
        return _by_key([*self.requirements, *other.requirements])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Selector) or self.nothing != other.nothing:
            return False
        return self.nothing or self._demands() == other._demands()

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = self._hash = hash((self.nothing, None if self.nothing else self._demands()))
        return known

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_MANY: Final = 16


class _Index:
    """Very many requirements by key, so that labels are looked at one by one and not the requirements."""

    __slots__ = ("_by_key", "_needed")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self._by_key: dict[str, list[Requirement]] = {}
        for demand in requirements:
            self._by_key.setdefault(demand.key, []).append(demand)
        self._needed = {demand.key for demand in requirements if not demand.matches_value(None)}

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._needed) > len(labels) or not self._needed <= labels.keys():
            return False
        return all(
            demand.matches_value(value)
            for key, value in labels.items()
            for demand in self._by_key.get(key, ())
        )


NOTHING: Final = Selector(nothing=True)
EVERYTHING: Final = Selector()


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a selector from an object: absent selects nothing, empty everything. Raises `SelectorError`."""
    if selector is None:
        return NOTHING
    labels = selector.match_labels
    if len(labels) == 1 and not selector.match_expressions:
        ((key, value),) = labels.items()
        return Selector((_equality(key, value),))
    found = [_equality(key, value) for key, value in sorted(labels.items())]
    for expression in selector.match_expressions:
        if expression.operator not in _SELECTOR_OPERATORS:
            raise SelectorError(f"{quote(expression.operator)} is not a valid label selector operator")
        found.append(_checked_requirement(expression.key, expression.operator, expression.values))
    return _by_key(found) if found else EVERYTHING


def selector_from_labels(labels: Mapping[str, str]) -> Selector:
    """Demand exactly these labels, unchecked; no labels select everything."""
    return _by_key([Requirement(key, EQUALS, (value,)) for key, value in labels.items()])


def parse_selector(text: str) -> Selector:
    """Compile a selector written as text, such as `app=web,tier in (a,b)`. Raises `SelectorError`."""
    return _by_key(parse_requirements(text))


def _equality(key: str, value: str) -> Requirement:
    if not is_label_key(key) or label_value_problems(value):
        return _checked_requirement(key, EQUALS, (value,))
    return Requirement(key, EQUALS, (value,))


def _checked_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = requirement_errors(key, operator, values)
    if errors:
        raise SelectorError(aggregate(errors))
    return sorted_requirement(key, operator, values)


def _by_key(requirements: list[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda demand: demand.key)))


_SYMBOLS: Final = "=!(),><"
_BLANKS: Final = " \t\r\n"
_NOT_IN_WORDS: Final = _SYMBOLS + _BLANKS + "\0"
_END: Final = "end"
_WORD: Final = "identifier"
_FIXED: Final = frozenset((")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("))
_TEXT_OPERATORS: Final = {
    "in": IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    ">": GREATER_THAN,
    "<": LESS_THAN,
    "notin": NOT_IN,
    "!=": NOT_EQUALS,
}


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
        read = _symbol_token if text[position] in _SYMBOLS else _word_token
        token, position = read(text, position)
        tokens.append(token)
        if text[position : position + 1] == "\0":
            position += 1


def _word_token(text: str, start: int) -> tuple[_Token, int]:
    end = start
    while end < len(text) and text[end] not in _NOT_IN_WORDS:
        end += 1
    word = text[start:end]
    return _Token(word if word in _FIXED else _WORD, word), end


def _symbol_token(text: str, start: int) -> tuple[_Token, int]:
    """The longest run of symbols from here that is an operator."""
    end = start + 1
    while end < len(text) and text[end] in _SYMBOLS and text[start : end + 1] in _FIXED:
        end += 1
    return _Token(text[start:end], text[start:end]), end


class _Parser:
    """Reads requirements from tokens; `in` and `notin` are words where no operator can stand."""

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
        if token.kind not in _TEXT_OPERATORS:
            raise SelectorError(f"found '{token.text}', expected: in, notin, =, ==, !=, gt, lt")
        return _TEXT_OPERATORS[token.kind]

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
