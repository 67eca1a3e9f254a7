"""Log lines in klog's text form, taken apart again."""

import re
from dataclasses import dataclass

HEAD = re.compile(r"([IWEF])(\d{4}) (\d\d:\d\d:\d\d\.\d{6}) +(\d+) ([^ :\]]+):(\d+)\] (.*)", re.DOTALL)
_KEY = re.compile(r" ([^=\"]+?)=")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class Line:
    """One message: its parts as they are written. `message` is None if it is a line of plain text."""

    severity: str
    pid: int
    file: str
    number: int
    message: str | None
    text: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.values)


def entries(written: str) -> list[Line]:
    """The messages of a log. A line that begins with a tab or with ` >` belongs to the one before."""
    found: list[str] = []
    for line in written.split("\n")[:-1]:
        if line.startswith(("\t", " >")):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return [entry(one) for one in found]


def entry(line: str) -> Line:
    head = HEAD.fullmatch(line)
    assert head is not None, line
    severity, _, _, pid, file, number, rest = head.groups()
    quoted = _QUOTED.match(rest)
    if quoted is None:
        return Line(severity, int(pid), file, int(number), None, rest)
    message = quoted[0][1:-1]
    return Line(severity, int(pid), file, int(number), message, rest, _values(rest[quoted.end() :]))


def _values(rest: str) -> tuple[tuple[str, str], ...]:
    found = []
    while rest:
        key = _KEY.match(rest)
        assert key is not None, rest
        rest = rest[key.end() :]
        end = _end_of_value(rest)
        found.append((key[1], rest[:end]))
        rest = rest[end:]
    return tuple(found)


def _end_of_value(rest: str) -> int:
    """How long the value is that a text begins with."""
    if rest.startswith("<\n"):
        return rest.index("\n >") + 3
    at = depth = 0
    while at < len(rest):
        quoted = _QUOTED.match(rest, at)
        if quoted is not None:
            at = quoted.end()
            continue
        if rest[at] == " " and not depth:
            break
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(rest[at], 0)
        at += 1
    return at
