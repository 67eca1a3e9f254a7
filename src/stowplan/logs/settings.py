"""How a process keeps its log: what its flags can say."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from stowplan.logs.modules import MAX_VERBOSITY, Pattern

TEXT: Final = "text"
JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class Routing:
    """Where lines of a format go: with `split_stream` problems to stderr and the rest to stdout.

    Then so many bytes of the rest may be held back (until the next flush) to be written at once.
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
        """What is wrong with them, a line each. `alpha` is the feature gate LoggingAlphaOptions."""
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
