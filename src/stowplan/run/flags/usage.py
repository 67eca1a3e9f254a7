"""The help: every flag in its group, wrapped to the width of a terminal if there is one."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from stowplan.gocompat.quoting import quote
from stowplan.run.flags.flag import Flag, Group

PROGRAM: Final = "stowplan run"
_ABOUT: Final = (
    "stowplan run takes kube-scheduler's place on a cluster: it watches pods that have no node yet and binds",
    "each to the best one. It reads the same configuration file and the same flags, holds the same lease and",
    "serves the same pages; several instances, or several schedulers under different names, get along.",
)
_INDENT: Final = 16
_NARROW: Final = 24


def help_text(groups: Iterable[Group], width: int = 0) -> str:
    """What this is, and the usage."""
    about = "\n".join(_ABOUT) if not width else textwrap.fill(" ".join(_ABOUT), max(width, _NARROW))
    return f"{about}\n\n{usage_text(groups, width)}"


def usage_text(groups: Iterable[Group], width: int = 0) -> str:
    """All flags by group. Width 0: no wrapping, the sentences beside the flags."""
    parts = [f"Usage:\n  {PROGRAM} [flags]\n"]
    for group in groups:
        shown = (flag for flag in group.flags if not flag.deprecated)
        flags = sorted(shown, key=lambda flag: flag.name)
        lines = _wrapped(flags, width) if width > _NARROW else _side_by_side(flags)
        parts.append(f"{group.heading}:\n\n" + "".join(f"{line}\n" for line in lines))
    return "\n".join(parts)


def _side_by_side(flags: list[Flag]) -> Iterator[str]:
    starts = [_start(flag) for flag in flags]
    column = max(map(len, starts)) + 3
    for flag, start in zip(flags, starts, strict=True):
        first, *others = _sentence(flag).split("\n")
        yield f"{start:<{column}}{first}"
        for line in others:
            yield " " * column + line


def _wrapped(flags: list[Flag], width: int) -> Iterator[str]:
    """On a terminal names are long and lines are short: the sentence goes below the flag."""
    room = max(width - _INDENT, _NARROW)
    for flag in flags:
        yield _start(flag)
        for line in _sentence(flag).split("\n"):
            for part in textwrap.wrap(line, room, break_on_hyphens=False) or [""]:
                yield " " * _INDENT + part


def _start(flag: Flag) -> str:
    letter = f"  -{flag.shorthand}, " if flag.shorthand else " " * 6
    kind = f" {flag.kind.name}" if flag.kind.name else ""
    implied = f"[={flag.kind.implied}]" if flag.kind.implied and flag.kind.name else ""
    return f"{letter}--{flag.name}{kind}{implied}"


def _sentence(flag: Flag) -> str:
    """The help of a flag with its default, and why it changes nothing if so."""
    text = flag.help
    if flag.ignored:
        text += f" Accepted without effect: {flag.ignored}."
    default = flag.kind.show(flag.default)
    if default not in flag.kind.zeros:
        text += f" (default {quote(default) if flag.kind.quoted else default})"
    return text
