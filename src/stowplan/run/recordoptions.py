"""What the flags about logs and metrics come to."""

from collections.abc import Iterator

from stowplan.api.quantity import value_of
from stowplan.logs import LogSettings, Routing
from stowplan.logs.settings import JSON
from stowplan.metrics.options import MetricsOptions
from stowplan.run.flags.parser import Parsed
from stowplan.run.flags.special import ModuleLevel
from stowplan.run.gates import ProcessGates


def log_settings(parsed: Parsed) -> LogSettings:
    levels: tuple[ModuleLevel, ...] = parsed.value("vmodule")
    return LogSettings(
        format=parsed.text("logging-format"),
        verbosity=parsed.number("v"),
        vmodule=tuple((level.pattern, level.level) for level in levels),
        flush_frequency=parsed.duration("log-flush-frequency").seconds,
        text=_routing(parsed, "text"),
        json=_routing(parsed, "json"),
    )


def log_problems(settings: LogSettings, gates: ProcessGates) -> Iterator[str]:
    """What is wrong with how the log shall be kept."""
    yield from settings.problems(alpha=gates.on("LoggingAlphaOptions"))
    if settings.format == JSON and not gates.on("LoggingBetaOptions"):
        yield "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"


def metrics_options(parsed: Parsed) -> MetricsOptions:
    given = parsed.given("allow-metric-labels")
    return MetricsOptions(
        show_hidden_for_version=parsed.text("show-hidden-metrics-for-version"),
        disabled=parsed.texts("disabled-metrics"),
        allowed_labels=parsed.value("allow-metric-labels") if given else None,
        allowed_labels_manifest=parsed.text("allow-metric-labels-manifest"),
    )


def _routing(parsed: Parsed, format: str) -> Routing:
    return Routing(
        split_stream=parsed.on(f"log-{format}-split-stream"),
        info_buffer_size=value_of(parsed.text(f"log-{format}-info-buffer-size")),
    )
