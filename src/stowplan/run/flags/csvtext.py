"""Lists on a command line: one line of comma-separated values, quoted where needed."""

from collections.abc import Iterable
from typing import Final

_SPECIAL: Final = frozenset(',"\r\n')


class _CsvError(ValueError):
    """Text that is no line of comma-separated values."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"parse error on line {line}, column {column}: {reason}")


def read_list(text: str) -> tuple[str, ...]:
    """The first line of values; no text, no values. Raises ValueError."""
    if not text:
        return ()
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.rstrip("\r")), None)
    if first is None:
        raise ValueError("EOF")
    rest = "\n".join(lines[first:])
    return tuple(_Line(rest, first + 1).fields())


def write_list(values: Iterable[str]) -> str:
    return ",".join(map(_written, values))


def _written(value: str) -> str:
    if not (_SPECIAL & set(value) or value == r"\." or value[:1].isspace()):
        return value
    return '"' + value.replace('"', '""') + '"'


class _Line:
    """One line, read from left to right; values in quotes may go on over line ends."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._at = 0
        self._line = line
        self._start = 0

    def fields(self) -> Iterable[str]:
        while True:
            yield self._quoted() if self._text.startswith('"', self._at) else self._plain()
            if not self._text.startswith(",", self._at):
                return
            self._at += 1

    def _plain(self) -> str:
        ends = (self._text.find(mark, self._at) for mark in ",\n")
        end = min((place for place in ends if place >= 0), default=len(self._text))
        value = self._text[self._at : end]
        if '"' in value:
            self._at += value.index('"')
            raise self._broken('bare " in non-quoted field')
        self._at = end
        last = not self._text.startswith(",", end)
        return value.removesuffix("\r") if last else value

    def _quoted(self) -> str:
        value = ""
        self._at += 1
        while True:
            end = self._text.find('"', self._at)
            if end < 0:
                self._skip(self._text[self._at :])
                raise self._broken('extraneous or missing " in quoted field')
            value += self._text[self._at : end]
            self._skip(self._text[self._at : end + 1])
            if self._text.startswith('"', self._at):
                value += '"'
                self._at += 1
                continue
            rest = self._text[self._at :]
            if not rest or rest[0] in ",\n" or rest.startswith("\r\n"):
                return value.replace("\r\n", "\n")
            self._at -= 1
            raise self._broken('extraneous or missing " in quoted field')

    def _skip(self, passed: str) -> None:
        self._line += passed.count("\n")
        self._at += len(passed)
        if "\n" in passed:
            self._start = self._at - (len(passed) - passed.rindex("\n") - 1)

    def _broken(self, reason: str) -> _CsvError:
        column = len(self._text[self._start : self._at].encode("utf-8", "surrogateescape")) + 1
        return _CsvError(self._line, column, reason)
