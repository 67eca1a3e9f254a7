"""Feature gates that kube-scheduler accepts though they concern other components of Kubernetes 1.36.

One list of gates is often given to every component of a cluster, so these must not stop a scheduler.
"""

from collections.abc import Mapping
from typing import Final

from stowplan.framework.gates import Gate, Stage


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
"""With their stages and defaults; deprecated ones count as GA."""
