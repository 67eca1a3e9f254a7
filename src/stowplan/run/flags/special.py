"""Kinds of values that only one or two flags have."""

import re
from dataclasses import dataclass
from typing import Final

from stowplan.gocompat.quoting import quote
from stowplan.run.flags.flag import Kind
from stowplan.run.flags.numbers import read_bool, read_uint
from stowplan.run.version import VERSION

_SEMANTIC: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_EXTRA: Final = re.compile(r"(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?\s*")


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate with its key, and the names it is for (none: those it was made out to)."""

    certificate: str
    key: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = f"{self.certificate},{self.key}"
        return f"{files}:{','.join(self.names)}" if self.names else files


@dataclass(frozen=True, slots=True)
class ModuleLevel:
    """A verbosity for files whose names match a pattern."""

    pattern: str
    level: int

    def __str__(self) -> str:
        return f"{self.pattern}={self.level}"


Settings = tuple[tuple[str, str], ...]
"""Component (maybe empty) and what is set for it, in the order given."""


def _read_pair(text: str, current: tuple[NamedPair, ...], again: bool) -> tuple[NamedPair, ...]:
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    listed = tuple(name.strip() for name in names.strip().split(",")) if colon else ()
    pair = NamedPair(parts[0], parts[1], listed)
    return (*current, pair) if again else (pair,)


def _read_levels(text: str, current: tuple[ModuleLevel, ...], again: bool) -> tuple[ModuleLevel, ...]:
    found = list(current)
    for part in filter(None, text.split(",")):
        pieces = part.split("=")
        if len(pieces) != 2 or not all(pieces):
            raise ValueError(f"{quote(part)} does not have the pattern=N format")
        try:
            level = read_uint(pieces[1], 31)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quote(part)}: {error}") from None
        found.append(ModuleLevel(pieces[0], level))
    return tuple(found)


def _read_settings(text: str, current: Settings, again: bool) -> Settings:
    found = list(current)
    for part in filter(None, text.split(",")):
        component, colon, setting = part.partition(":")
        found.append((component.strip(), setting.strip()) if colon else ("", component.strip()))
    return tuple(found)


def _show_settings(settings: Settings) -> str:
    return ",".join(f"{component}:{setting}" for component, setting in sorted(settings, key=lambda it: it[0]))


def _read_version(text: str, current: str, again: bool) -> str:
    """Whether the version is asked for (`true`, `raw`), or which one to claim (`v…`)."""
    if text == "raw":
        return text
    if text.startswith("v"):
        _check_version(text)
        return text
    return "true" if read_bool(text) else "false"


def _check_version(text: str) -> None:
    if text == VERSION:
        return
    match = _SEMANTIC.fullmatch(text)
    if match is None:
        raise ValueError(f"could not parse {quote(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) != 3:
        raise ValueError(f"illegal version string {quote(text)}")
    for number in numbers:
        if len(number) > 1 and number.startswith("0"):
            raise ValueError(f"illegal zero-prefixed version component {quote(number)} in {quote(text)}")
    if not _EXTRA.fullmatch(match[2]):
        raise ValueError(f"could not parse pre-release/metadata ({match[2]}) in version {quote(text)}")
    own = _SEMANTIC.fullmatch(VERSION)
    if own is None or match[1] != own[1]:
        shown = f"version {quote(text)} must match major/minor/patch of default version {quote(VERSION)}"
        raise ValueError(shown)


def _show_quantity(value: str) -> str:
    return value


def _read_quantity(text: str, current: str, again: bool) -> str:
    from stowplan.api.quantity import parse

    return parse(text).canonical()


NAMED_PAIRS: Final[Kind[tuple[NamedPair, ...]]] = Kind(
    "namedCertKey", _read_pair, lambda pairs: f"[{';'.join(map(str, pairs))}]"
)
MODULE_LEVELS: Final[Kind[tuple[ModuleLevel, ...]]] = Kind(
    "pattern=N,...", _read_levels, lambda levels: ",".join(map(str, levels))
)
SETTINGS: Final[Kind[Settings]] = Kind("colonSeparatedMultimapStringString", _read_settings, _show_settings)
VERSION_ASKED: Final[Kind[str]] = Kind("version", _read_version, str, implied="true")
QUANTITY: Final[Kind[str]] = Kind("quantity", _read_quantity, _show_quantity)
"""A number of bytes such as `512` or `2Ki`, kept as text."""
