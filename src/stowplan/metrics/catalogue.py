"""Which metrics there are: names, labels, buckets, stability as in kube-scheduler 1.36, texts of our own."""

from typing import Final

from stowplan.metrics.description import Catalogue, Description, Stability, exponential

ALPHA, BETA, STABLE = Stability

_ATTEMPT: Final = exponential(0.001, 2, 15)
_SHORT: Final = exponential(0.0001, 2, 12)
_SHORTER: Final = exponential(0.00001, 2, 12)
_PLUGIN: Final = exponential(0.00001, 1.5, 20)
_LONG: Final = exponential(0.01, 2, 20)

_HINTS: Final = "SchedulerQueueingHints"
_ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
_ASYNC_CALLS: Final = "SchedulerAsyncAPICalls"
_EXTENDED: Final = "DRAExtendedResource"
_CONDITIONS: Final = "DRADeviceBindingConditions"
_GROUPS: Final = "GenericWorkload"

COUNTERS: Final = (
    Description(
        "unexpected_errors_total",
        ("source",),
        ALPHA,
        "Exceptions that nobody expected, by where they were caught; the log has their tracebacks.",
        prefix="stowplan_",
    ),
    Description(
        "schedule_attempts_total",
        ("result", "profile"),
        STABLE,
        "Attempts to place a pod: scheduled, unschedulable (no node fits) or error (something went wrong).",
    ),
    Description("preemption_attempts_total", (), STABLE, "How often it was tried to make room for a pod."),
    Description(
        "pod_scheduled_after_flush_total",
        (),
        ALPHA,
        "Pods that were placed after being tried again only because they had waited so long; "
        "many of them suggest that an event or a queueing hint is missing.",
    ),
    Description(
        "queue_incoming_pods_total",
        ("queue", "event"),
        STABLE,
        "Pods that came to a part of the scheduling queue, by the event that brought them there.",
    ),
    Description(
        "plugin_evaluation_total",
        ("plugin", "extension_point", "profile"),
        BETA,
        "How often a plugin judged a pod or a pod on a node, at PreFilter, Filter, PreScore and Score.",
    ),
    Description(
        "batch_attempts_total",
        ("profile", "result"),
        ALPHA,
        "Attempts to reuse the outcome of the pod before, by what became of them.",
    ),
    Description(
        "batch_cache_flushed_total",
        ("profile", "reason"),
        ALPHA,
        "How often the outcome of the pod before was thrown away, by reason.",
    ),
    Description(
        "preemption_goroutines_execution_total",
        ("result",),
        ALPHA,
        "Evictions of all victims of a preemption, by result.",
        _ASYNC_PREEMPTION,
    ),
    Description(
        "resourceclaim_creates_total",
        ("status",),
        ALPHA,
        "ResourceClaims the scheduler asked the API server to create, by outcome.",
        _EXTENDED,
    ),
    Description(
        "dra_bindingconditions_allocations_total",
        ("profile", "driver", "status"),
        ALPHA,
        "Allocated devices that had conditions to meet before binding, by driver and outcome.",
        _CONDITIONS,
    ),
    Description(
        "async_api_call_execution_total",
        ("call_type", "result"),
        ALPHA,
        "API calls made by the asynchronous dispatcher, by kind and result.",
        _ASYNC_CALLS,
    ),
    Description(
        "podgroup_schedule_attempts_total",
        ("result", "profile"),
        ALPHA,
        "Attempts to place a group of pods, by result.",
        _GROUPS,
    ),
    Description(
        "volume_binder_cache_requests_total",
        ("operation",),
        ALPHA,
        "Requests to the cache of volume bindings.",
    ),
    Description(
        "volume_scheduling_stage_error_total",
        ("operation",),
        ALPHA,
        "Failures with volumes, by stage: finding (predicate), reserving (assume) or binding (bind) them.",
    ),
)

GAUGES: Final = (
    Description(
        "pending_pods",
        ("queue",),
        STABLE,
        "Pods that wait: ready to be tried (active), backing off (backoff), waiting for an event after a "
        "failed attempt (unschedulable), or held back before any attempt (gated).",
    ),
    Description(
        "goroutines",
        ("operation",),
        BETA,
        "Tasks running now beside the scheduling of pods, by what they do.",
    ),
    Description(
        "cache_size",
        ("type",),
        ALPHA,
        "Nodes, pods and assumed pods the scheduler holds in memory.",
    ),
    Description(
        "unschedulable_pods",
        ("plugin", "profile"),
        BETA,
        "Waiting pods a plugin rejected. A pod counts for each plugin that did, so do not add plugins up.",
    ),
    Description(
        "inflight_events",
        ("event",),
        ALPHA,
        "Events kept for pods that are being tried, and such pods (PodPopped).",
        _HINTS,
    ),
    Description(
        "pending_async_api_calls",
        ("call_type",),
        ALPHA,
        "API calls that wait in the asynchronous dispatcher.",
        _ASYNC_CALLS,
    ),
)

HISTOGRAMS: Final = (
    Description(
        "scheduling_attempt_duration_seconds",
        ("result", "profile"),
        STABLE,
        "How long an attempt to place a pod took, binding included.",
        bounds=_ATTEMPT,
    ),
    Description(
        "scheduling_algorithm_duration_seconds",
        (),
        ALPHA,
        "How long it took to look for a node.",
        bounds=_ATTEMPT,
    ),
    Description(
        "event_handling_duration_seconds",
        ("event",),
        ALPHA,
        "How long it took to take in a change of the cluster.",
        bounds=_SHORT,
    ),
    Description(
        "preemption_victims",
        (),
        STABLE,
        "Pods that had to go to make room for another.",
        bounds=exponential(1, 2, 7),
    ),
    Description(
        "pod_scheduling_sli_duration_seconds",
        ("attempts",),
        BETA,
        "From the moment a pod was first ready to be tried until it was bound, by the attempts it took.",
        bounds=_LONG,
    ),
    Description(
        "pod_scheduling_attempts",
        (),
        STABLE,
        "How many attempts it took until a pod was bound.",
        bounds=exponential(1, 2, 5),
    ),
    Description(
        "framework_extension_point_duration_seconds",
        ("extension_point", "status", "profile"),
        STABLE,
        "How long all plugins of an extension point took together.",
        bounds=_SHORT,
    ),
    Description(
        "plugin_execution_duration_seconds",
        ("plugin", "extension_point", "status"),
        ALPHA,
        "How long one plugin took at an extension point; a sample.",
        bounds=_PLUGIN,
    ),
    Description(
        "permit_wait_duration_seconds",
        ("result",),
        BETA,
        "How long pods waited for permission to be bound.",
        bounds=_ATTEMPT,
    ),
    Description(
        "get_node_hint_duration_seconds",
        ("hinted", "profile"),
        ALPHA,
        "How long it took to see whether the outcome of the pod before can be reused.",
        bounds=_SHORTER,
    ),
    Description(
        "store_schedule_results_duration_seconds",
        ("profile",),
        ALPHA,
        "How long it took to keep an outcome for the pod after.",
        bounds=_SHORTER,
    ),
    Description(
        "queueing_hint_execution_duration_seconds",
        ("plugin", "event", "hint"),
        ALPHA,
        "How long a plugin took to say whether an event helps a pod.",
        _HINTS,
        bounds=_PLUGIN,
    ),
    Description(
        "preemption_goroutines_duration_seconds",
        ("result",),
        ALPHA,
        "How long it took to evict all victims of a preemption.",
        _ASYNC_PREEMPTION,
        bounds=_LONG,
    ),
    Description(
        "dra_bindingconditions_wait_duration_seconds",
        ("profile", "driver", "status"),
        ALPHA,
        "How long it took until devices met their conditions for binding, or failed to.",
        _CONDITIONS,
        bounds=exponential(0.1, 2, 14),
    ),
    Description(
        "async_api_call_execution_duration_seconds",
        ("call_type", "result"),
        ALPHA,
        "How long API calls of the asynchronous dispatcher took.",
        _ASYNC_CALLS,
        bounds=_ATTEMPT,
    ),
    Description(
        "podgroup_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        ALPHA,
        "How long an attempt to place a group of pods took, binding included.",
        _GROUPS,
        bounds=_ATTEMPT,
    ),
    Description(
        "podgroup_scheduling_algorithm_duration_seconds",
        (),
        ALPHA,
        "How long it took to look for places for a group of pods.",
        _GROUPS,
        bounds=_ATTEMPT,
    ),
)

SCHEDULING: Final = Catalogue(COUNTERS, GAUGES, HISTOGRAMS)
