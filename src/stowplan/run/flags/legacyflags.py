"""Flags that kube-scheduler had from 1.9 to 1.18 and has no more."""

from typing import Final

from stowplan.run.flags.flag import Flag, Group, Kind, Value
from stowplan.run.flags.kinds import BOOL, INT, INT32, STRING

_FILE_WINS: Final = "Not looked at if there is a --config."
_TO_STDERR: Final = "the log goes to stderr"
_NO_IMAGES: Final = "the scheduler never asks for images"
_DOMAINS: Final = (
    "kubernetes.io/hostname,failure-domain.beta.kubernetes.io/zone,failure-domain.beta.kubernetes.io/region"
)


def _gone(name: str, kind: Kind[Value], default: Value, why: str) -> Flag:
    """A flag that is accepted but not in the help; whoever gives it is told that it is of no use."""
    return Flag(name, kind, default, "Of no use any more.", deprecated=f"it has no effect: {why}")


LEGACY: Final = Group(
    "legacy",
    (
        Flag(
            "policy-config-file",
            STRING,
            "",
            "File with a Policy: predicates and priorities by their names. Read again when it changes. "
            "Not looked at if there is a --policy-configmap, unless with --use-legacy-policy-config. "
            + _FILE_WINS,
        ),
        Flag(
            "policy-configmap",
            STRING,
            "",
            f"ConfigMap with a Policy under the key policy.cfg. It has to exist at the start. {_FILE_WINS}",
        ),
        Flag("policy-configmap-namespace", STRING, "kube-system", "Namespace of that ConfigMap."),
        Flag(
            "use-legacy-policy-config",
            BOOL,
            False,
            "Use --policy-config-file even if there is a --policy-configmap.",
        ),
        Flag(
            "algorithm-provider",
            STRING,
            "",
            "Predicates and priorities of an earlier release if there is no Policy: DefaultProvider or "
            f"ClusterAutoscalerProvider, as of 1.18, or with @1.9 behind it. {_FILE_WINS}",
        ),
        Flag(
            "scheduler-name",
            STRING,
            "default-scheduler",
            f"Pods that name this scheduler are scheduled. {_FILE_WINS}",
        ),
        Flag(
            "hard-pod-affinity-symmetric-weight",
            INT32,
            1,
            "How much required affinity of placed pods attracts others, from 0 to 100. "
            f"A Policy that says so itself wins. {_FILE_WINS}",
        ),
        Flag(
            "lock-object-name",
            STRING,
            "kube-scheduler",
            f"The same as --leader-elect-resource-name, which wins. {_FILE_WINS}",
        ),
        Flag(
            "lock-object-namespace",
            STRING,
            "kube-system",
            f"The same as --leader-elect-resource-namespace, which wins. {_FILE_WINS}",
        ),
        Flag(
            "address",
            STRING,
            "0.0.0.0",
            "Address of the port without TLS. There is none: see --bind-address.",
        ),
        Flag("port", INT, 10251, "Port without TLS. There is none, as if this were 0: see --secure-port."),
        Flag(
            "show-legacy-metrics",
            BOOL,
            False,
            "Show metrics under the names of 1.9 to 1.18 beside those of today.",
        ),
        _gone("failure-domains", STRING, _DOMAINS, "terms of affinity name their topology"),
        _gone("logtostderr", BOOL, True, f"{_TO_STDERR} in any case"),
        _gone("alsologtostderr", BOOL, False, f"{_TO_STDERR} in any case"),
        _gone("stderrthreshold", STRING, "2", f"{_TO_STDERR} in any case"),
        _gone("log-dir", STRING, "", f"{_TO_STDERR}, not to files"),
        _gone("log-file", STRING, "", f"{_TO_STDERR}, not to files"),
        _gone("log-file-max-size", INT, 1800, f"{_TO_STDERR}, not to files"),
        _gone("skip-log-headers", BOOL, False, f"{_TO_STDERR}, not to files"),
        _gone("skip-headers", BOOL, False, "every message has its header"),
        _gone("add-dir-header", BOOL, False, "every message names its file without the folder"),
        _gone("log-backtrace-at", STRING, ":0", "messages come without stacks"),
        _gone("azure-container-registry-config", STRING, "", _NO_IMAGES),
        _gone("google-json-key", STRING, "", _NO_IMAGES),
    ),
)
"""Those about scheduling and elections do what they did; the others are only accepted."""
