"""Semantic versions as Kubernetes reads and orders them, with the messages of its parser."""

import re
from dataclasses import dataclass
from typing import Final

from stowplan.gocompat.caching import cached_by_text

_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*")
_MAX: Final = 2**64 - 1


class SemverError(ValueError):
    """Text that is no semantic version."""


@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. Build metadata belongs to it but does not order it."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    def compare(self, other: "Semver") -> int:
        mine, others = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if mine != others:
            return 1 if mine > others else -1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        left, right = [_rank(one) for one in self.pre], [_rank(one) for one in other.pre]
        return int(left > right) - int(left < right)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.pre))

    def __str__(self) -> str:
        pre = "-" + ".".join(map(str, self.pre)) if self.pre else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


def _rank(identifier: int | str) -> tuple[bool, int, str]:
    """Numbers come before words."""
    return (False, identifier, "") if isinstance(identifier, int) else (True, 0, identifier)


@cached_by_text(4096)
def parse(text: str) -> Semver:
    """A version `1.2.3-pre+build`. Raises SemverError."""
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    number = _number(patch, "patch")
    identifiers = tuple([_pre_release(one) for one in pre.split(".")]) if dash else ()
    return Semver(major, minor, number, identifiers, _build(build) if plus else ())


def parse_tolerant(text: str) -> Semver:
    """A version that may begin with `v`, have leading zeros, or lack minor and patch. Raises SemverError."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1].isascii() and stripped[:1].isdigit() else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise SemverError("short version cannot contain PreRelease/Build meta data")
    return parse(".".join([*parts, "0", "0"][:3]))


def _number(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]*", text, re.ASCII):
        raise SemverError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        what = f"{name.capitalize()} number" if name != "patch" else "Patch number"
        raise SemverError(f'{what} must not contain leading zeroes "{text}"')
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAX:
        raise SemverError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise SemverError("Prerelease is empty")
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        if len(text) > 20 or int(text) > _MAX:
            raise SemverError(f'strconv.ParseUint: parsing "{text}": value out of range')
        return int(text)
    if not _IDENTIFIER.fullmatch(text):
        raise SemverError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _build(text: str) -> tuple[str, ...]:
    parts = tuple(text.split("."))
    for part in parts:
        if not part:
            raise SemverError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise SemverError(f'Invalid character(s) found in build meta data "{part}"')
    return parts
