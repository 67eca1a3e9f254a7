"""Kubernetes 1.37, recorded from kube-scheduler 1.37.0-rc.1.

Everything not named here is as in 1.36.
"""

from dataclasses import replace
from typing import Final

from stowplan.api.releases import v1_36
from stowplan.api.releases.behaviour import Behaviour
from stowplan.api.releases.plugins import plugin
from stowplan.api.releases.release import Release
from stowplan.api.releases.versions import Version

PLUGINS: Final = (
    plugin("SchedulingGates", "preEnqueue"),
    plugin("PrioritySort", "queueSort"),
    plugin("NodeName", "preFilter filter"),
    plugin("NodeUnschedulable", "preFilter filter"),
    plugin("TaintToleration", "preFilter filter preScore score", weight=3),
    plugin("NodeAffinity", "preFilter filter preScore score", weight=2),
    plugin("NodePorts", "preFilter filter"),
    plugin(
        "DeferredPodScheduling",
        "preFilter filter permit",
        gate="InPlacePodVerticalScalingSchedulerPreemption",
    ),
    plugin("NodeResourcesFit", "preFilter filter preScore score placementScore", weight=1),
    plugin("VolumeRestrictions", "preFilter filter"),
    plugin("NodeVolumeLimits", "preFilter filter"),
    plugin("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    plugin("VolumeZone", "preFilter filter"),
    plugin("PodTopologySpread", "preFilter filter preScore score", weight=2),
    plugin("InterPodAffinity", "preFilter filter preScore score", weight=2),
    plugin(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter podGroupPostFilter score reserve preBind",
        weight=2,
        gate="DynamicResourceAllocation",
    ),
    plugin("DefaultPreemption", "preEnqueue postFilter podGroupPostFilter"),
    plugin("NodeResourcesBalancedAllocation", "preScore score", weight=1),
    plugin("ImageLocality", "score", weight=1),
    plugin("DefaultBinder", "bind"),
    plugin("NodeDeclaredFeatures", "preFilter filter", gate="NodeDeclaredFeatures"),
    plugin("GangScheduling", "preEnqueue permit", gate="GenericWorkload"),
    plugin("TopologyPlacementGenerator", "placementGenerate", gate="TopologyAwareWorkloadScheduling"),
    plugin("PodGroupPodsCount", "placementScore", weight=1, gate="TopologyAwareWorkloadScheduling"),
    plugin("MaxEBSVolumeCount", "preFilter filter", on_request=True),
    plugin("MaxGCEPDVolumeCount", "preFilter filter", on_request=True),
    plugin("MaxAzureDiskVolumeCount", "preFilter filter", on_request=True),
)

_BEFORE: Final = v1_36.BEHAVIOUR

BEHAVIOUR: Final = Behaviour(
    queueing=replace(
        _BEFORE.queueing,
        target_pod_events=True,
        pod_scale_up_events=True,
        node_preemption_policy_events=True,
        taint_hint_for_new_nodes=False,
        anti_affinity_hint_terms="any",
        claim_deletion_events=True,
        nominate_before_pre_enqueue=True,
        new_pods_wake_with="GenericWorkload",
        group_entities=True,
        unschedulable_sub_queue="unschedulableEntities",
    ),
    rules=replace(
        _BEFORE.rules,
        resize_accounting="per-view",
        image_locality_counts_image_volumes=True,
        namespace_selector="resolved",
        declared_features=(*_BEFORE.rules.declared_features, "VolumeBindMountOptions"),
    ),
    preempting=replace(
        _BEFORE.preempting,
        success_text=True,
        pdb_grouping="stop-at-exceeded",
        activates_preemptor=True,
        result_label="real",
    ),
    devices=replace(
        _BEFORE.devices,
        config_requests="empty-for-all",
        selector_errors_name_device=True,
        counter_slices="targeted-nodes",
        all_mode_capacity="total",
        capacity_errors="fail",
        capacity_range_errors="default",
        distinct_attribute="every-device",
        shared_device_counters="once",
        rounded_capacity_format="step",
        attribute_type="dyn",
        list_attributes_need_gate=False,
        cel_costs=("prefix", "matches", "includes"),
        unknown_request_fields_fail=True,
        node_allocatable_fields="mapping-and-overhead",
        post_filter_text=False,
        missing_special_claim="ignored",
        reserve_skips_allocated=True,
        in_flight_until="pre-bind-succeeded",
        skip_node_operations=True,
    ),
    calls=replace(
        _BEFORE.calls,
        bind_tries=4,
        status_merges_conditions=True,
        lease_release_retries=True,
    ),
    batching=replace(
        _BEFORE.batching,
        rescores_last_node=True,
        skips_nominated_pods=True,
    ),
    messages=replace(
        _BEFORE.messages,
        not_assumed="pod {uid}({key}) is not assumed, so it cannot be removed or forgotten",
    ),
)

RELEASE: Final = Release(
    version="1.37.0",
    plugins=PLUGINS,
    points=(*v1_36.POINTS, "podGroupPostFilter"),
    apis={"devicetaintrules": "resource.k8s.io/v1"},
    behaviour=BEHAVIOUR,
    emulated=Version(1, 37),
    compatible=Version(1, 36),
)
