"""Every flag of `stowplan run`. To add one, put it into the group it belongs to."""

from typing import Final

from stowplan.run.flags.clusterflags import DEPRECATED, LEADER_ELECTION
from stowplan.run.flags.flag import Flag, Group
from stowplan.run.flags.gateflags import FEATURE_GATES
from stowplan.run.flags.kinds import BOOL, EACH, STRING
from stowplan.run.flags.legacyflags import LEGACY
from stowplan.run.flags.recordflags import LOGS, METRICS
from stowplan.run.flags.servingflags import AUTHENTICATION, AUTHORIZATION, SECURE_SERVING
from stowplan.run.flags.special import VERSION_ASKED

MISC: Final = Group(
    "misc",
    (
        Flag(
            "config", STRING, "", "File with a KubeSchedulerConfiguration. It is read again when it changes."
        ),
        Flag("master", STRING, "", "Address of the API server, instead of the one the kubeconfig names."),
        Flag("write-config-to", STRING, "", "Write the complete configuration to this file and stop."),
    ),
)

GLOBAL: Final = Group(
    "global",
    (
        Flag("help", BOOL, False, "Show this help.", shorthand="h"),
        Flag(
            "version",
            VERSION_ASKED,
            "false",
            "Print the version and stop; with raw, everything known of the build. "
            "A version that begins with v is reported instead of the real one.",
        ),
    ),
)

STOWPLAN: Final = Group(
    "stowplan",
    (
        Flag(
            "plugin",
            EACH,
            (),
            "A plugin of your own that the configuration uses, as module:Class or file.py:Class. "
            "Can be repeated.",
        ),
    ),
)
"""What kube-scheduler does not have."""

GROUPS: Final = (
    MISC,
    SECURE_SERVING,
    AUTHENTICATION,
    AUTHORIZATION,
    DEPRECATED,
    LEADER_ELECTION,
    FEATURE_GATES,
    METRICS,
    LOGS,
    STOWPLAN,
    LEGACY,
    GLOBAL,
)
