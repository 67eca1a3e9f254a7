"""Metrics of the process besides scheduling; docs/metrics.md lists those of kube-scheduler that are left
out."""

from typing import Final

from stowplan.scheduler.metrics.descriptions import (
    ALPHA,
    BETA,
    STABLE,
    MetricCatalogue,
    MetricDescription,
    Stability,
    exponential,
)

_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE: Final = (64.0, 256.0, 512.0, *(float(1024 * 4**power) for power in range(8)))
_REVIEW: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_CACHE: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_LIFETIME: Final = (
    *(hours * _HOUR for hours in (0, 0.5, 1, 2, 6, 12)),
    *(days * _DAY for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)
_ACCESS: Final = exponential(0.001, 2, 15)


def _counter(name: str, labels: str, stability: Stability, text: str) -> MetricDescription:
    return MetricDescription(name, tuple(labels.split()), stability, text, prefix="")


def _histogram(name: str, labels: str, bounds: tuple[float, ...], text: str) -> MetricDescription:
    return MetricDescription(name, tuple(labels.split()), ALPHA, text, bounds=bounds, prefix="")


_gauge = _counter

REQUESTS: Final = MetricCatalogue(
    counters=(
        _counter(
            "rest_client_requests_total",
            "code method host",
            ALPHA,
            "Requests sent to the API server, by what it answered; <error> if nothing came back.",
        ),
        _counter(
            "rest_client_request_retries_total",
            "code verb host",
            ALPHA,
            "Requests that were sent again, by what was answered then.",
        ),
    ),
    histograms=(
        _histogram(
            "rest_client_request_duration_seconds",
            "verb host",
            _REQUEST,
            "How long a request took until its last answer, watches left out.",
        ),
        _histogram(
            "rest_client_rate_limiter_duration_seconds",
            "verb host",
            _REQUEST,
            "How long requests were held back here so as not to send too many.",
        ),
        _histogram("rest_client_request_size_bytes", "verb host", _SIZE, "Bytes of the bodies sent."),
        _histogram("rest_client_response_size_bytes", "verb host", _SIZE, "Bytes of the bodies received."),
    ),
)

ACCESS: Final = MetricCatalogue(
    counters=(
        _counter("authenticated_user_requests", "username", ALPHA, "Requests by who sent them."),
        _counter("authentication_attempts", "result", ALPHA, "Attempts to find out who sent a request."),
        _counter("authorization_attempts_total", "result", ALPHA, "Decisions about who may see a page."),
        _counter(
            "authentication_token_cache_request_total",
            "status",
            ALPHA,
            "Tokens that were known already (hit) or not (miss).",
        ),
        _counter(
            "authentication_token_cache_fetch_total",
            "status",
            ALPHA,
            "Tokens the API server was asked about, by whether they were good.",
        ),
        _counter(
            "apiserver_delegated_authn_request_total",
            "code",
            ALPHA,
            "TokenReviews sent to the API server, by what it answered.",
        ),
        _counter(
            "apiserver_delegated_authz_request_total",
            "code",
            ALPHA,
            "SubjectAccessReviews sent to the API server, by what it answered.",
        ),
    ),
    gauges=(
        _gauge(
            "authentication_token_cache_active_fetch_count",
            "status",
            ALPHA,
            "Tokens the API server is being asked about (in_flight), and requests that wait (blocked).",
        ),
    ),
    histograms=(
        _histogram(
            "authentication_duration_seconds", "result", _ACCESS, "How long it took to find out who asks."
        ),
        _histogram(
            "authorization_duration_seconds", "result", _ACCESS, "How long it took to decide who may ask."
        ),
        _histogram(
            "authentication_token_cache_request_duration_seconds",
            "status",
            _CACHE,
            "How long it took to learn whose token it is, known (hit) or not (miss).",
        ),
        _histogram(
            "apiserver_delegated_authn_request_duration_seconds",
            "code",
            _REVIEW,
            "How long TokenReviews took.",
        ),
        _histogram(
            "apiserver_delegated_authz_request_duration_seconds",
            "code",
            _REVIEW,
            "How long SubjectAccessReviews took.",
        ),
        _histogram(
            "apiserver_client_certificate_expiration_seconds",
            "",
            _LIFETIME,
            "For how long the certificates that clients showed were still good.",
        ),
    ),
)

FACTS: Final = MetricCatalogue(
    counters=(
        MetricDescription(
            "event_loop_holds_total",
            ("activity",),
            ALPHA,
            "Turns of the event loop that took longer than 50 ms, by who held it.",
            prefix="stowplan_",
        ),
        _counter(
            "registered_metrics_total",
            "stability_level deprecated_version",
            BETA,
            "Families of metrics there are, by how far they may be relied on.",
        ),
        _counter("hidden_metrics_total", "", BETA, "Families that are hidden because they are deprecated."),
        _counter("disabled_metrics_total", "", BETA, "Families that were switched off."),
        _counter(
            "cardinality_enforcement_unexpected_categorizations_total",
            "",
            ALPHA,
            "How often a label had a value that is not among the allowed ones.",
        ),
        _counter(
            "leader_election_slowpath_total",
            "name",
            ALPHA,
            "How often renewing the lease took reading it first.",
        ),
        _counter("process_network_receive_bytes_total", "", ALPHA, "Bytes that came in over the network."),
        _counter("process_network_transmit_bytes_total", "", ALPHA, "Bytes that went out over the network."),
    ),
    gauges=(
        _gauge(
            "kubernetes_build_info",
            "major minor git_version git_commit git_tree_state build_date go_version compiler platform",
            BETA,
            "Always 1; the labels say which build this is.",
        ),
        _gauge(
            "kubernetes_feature_enabled",
            "name stage",
            BETA,
            "Whether a feature gate is on (1) or off (0), with its stage.",
        ),
        _gauge(
            "version_info",
            "component binary emulation min_compat",
            ALPHA,
            "Always 1; the labels say which version this is and behaves like.",
        ),
        _gauge("leader_election_master_status", "name", ALPHA, "Whether this process leads (1) or not (0)."),
        MetricDescription(
            "event_loop_longest_hold_seconds",
            ("activity", "plugin"),
            ALPHA,
            "The longest turn of the event loop so far, and who held it.",
            prefix="stowplan_",
        ),
        MetricDescription(
            "apiserver_reachable",
            ("server",),
            ALPHA,
            "Whether an API server can be reached (1) or not (0).",
            prefix="stowplan_",
        ),
        MetricDescription(
            "config_last_reload_successful",
            (),
            ALPHA,
            "Whether the configuration and plugins that changed last were loaded (1), or refused (0); then "
            "those before stay in force.",
            prefix="stowplan_",
        ),
        _gauge("process_virtual_memory_max_bytes", "", ALPHA, "Virtual memory the process may use."),
    ),
)

PROCESS: Final = MetricCatalogue(
    (*REQUESTS.counters, *ACCESS.counters, *FACTS.counters),
    (*REQUESTS.gauges, *ACCESS.gauges, *FACTS.gauges),
    (*REQUESTS.histograms, *ACCESS.histograms, *FACTS.histograms),
)

HEALTH: Final = MetricCatalogue(
    counters=(
        MetricDescription(
            "kubernetes_healthchecks_total",
            ("name", "type", "status"),
            STABLE,
            "How often each check was made, by outcome.",
            prefix="",
        ),
    ),
    gauges=(
        MetricDescription(
            "kubernetes_healthcheck",
            ("name", "type"),
            STABLE,
            "Whether each check passed (1) or not (0) when it was last made.",
            prefix="",
        ),
        MetricDescription(
            "process_start_time_seconds",
            (),
            ALPHA,
            "When the process was started, in seconds since 1970.",
            prefix="",
        ),
    ),
)
