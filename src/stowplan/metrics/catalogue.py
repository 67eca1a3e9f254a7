"""Every metric: name, labels, buckets and stability as in kube-scheduler, with help texts of our own.

Where releases differ, a description says since when it is there, until when, and what became of it.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

from stowplan.releases import Release, Version

PREFIX: Final = "scheduler_"

_HINTS: Final = "SchedulerQueueingHints"
_ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
_ASYNC_CALLS: Final = "SchedulerAsyncAPICalls"
_EXTENDED: Final = "DRAExtendedResource"
_CONDITIONS: Final = "DRADeviceBindingConditions"
_GROUPS: Final = "GenericWorkload"
_PLACEMENTS: Final = "TopologyAwareWorkloadScheduling"

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


class Stability(StrEnum):
    """Stability level of a metric."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "STABLE"


_ANY: Final = Version(0, 0)
_INFORMER: Final = ("name", "group", "version", "resource")
_SINCE_1_37: Final = Version(1, 37)
_SHOWN_AFTER_DEPRECATION: Final = {Stability.ALPHA: 0, Stability.BETA: 1, Stability.STABLE: 3}


class MetricDescription(NamedTuple):
    """One metric family. With a feature gate it exists only if that is enabled. `bounds` are for histograms.

    Names that other components share have no prefix. Releases have it from `since` on and before `until`.
    From `promoted` on it is `BETA`. What is `deprecated` since some release is hidden after a while.
    """

    name: str
    labels: tuple[str, ...]
    stability: Stability
    help: str
    gate: str | None = None
    bounds: tuple[float, ...] = ()
    prefix: str = PREFIX
    since: Version = _ANY
    until: Version | None = None
    promoted: Version | None = None
    deprecated: Version | None = None

    def in_release(self, release: Release) -> "MetricDescription | None":
        """The family as a release has it; None if it has none of this name."""
        now = release.minor
        if now < self.since or (self.until is not None and now >= self.until):
            return None
        described = self
        if self.promoted is not None and now >= self.promoted:
            described = described._replace(stability=Stability.BETA)
        if self.deprecated is not None and now < self.deprecated:
            described = described._replace(deprecated=None)
        return described

    def is_hidden(self, now: Version) -> bool:
        """Whether a deprecated family is no longer shown: at once (ALPHA), or after one or three releases."""
        if self.deprecated is None:
            return False
        shown_for = _SHOWN_AFTER_DEPRECATION[self.stability]
        return now >= Version(self.deprecated.major, self.deprecated.minor + shown_for)

    @property
    def full_name(self) -> str:
        return self.prefix + self.name

    @property
    def text(self) -> str:
        """The help text, with the stability level in front."""
        deprecated = f"(Deprecated since {self.deprecated}.0) " if self.deprecated else ""
        return f"[{self.stability}] {deprecated}{self.help}"


class Catalogue(NamedTuple):
    """The families of one registry."""

    counters: tuple[MetricDescription, ...] = ()
    gauges: tuple[MetricDescription, ...] = ()
    histograms: tuple[MetricDescription, ...] = ()

    @property
    def all(self) -> tuple[MetricDescription, ...]:
        return (*self.counters, *self.gauges, *self.histograms)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bucket bounds, each `factor` times the one before."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


ALPHA, BETA, STABLE = Stability

_ATTEMPT: Final = exponential(0.001, 2, 15)
_SHORT: Final = exponential(0.0001, 2, 12)
_SHORTER: Final = exponential(0.00001, 2, 12)
_PLUGIN: Final = exponential(0.00001, 1.5, 20)
_LONG: Final = exponential(0.01, 2, 20)

COUNTERS: Final = (
    MetricDescription(
        "unexpected_errors_total",
        ("source",),
        ALPHA,
        "Exceptions that nobody expected, by where they were caught; the log has their tracebacks.",
        prefix="stowplan_",
    ),
    MetricDescription(
        "schedule_attempts_total",
        ("result", "profile"),
        STABLE,
        "Attempts to place a pod: scheduled, unschedulable (no node fits) or error (something went wrong).",
    ),
    MetricDescription(
        "preemption_attempts_total", (), STABLE, "How often it was tried to make room for a pod."
    ),
    MetricDescription(
        "pod_scheduled_after_flush_total",
        (),
        ALPHA,
        "Pods that were placed after being tried again only because they had waited so long; "
        "many of them suggest that an event or a queueing hint is missing.",
    ),
    MetricDescription(
        "queue_incoming_pods_total",
        ("queue", "event"),
        STABLE,
        "Pods that came to a part of the scheduling queue, by the event that brought them there.",
    ),
    MetricDescription(
        "queue_incoming_entities_total",
        ("queue", "event", "type"),
        ALPHA,
        "Pods without a group (pod) and groups of pods (podgroup) that came to a part of the scheduling "
        "queue, by the event that brought them there.",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "pre_queueing_hint_evaluations_total",
        ("plugin", "result"),
        ALPHA,
        "How often a plugin was asked which pods an event may help: all_pods, or some (narrowed).",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "batch_rescore_attempts_total",
        ("profile",),
        ALPHA,
        "How often the last node of a batch was scored again.",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "plugin_evaluation_total",
        ("plugin", "extension_point", "profile"),
        BETA,
        "How often a plugin judged a pod or a pod on a node, at PreFilter, Filter, PreScore and Score.",
    ),
    MetricDescription(
        "batch_attempts_total",
        ("profile", "result"),
        ALPHA,
        "Attempts to reuse the outcome of the pod before, by what became of them.",
    ),
    MetricDescription(
        "batch_cache_flushed_total",
        ("profile", "reason"),
        ALPHA,
        "How often the outcome of the pod before was thrown away, by reason.",
    ),
    MetricDescription(
        "preemption_goroutines_execution_total",
        ("result",),
        ALPHA,
        "Evictions of all victims of a preemption, by result.",
        _ASYNC_PREEMPTION,
    ),
    MetricDescription(
        "resourceclaim_creates_total",
        ("status",),
        ALPHA,
        "ResourceClaims the scheduler asked the API server to create, by outcome.",
        _EXTENDED,
        until=_SINCE_1_37,
    ),
    MetricDescription(
        "resourceclaim_creates_total",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        ALPHA,
        "ResourceClaims the API server was asked to create, by outcome, access and kind of their owner.",
        _EXTENDED,
        prefix="dynamic_resource_allocation_",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "dra_bindingconditions_allocations_total",
        ("profile", "driver", "status"),
        ALPHA,
        "Allocated devices that had conditions to meet before binding, by driver and outcome.",
        _CONDITIONS,
    ),
    MetricDescription(
        "async_api_call_execution_total",
        ("call_type", "result"),
        ALPHA,
        "API calls made by the asynchronous dispatcher, by kind and result.",
        _ASYNC_CALLS,
    ),
    MetricDescription(
        "podgroup_schedule_attempts_total",
        ("result", "profile"),
        ALPHA,
        "Attempts to place a group of pods, by result.",
        _GROUPS,
    ),
    MetricDescription(
        "workload_preemption_attempts_total",
        ("result",),
        ALPHA,
        "How often it was tried to make room for a group of pods, by result.",
        _GROUPS,
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "preemption_pdb_violations_total",
        ("preemptor",),
        ALPHA,
        "Disruption budgets that preemption violated, by who preempted.",
        _GROUPS,
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "generated_placements_total",
        ("profile",),
        ALPHA,
        "Placements that were considered for groups of pods.",
        _PLACEMENTS,
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "placement_evaluations_total",
        ("result", "profile"),
        ALPHA,
        "Placements that groups of pods were tried in: feasible if the group fits, or infeasible.",
        _PLACEMENTS,
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "volume_binder_cache_requests_total",
        ("operation",),
        ALPHA,
        "Requests to the cache of volume bindings.",
    ),
    MetricDescription(
        "volume_scheduling_stage_error_total",
        ("operation",),
        ALPHA,
        "Failures with volumes, by stage: finding (predicate), reserving (assume) or binding (bind) them.",
    ),
)

GAUGES: Final = (
    MetricDescription(
        "pending_pods",
        ("queue",),
        STABLE,
        "Pods that wait: ready to be tried (active), backing off (backoff), waiting for an event after a "
        "failed attempt (unschedulable), or held back before any attempt (gated).",
    ),
    MetricDescription(
        "queued_entities",
        ("queue", "type"),
        ALPHA,
        "Pods without a group (pod) and groups of pods (podgroup) that wait, by where: see pending_pods.",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "informer_queued_items",
        _INFORMER,
        ALPHA,
        "Changes of objects that were received and are not taken in yet; here they are taken in at once.",
        prefix="",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "informer_store_resource_version",
        _INFORMER,
        ALPHA,
        "The resource version up to which objects are known: its last 15 digits.",
        prefix="",
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "goroutines",
        ("operation",),
        BETA,
        "Tasks running now beside the scheduling of pods, by what they do.",
    ),
    MetricDescription(
        "cache_size",
        ("type",),
        ALPHA,
        "Nodes, pods and assumed pods the scheduler holds in memory.",
    ),
    MetricDescription(
        "unschedulable_pods",
        ("plugin", "profile"),
        BETA,
        "Waiting pods a plugin rejected. A pod counts for each plugin that did, so do not add plugins up.",
    ),
    MetricDescription(
        "inflight_events",
        ("event",),
        ALPHA,
        "Events kept for pods that are being tried, and such pods (PodPopped).",
        _HINTS,
    ),
    MetricDescription(
        "pending_async_api_calls",
        ("call_type",),
        ALPHA,
        "API calls that wait in the asynchronous dispatcher.",
        _ASYNC_CALLS,
    ),
)

HISTOGRAMS: Final = (
    MetricDescription(
        "scheduling_attempt_duration_seconds",
        ("result", "profile"),
        STABLE,
        "How long an attempt to place a pod took, binding included.",
        bounds=_ATTEMPT,
    ),
    MetricDescription(
        "scheduling_algorithm_duration_seconds",
        (),
        ALPHA,
        "How long it took to look for a node.",
        promoted=_SINCE_1_37,
        bounds=_ATTEMPT,
    ),
    MetricDescription(
        "event_handling_duration_seconds",
        ("event",),
        ALPHA,
        "How long it took to take in a change of the cluster.",
        bounds=_SHORT,
    ),
    MetricDescription(
        "preemption_victims",
        (),
        STABLE,
        "Pods that had to go to make room for another.",
        bounds=exponential(1, 2, 7),
    ),
    MetricDescription(
        "pod_scheduling_sli_duration_seconds",
        ("attempts",),
        BETA,
        "From the moment a pod was first ready to be tried until it was bound, by the attempts it took.",
        bounds=_LONG,
    ),
    MetricDescription(
        "pod_scheduling_attempts",
        (),
        STABLE,
        "How many attempts it took until a pod was bound.",
        bounds=exponential(1, 2, 5),
    ),
    MetricDescription(
        "framework_extension_point_duration_seconds",
        ("extension_point", "status", "profile"),
        STABLE,
        "How long all plugins of an extension point took together.",
        bounds=_SHORT,
    ),
    MetricDescription(
        "plugin_execution_duration_seconds",
        ("plugin", "extension_point", "status"),
        ALPHA,
        "How long one plugin took at an extension point; a sample.",
        promoted=_SINCE_1_37,
        bounds=_PLUGIN,
    ),
    MetricDescription(
        "permit_wait_duration_seconds",
        ("result",),
        BETA,
        "How long pods waited for permission to be bound.",
        bounds=_ATTEMPT,
    ),
    MetricDescription(
        "get_node_hint_duration_seconds",
        ("hinted", "profile"),
        ALPHA,
        "How long it took to see whether the outcome of the pod before can be reused.",
        bounds=_SHORTER,
    ),
    MetricDescription(
        "store_schedule_results_duration_seconds",
        ("profile",),
        ALPHA,
        "How long it took to keep an outcome for the pod after.",
        bounds=_SHORTER,
    ),
    MetricDescription(
        "batch_rescore_duration_seconds",
        ("profile",),
        ALPHA,
        "How long it took to score the last node of a batch again.",
        bounds=_SHORTER,
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "queueing_hint_execution_duration_seconds",
        ("plugin", "event", "hint"),
        ALPHA,
        "How long a plugin took to say whether an event helps a pod.",
        _HINTS,
        bounds=_PLUGIN,
    ),
    MetricDescription(
        "preemption_goroutines_duration_seconds",
        ("result",),
        ALPHA,
        "How long it took to evict all victims of a preemption.",
        _ASYNC_PREEMPTION,
        bounds=_LONG,
        deprecated=_SINCE_1_37,
    ),
    MetricDescription(
        "dra_bindingconditions_wait_duration_seconds",
        ("profile", "driver", "status"),
        ALPHA,
        "How long it took until devices met their conditions for binding, or failed to.",
        _CONDITIONS,
        bounds=exponential(0.1, 2, 14),
    ),
    MetricDescription(
        "async_api_call_execution_duration_seconds",
        ("call_type", "result"),
        ALPHA,
        "How long API calls of the asynchronous dispatcher took.",
        _ASYNC_CALLS,
        bounds=_ATTEMPT,
    ),
    MetricDescription(
        "podgroup_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        ALPHA,
        "How long an attempt to place a group of pods took, binding included.",
        _GROUPS,
        bounds=_ATTEMPT,
    ),
    MetricDescription(
        "podgroup_scheduling_algorithm_duration_seconds",
        (),
        ALPHA,
        "How long it took to look for places for a group of pods.",
        _GROUPS,
        bounds=_ATTEMPT,
    ),
)

_WORKLOAD_HISTOGRAMS: Final = (
    MetricDescription(
        "workload_preemption_victims",
        (),
        ALPHA,
        "Pods that had to go to make room for a group of pods.",
        _GROUPS,
        bounds=exponential(1, 2, 11),
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "preemption_workload_disruptions",
        ("preemptor",),
        ALPHA,
        "Groups and single pods that were disrupted by a preemption, by who preempted.",
        _GROUPS,
        bounds=exponential(1, 2, 11),
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "preemption_evaluation_duration_seconds",
        ("preemptor", "result"),
        ALPHA,
        "How long it took to find victims.",
        _GROUPS,
        bounds=exponential(0.001, 2, 16),
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "preemption_execution_duration_seconds",
        ("preemptor", "result"),
        ALPHA,
        "How long it took to evict victims.",
        _GROUPS,
        bounds=exponential(0.001, 2, 16),
        since=_SINCE_1_37,
    ),
    MetricDescription(
        "placement_evaluation_duration_seconds",
        ("result", "profile"),
        ALPHA,
        "How long it took to try a group of pods in a placement.",
        _PLACEMENTS,
        bounds=_ATTEMPT,
        since=_SINCE_1_37,
    ),
)

SCHEDULING: Final = Catalogue(COUNTERS, GAUGES, (*HISTOGRAMS, *_WORKLOAD_HISTOGRAMS))


def metric_notes(before: Release, after: Release) -> Iterator[str]:
    """What changes in the metrics of scheduling between two releases."""
    added = [one.full_name for one in SCHEDULING.all if one.in_release(after) and not one.in_release(before)]
    if added:
        yield f"metrics that are new: {', '.join(sorted(added))}"
    for described in SCHEDULING.all:
        old, new = described.in_release(before), described.in_release(after)
        name = described.full_name
        if new is None and old is not None:
            yield f"metric {name}: is gone"
        if old is not None and new is not None:
            if new.stability != old.stability:
                yield f"metric {name}: is {new.stability}"
            if new.deprecated and not old.deprecated:
                shown = f"shown with --show-hidden-metrics-for-version={before.name}"
                yield f"metric {name}: is deprecated and hidden, {shown}"


# Metrics of the process beside scheduling; docs/metrics.md says which of kube-scheduler's are left out

_ACCESS: Final = exponential(0.001, 2, 15)


def _counter(name: str, labels: str, stability: Stability, text: str) -> MetricDescription:
    return MetricDescription(name, tuple(labels.split()), stability, text, prefix="")


def _histogram(name: str, labels: str, bounds: tuple[float, ...], text: str) -> MetricDescription:
    return MetricDescription(name, tuple(labels.split()), ALPHA, text, bounds=bounds, prefix="")


_gauge = _counter

REQUESTS: Final = Catalogue(
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

ACCESS: Final = Catalogue(
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

FACTS: Final = Catalogue(
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
        _gauge("process_virtual_memory_max_bytes", "", ALPHA, "Virtual memory the process may use."),
    ),
)

PROCESS: Final = Catalogue(
    (*REQUESTS.counters, *ACCESS.counters, *FACTS.counters),
    (*REQUESTS.gauges, *ACCESS.gauges, *FACTS.gauges),
    (*REQUESTS.histograms, *ACCESS.histograms, *FACTS.histograms),
)

HEALTH: Final = Catalogue(
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
