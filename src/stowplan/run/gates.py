"""Feature gates and emulated versions of the process, checked as kube-scheduler checks them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stowplan.api.feature_gates import DEFAULT_GATES, FeatureGates, Gate, Stage
from stowplan.config.featuregates import GATE_GROUPS, parse_feature_gates, parse_setting
from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote
from stowplan.run.flags.values import Settings
from stowplan.run.version import MINOR

_KUBE: Final = "kube"
_EFFECTIVE: Final = frozenset(
    {"LoggingAlphaOptions", "LoggingBetaOptions", "RemoteRequestHeaderUID", "WatchListClient"}
)
"""Gates of other components that have an effect here."""

_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)


def _gates(gate: Gate, names: str) -> dict[str, Gate]:
    return dict.fromkeys(names.split(), gate)


OTHER_GATES: Final[Mapping[str, Gate]] = {
    **_gates(
        Gate(Stage.GA, default=False),
        "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests "
        "ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1 "
        "KubeletRegistrationGetOnExistsOnly SeparateCacheWatchRPC WindowsHostNetwork",
    ),
    **_gates(
        Gate(Stage.GA, default=False, locked=True),
        "AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver",
    ),
    **_gates(
        Gate(Stage.GA, default=True),
        "AllowServiceExternalIPs CPUCFSQuotaPeriod DisableCPUQuotaWithExclusiveCPUs "
        "InformerResourceVersion KubeletPodResourcesListUseActivePods MutatingAdmissionPolicy "
        "ServiceCIDRStatusFieldWiping StorageNamespaceIndex",
    ),
    **_gates(
        Gate(Stage.GA, default=True, locked=True),
        "APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints "
        "AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache "
        "CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets "
        "ConsistentListFromCache CustomResourceFieldSelectors DeclarativeValidation "
        "DisableAllocatorDualWrite DisableNodeKubeProxyVersion ExecProbeTimeout "
        "ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers "
        "JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy "
        "KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI "
        "KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown "
        "MultiCIDRServiceAllocator NFTablesProxyMode NodeLogQuery NodeSwap OrderedNamespaceDeletion "
        "PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PreferSameTrafficDistribution "
        "ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation "
        "RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization RetryGenerateName "
        "SELinuxChangePolicy SELinuxMountReadWriteOncePod SeparateTaintEvictionController "
        "ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation "
        "ServiceAccountTokenPodNodeInfo StreamingCollectionEncodingToJSON "
        "StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration "
        "SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport "
        "WinDSR WinOverlay",
    ),
    **_gates(
        Gate(Stage.BETA, default=False),
        "ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode "
        "LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet PodCertificateRequest "
        "SELinuxMount StorageVersionMigrator",
    ),
    **_gates(
        Gate(Stage.BETA, default=True),
        "APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO "
        "AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions "
        "CRDObservedGenerationTracking ClientsAllowCARotation ClientsAllowTLSCacheGC "
        "ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules DeclarativeValidationBeta "
        "DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles "
        "ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority "
        "HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess "
        "InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax "
        "KubeletEnsureSecretPulledImages KubeletSeparateDiskGC "
        "KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions "
        "MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs OpenAPIEnums "
        "PLEGOnDemandRelist PodDeletionCost PodReadyToStartContainersCondition PodTopologyLabelsAdmission "
        "PortForwardWebsockets PreventStaticPodAPIReferences RelaxedServiceNameValidation "
        "ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID "
        "ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits "
        "RotateKubeletServerCertificate ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate "
        "StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob "
        "StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet "
        "StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation "
        "StructuredAuthenticationConfigurationEgressSelector "
        "StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation "
        "TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests "
        "UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO "
        "WatchCacheInitializationPostStartHook WatchList WatchListClient WindowsGracefulNodeShutdown",
    ),
    **_gates(
        Gate(Stage.ALPHA, default=False),
        "APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage "
        "CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR "
        "CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook "
        "ContainerStopSignals CrossNamespaceVolumeDataSource DRAResourcePoolStatus EventedPLEG "
        "HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs "
        "InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions "
        "ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity "
        "PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers "
        "PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay "
        "RuntimeClassInImageCriApi ShardedListAndWatch StorageVersionAPI "
        "TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport WindowsCPUAndMemoryAffinity "
        "WorkloadWithJob",
    ),
}
"""Gates of other components of Kubernetes 1.36 that kube-scheduler accepts; deprecated ones count as GA.

One list of gates is often given to every component of a cluster, so these must not stop a scheduler.
"""


@dataclass(frozen=True, slots=True)
class ProcessGates:
    """The scheduling gates, and the values set for OTHER_GATES."""

    scheduling: FeatureGates = DEFAULT_GATES
    others: Mapping[str, bool] = field(default_factory=dict)

    def on(self, name: str) -> bool:
        """Whether one of OTHER_GATES is enabled."""
        return self.others.get(name, OTHER_GATES[name].default)


def read_gates(settings: Settings) -> ProcessGates:
    """The feature gates of `--feature-gates`. Raises ConfigError."""
    scheduling: list[str] = []
    others: dict[str, bool] = {}
    groups: dict[str, bool] = {}
    for setting in _own_settings(settings):
        name = setting.partition("=")[0].strip()
        if name in OTHER_GATES:
            others[name] = parse_setting(setting)[1]
            _check_lock(name, others[name])
            continue
        scheduling.append(setting)
        if name in GATE_GROUPS:
            groups[name] = parse_setting(setting)[1]
    gates = parse_feature_gates(scheduling)
    for group, on in groups.items():
        names = (
            name for name, gate in OTHER_GATES.items() if gate.stage is GATE_GROUPS[group] and not gate.locked
        )
        others = dict.fromkeys(names, on) | others
    return ProcessGates(gates, others)


def gates_without_effect(settings: Settings) -> list[str]:
    """Gates that were set but have no effect here."""
    names = (setting.partition("=")[0].strip() for _, setting in settings)
    return [name for name in dict.fromkeys(names) if name in OTHER_GATES and name not in _EFFECTIVE]


def _own_settings(settings: Settings) -> Iterator[str]:
    components = {component for component, _ in settings}
    if components >= {"", _KUBE}:
        raise ConfigError(
            "flags",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        )
    for component, setting in settings:
        if component not in ("", _KUBE):
            raise ConfigError("flags", f"component not registered: {component}")
        yield setting


def _check_lock(name: str, on: bool) -> None:
    gate = OTHER_GATES[name]
    if gate.locked and gate.default != on:
        wanted, locked = str(on).lower(), str(gate.default).lower()
        detail = f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
        raise ConfigError("flags", detail)


# --emulated-version and --min-compatibility-version: checked, without effect


class Version(NamedTuple):
    """Major and minor version."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_OWN_VERSION: Final = Version(*MINOR)
_MIN_VERSION: Final = Version(1, 33)


def emulation_problems(emulated: Iterable[str], compatible: Iterable[str]) -> Iterator[str]:
    """Validation errors of the versions. Raises ConfigError if one cannot be parsed."""
    version = _requested(emulated) or _OWN_VERSION
    oldest = _requested(compatible) or max(Version(version.major, max(version.minor - 1, 0)), _MIN_VERSION)
    if not _MIN_VERSION <= version <= _OWN_VERSION:
        yield f"emulation version {version} is not between [{_MIN_VERSION}, {_OWN_VERSION}.0]"
    if not _MIN_VERSION <= oldest <= version:
        yield f"minCompatibilityVersion version {oldest} is not between [{_MIN_VERSION}, {version}]"


def _requested(values: Iterable[str]) -> Version | None:
    found: dict[str, Version] = {}
    for value in values:
        component, equals, text = value.partition("=")
        component, text = (component.strip(), text.strip()) if equals else (_KUBE, value)
        version = _parse_version(component, text)
        if component in found:
            first = f"{component}={found[component]}"
            raise ConfigError("flags", f"duplicate version flag, {first} and {component}={version}")
        found[component] = version
    for component in found:
        if component != _KUBE:
            raise ConfigError("flags", f"component not registered: {component}")
    return found.get(_KUBE)


def _parse_version(component: str, text: str) -> Version:
    match = _NUMBERS.fullmatch(text)
    if match is None:
        raise ConfigError("flags", f"could not parse {quote(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) == 1:
        raise ConfigError("flags", f"illegal version string {quote(text)}")
    for number in numbers:
        if len(number) > 1 and number.startswith("0"):
            detail = f"illegal zero-prefixed version component {quote(number)} in {quote(text)}"
            raise ConfigError("flags", detail)
        if len(number) > 9:
            raise ConfigError(
                "flags", f"illegal non-numeric version component {quote(number)} in {quote(text)}"
            )
    if len(numbers) > 2 and int(numbers[2]):
        detail = f"patch version not allowed, got: {component}={'.'.join(numbers)}"
        raise ConfigError("flags", detail)
    return Version(int(numbers[0]), int(numbers[1]))
