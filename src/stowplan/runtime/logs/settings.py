"""Log settings: what `--logging-format`, `-v`, `--vmodule` and the flags about streams can say."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_VERBOSITY: Final = 2**31 - 1

Pattern = tuple[str, int]
"""A pattern for names of modules (files without `.py`), and a level."""


def parse_vmodule(text: str) -> tuple[Pattern, ...]:
    """The patterns of a flag `pattern=N,...`. Raises ValueError that says what is wrong."""
    found: list[Pattern] = []
    for one in text.split(","):
        if not one:
            continue
        pattern, equals, level = one.partition("=")
        if not equals or not pattern or not level or "=" in level:
            raise ValueError(f'"{one}" does not have the pattern=N format')
        if not (level.isascii() and level.isdecimal()) or int(level) > MAX_VERBOSITY:
            raise ValueError(f'"{one}": expected a number from 0 to {MAX_VERBOSITY} after the equal sign')
        found.append((pattern, int(level)))
    return tuple(found)


class _CompiledPattern(NamedTuple):
    pattern: re.Pattern[str]
    level: int


class Modules:
    """The levels of modules: of the patterns that match a name the first one counts.

    In a pattern `*` stands for anything, `?` for one character, `[a-z]` for one of several, `[^a-z]` for one
    of all others, and a backslash takes the meaning from the character after it.
    """

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        self._patterns = [_CompiledPattern(_compile(pattern), level) for pattern, level in patterns]
        self.highest = max((one.level for one in self._patterns), default=0)

    def level(self, module: str) -> int:
        """Highest level shown for a module, regardless of the verbosity."""
        return next((one.level for one in self._patterns if one.pattern.fullmatch(module)), 0)


_TOKENS: Final = re.compile(r"\\(.)|(\*)|(\?)|\[(\^?)((?:\\.|[^\]\\])+)\]|(.)", re.DOTALL)


def _compile(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression; one that makes no sense matches nothing but itself."""
    try:
        return re.compile("".join(_translate(found) for found in _TOKENS.finditer(pattern)), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _translate(found: re.Match[str]) -> str:
    escaped, star, one, inverted, chosen, plain = found.groups()
    if star:
        return ".*"
    if one:
        return "."
    if chosen:
        inside = chosen.replace("[", r"\[").replace("^", r"\^")
        return f"[{'^' if inverted else ''}{inside}]"
    return re.escape(escaped or plain)


TEXT: Final = "text"
JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class Routing:
    """Destination of a format's lines: with `split_stream` problems to stderr and the rest to stdout.

    Up to `info_buffer_size` bytes of the rest may then be held back (until the next flush) to be written at
    once.
    """

    split_stream: bool = False
    info_buffer_size: int = 0


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The format, `-v`, `--vmodule`, `--log-flush-frequency` in seconds, and how each format is routed."""

    format: str = TEXT
    verbosity: int = 0
    vmodule: tuple[Pattern, ...] = ()
    flush_frequency: float = 5.0
    text: Routing = field(default_factory=Routing)
    json: Routing = field(default_factory=Routing)

    @property
    def routing(self) -> Routing:
        """That of the chosen format."""
        return self.json if self.format == JSON else self.text

    def problems(self, *, alpha: bool = False) -> Iterator[str]:
        """Problems of the settings, a line each. `alpha` is the feature gate LoggingAlphaOptions."""
        if self.flush_frequency <= 0:
            yield "flushFrequency: Invalid value: expected more than zero seconds"
        if self.format not in (TEXT, JSON):
            yield f'format: Invalid value: "{self.format}": Unsupported log format'
        if not 0 <= self.verbosity <= MAX_VERBOSITY:
            yield f"verbosity: Invalid value: {self.verbosity}: expected a number from 0 to {MAX_VERBOSITY}"
        if self.vmodule and self.format != TEXT:
            yield "vmodule: Forbidden: Only supported for text log format"
        for name, routing in ((TEXT, self.text), (JSON, self.json)):
            if routing.split_stream and not alpha:
                yield f"options.{name}.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"
            if routing.info_buffer_size and not alpha:
                yield f"options.{name}.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled"
