"""Scheduling by predicates and priorities: Policy files and algorithm providers of earlier releases.

What others call:

* `policy_config(text)`, `policy_file_config(path)`: the configuration of today that a Policy comes to
* `policy_in_configmap(data, where)`: the text of a Policy in the data of a ConfigMap
* `provider_config(name)`: the same for an algorithm provider: `DefaultProvider` (as of 1.18),
  `DefaultProvider@1.9`, `ClusterAutoscalerProvider`, `ClusterAutoscalerProvider@1.9`
* `Around`: what flags (or the file that names the Policy) say beside it
* in `stowplan.config.old`: `read_any(text)`, `read_any_file(path)` for a file of any version, also today's

All of them give a `LoadedConfig` and raise `ConfigError` with one line. `LoadedConfig.heritage` has what
today's configuration cannot say: `notes` (what differs, one line each, for the log or stderr), the old names
of scores, and whether all predicates are to be told of.

The way of a Policy through this package: `reading` (text to names), with `arguments` and `extenders`;
`choice` (names to plugins), `document` (plugins to a profile of today), `configs` (to a loaded one).
"""

from stowplan.config.policy.choice import Around
from stowplan.config.policy.configs import (
    POLICY_KEY,
    policy_config,
    policy_file_config,
    policy_in_configmap,
    provider_config,
)

__all__ = [
    "POLICY_KEY",
    "Around",
    "policy_config",
    "policy_file_config",
    "policy_in_configmap",
    "provider_config",
]
