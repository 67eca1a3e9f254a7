"""Loading a configuration: text or file in, a complete and valid configuration out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stowplan.api.fielderrors import aggregate
from stowplan.config.defaults import complete
from stowplan.config.document import decode_document
from stowplan.config.errors import ConfigError
from stowplan.config.heritage import NO_HERITAGE, Heritage
from stowplan.config.types import SchedulerConfig
from stowplan.config.validation import validate
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.gocompat.quoting import path_error
from stowplan.gocompat.types import DocumentError


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A complete, valid configuration and the feature gates it was read under.

    `heritage` is what came with it if it was written for an earlier release.
    """

    config: SchedulerConfig
    gates: FeatureGates = DEFAULT_GATES
    heritage: Heritage = NO_HERITAGE


Change = Callable[[SchedulerConfig], SchedulerConfig]
"""What flags have to say over a configuration: applied once it is complete, before it is checked."""


def as_it_is(config: SchedulerConfig) -> SchedulerConfig:
    """Flags that say nothing."""
    return config


def load(text: str | bytes, gates: FeatureGates = DEFAULT_GATES, change: Change = as_it_is) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration from YAML or JSON text. Raises ConfigError."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    try:
        config = decode_document(data)
    except DocumentError as error:
        raise ConfigError("decode", str(error)) from None
    return check(config, gates, change)


def load_file(
    path: str | Path, gates: FeatureGates = DEFAULT_GATES, change: Change = as_it_is
) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration from a file. Raises ConfigError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError("read", path_error(error, str(path))) from None
    return load(data, gates, change)


def check(
    config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES, change: Change = as_it_is
) -> LoadedConfig:
    """Complete and validate a configuration made in Python. Raises ConfigError."""
    completed = change(complete(config, gates))
    errors = validate(completed, gates)
    if errors:
        raise ConfigError("validation", aggregate(errors))
    return LoadedConfig(completed, gates)


def default_config(gates: FeatureGates = DEFAULT_GATES) -> LoadedConfig:
    """The configuration of a scheduler without a configuration file."""
    return check(SchedulerConfig(), gates)
