"""Every flag of `stowplan run`, by group. To add one, put it into its group."""

from typing import Final

from stowplan.framework.feature_gates import GATES
from stowplan.gocompat.durations import Duration
from stowplan.run.flags.parser import Flag, Group, Kind, Value
from stowplan.run.flags.values import (
    ADDRESS,
    BOOL,
    DURATION,
    EACH,
    FLOAT32,
    INT,
    INT32,
    LEVEL,
    MAP,
    MODULE_LEVELS,
    NAMED_PAIRS,
    NUMBERS,
    QUANTITY,
    SETTINGS,
    STRING,
    STRINGS,
    VERSION_ASKED,
)

_FILE_WINS: Final = "Not looked at if there is a --config."

DEPRECATED: Final = Group(
    "deprecated",
    (
        Flag("profiling", BOOL, True, f"Serve profiles under /debug/pprof/. {_FILE_WINS}"),
        Flag(
            "contention-profiling",
            BOOL,
            True,
            f"Profile waiting for locks as well. {_FILE_WINS}",
            ignored="one thread does the work and never waits for a lock",
        ),
        Flag("kubeconfig", STRING, "", f"Where the API server is and how to get in. {_FILE_WINS}"),
        Flag(
            "kube-api-content-type",
            STRING,
            "application/vnd.kubernetes.protobuf",
            f"Format of what is sent to the API server; JSON is what is spoken in any case. {_FILE_WINS}",
        ),
        Flag("kube-api-qps", FLOAT32, 50.0, f"Requests per second to the API server. {_FILE_WINS}"),
        Flag(
            "kube-api-burst",
            INT32,
            100,
            f"Requests that may be sent at once after a quiet time. {_FILE_WINS}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            Duration.of_seconds(300),
            "Longest time a pod that found no node waits for an event before it is tried again anyway.",
        ),
    ),
)

LEADER_ELECTION: Final = Group(
    "leader election",
    (
        Flag(
            "leader-elect",
            BOOL,
            True,
            "Schedule only while holding the lease, so that several instances can run.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            Duration.of_seconds(15),
            "How long others wait after the last renewal they saw before they take the lease.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            Duration.of_seconds(10),
            "How long the holder tries to renew before it gives up. Less than the lease duration.",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            "leases",
            "Kind of object the holder is noted in: leases, or as in earlier releases endpoints, configmaps, "
            "endpointsleases or configmapsleases.",
        ),
        Flag("leader-elect-resource-name", STRING, "kube-scheduler", "Name of that object."),
        Flag("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of that object."),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            Duration.of_seconds(2),
            "Time between two tries to take or renew the lease.",
        ),
    ),
)

_TTL: Final = Duration.of_seconds(10)
_ONLY_HTTP1: Final = "the port speaks HTTP/1.1 only"

SECURE_SERVING: Final = Group(
    "secure serving",
    (
        Flag("bind-address", ADDRESS, "0.0.0.0", "Address to listen on; 0.0.0.0 or :: for all."),
        Flag("secure-port", INT, 10259, "Port of the pages, over TLS. 0: no port at all."),
        Flag(
            "cert-dir",
            STRING,
            "",
            "Folder for the certificate (kube-scheduler.crt and .key) if none is given; made there if "
            "missing. Without a folder a certificate is made and kept in memory.",
        ),
        Flag(
            "tls-cert-file",
            STRING,
            "",
            "Certificate of the port, followed by its issuers. Read again when it changes.",
        ),
        Flag("tls-private-key-file", STRING, "", "Key that belongs to --tls-cert-file."),
        Flag("tls-cipher-suites", STRINGS, (), "Cipher suites to allow, by their IANA names."),
        Flag("tls-curve-preferences", NUMBERS, (), "Curves to allow, by their numbers in TLS."),
        Flag(
            "tls-min-version",
            STRING,
            "",
            "Lowest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
        ),
        Flag(
            "tls-sni-cert-key",
            NAMED_PAIRS,
            (),
            "Another certificate with its key, for certain names: cert,key or cert,key:name,*.name. "
            "Can be repeated.",
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            0,
            "Limit of streams in an HTTP/2 connection.",
            ignored=_ONLY_HTTP1,
        ),
        Flag("disable-http2-serving", BOOL, False, "Do not serve HTTP/2.", ignored=_ONLY_HTTP1),
        Flag("permit-port-sharing", BOOL, False, "Let several processes listen on the port (SO_REUSEPORT)."),
        Flag(
            "permit-address-sharing", BOOL, False, "Listen though an old connection lingers (SO_REUSEADDR)."
        ),
    ),
)

AUTHENTICATION: Final = Group(
    "authentication",
    (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "",
            "Kubeconfig for asking the API server who sent a token. In a pod its own account is used; "
            "without either, tokens mean nothing.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            False,
            "Do not read authorities from kube-system/extension-apiserver-authentication.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            _TTL,
            "How long an answer about a token is remembered.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            True,
            "Start even if the authorities cannot be read; certificates are not recognised then.",
        ),
        Flag("client-ca-file", STRING, "", "Authorities whose client certificates are recognised."),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "",
            "Authorities of proxies that may name the user in headers.",
        ),
        Flag("requestheader-allowed-names", STRINGS, (), "Common names such proxies may have; none: any."),
        Flag(
            "requestheader-username-headers",
            STRINGS,
            ("x-remote-user",),
            "Headers that may hold the user's name.",
        ),
        Flag("requestheader-uid-headers", STRINGS, (), "Headers that may hold the user's uid."),
        Flag(
            "requestheader-group-headers",
            STRINGS,
            ("x-remote-group",),
            "Headers that may hold the user's groups.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            ("x-remote-extra-",),
            "Beginnings of headers that hold more about the user.",
        ),
    ),
)

AUTHORIZATION: Final = Group(
    "authorization",
    (
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            ("/healthz", "/readyz", "/livez"),
            "Paths that everybody may read; * at the end stands for anything.",
        ),
        Flag(
            "authorization-kubeconfig",
            STRING,
            "",
            "Kubeconfig for asking the API server what a user may do. In a pod its own account is used; "
            "without either, only the paths above are answered.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            _TTL,
            "How long a permission is remembered.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            _TTL,
            "How long a refusal is remembered.",
        ),
    ),
)

_ALPHA: Final = "Needs the feature gate LoggingAlphaOptions."
_BUFFER: Final = "Bytes of messages to hold back, such as 512 or 64Ki, when the output is split."

METRICS: Final = Group(
    "metrics",
    (
        Flag(
            "allow-metric-labels",
            MAP,
            {},
            "Values a label may have, as metric,label=value,value; others are counted as unexpected.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "",
            "YAML file with a map allowListMapping of the same form. The flag wins over the file.",
        ),
        Flag("disabled-metrics", STRINGS, (), "Full names of metrics to leave out."),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "",
            "Show metrics again that were hidden since this version, which must be the minor version before.",
        ),
    ),
)

LOGS: Final = Group(
    "logs",
    (
        Flag("log-flush-frequency", DURATION, Duration.of_seconds(5), "Longest time a message is held back."),
        Flag("log-json-info-buffer-size", QUANTITY, "0", f"[Alpha] {_BUFFER} {_ALPHA}"),
        Flag(
            "log-json-split-stream",
            BOOL,
            False,
            f"[Alpha] In JSON, errors to stderr, the rest to stdout. {_ALPHA}",
        ),
        Flag("log-text-info-buffer-size", QUANTITY, "0", f"[Alpha] {_BUFFER} {_ALPHA}"),
        Flag(
            "log-text-split-stream",
            BOOL,
            False,
            f"[Alpha] In text, errors to stderr, the rest to stdout. {_ALPHA}",
        ),
        Flag("logging-format", STRING, "text", "How messages are written: text or json."),
        Flag(
            "v",
            LEVEL,
            0,
            "How much is logged; 2 is usual, 4 follows every pod, 10 is everything.",
            shorthand="v",
        ),
        Flag("vmodule", MODULE_LEVELS, (), "Levels for parts of the program, as pattern=N,… (text only)."),
    ),
)

_ONE_BEHAVIOUR: Final = "there is one behaviour, that of 1.36; switch single gates instead"

_TO_STDERR: Final = "the log goes to stderr"
_NO_IMAGES: Final = "the scheduler never asks for images"
_DOMAINS: Final = (
    "kubernetes.io/hostname,failure-domain.beta.kubernetes.io/zone,failure-domain.beta.kubernetes.io/region"
)

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
"""Flags that kube-scheduler does not have."""


def _choices() -> str:
    """The gates that are not locked, one a line."""
    return "".join(
        f"\n{name}=true|false ({gate.stage.value.upper()} - default={str(gate.default).lower()})"
        for name, gate in sorted(GATES.items())
        if not gate.locked
    )


FEATURE_GATES: Final = Group(
    "feature gate",
    (
        Flag(
            "feature-gates",
            SETTINGS,
            (),
            "Gate=true or kube:Gate=false, several separated by commas; can be repeated. AllAlpha and "
            "AllBeta stand for all of a stage. Gates of other components are accepted without effect. "
            "Those of scheduling:" + _choices(),
        ),
        Flag(
            "emulated-version",
            STRINGS,
            (),
            "Version to behave like, from 1.33 to 1.36, as 1.NN or kube=1.NN.",
            ignored=_ONE_BEHAVIOUR,
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            (),
            "Oldest version of the components around, from 1.33 up to the emulated one.",
            ignored=_ONE_BEHAVIOUR,
        ),
    ),
)


def _gone(name: str, kind: Kind[Value], default: Value, why: str) -> Flag:
    """A flag that is accepted with a warning and not in the help."""
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
"""Flags of earlier releases. Those about scheduling and leader election work, the others have no effect."""

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
