"""Kubernetes 1.36, recorded from kube-scheduler 1.36.4."""

from typing import Final

from stowplan.api.releases.behaviour import (
    Batching,
    Behaviour,
    Calls,
    DeviceBehaviour,
    Messages,
    Preempting,
    Queueing,
    Rules,
)
from stowplan.api.releases.plugins import plugin
from stowplan.api.releases.release import Release
from stowplan.api.releases.versions import Version

PLUGINS: Final = (
    plugin("SchedulingGates", "preEnqueue"),
    plugin("PrioritySort", "queueSort"),
    plugin("NodeUnschedulable", "filter"),
    plugin("NodeName", "filter"),
    plugin("TaintToleration", "filter preScore score", weight=3),
    plugin("NodeAffinity", "preFilter filter preScore score", weight=2),
    plugin("NodePorts", "preFilter filter"),
    plugin("NodeResourcesFit", "preFilter filter preScore score placementScore", weight=1),
    plugin("VolumeRestrictions", "preFilter filter"),
    plugin("NodeVolumeLimits", "preFilter filter"),
    plugin("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    plugin("VolumeZone", "preFilter filter"),
    plugin("PodTopologySpread", "preFilter filter preScore score", weight=2),
    plugin("InterPodAffinity", "preFilter filter preScore score", weight=2),
    plugin(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
        weight=2,
        gate="DynamicResourceAllocation",
    ),
    plugin("DefaultPreemption", "preEnqueue postFilter"),
    plugin("NodeResourcesBalancedAllocation", "preScore score", weight=1),
    plugin("ImageLocality", "score", weight=1),
    plugin("DefaultBinder", "bind"),
    plugin("NodeDeclaredFeatures", "preFilter filter", gate="NodeDeclaredFeatures"),
    plugin("GangScheduling", "preEnqueue permit", gate="GangScheduling"),
    plugin("TopologyPlacementGenerator", "placementGenerate", gate="TopologyAwareWorkloadScheduling"),
    plugin("PodGroupPodsCount", "placementScore", weight=1, gate="TopologyAwareWorkloadScheduling"),
    plugin("MaxEBSVolumeCount", "preFilter filter", on_request=True),
    plugin("MaxGCEPDVolumeCount", "preFilter filter", on_request=True),
    plugin("MaxAzureDiskVolumeCount", "preFilter filter", on_request=True),
)

POINTS: Final = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
)

BEHAVIOUR: Final = Behaviour(
    queueing=Queueing(
        target_pod_events=False,
        pod_scale_up_events=False,
        node_preemption_policy_events=False,
        taint_hint_for_new_nodes=True,
        anti_affinity_hint_terms="all",
        claim_deletion_events=False,
        nominate_before_pre_enqueue=False,
        new_pods_wake_with="GangScheduling",
        group_entities=False,
        unschedulable_sub_queue="unschedulablePods",
    ),
    rules=Rules(
        resize_accounting="per-container",
        image_locality_counts_image_volumes=False,
        namespace_selector="lost",
        declared_features=("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"),
    ),
    preempting=Preempting(
        success_text=False,
        pdb_grouping="charge-all",
        activates_preemptor=False,
        result_label="constant",
    ),
    devices=DeviceBehaviour(
        config_requests="listed",
        selector_errors_name_device=False,
        counter_slices="every-node",
        all_mode_capacity="remaining",
        capacity_errors="skip-device",
        capacity_range_errors="limit",
        distinct_attribute="last-device",
        shared_device_counters="every-share",
        rounded_capacity_format="BinarySI",
        attribute_type="any",
        list_attributes_need_gate=True,
        cel_costs=(),
        unknown_request_fields_fail=False,
        node_allocatable_fields="mappings",
        post_filter_text=True,
        missing_special_claim="error",
        reserve_skips_allocated=False,
        in_flight_until="written",
        skip_node_operations=False,
    ),
    calls=Calls(
        bind_tries=1,
        status_merges_conditions=False,
        lease_release_retries=False,
    ),
    batching=Batching(
        rescores_last_node=False,
        skips_nominated_pods=False,
    ),
    messages=Messages(not_assumed="pod {uid}({key}) wasn't assumed so cannot be forgotten"),
)

RELEASE: Final = Release(
    version="1.36.4",
    plugins=PLUGINS,
    points=POINTS,
    apis={"devicetaintrules": "resource.k8s.io/v1beta2"},
    behaviour=BEHAVIOUR,
    emulated=Version(1, 36),
    compatible=Version(1, 35),
)
