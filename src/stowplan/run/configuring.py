"""The configuration a command line comes to: the file it names, or the defaults, and flags over them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from stowplan.config import LoadedConfig, default_config
from stowplan.config.load import check
from stowplan.config.old import read_any_file
from stowplan.config.policy import Around, policy_config, policy_file_config, provider_config
from stowplan.config.types import LeaderElection, PluginConfig, Profile, SchedulerConfig
from stowplan.election import LOCK_KINDS
from stowplan.framework.gates import FeatureGates
from stowplan.plugins.args import InterPodAffinityArgs
from stowplan.run.flags.parser import Parsed
from stowplan.run.legacyoptions import AlgorithmSource, algorithm_source

_TODAYS_LOCK = LeaderElection().resource_lock


def configuration(parsed: Parsed, gates: FeatureGates, policy: str | None = None) -> LoadedConfig:
    """The configuration in force. Raises ConfigError.

    A file is only overruled by flags about leader election; without one there are more flags that count.
    `policy` is the text of the Policy in a ConfigMap, as far as it is known.
    """
    file = parsed.text("config")
    if file:
        loaded = read_any_file(file, gates, change=lambda config: _with_election(config, parsed))
    else:
        loaded = _scheduling(algorithm_source(parsed), parsed, gates, policy)
        config = _with_election(_with_deprecated(loaded.config, parsed), parsed)
        loaded = dataclasses.replace(loaded, config=config)
    return dataclasses.replace(loaded, config=_with_old_lock(loaded.config, parsed))
