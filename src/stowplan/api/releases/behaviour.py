"""Behaviours: named choices where releases differ in a rule, beyond what feature gates and plugin lists say.

A record has one field per choice. The field's sentence says what differs; docs/versions.md lists all of them,
and `stowplan config migrate` tells users which ones change for them. A plugin, the queue or the table takes
its variant from here when it is built; no rule compares versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple


def _choice(sentence: str) -> Any:
    """A field of a record, with the sentence that says what differs."""
    return field(metadata={"sentence": sentence})


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """Cluster events, queueing hints, and the scheduling queue."""

    target_pod_events: bool = _choice(
        "An update of a waiting pod itself is an event of TargetPod, and plugins register AssignedPod, "
        "UnscheduledPod and TargetPod apart; before, both the pod's own updates and those of other waiting "
        "pods were events of UnschedulablePod, and plugins registered Pod."
    )
    pod_scale_up_events: bool = _choice(
        "An update by which a pod only requests more is UpdatePodScaleUp; before, it was a general Update."
    )
    node_preemption_policy_events: bool = _choice(
        "A change of a node's spec.podPreemptionPolicy is an event of its own (UpdateNodePreemptionPolicy)."
    )
    taint_hint_for_new_nodes: bool = _choice(
        "A plugin that registers new nodes without taint changes is woken by every taint change and "
        "uncordon nevertheless."
    )
    anti_affinity_hint_terms: Literal["all", "any"] = _choice(
        "How many of several anti-affinity terms a pod must stop matching for InterPodAffinity to requeue "
        "the waiting pod."
    )
    claim_deletion_events: bool = _choice(
        "DynamicResources registers the deletion of resource claims: of an allocated claim it requeues pods."
    )
    nominate_before_pre_enqueue: bool = _choice(
        "status.nominatedNodeName counts as soon as a pod is added, also while PreEnqueue holds it; before,"
        " when it reached activeQ."
    )
    new_pods_wake_with: Literal["GangScheduling", "GenericWorkload"] = _choice(
        "The feature gate with which a new pod without a node is an event that may wake others."
    )
    group_entities: bool = _choice(
        "With the gate GenericWorkload the pods of a PodGroup (or of a tree of groups) stand in the queue as "
        "one entity and are scheduled together; pending_pods has the queues incomplete and pending."
    )
    unschedulable_sub_queue: Literal["unschedulablePods", "unschedulableEntities"] = _choice(
        "The name of the sub-queue of unschedulable pods in logs and in the SIGUSR2 summary."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Filter and score rules of plugins, and how much a pod requests."""

    resize_accounting: Literal["per-container", "per-view"] = _choice(
        "A pod that is being resized counts with the largest of spec, allocated and actuated requests: "
        "taken of each container and then summed (per-container), or of the three sums over the pod "
        "(per-view, in which statuses of init containers count, too)."
    )
    image_locality_counts_image_volumes: bool = _choice(
        "ImageLocality scales its threshold by the number of containers and image volumes; before, of "
        "containers alone."
    )
    namespace_selector: Literal["lost", "resolved"] = _choice(
        "A namespaceSelector of the pod to schedule means exactly the namespaces it selects (resolved); "
        "before (lost), NotIn and DoesNotExist matched pods of every namespace."
    )
    declared_features: tuple[str, ...] = _choice(
        "Features that NodeDeclaredFeatures infers from a pod and looks for in node.status.declaredFeatures."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempting:
    """Preemption by single pods."""

    success_text: bool = _choice(
        "A pod for which victims were found gets `preemption: found a potential placement for pod on node "
        "N, preempting K victims` at the end of its message; before, nothing."
    )
    pdb_grouping: Literal["charge-all", "stop-at-exceeded"] = _choice(
        "Checking a victim against overlapping PodDisruptionBudgets charges all of them (charge-all), or "
        "stops at the first exceeded one and leaves the later ones uncharged (stop-at-exceeded)."
    )
    activates_preemptor: bool = _choice(
        "When the last victim only existed in memory (it waited at Permit), the preemptor is activated at "
        "once; before, it waited for another event."
    )
    result_label: Literal["constant", "real"] = _choice(
        "preemption_goroutines_* metrics carry the real result and duration of the goroutine; before, "
        "`success` in every case."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBehaviour:
    """Dynamic resource allocation: the allocator, its CEL environment, and the plugin DynamicResources."""

    config_requests: Literal["listed", "empty-for-all"] = _choice(
        "A config of an allocation that covers every request of the claim lists them (listed), or lists "
        "none and appears once (empty-for-all)."
    )
    selector_errors_name_device: bool = _choice(
        "A CEL run time error of a selector names the device, and advises optional chaining for `no such "
        "key`."
    )
    counter_slices: Literal["every-node", "targeted-nodes"] = _choice(
        "A pool with slices of shared counters is looked at on every node, or only on nodes that one of its"
        " slices targets."
    )
    all_mode_capacity: Literal["remaining", "total"] = _choice(
        "Allocation mode All leaves out devices whose remaining capacity is too small, or only those whose "
        "total capacity is, so that a full device makes the node fail."
    )
    capacity_errors: Literal["skip-device", "fail"] = _choice(
        "A capacity request that cannot be represented in the device's range skips the device, or is an "
        "error."
    )
    capacity_range_errors: Literal["limit", "default"] = _choice(
        "The API server refuses a default out of a capacity's range as an error of the limit, or of the "
        "default. Since then it refuses limits beyond int64 and does not check capacities again that an "
        "update leaves as they are."
    )
    distinct_attribute: Literal["last-device", "every-device"] = _choice(
        "distinctAttribute compares a device with the last one of each request, or with all of them."
    )
    shared_device_counters: Literal["every-share", "once"] = _choice(
        "Further shares of a device in use without a capacity entry are charged to its counters again, or "
        "not."
    )
    rounded_capacity_format: Literal["BinarySI", "step"] = _choice(
        "The format of a capacity that was rounded up to a step: BinarySI, or that of the step."
    )
    attribute_type: Literal["any", "dyn"] = _choice(
        "The CEL type of device attributes: with dyn, macros on attributes compile and may fail at run time."
    )
    list_attributes_need_gate: bool = _choice(
        "Attributes that are lists, and `includes`, need the gate DRAListTypeAttributes; since then they "
        "can always be read."
    )
    cel_costs: tuple[str, ...] = _choice(
        "Functions whose cost in CEL expressions grows with what they look at: startsWith and endsWith with "
        "their argument (prefix), the global function matches (matches), includes with the list (includes)."
    )
    unknown_request_fields_fail: bool = _choice(
        "A request with derivedAttributes fails while the feature is disabled, and slices with "
        "compatibility groups are left out; before, the fields were unknown."
    )
    node_allocatable_fields: Literal["mappings", "mapping-and-overhead"] = _choice(
        "What devices take of resources of their node (gate DRANodeAllocatableResources) is in "
        "nodeAllocatableResourceMappings (mappings), or in nodeAllocatableResources with overhead for pods "
        "and containers, in statuses of that form and by other rules for shared claims."
    )
    post_filter_text: bool = _choice(
        "DynamicResources says `no new claims to deallocate` or `still not schedulable` in messages of pods"
        " it cannot help."
    )
    missing_special_claim: Literal["error", "ignored"] = _choice(
        "Deleting a claim for extended resources that is gone already is an error, or ignored."
    )
    reserve_skips_allocated: bool = _choice(
        "Reserve does not signal an allocation that the assume cache already shows."
    )
    in_flight_until: Literal["written", "pre-bind-succeeded"] = _choice(
        "A claim in flight is settled when it was written, or when the whole PreBind succeeded."
    )
    skip_node_operations: bool = _choice(
        "An allocated claim with skipNodeOperations needs a node that declares DRAOptionalNodeOperations."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls to the API server, and leader election."""

    bind_tries: int = _choice(
        "How often a binding is tried: after InternalError, ServiceUnavailable and a refused connection it "
        "is sent again, after 10, 50 and 250 ms; a conflict is final."
    )
    status_merges_conditions: bool = _choice(
        "Merged asynchronous status patches keep older conditions of other types; before, the last "
        "condition alone."
    )
    lease_release_retries: bool = _choice(
        "Releasing the lease is tried again after a conflict, until the renew deadline; before, it was "
        "given up."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """Opportunistic batching."""

    rescores_last_node: bool = _choice(
        "If the last node still has room, it is scored again and the batch goes on; before, the batch was "
        "dropped (node_not_full)."
    )
    skips_nominated_pods: bool = _choice("A pod with a nominated node gets no hint (pod_nominated).")


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Texts that changed and belong to no rule above."""

    not_assumed: str = _choice("The error of the cache for a pod that is not assumed and shall be forgotten.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """All choices of a release, by area."""

    queueing: Queueing
    rules: Rules
    preempting: Preempting
    devices: DeviceBehaviour
    calls: Calls
    batching: Batching
    messages: Messages


class BehaviourChoice(NamedTuple):
    """One field of a behaviour: where it is, what it is about, and its value."""

    area: str
    name: str
    sentence: str
    value: Any

    @property
    def shown(self) -> str:
        """The value in a table or a note."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return ", ".join(self.value) if isinstance(self.value, tuple) else str(self.value)


def choices(behaviour: Behaviour) -> Iterator[BehaviourChoice]:
    """Every choice of a behaviour, in order."""
    for area in fields(behaviour):
        record = getattr(behaviour, area.name)
        for choice in fields(record):
            yield BehaviourChoice(
                area.name, choice.name, choice.metadata["sentence"], getattr(record, choice.name)
            )


class BehaviourDifference(NamedTuple):
    """A choice in which two behaviours differ."""

    old: BehaviourChoice
    new: BehaviourChoice


def differences(old: Behaviour, new: Behaviour) -> list[BehaviourDifference]:
    """Where two behaviours differ."""
    pairs = zip(choices(old), choices(new), strict=True)
    return [BehaviourDifference(before, after) for before, after in pairs if before.value != after.value]
