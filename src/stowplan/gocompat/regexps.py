"""Regular expressions as Go's `regexp` package has them (RE2): matched in time linear in the text.

Patterns come from users and texts from other users, so a pattern must never block the process: Python's `re`
backtracks and may take exponential time, and its syntax differs. Here a pattern becomes an automaton, and a
text is matched by following all of its alternatives at once. Features that RE2 lacks (lookaround, back
references) are refused with Go's message.

`Regexp.matches` (is there a match anywhere?) is all that validation needs; `find` returns the place.
"""

import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from stowplan.gocompat.caching import cached_by_text

MAX_STATES: Final = 20_000
"""States of an automaton; a pattern that needs more is refused."""

MAX_STEPS: Final = 500_000
"""States visited and characters read in one match; a text that needs more is not matched to its end."""

_MAX_LENGTH: Final = 2 * MAX_STATES
"""Characters of a pattern: parsing 300,000 only to find too many states took 4 s."""

_MAX_REPEAT: Final = 1000
_MAX_NESTING: Final = 250
_MAX_REMEMBERED: Final = 20_000


class RegexpError(ValueError):
    """A pattern that Go would not compile; the message is Go's."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


class TooCostlyError(Exception):
    """A match that takes more steps than are allowed."""


Test = Callable[[str], bool]


class CharClass(NamedTuple):
    """A set of characters: ranges, and tests for what has too many of them."""

    ranges: tuple[tuple[str, str], ...] = ()
    tests: tuple[Test, ...] = ()
    negated: bool = False
    fold: bool = False

    def has(self, character: str) -> bool:
        if self.fold:
            found = any(self._lists(one) for one in {character, character.lower(), character.upper()})
        else:
            found = self._lists(character)
        return found is not self.negated

    def _lists(self, character: str) -> bool:
        found = any(first <= character <= last for first, last in self.ranges)
        return found or any(test(character) for test in self.tests)


class PatternNode(NamedTuple):
    """A part of a pattern: `set`, `cat`, `alt`, `repeat` or `assert`."""

    kind: str
    parts: "tuple[PatternNode, ...]" = ()
    characters: CharClass = CharClass()
    least: int = 0
    most: int | None = None
    assertion: str = ""
    lazy: bool = False


_NOTHING: Final = PatternNode("cat")
_DIGITS: Final = (("0", "9"),)
_WORD: Final = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE: Final = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: Final = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "ascii": (("\0", "\x7f"),),
    "blank": (("\t", "\t"), (" ", " ")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": _DIGITS,
    "graph": (("!", "~"),),
    "lower": (("a", "z"),),
    "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": (("\t", "\r"), (" ", " ")),
    "upper": (("A", "Z"),),
    "word": _WORD,
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ASSERTIONS: Final = {"A": "begin-text", "z": "end-text", "b": "word", "B": "no-word"}
_CATEGORIES: Final = {
    "L": "ultmo",
    "M": "nce",
    "N": "dlo",
    "P": "cdseifo",
    "S": "mcko",
    "Z": "slp",
    "C": "cfos",
}
"""The general categories of Unicode, by their first letter."""


class _Flags(NamedTuple):
    fold: bool = False
    multiline: bool = False
    dot_newline: bool = False
    lazy: bool = False


class _Parser:
    """Reads a pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> PatternNode:
        node, _ = self._alternatives(_Flags())
        if self._at < len(self._text):
            raise RegexpError("unexpected )", self._text)
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) * found
        return found

    def _alternatives(self, flags: _Flags) -> tuple[PatternNode, _Flags]:
        branches = []
        while True:
            branch, flags = self._sequence(flags)
            branches.append(branch)
            if not self._take("|"):
                break
        return (branches[0] if len(branches) == 1 else PatternNode("alt", tuple(branches))), flags

    def _sequence(self, flags: _Flags) -> tuple[PatternNode, _Flags]:
        parts: list[PatternNode] = []
        while self._peek() not in ("", "|", ")"):
            start = self._at
            if self._peek() in "*+?" or self._repeat_count() is not None:
                self._at = start
                raise RegexpError("missing argument to repetition operator", self._operator_text())
            self._at = start
            if self._take("(?") and (changed := self._flag_group(flags, start)) is not None:
                flags = changed
                # An operator behind it is about what stands before it, as in Go.
                if parts:
                    parts[-1] = self._repeated(parts[-1], flags)
                continue
            self._at = start
            parts.append(self._repeated(self._atom(flags), flags))
        return (parts[0] if len(parts) == 1 else PatternNode("cat", tuple(parts))), flags

    def _repeated(self, node: PatternNode, flags: _Flags) -> PatternNode:
        before = ""
        while True:
            start = self._at
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
            if found is not None:
                self._at += 1
            else:
                found = self._repeat_count()
                if found is None:
                    self._at = start
                    return node
            lazy = self._take("?") is not flags.lazy
            text = self._text[start : self._at]
            if before:
                raise RegexpError("invalid nested repetition operator", before + text)
            least, most = found
            if least > _MAX_REPEAT or (most or 0) > _MAX_REPEAT or (most is not None and most < least):
                raise RegexpError("invalid repeat count", text)
            node, before = PatternNode("repeat", (node,), least=least, most=most, lazy=lazy), text

    def _repeat_count(self) -> "tuple[int, int | None] | None":
        """The bounds of `{2,5}`, None if that is not what stands here (then it is plain text)."""
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            return None
        self._at = end + 1
        least = min(int(low[:9]), _MAX_REPEAT + 1) if len(low) < 9 else _MAX_REPEAT + 1
        if not comma:
            return least, least
        return least, (None if not high else int(high) if len(high) < 9 else _MAX_REPEAT + 1)

    def _operator_text(self) -> str:
        start = self._at
        if self._repeat_count() is None:
            self._at += 1
        self._take("?")
        return self._text[start : self._at]

    def _flag_group(self, flags: _Flags, start: int) -> _Flags | None:
        """The flags after `(?i)`; None if a group begins here."""
        end = self._at
        while end < len(self._text) and self._text[end] in "imsU-":
            end += 1
        letters, after = self._text[self._at : end], self._text[end : end + 1]
        if after != ")" or letters.endswith("-") or letters.count("-") > 1:
            return None
        self._at = end + 1
        return _with_flags(flags, letters)

    def _atom(self, flags: _Flags) -> PatternNode:
        start = self._at
        character = self._text[start]
        self._at += 1
        match character:
            case "(":
                return self._group(flags, start)
            case "[":
                return PatternNode("set", characters=self._bracket(flags, start))
            case ".":
                newline = () if flags.dot_newline else (("\n", "\n"),)
                return PatternNode("set", characters=CharClass(newline, negated=True))
            case "^":
                return PatternNode("assert", assertion="begin-line" if flags.multiline else "begin-text")
            case "$":
                return PatternNode("assert", assertion="end-line" if flags.multiline else "end-text")
            case "\\":
                return self._escape(flags, start)
        return _literal(character, flags)

    def _group(self, flags: _Flags, start: int) -> PatternNode:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise RegexpError("expression nests too deeply", self._text)
        if self._take("?"):
            flags = self._group_head(flags, start)
        node, _ = self._alternatives(flags)
        if not self._take(")"):
            raise RegexpError("missing closing )", self._text)
        self._depth -= 1
        return node

    def _group_head(self, flags: _Flags, start: int) -> _Flags:
        if self._take("P<") or (self._text[self._at : self._at + 2] not in ("<=", "<!") and self._take("<")):
            end = self._text.find(">", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            if end < 0:
                raise RegexpError("invalid named capture", self._text[start:])
            if not name or not all(c.isascii() and (c.isalnum() or c == "_") for c in name):
                raise RegexpError("invalid named capture", self._text[start : end + 1])
            self._at = end + 1
            return flags
        end = self._at
        while end < len(self._text) and self._text[end] in "imsU-":
            end += 1
        letters = self._text[self._at : end]
        if self._text[end : end + 1] == ":" and not letters.endswith("-") and letters.count("-") < 2:
            self._at = end + 1
            return _with_flags(flags, letters)
        if end >= len(self._text):
            raise RegexpError("missing argument to repetition operator", "?")
        raise RegexpError("invalid or unsupported Perl syntax", self._text[start : end + 1])

    def _escape(self, flags: _Flags, start: int) -> PatternNode:
        if self._at >= len(self._text):
            raise RegexpError("trailing backslash at end of expression", "")
        character = self._text[self._at]
        if character in _ASSERTIONS:
            self._at += 1
            return PatternNode("assert", assertion=_ASSERTIONS[character])
        if self._take("Q"):
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
            self._at = len(self._text) if end < 0 else end + 2
            return PatternNode("cat", tuple(_literal(one, flags) for one in quoted))
        found = self._class_escape(flags)
        if found is not None:
            return PatternNode("set", characters=found)
        return _literal(self._character_escape(start), flags)

    def _class_escape(self, flags: _Flags) -> CharClass | None:
        """`\\d`, `\\W`, `\\p{L}` after the backslash, None if something else stands there."""
        start, character = self._at - 1, self._peek()
        if character.lower() in _PERL:
            self._at += 1
            return CharClass(_PERL[character.lower()], negated=character.isupper())
        if character not in ("p", "P"):
            return None
        self._at += 1
        if self._take("{"):
            end = self._text.find("}", self._at)
            if end < 0:
                raise RegexpError("invalid character class range", self._text[start:])
            name, self._at = self._text[self._at : end], end + 1
        else:
            name = self._peek()
            self._at += 1
        negated = (character == "P") is not name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return CharClass((("\0", "\U0010ffff"),), negated=negated)
        if name[:1] not in _CATEGORIES or name[1:] not in ("", *_CATEGORIES[name[:1]]):
            raise RegexpError("invalid character class range", self._text[start : self._at])
        return CharClass(tests=(_category(name),), negated=negated, fold=flags.fold)

    def _character_escape(self, start: int) -> str:
        character = self._peek()
        self._at += 1
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            return self._hexadecimal(start)
        if character and character in "01234567":
            if character != "0" and self._peek() not in tuple("01234567"):
                raise RegexpError("invalid escape sequence", self._text[start : self._at])
            digits = character
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._peek()
                self._at += 1
            return chr(int(digits, 8))
        if character and character.isascii() and not character.isalnum():
            return character
        raise RegexpError("invalid escape sequence", self._text[start : self._at])

    def _hexadecimal(self, start: int) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1 if end >= 0 else len(self._text)
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            digits = digits if len(digits) == 2 else ""
        if not digits or len(digits) > 6 or any(one not in "0123456789abcdefABCDEF" for one in digits):
            raise RegexpError("invalid escape sequence", self._text[start : self._at])
        if int(digits, 16) > 0x10FFFF:
            raise RegexpError("invalid escape sequence", self._text[start : self._at])
        return chr(int(digits, 16))

    def _bracket(self, flags: _Flags, start: int) -> CharClass:
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            if self._at >= len(self._text):
                raise RegexpError("missing closing ]", self._text[start:])
            first = False
            is_named = self._text.startswith("[:", self._at) and self._text.find(":]", self._at + 2) >= 0
            found = self._posix() if is_named else self._bracket_item(flags, start)
            if not isinstance(found, CharClass):
                ranges.append(found)
            elif found.negated or found.tests:
                tests.append(found.has)
            else:
                ranges += found.ranges
        self._at += 1
        return CharClass(tuple(ranges), tuple(tests), negated, flags.fold)

    def _posix(self) -> CharClass:
        """`[:alpha:]`. Without an end it is read as plain characters."""
        end = self._text.find(":]", self._at + 2)
        name = self._text[self._at + 2 : end]
        found = _POSIX.get(name.removeprefix("^"))
        if found is None:
            raise RegexpError("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        return CharClass(found, negated=name.startswith("^"))

    def _bracket_item(self, flags: _Flags, start: int) -> CharClass | tuple[str, str]:
        item = self._at
        if self._take("\\"):
            found = self._class_escape(flags)
            if found is not None:
                return found
            self._at = item
        low = self._bracket_character(start)
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low, low
        self._at += 1
        high = self._bracket_character(start)
        if high < low:
            raise RegexpError("invalid character class range", self._text[item : self._at])
        return low, high

    def _bracket_character(self, start: int) -> str:
        if self._at >= len(self._text):
            raise RegexpError("missing closing ]", self._text[start:])
        character = self._text[self._at]
        self._at += 1
        if character != "\\":
            return character
        if self._at >= len(self._text):
            raise RegexpError("trailing backslash at end of expression", "")
        return self._character_escape(self._at - 1)


def _with_flags(flags: _Flags, letters: str) -> _Flags:
    value = True
    for letter in letters:
        match letter:
            case "-":
                value = False
            case "i":
                flags = flags._replace(fold=value)
            case "m":
                flags = flags._replace(multiline=value)
            case "s":
                flags = flags._replace(dot_newline=value)
            case "U":
                flags = flags._replace(lazy=value)
    return flags


def _literal(character: str, flags: _Flags) -> PatternNode:
    return PatternNode("set", characters=CharClass(((character, character),), fold=flags.fold))


def _category(name: str) -> Test:
    return lambda character: unicodedata.category(character).startswith(name)


class _State(NamedTuple):
    """A state: it consumes a character of a set, or continues at once (under a condition)."""

    characters: CharClass | None
    assertion: str
    following: tuple[int, ...]


_ACCEPT: Final = 0


class _Builder:
    """Makes the automaton of a pattern, from its end to its beginning."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.states: list[_State] = [_State(None, "", ())]

    def add(self, characters: CharClass | None, assertion: str, following: Iterable[int]) -> int:
        if len(self.states) >= MAX_STATES:
            raise RegexpError("expression too large", self._pattern)
        self.states.append(_State(characters, assertion, tuple(following)))
        return len(self.states) - 1

    def build(self, node: PatternNode, end: int) -> int:
        """The first state of a part that is followed by the state `end`."""
        match node.kind:
            case "set":
                return self.add(node.characters, "", (end,))
            case "assert":
                return self.add(None, node.assertion, (end,))
            case "cat":
                for part in reversed(node.parts):
                    end = self.build(part, end)
                return end
            case "alt":
                return self.add(None, "", [self.build(part, end) for part in node.parts])
        return self._repeat(node, end)

    def _repeat(self, node: PatternNode, end: int) -> int:
        part, least, most = node.parts[0], node.least, node.most
        if most is None:
            loop = self.add(None, "", ())
            again = self.build(part, loop)
            self.states[loop] = _State(None, "", (end, again) if node.lazy else (again, end))
            start = loop
        else:
            start = end
            for _ in range(most - least):
                again = self.build(part, start)
                start = self.add(None, "", (end, again) if node.lazy else (again, end))
        for _ in range(least):
            start = self.build(part, start)
        return start


class Regexp:
    """A compiled pattern. Its automaton is built while matching and remembered, within limits."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        if len(pattern) > _MAX_LENGTH:
            raise RegexpError("expression too large", pattern)
        builder = _Builder(pattern)
        try:
            node = _Parser(pattern).parse()
            self._start = builder.build(node, _ACCEPT)
        except RecursionError:
            raise RegexpError("expression nests too deeply", pattern) from None
        self._states = builder.states
        self._initial = frozenset((self._start,))
        assertions = {state.assertion for state in self._states}
        self._looks_at_words = not assertions.isdisjoint(("word", "no-word"))
        self._looks_at_lines = not assertions.isdisjoint(("begin-line", "end-line"))
        self._closures: dict[tuple[frozenset[int], frozenset[str]], frozenset[int]] = {}
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._steps = 0

    def matches(self, text: str) -> bool:
        """True if the pattern matches anywhere in the text. Raises `TooCostlyError`."""
        self._steps = 0
        current = self._initial
        last = len(text)
        for at in range(last + 1):
            self._count(1)
            reached = self._closure(current, self._holding(text, at, last))
            if _ACCEPT in reached:
                return True
            if at < last:
                current = self._move(reached, text[at])
        return False

    def find(self, text: str, begin: int = 0) -> tuple[int, int] | None:
        """Where the first match begins and ends, as Go chooses among several. Raises `TooCostlyError`."""
        self._steps = 0
        return self._find(text, begin)

    def _find(self, text: str, begin: int) -> tuple[int, int] | None:
        """Alternatives are followed in the order of the pattern: the first to be through is the match."""
        best: tuple[int, int] | None = None
        current: list[tuple[int, int]] = []
        for at in range(begin, len(text) + 1):
            if best is None:
                current.append((self._start, at))
            found, waiting = self._preferred(current, self._holding(text, at, len(text)), at)
            best = found or best
            if not waiting and best is not None:
                break
            if at < len(text):
                current = [
                    (state.following[0], start)
                    for state, start in waiting
                    if state.characters is not None and state.characters.has(text[at])
                ]
        return best

    def _preferred(
        self, current: list[tuple[int, int]], holding: frozenset[str], at: int
    ) -> tuple[tuple[int, int] | None, list[tuple["_State", int]]]:
        """Successors of the states in order, up to the first accepting one, and where that began."""
        waiting: list[tuple[_State, int]] = []
        seen: set[int] = set()
        for first, start in current:
            ahead = [first]
            while ahead:
                number = ahead.pop()
                if number in seen:
                    continue
                seen.add(number)
                self._count(1)
                if number == _ACCEPT:
                    return (start, at), waiting
                state = self._states[number]
                if state.characters is not None:
                    waiting.append((state, start))
                elif not state.assertion or state.assertion in holding:
                    ahead += reversed(state.following)
        return None, waiting

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """All matches that do not overlap, or the first ones. Raises `TooCostlyError`.

        The steps of all of them count together: each may look at the rest of the text.
        """
        self._steps = 0
        found: list[str] = []
        at, before = 0, -1
        while at <= len(text) and len(found) != limit:
            match = self._find(text, at)
            if match is None:
                break
            start, end = match
            if start != end or start != before:
                found.append(text[start:end])
            before, at = end, end + (start == end)
        return found

    def _holding(self, text: str, at: int, last: int) -> frozenset[str]:
        """The assertions that hold at a place."""
        if 0 < at < last and not (self._looks_at_words or self._looks_at_lines):
            return _NO_ASSERTION
        holding = set()
        if at == 0:
            holding |= {"begin-text", "begin-line"}
        if at == last:
            holding |= {"end-text", "end-line"}
        if self._looks_at_lines:
            if at and text[at - 1] == "\n":
                holding.add("begin-line")
            if at < last and text[at] == "\n":
                holding.add("end-line")
        if self._looks_at_words:
            before, after = at > 0 and _is_word(text[at - 1]), at < last and _is_word(text[at])
            holding.add("word" if before is not after else "no-word")
        return frozenset(holding)

    def _closure(self, states: frozenset[int], holding: frozenset[str]) -> frozenset[int]:
        known = self._closures.get((states, holding))
        if known is not None:
            return known
        waiting, seen = list(states), set(states)
        while waiting:
            state = self._states[waiting.pop()]
            self._count(1)
            if state.characters is None and (not state.assertion or state.assertion in holding):
                new = [one for one in state.following if one not in seen]
                seen.update(new)
                waiting += new
        found = frozenset(seen)
        if len(self._closures) >= _MAX_REMEMBERED:
            self._closures.clear()
        self._closures[states, holding] = found
        return found

    def _move(self, states: frozenset[int], character: str) -> frozenset[int]:
        known = self._moves.get((states, character))
        if known is not None:
            return known
        self._count(len(states))
        found = frozenset(
            state.following[0]
            for state in map(self._states.__getitem__, states)
            if state.characters is not None and state.characters.has(character)
        ).union(self._initial)
        if len(self._moves) >= _MAX_REMEMBERED:
            self._moves.clear()
        self._moves[states, character] = found
        return found

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooCostlyError(f"matching takes more than {MAX_STEPS} steps")


_NO_ASSERTION: Final[frozenset[str]] = frozenset()


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


@cached_by_text(2048, longest=10_240)
def compile(pattern: str) -> Regexp:
    """The pattern, ready to be matched. Raises `RegexpError`."""
    return Regexp(pattern)
