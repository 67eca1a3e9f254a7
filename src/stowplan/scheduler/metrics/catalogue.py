"""Every metric of scheduling, with help texts of our own.

Where releases differ, a description says since when it is there, until when, and what became of it.
"""

from collections.abc import Iterator
from typing import Final

from stowplan.api.releases import Release, Version
from stowplan.scheduler.metrics.descriptions import (
    ALPHA,
    BETA,
    STABLE,
    MetricCatalogue,
    MetricDescription,
    exponential,
)

_HINTS: Final = "SchedulerQueueingHints"
_ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
_ASYNC_CALLS: Final = "SchedulerAsyncAPICalls"
_EXTENDED: Final = "DRAExtendedResource"
_CONDITIONS: Final = "DRADeviceBindingConditions"
_GROUPS: Final = "GenericWorkload"
_PLACEMENTS: Final = "TopologyAwareWorkloadScheduling"
_CACHE: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PROCESSING: Final = (0.001, *_CACHE)
_INFORMER: Final = ("name", "group", "version", "resource")
_SINCE_1_37: Final = Version(1, 37)

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
        "slow_attempts_total",
        ("profile",),
        ALPHA,
        "Attempts to place a pod or a group of pods that took more than a second of the scheduling loop.",
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
        "costly_owner_cycle_seconds",
        ("namespace", "owner"),
        ALPHA,
        "Seconds that scheduling cycles took so far, for the 10 owners of pods (their controllers, or pods "
        "without one) that took most.",
        prefix="stowplan_",
    ),
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
        "Tasks running now, apart from scheduling, by kind of work.",
    ),
    MetricDescription(
        "cache_size",
        ("type",),
        ALPHA,
        "Nodes, pods and assumed pods the scheduler holds in memory.",
    ),
    MetricDescription(
        "unreadable_objects",
        ("resource",),
        ALPHA,
        "Objects whose present version cannot be decoded; the log says why.",
        prefix="stowplan_",
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
        "informer_processing_latency_seconds",
        _INFORMER,
        ALPHA,
        "How long it took to take in a change of an object.",
        bounds=_PROCESSING,
        prefix="",
        since=_SINCE_1_37,
    ),
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

SCHEDULING: Final = MetricCatalogue(COUNTERS, GAUGES, (*HISTOGRAMS, *_WORKLOAD_HISTOGRAMS))


def metric_notes(before: Release, after: Release) -> Iterator[str]:
    """Differences in scheduling metrics between two releases."""
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
