"""Walks of docs/design.md: the functions that a request or a pod passes, traced while it does."""

import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"

Step = tuple[str, str]
"""A module, as a path below src/stowplan, and the qualified name of a function in it."""


class Tracer:
    """Records the calls that lead to each milestone, from the call of `first` to that of `last`.

    A milestone counts the first time it is called. Its walk is every function on the stack then, if it is in
    one of the packages.
    """

    def __init__(self, first: str, milestones: Collection[str], last: str, packages: Collection[str]) -> None:
        self._first = first
        self._last = last
        self._ahead = {first, *milestones, last}
        self._packages = tuple(packages)
        self._on = False
        self._walk: dict[Step, None] = {}

    @property
    def is_on(self) -> bool:
        """True if the last function has not been called yet."""
        return self._last in self._ahead

    @property
    def walk(self) -> list[Step]:
        assert not self._ahead, f"never reached: {sorted(self._ahead)}"
        return list(self._walk)

    def __enter__(self) -> "Tracer":
        sys.setprofile(self._follow)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def _follow(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_qualname
        if event != "call" or not (self._on or name == self._first):
            return
        self._on = name != self._last
        if name in self._ahead:
            self._ahead.remove(name)
            self._walk.update(dict.fromkeys(reversed(self._stack(frame))))

    def _stack(self, frame: FrameType | None) -> list[Step]:
        found = []
        while frame is not None:
            package, _, module = str(frame.f_globals.get("__name__", "")).partition(".")
            if package == "stowplan" and module.startswith(self._packages):
                found.append((f"{module.replace('.', '/')}.py", frame.f_code.co_qualname))
            frame = frame.f_back
        return found


def documented(first: str) -> list[Step]:
    """The walk on the design page that begins with this function."""
    blocks = re.findall(r"```text\n(.*?)```", DESIGN.read_text(), re.DOTALL)
    block = next((one for one in blocks if one.split()[1:2] == [first]), "")
    walk: list[Step] = []
    module = ""
    for line in block.splitlines():
        found, _, rest = line.partition(" ")
        module = found or module
        walk.append((module, rest.strip()))
    return walk


def as_text(walk: list[Step]) -> str:
    """A walk as the design page has it: each module once, in a row of its functions."""
    lines: list[str] = []
    before = ""
    width = max(len(module) for module, _ in walk) + 2
    for module, function in walk:
        lines.append(f"{module if module != before else '':<{width}}{function}")
        before = module
    return "\n".join(lines)


def check(traced: Callable[[], list[Step]], most_files: int, most_functions: int) -> None:
    """Compare a traced walk with the documented one, and with the length that a reader follows."""
    walk = traced()
    assert documented(walk[0][1]) == walk, f"docs/design.md should have\n{as_text(walk)}"
    assert len({module for module, _ in walk}) <= most_files
    assert len(walk) <= most_functions
