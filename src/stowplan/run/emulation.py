"""`--emulated-version` and `--min-compatibility-version`: checked as kube-scheduler checks them.

They change nothing (there is one behaviour), but a version that cannot be meant is still a mistake.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote
from stowplan.run.version import MINOR

_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_KUBE: Final = "kube"


class Version(NamedTuple):
    """Major and minor version."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_OWN: Final = Version(*MINOR)
_FLOOR: Final = Version(1, 33)


def emulation_problems(emulated: Iterable[str], compatible: Iterable[str]) -> Iterator[str]:
    """What is wrong with the versions asked for. Raises ConfigError if they cannot be read."""
    version = _asked_for(emulated) or _OWN
    oldest = _asked_for(compatible) or max(Version(version.major, max(version.minor - 1, 0)), _FLOOR)
    if not _FLOOR <= version <= _OWN:
        yield f"emulation version {version} is not between [{_FLOOR}, {_OWN}.0]"
    if not _FLOOR <= oldest <= version:
        yield f"minCompatibilityVersion version {oldest} is not between [{_FLOOR}, {version}]"


def _asked_for(values: Iterable[str]) -> Version | None:
    found: dict[str, Version] = {}
    for value in values:
        component, equals, text = value.partition("=")
        component, text = (component.strip(), text.strip()) if equals else (_KUBE, value)
        version = _read(component, text)
        if component in found:
            first = f"{component}={found[component]}"
            raise ConfigError("flags", f"duplicate version flag, {first} and {component}={version}")
        found[component] = version
    for component in found:
        if component != _KUBE:
            raise ConfigError("flags", f"component not registered: {component}")
    return found.get(_KUBE)


def _read(component: str, text: str) -> Version:
    match = _NUMBERS.fullmatch(text)
    if match is None:
        raise ConfigError("flags", f"could not parse {quote(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) == 1:
        raise ConfigError("flags", f"illegal version string {quote(text)}")
    for number in numbers:
        if len(number) > 1 and number.startswith("0"):
            detail = f"illegal zero-prefixed version component {quote(number)} in {quote(text)}"
            raise ConfigError("flags", detail)
        if len(number) > 9:
            raise ConfigError(
                "flags", f"illegal non-numeric version component {quote(number)} in {quote(text)}"
            )
    if len(numbers) > 2 and int(numbers[2]):
        detail = f"patch version not allowed, got: {component}={'.'.join(numbers)}"
        raise ConfigError("flags", detail)
    return Version(int(numbers[0]), int(numbers[1]))
