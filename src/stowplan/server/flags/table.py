"""Every flag of `stowplan run`, by group. To add one, put it into its group."""

from typing import Final

from stowplan.api.releases import DEFAULT, NEWEST, OLDEST_EMULATED
from stowplan.gocompat.durations import Duration
from stowplan.server.flags.parser import Flag, FlagGroup, FlagKind, Value
from stowplan.server.flags.values import (
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

_FILE_WINS: Final = "Ignored if --config is set."

DEPRECATED: Final = FlagGroup(
    "deprecated",
    (
        Flag("profiling", BOOL, True, f"Serve profiles under /debug/pprof/. {_FILE_WINS}"),
        Flag(
            "contention-profiling",
            BOOL,
            True,
            f"Profile lock contention. {_FILE_WINS}",
            ignored="one thread does the work and never waits for a lock",
        ),
        Flag("kubeconfig", STRING, "", f"Kubeconfig of the API server. {_FILE_WINS}"),
        Flag(
            "kube-api-content-type",
            STRING,
            "application/vnd.kubernetes.protobuf",
            f"Content type of requests to the API server. JSON is used in any case. {_FILE_WINS}",
        ),
        Flag("kube-api-qps", FLOAT32, 50.0, f"Requests per second to the API server. {_FILE_WINS}"),
        Flag(
            "kube-api-burst",
            INT32,
            100,
            f"Burst of requests to the API server. {_FILE_WINS}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            Duration.of_seconds(300),
            "How long a pod stays in unschedulablePods without an event before it is retried.",
        ),
    ),
)

LEADER_ELECTION: Final = FlagGroup(
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
            "How long candidates wait after the last observed renewal before they acquire the lease.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            Duration.of_seconds(10),
            "How long the leader tries to renew before it gives up. Must be less than the lease duration.",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            "leases",
            "Kind of the lock object: leases, or as in earlier releases endpoints, configmaps, "
            "endpointsleases or configmapsleases.",
        ),
        Flag("leader-elect-resource-name", STRING, "kube-scheduler", "Name of the lock object."),
        Flag("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of the lock object."),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            Duration.of_seconds(2),
            "Time between two attempts to acquire or renew the lease.",
        ),
    ),
)

_TTL: Final = Duration.of_seconds(10)
_ONLY_HTTP1: Final = "the port speaks HTTP/1.1 only"

SECURE_SERVING: Final = FlagGroup(
    "secure serving",
    (
        Flag("bind-address", ADDRESS, "0.0.0.0", "Address to listen on; 0.0.0.0 or :: for all."),
        Flag(
            "secure-port", INT, 10259, "HTTPS port for health checks, metrics and debugging. 0 disables it."
        ),
        Flag(
            "cert-dir",
            STRING,
            "",
            "Directory of the certificate (kube-scheduler.crt and .key) if there is no --tls-cert-file; "
            "created if missing. Without a directory a self-signed certificate is kept in memory.",
        ),
        Flag(
            "tls-cert-file",
            STRING,
            "",
            "Serving certificate, followed by intermediate certificates. Reloaded when it changes.",
        ),
        Flag("tls-private-key-file", STRING, "", "Private key of --tls-cert-file."),
        Flag("tls-cipher-suites", STRINGS, (), "Allowed cipher suites, by IANA name."),
        Flag("tls-curve-preferences", NUMBERS, (), "Allowed curves, by TLS number."),
        Flag(
            "tls-min-version",
            STRING,
            "",
            "Minimum TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
        ),
        Flag(
            "tls-sni-cert-key",
            NAMED_PAIRS,
            (),
            "Certificate and key for some SNI names: cert,key or cert,key:name,*.name. Can be repeated.",
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            0,
            "Limit of streams per HTTP/2 connection.",
            ignored=_ONLY_HTTP1,
        ),
        Flag("disable-http2-serving", BOOL, False, "Do not serve HTTP/2.", ignored=_ONLY_HTTP1),
        Flag(
            "permit-port-sharing",
            BOOL,
            False,
            "Allow several processes to listen on the port (SO_REUSEPORT).",
        ),
        Flag(
            "permit-address-sharing",
            BOOL,
            False,
            "Listen even if connections are in TIME_WAIT (SO_REUSEADDR).",
        ),
    ),
)

AUTHENTICATION: Final = FlagGroup(
    "authentication",
    (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "",
            "Kubeconfig for TokenReviews. In a pod the service account is used; without either, tokens are "
            "not accepted.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            False,
            "Do not read CA bundles from kube-system/extension-apiserver-authentication.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            _TTL,
            "How long the result of a TokenReview is cached.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            True,
            "Start even if the CA bundles cannot be read; client certificates are not accepted then.",
        ),
        Flag("client-ca-file", STRING, "", "CA bundle that verifies client certificates."),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "",
            "CA bundle that verifies authenticating proxies.",
        ),
        Flag(
            "requestheader-allowed-names",
            STRINGS,
            (),
            "Common names allowed for authenticating proxies; any if empty.",
        ),
        Flag(
            "requestheader-username-headers",
            STRINGS,
            ("x-remote-user",),
            "Headers with the user name.",
        ),
        Flag("requestheader-uid-headers", STRINGS, (), "Headers with the user's UID."),
        Flag(
            "requestheader-group-headers",
            STRINGS,
            ("x-remote-group",),
            "Headers with the user's groups.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            ("x-remote-extra-",),
            "Prefixes of headers with extra fields of the user.",
        ),
    ),
)

AUTHORIZATION: Final = FlagGroup(
    "authorization",
    (
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            ("/healthz", "/readyz", "/livez"),
            "Paths served without authorization; a trailing * matches any suffix.",
        ),
        Flag(
            "authorization-kubeconfig",
            STRING,
            "",
            "Kubeconfig for SubjectAccessReviews. In a pod the service account is used; without either, only "
            "--authorization-always-allow-paths are served.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            _TTL,
            "How long an allowed SubjectAccessReview is cached.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            _TTL,
            "How long a denied SubjectAccessReview is cached.",
        ),
    ),
)

_ALPHA: Final = "Needs the feature gate LoggingAlphaOptions."
_BUFFER: Final = "Buffer size for info messages with split streams, such as 512 or 64Ki."

METRICS: Final = FlagGroup(
    "metrics",
    (
        Flag(
            "allow-metric-labels",
            MAP,
            {},
            "Allowed values of a label, as metric,label=value,value; others are counted as unexpected.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "",
            "YAML file with a map allowListMapping of the same form. Excludes --allow-metric-labels.",
        ),
        Flag("disabled-metrics", STRINGS, (), "Full names of metrics to disable."),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "",
            "Show metrics again that were hidden since this version, which must be the minor version before.",
        ),
    ),
)

LOGS: Final = FlagGroup(
    "logs",
    (
        Flag(
            "log-flush-frequency", DURATION, Duration.of_seconds(5), "Maximum time between two log flushes."
        ),
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
        Flag("logging-format", STRING, "text", "Log format: text or json."),
        Flag(
            "v",
            LEVEL,
            0,
            "Log verbosity: 2 is usual, 4 logs every pod, 10 is everything.",
            shorthand="v",
        ),
        Flag("vmodule", MODULE_LEVELS, (), "Log verbosity per file, as pattern=N,… (text format only)."),
    ),
)


_TO_STDERR: Final = "the log goes to stderr"
_NO_IMAGES: Final = "the scheduler never asks for images"
_DOMAINS: Final = (
    "kubernetes.io/hostname,failure-domain.beta.kubernetes.io/zone,failure-domain.beta.kubernetes.io/region"
)

MISC: Final = FlagGroup(
    "misc",
    (
        Flag("config", STRING, "", "File with a KubeSchedulerConfiguration. Reloaded when it changes."),
        Flag("master", STRING, "", "Address of the API server; overrides the kubeconfig."),
        Flag(
            "write-config-to", STRING, "", "Write the configuration with all defaults to this file and exit."
        ),
    ),
)

GLOBAL: Final = FlagGroup(
    "global",
    (
        Flag("help", BOOL, False, "Show this help.", shorthand="h"),
        Flag(
            "version",
            VERSION_ASKED,
            "false",
            "Print the version and exit; raw prints all build information. "
            "A value that begins with v is reported instead of the real version.",
        ),
    ),
)

STOWPLAN: Final = FlagGroup(
    "stowplan",
    (
        Flag(
            "plugin",
            EACH,
            (),
            "Out-of-tree plugin that the configuration enables, as module:Class or file.py:Class; with "
            "@sha256:DIGEST, the file must have this digest. Can be repeated.",
        ),
        Flag(
            "page",
            BOOL,
            False,
            "Serve the page at /stowplan/ on the secure port. The API /stowplan/v1 is always served there.",
        ),
        Flag(
            "annotate-results",
            BOOL,
            False,
            "Annotate bound pods with the results of filters and scores, as kube-scheduler-simulator does. "
            "Needs the right to patch pods.",
        ),
        Flag(
            "record",
            STRING,
            "",
            "Record watch events and decisions to this file, for `stowplan replay`.",
        ),
        Flag(
            "record-max-size",
            QUANTITY,
            "1Gi",
            "Maximum size of the recording; the oldest part is deleted first.",
        ),
        Flag(
            "wake-failed-groups",
            BOOL,
            True,
            "Retry a PodGroup that could not be placed soon after an event that may help it, like a pod. "
            "If false, it waits for its backoff of up to 10 s * sqrt(pods), as in kube-scheduler. "
            "Only with the feature gate GenericWorkload.",
        ),
    ),
)
"""Flags that kube-scheduler does not have."""


def _choices() -> str:
    """The gates that are not locked, one a line."""
    return "".join(
        f"\n{name}=true|false ({gate.stage.value.upper()} - default={str(gate.default).lower()})"
        for name, gate in sorted(DEFAULT.gates.items())
        if gate.has_effect and not gate.locked
    )


FEATURE_GATES: Final = FlagGroup(
    "feature gate",
    (
        Flag(
            "feature-gates",
            SETTINGS,
            (),
            "Gate=true or kube:Gate=false, comma-separated; can be repeated. AllAlpha and AllBeta set all "
            "gates of a stage. Gates of other components have no effect. The scheduler's gates:" + _choices(),
        ),
        Flag(
            "emulated-version",
            STRINGS,
            (),
            f"Kubernetes version to emulate, from {OLDEST_EMULATED} to {NEWEST.name}, as "
            f"1.NN or kube=1.NN (default {DEFAULT.name}).",
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            (),
            f"Oldest version of other components around, from {OLDEST_EMULATED} to the emulated version "
            "(default: the version before it). Some feature gates depend on it.",
        ),
    ),
)


def _gone(name: str, kind: FlagKind[Value], default: Value, why: str) -> Flag:
    """A flag that is accepted with a warning and not in the help."""
    return Flag(name, kind, default, "No effect.", deprecated=f"it has no effect: {why}")


LEGACY: Final = FlagGroup(
    "legacy",
    (
        Flag(
            "policy-config-file",
            STRING,
            "",
            "File with a Policy (predicates and priorities by name). Reloaded when it changes. "
            "Ignored if --policy-configmap is set, unless --use-legacy-policy-config is set. " + _FILE_WINS,
        ),
        Flag(
            "policy-configmap",
            STRING,
            "",
            f"ConfigMap with a Policy under the key policy.cfg. Must exist at startup. {_FILE_WINS}",
        ),
        Flag("policy-configmap-namespace", STRING, "kube-system", "Namespace of that ConfigMap."),
        Flag(
            "use-legacy-policy-config",
            BOOL,
            False,
            "Use --policy-config-file even if --policy-configmap is set.",
        ),
        Flag(
            "algorithm-provider",
            STRING,
            "",
            "Predicates and priorities of an earlier release if there is no Policy: DefaultProvider or "
            f"ClusterAutoscalerProvider, as of 1.18; with @1.9 appended, as of 1.9. {_FILE_WINS}",
        ),
        Flag(
            "scheduler-name",
            STRING,
            "default-scheduler",
            f"schedulerName of the pods to schedule. {_FILE_WINS}",
        ),
        Flag(
            "hard-pod-affinity-symmetric-weight",
            INT32,
            1,
            "Weight of required pod affinity of running pods when scoring, from 0 to 100. "
            f"A value in the Policy takes precedence. {_FILE_WINS}",
        ),
        Flag(
            "lock-object-name",
            STRING,
            "kube-scheduler",
            f"Same as --leader-elect-resource-name, which takes precedence. {_FILE_WINS}",
        ),
        Flag(
            "lock-object-namespace",
            STRING,
            "kube-system",
            f"Same as --leader-elect-resource-namespace, which takes precedence. {_FILE_WINS}",
        ),
        Flag(
            "address",
            STRING,
            "0.0.0.0",
            "Address of the insecure port, which does not exist: see --bind-address.",
        ),
        Flag("port", INT, 10251, "Insecure port. It is not served, as with 0: see --secure-port."),
        Flag(
            "show-legacy-metrics",
            BOOL,
            False,
            "Also serve metrics under their names of 1.9 to 1.18.",
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
