"""Every configuration object, field by field, with its Go types, which decoding and its messages follow."""

from collections.abc import Container, Mapping
from functools import cache

from stowplan.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan.api.pod import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)
from stowplan.api.releases import Release
from stowplan.config.types import (
    KIND,
    ClientConnection,
    Extender,
    ExtenderManagedResource,
    ExtenderTLS,
    LeaderElection,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfig,
)
from stowplan.gocompat.types import (
    Bool,
    Bytes,
    DurationString,
    Float32,
    GoType,
    Int,
    ListOf,
    MapOf,
    RawExtension,
    String,
    StructField,
    StructOf,
)
from stowplan.scheduler.framework.interface import MULTI_POINT
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from stowplan.scheduler.plugins.registry import ARGS_TYPES

_TEXT = String()
_BOOL = Bool()
_INT32 = Int(32)
_INT64 = Int(64)
_SPAN = DurationString()
_TYPE_META = tuple(StructField(name, _TEXT, embedded=("TypeMeta",)) for name in ("apiVersion", "kind"))


def _always(name: str, go_type: GoType) -> StructField:
    """A field that is written even when empty."""
    return StructField(name, go_type, omit_empty=False)


def _optional(name: str, go_type: GoType, embedded: tuple[str, ...] = ()) -> StructField:
    """A field that distinguishes absent from zero."""
    return StructField(name, go_type, pointer=True, embedded=embedded)


def _core(cls: type, *fields: StructField) -> StructOf:
    return StructOf("v1", cls, *fields)


_NODE_SELECTOR_REQUIREMENT = _core(
    NodeSelectorRequirement,
    _always("key", _TEXT),
    _always("operator", String("v1.NodeSelectorOperator")),
    StructField("values", ListOf(_TEXT)),
)
_NODE_SELECTOR_TERM = _core(
    NodeSelectorTerm,
    StructField("matchExpressions", ListOf(_NODE_SELECTOR_REQUIREMENT)),
    StructField("matchFields", ListOf(_NODE_SELECTOR_REQUIREMENT)),
)
_NODE_AFFINITY = _core(
    NodeAffinity,
    _optional(
        "requiredDuringSchedulingIgnoredDuringExecution",
        _core(NodeSelector, _always("nodeSelectorTerms", ListOf(_NODE_SELECTOR_TERM))),
    ),
    StructField(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(
            _core(
                PreferredSchedulingTerm,
                _always("weight", _INT32),
                _always("preference", _NODE_SELECTOR_TERM),
            )
        ),
    ),
)
_LABEL_SELECTOR = _core(
    LabelSelector,
    StructField("matchLabels", MapOf(_TEXT)),
    StructField(
        "matchExpressions",
        ListOf(
            _core(
                LabelSelectorRequirement,
                _always("key", _TEXT),
                _always("operator", String("v1.LabelSelectorOperator")),
                StructField("values", ListOf(_TEXT)),
            )
        ),
    ),
)
_TOPOLOGY_SPREAD_CONSTRAINT = _core(
    TopologySpreadConstraint,
    _always("maxSkew", _INT32),
    _always("topologyKey", _TEXT),
    _always("whenUnsatisfiable", String("v1.UnsatisfiableConstraintAction")),
    _optional("labelSelector", _LABEL_SELECTOR),
    _optional("minDomains", _INT32),
    _optional("nodeAffinityPolicy", String("v1.NodeInclusionPolicy")),
    _optional("nodeTaintsPolicy", String("v1.NodeInclusionPolicy")),
    StructField("matchLabelKeys", ListOf(_TEXT)),
)
_RESOURCES = ListOf(_core(ResourceSpec, _always("name", _TEXT), StructField("weight", _INT64)))
_SHAPE = ListOf(_core(UtilizationShapePoint, _always("utilization", _INT32), _always("score", _INT32)))


def _args(plugin: str, *fields: StructField) -> StructOf:
    return StructOf("v1", ARGS_TYPES[plugin], *_TYPE_META, *fields)


PLUGIN_ARGS: dict[str, StructOf] = {
    kind.struct_name: kind
    for kind in (
        _args(
            "DefaultPreemption",
            _optional("minCandidateNodesPercentage", _INT32),
            _optional("minCandidateNodesAbsolute", _INT32),
        ),
        _args(
            "DynamicResources",
            StructField("filterTimeout", DurationString(optional=True), omit_empty=False, pointer=True),
            _optional("bindingTimeout", DurationString(optional=True)),
        ),
        _args(
            "InterPodAffinity",
            _optional("hardPodAffinityWeight", _INT32),
            _always("ignorePreferredTermsOfExistingPods", _BOOL),
        ),
        _args("MaxAzureDiskVolumeCount", _optional("maxVolumes", _INT32)),
        _args("MaxEBSVolumeCount", _optional("maxVolumes", _INT32)),
        _args("MaxGCEPDVolumeCount", _optional("maxVolumes", _INT32)),
        _args("NodeAffinity", _optional("addedAffinity", _NODE_AFFINITY)),
        _args("NodeResourcesBalancedAllocation", StructField("resources", _RESOURCES)),
        _args(
            "NodeResourcesFit",
            StructField("ignoredResources", ListOf(_TEXT)),
            StructField("ignoredResourceGroups", ListOf(_TEXT)),
            _optional(
                "scoringStrategy",
                _core(
                    ScoringStrategy,
                    StructField("type", String("v1.ScoringStrategyType")),
                    StructField("resources", _RESOURCES),
                    _optional(
                        "requestedToCapacityRatio",
                        _core(RequestedToCapacityRatioParam, StructField("shape", _SHAPE)),
                    ),
                ),
            ),
        ),
        _args(
            "PodTopologySpread",
            StructField("defaultConstraints", ListOf(_TOPOLOGY_SPREAD_CONSTRAINT)),
            StructField("defaultingType", String("v1.PodTopologySpreadConstraintsDefaulting")),
        ),
        _args(
            "VolumeBinding",
            _optional("bindTimeoutSeconds", _INT64),
            StructField("shape", _SHAPE),
        ),
    )
}
"""The arguments of in-tree plugins by their kind."""

_PLUGIN_SET = _core(
    PluginSet,
    *(
        StructField(name, ListOf(_core(Plugin, _always("name", _TEXT), _optional("weight", _INT32))))
        for name in ("enabled", "disabled")
    ),
)


def _profile(sections: Container[str]) -> StructOf:
    """A profile whose plugin lists are those of some extension points, and `multiPoint`."""
    lists = (name for name in Plugins.__struct_encode_fields__ if name == MULTI_POINT or name in sections)
    return StructOf(
        "v1",
        Profile,
        _optional("schedulerName", _TEXT),
        _optional("percentageOfNodesToScore", _INT32),
        _optional("plugins", _core(Plugins, *(StructField(name, _PLUGIN_SET) for name in lists))),
        StructField(
            "pluginConfig",
            ListOf(_core(PluginConfig, _always("name", _TEXT), StructField("args", RawExtension()))),
        ),
        name="KubeSchedulerProfile",
    )


_EXTENDER = _core(
    Extender,
    _always("urlPrefix", _TEXT),
    StructField("filterVerb", _TEXT),
    StructField("preemptVerb", _TEXT),
    StructField("prioritizeVerb", _TEXT),
    StructField("weight", _INT64),
    StructField("bindVerb", _TEXT),
    StructField("enableHTTPS", _BOOL),
    _optional(
        "tlsConfig",
        StructOf(
            "v1",
            ExtenderTLS,
            StructField("insecure", _BOOL),
            *(StructField(name, _TEXT) for name in ("serverName", "certFile", "keyFile", "caFile")),
            *(StructField(name, Bytes()) for name in ("certData", "keyData", "caData")),
            name="ExtenderTLSConfig",
        ),
    ),
    StructField("httpTimeout", _SPAN),
    StructField("nodeCacheCapable", _BOOL),
    StructField(
        "managedResources",
        ListOf(
            _core(ExtenderManagedResource, _always("name", _TEXT), StructField("ignoredByScheduler", _BOOL))
        ),
    ),
    StructField("ignorable", _BOOL),
)
_LEADER_ELECTION = StructOf(
    "v1alpha1",
    LeaderElection,
    _always("leaderElect", _BOOL),
    *(_always(name, _SPAN) for name in ("leaseDuration", "renewDeadline", "retryPeriod")),
    *(_always(name, _TEXT) for name in ("resourceLock", "resourceName", "resourceNamespace")),
    name="LeaderElectionConfiguration",
)
_CLIENT_CONNECTION = StructOf(
    "v1alpha1",
    ClientConnection,
    *(_always(name, _TEXT) for name in ("kubeconfig", "acceptContentTypes", "contentType")),
    _always("qps", Float32()),
    _always("burst", _INT32),
    name="ClientConnectionConfiguration",
)


@cache
def configuration(release: Release) -> StructOf:
    """KubeSchedulerConfiguration as a release reads it."""
    return StructOf(
        "v1",
        SchedulerConfig,
        *_TYPE_META,
        _optional("parallelism", _INT32),
        _always("leaderElection", _LEADER_ELECTION),
        _always("clientConnection", _CLIENT_CONNECTION),
        _optional("enableProfiling", _BOOL, embedded=("DebuggingConfiguration",)),
        _optional("enableContentionProfiling", _BOOL, embedded=("DebuggingConfiguration",)),
        _optional("percentageOfNodesToScore", _INT32),
        _optional("podInitialBackoffSeconds", _INT64),
        _optional("podMaxBackoffSeconds", _INT64),
        StructField("profiles", ListOf(_profile(release.points))),
        StructField("extenders", ListOf(_EXTENDER)),
        StructField("delayCacheUntilActive", _BOOL),
        name=KIND,
    )


@cache
def kinds(release: Release) -> Mapping[str, StructOf]:
    """Everything that can be decoded in a release, by its kind."""
    return {KIND: configuration(release), **PLUGIN_ARGS}
