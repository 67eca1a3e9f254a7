"""Configurations of earlier releases: KubeSchedulerConfiguration before v1, Policies, algorithm providers.

kube-scheduler refuses them today, and so does `stowplan.config.load`. Here they become a v1 document, which
is then loaded as any other:

* `load`: the entry points below
* `versions`, `plugins`, `configuration`: the versions before v1 and how each becomes v1
* `policy`: reading Policies; `profiles`: predicates, priorities and algorithm providers as profiles of v1
* `fields`: strict reading that all of them share

All entry points give a `LoadedConfig` and raise `ConfigError` with one line. `LoadedConfig.legacy` has what
v1 cannot say: `notes` (what differs, one line each, for the log or stderr), the old names of scores, and
whether the reasons of all predicates are reported.
"""

from stowplan.config.legacy.configuration import PolicyReference
from stowplan.config.legacy.load import (
    POLICY_KEY,
    PolicyFetch,
    load_any,
    load_any_file,
    policy_config,
    policy_file_config,
    policy_in_configmap,
    provider_config,
    to_v1_document,
)
from stowplan.config.legacy.profiles import LegacyOptions

__all__ = [
    "POLICY_KEY",
    "LegacyOptions",
    "PolicyFetch",
    "PolicyReference",
    "load_any",
    "load_any_file",
    "policy_config",
    "policy_file_config",
    "policy_in_configmap",
    "provider_config",
    "to_v1_document",
]
