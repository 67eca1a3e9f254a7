"""`--emulated-version` and `--min-compatibility-version`: the release that an installation emulates.

Versions are checked and refused as kube-scheduler does it. Where it changes feature gates alone, the rules
follow here, too: emulating 1.36 is being 1.36. A version without rules here uses those of the next newer
release, with the feature gates of that version.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stowplan.api.fielderrors import aggregate
from stowplan.api.gates.flag import KUBE
from stowplan.api.releases import DEFAULT, NEWEST, RELEASES, Release, Version
from stowplan.api.releases import OLDEST_EMULATED as OLDEST
from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote

_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


class Emulation(NamedTuple):
    """The versions asked for, and the release that they make of an installation."""

    emulated: Version
    compatible: Version
    release: Release

    def problems(self) -> Iterator[str]:
        """Versions out of range."""
        if not OLDEST <= self.emulated <= NEWEST.minor:
            yield f"emulation version {self.emulated} is not between [{OLDEST}, {NEWEST.version}]"
        if not OLDEST <= self.compatible <= self.emulated:
            yield (
                f"minCompatibilityVersion version {self.compatible} is not between "
                f"[{OLDEST}, {self.emulated}]"
            )


def read_emulation(emulated: Iterable[str] = (), compatible: Iterable[str] = ()) -> Emulation:
    """The versions of flags, `1.36` or `kube=1.36`. Raises ConfigError if one cannot be read."""
    version = _requested(emulated) or DEFAULT.minor
    oldest = _requested(compatible) or max(version.previous, OLDEST)
    rules = next((one for one in RELEASES.values() if version <= one.minor), NEWEST)
    return Emulation(version, oldest, rules.emulating(version, oldest))


def emulated_release(emulated: Iterable[str] = (), compatible: Iterable[str] = ()) -> Release:
    """The release of versions that are in range. Raises ConfigError."""
    emulation = read_emulation(emulated, compatible)
    if problems := list(emulation.problems()):
        raise ConfigError("flags", aggregate(problems))
    return emulation.release


def _requested(values: Iterable[str]) -> Version | None:
    found: dict[str, Version] = {}
    for value in values:
        component, equals, text = value.partition("=")
        component, text = (component.strip(), text.strip()) if equals else (KUBE, value)
        version = _parse_version(component, text)
        if component in found:
            first = f"{component}={found[component]}"
            raise ConfigError("flags", f"duplicate version flag, {first} and {component}={version}")
        found[component] = version
    for component in found:
        if component != KUBE:
            raise ConfigError("flags", f"component not registered: {component}")
    return found.get(KUBE)


def _parse_version(component: str, text: str) -> Version:
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
