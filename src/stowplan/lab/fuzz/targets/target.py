"""A parser under test: the function that is fed arbitrary bytes, its seeds, and what it is compared with."""

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

NO_ORACLE: Final = ""
_VARYING: Final = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|[0-9]+|[^\x20-\x7e]+""")
_LONGEST_OUTCOME: Final = 80


class Violation(AssertionError):  # noqa: N818 - the rule that was broken, not an error of this module
    """A rule that an input breaks: a result that differs from the oracle's, or from an equal input's."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


Check = Callable[[bytes], str]
"""Feeds one input and returns its outcome, by which inputs of the same behaviour are recognised.

Raises `Violation`. Any other exception is a violation too: errors that the parser documents are caught.
"""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One parser with what is needed to fuzz it."""

    name: str
    about: str
    check: Check
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    """Tokens of its syntax, which mutations insert."""
    oracle: str = NO_ORACLE
    """The oracle that results are compared with, for people to read."""
    modules: tuple[str, ...] = ()
    """Modules of the oracle outside the standard library. Without them the comparison is left out."""
    failed_once: tuple[bytes, ...] = ()
    """Inputs that broke a rule before they were fixed. They are seeds, too."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules of the oracle that are not installed."""
        return tuple(name for name in self.modules if not is_installed(name))


@cache
def is_installed(module: str) -> bool:
    """True if a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@cache
def oracle(module: str) -> Any:
    """The module of an oracle, None if it is not installed."""
    return importlib.import_module(module) if is_installed(module) else None


def expect(rule: str, found: object, wanted: object) -> None:
    """Raise `Violation` unless two results are equal."""
    if found != wanted:
        raise Violation(rule, f"{_shown(found)} instead of {_shown(wanted)}")


def refused(error: BaseException) -> str:
    """The outcome of an input that the parser refuses: the error without the parts that vary."""
    return f"{type(error).__name__}: {_VARYING.sub('_', str(error)[:_LONGEST_OUTCOME])}"


def pieces(data: bytes, cuts: bytes) -> Iterator[bytes]:
    """The data cut into pieces whose lengths are the bytes of `cuts`, the rest in one."""
    at = 0
    for cut in cuts:
        if at >= len(data):
            return
        yield data[at : at + cut + 1]
        at += cut + 1
    if at < len(data):
        yield data[at:]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
