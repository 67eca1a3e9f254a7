"""Every feature gate of Kubernetes 1.36 and 1.37 that kube-scheduler accepts.

One line per gate: `Name: VERSION STAGE [on] [locked] [compatible VERSION], ...`, an entry for each version in
which something changed (from the one in force at 1.33 on); then `needs` (gates that must be on with it,
`@VERSION` where that is new) and `removed`. A gate with `*` is read here. Others change nothing: most of them
belong to other components, and one list of gates is often given to every component of a cluster; the rest is
in `UNUSED`. Long lines are continued with four spaces.
"""

from typing import Final

TABLE: Final = """
APIResponseCompression: 1.16 Beta on
APIServerIdentity: 1.26 Beta on
APIServerTracing: 1.27 Beta on, 1.34 GA on locked; removed 1.37
APIServerWebhookAuthenticationToken: 1.37 Alpha
APIServingWithRoutine: 1.30 Alpha
AggregatedDiscoveryRemoveBetaType: 1.33 Deprecated on, 1.35 Deprecated on locked
AllowDNSOnlyNodeCSR: 1.31 Deprecated
AllowInsecureKubeletCertificateSigningRequests: 1.31 Deprecated
AllowOverwriteTerminationGracePeriodSeconds: 1.32 Deprecated, 1.35 Deprecated locked
AllowParsingUserUIDFromCertAuth: 1.33 Beta on
AllowServiceExternalIPs: 1.0 GA on
AllowUnsafeMalformedObjectDeletion: 1.32 Alpha, 1.37 Beta on
AnonymousAuthConfigurableEndpoints: 1.32 Beta on, 1.34 GA on locked; removed 1.37
AnyVolumeDataSource: 1.33 GA on locked; removed 1.37
AtomicFIFO: 1.36 Beta on
AtomicWriteVolumeUserFields: 1.37 Alpha
AuthorizeNodeWithSelectors: 1.32 Beta on, 1.34 GA on locked; needs AuthorizeWithSelectors; removed 1.37
AuthorizePodWebsocketUpgradeCreatePermission: 1.35 Beta on
AuthorizeWithSelectors: 1.32 Beta on, 1.34 GA on locked; removed 1.37
BtreeWatchCache: 1.33 GA on locked; removed 1.37
CBORServingAndStorage: 1.32 Alpha
CPUManagerPolicyAlphaOptions: 1.23 Alpha
CPUManagerPolicyBetaOptions: 1.23 Beta on
CPUManagerPolicyOptions: 1.33 GA on locked
CRDObservedGenerationTracking: 1.35 Beta, 1.36 Beta on
CRDValidationRatcheting: 1.33 GA on locked
CRIListStreaming: 1.36 Alpha
CSIServiceAccountTokenSecrets: 1.35 Beta on, 1.36 GA on locked
CSIVolumeHealth: 1.21 Alpha
ChangeContainerStatusOnKubeletRestart: 1.0 GA on, 1.35 Deprecated
ClearingNominatedNodeNameAfterBinding: 1.34 Alpha, 1.35 Beta on
ClientsAllowCARotation: 1.36 Beta on
ClientsAllowCBOR: 1.32 Alpha
ClientsAllowTLSCacheGC: 1.36 Beta on
ClientsPreferCBOR: 1.32 Alpha
CloudControllerManagerWatchBasedRoutesReconciliation: 1.35 Alpha
CloudControllerManagerWebhook: 1.27 Alpha
ClusterTrustBundle: 1.33 Beta, 1.37 GA on
ClusterTrustBundleProjection: 1.33 Beta, 1.37 GA on; needs ClusterTrustBundle
*ComponentFlagz: 1.32 Alpha, 1.36 Beta on
*ComponentStatusz: 1.32 Alpha, 1.36 Beta on
*CompositePodGroup: 1.37 Alpha; needs GenericWorkload TopologyAwareWorkloadScheduling
ConcurrentWatchObjectDecode: 1.31 Beta, 1.37 Beta on
ConsistentListFromCache: 1.31 Beta on, 1.34 GA on locked; removed 1.37
ConsistentListFromCacheSkipTimeoutFallback: 1.37 Alpha
ConstrainedImpersonation: 1.35 Alpha, 1.36 Beta on
ContainerCheckpoint: 1.30 Beta on
ContainerRestartRules: 1.34 Alpha, 1.35 Beta on
ContainerStopSignals: 1.33 Alpha
ContextualLogging: 1.30 Beta on
*CoordinatedLeaderElection: 1.33 Beta
CrossNamespaceVolumeDataSource: 1.26 Alpha
CustomCPUCFSQuotaPeriod: 1.12 Alpha, 1.36 GA on
CustomResourceFieldSelectors: 1.32 GA on locked
*DRAAdminAccess: 1.32 Alpha, 1.34 Beta on, 1.36 GA on locked; needs DynamicResourceAllocation
*DRAConsumableCapacity: 1.34 Alpha, 1.36 Beta on; needs DynamicResourceAllocation
*DRADerivedAttributes: 1.37 Alpha; needs DynamicResourceAllocation
*DRADeviceBindingConditions: 1.34 Alpha, 1.36 Beta on; needs DRAResourceClaimDeviceStatus
    DynamicResourceAllocation
*DRADeviceCompatibilityGroups: 1.37 Alpha; needs DRAPartitionableDevices DynamicResourceAllocation
*DRADeviceTaintRules: 1.35 Alpha, 1.36 Beta, 1.37 GA on; needs DRADeviceTaints
*DRADeviceTaints: 1.33 Alpha, 1.36 Beta on, 1.37 GA on; needs DynamicResourceAllocation
*DRAExtendedResource: 1.34 Alpha, 1.36 Beta on, 1.37 GA on locked; needs DynamicResourceAllocation
*DRAFractionalCapacityRange: 1.37 Beta, 1.37 Beta on compatible 1.37; needs DRAConsumableCapacity
*DRAListTypeAttributes: 1.36 Alpha; needs DynamicResourceAllocation
*DRANodeAllocatableResources: 1.36 Alpha; needs DynamicResourceAllocation
*DRAOptionalNodeOperations: 1.37 Alpha; needs DynamicResourceAllocation NodeDeclaredFeatures
*DRAPartitionableDevices: 1.33 Alpha, 1.36 Beta on; needs DynamicResourceAllocation
DRAPartitionableDevicesType: 1.37 Alpha; needs DRAPartitionableDevices DRAResourcePoolStatus
    DynamicResourceAllocation
*DRAPrioritizedList: 1.33 Alpha, 1.34 Beta on, 1.36 GA on, 1.37 GA on locked; needs
    DynamicResourceAllocation
*DRAResourceClaimDeviceStatus: 1.33 Beta on, 1.37 GA on locked
DRAResourceClaimGranularStatusAuthorization: 1.36 Beta on; needs DRAResourceClaimDeviceStatus
    DynamicResourceAllocation
DRAResourcePoolStatus: 1.36 Alpha; needs DynamicResourceAllocation
*DRASchedulerFilterTimeout: 1.34 Beta on; needs DynamicResourceAllocation
*DRAWorkloadResourceClaims: 1.36 Alpha, 1.37 Beta; needs DynamicResourceAllocation GenericWorkload
DeclarativeValidation: 1.33 Beta on, 1.36 GA on locked
DeclarativeValidationBeta: 1.36 Beta on; needs DeclarativeValidation
DeclarativeValidationTakeover: 1.33 Beta, 1.36 Deprecated, 1.37 Deprecated locked; needs
    DeclarativeValidation
DefaultPodSysctls: 1.37 Alpha
DeploymentReplicaSetTerminatingReplicas: 1.33 Alpha, 1.35 Beta on
DetectCacheInconsistency: 1.34 Beta on
DisableAllocatorDualWrite: 1.33 Beta, 1.34 GA on, 1.35 GA on locked; needs MultiCIDRServiceAllocator
DisableCPUQuotaWithExclusiveCPUs: 1.33 Beta on, 1.36 Deprecated on, 1.37 Deprecated on locked
DisableNodeKubeProxyVersion: 1.33 Deprecated on, 1.36 Deprecated on locked
*DynamicResourceAllocation: 1.32 Beta, 1.34 GA on, 1.35 GA on locked
EmptyDirVolumeMode: 1.37 Alpha
EnvFiles: 1.34 Alpha, 1.35 Beta on
EtcdRangeStream: 1.37 Beta on
EventedPLEG: 1.26 Alpha; needs PLEGOnDemandRelist@1.37
EvictionRequestAPI: 1.37 Alpha
ExcludeAdmissionWebhookVirtualResources: 1.37 Beta on
ExecProbeTimeout: 1.20 GA on, 1.35 GA on locked
ExtendWebSocketsToKubelet: 1.36 Beta on; needs NodeDeclaredFeatures
ExternalServiceAccountTokenSigner: 1.32 Alpha, 1.34 Beta on, 1.36 GA on locked
GRPCContainerProbeTLS: 1.37 Alpha
*GangScheduling: 1.35 Alpha; needs GenericWorkload; removed 1.37
*GenericWorkload: 1.35 Alpha, 1.37 Beta
GitRepoVolumeDriver: 1.33 Deprecated, 1.36 Deprecated locked
GracefulNodeShutdown: 1.21 Beta on
GracefulNodeShutdownBasedOnPodPriority: 1.24 Beta on; needs GracefulNodeShutdown
H2CContainerProbe: 1.37 Alpha; needs NodeDeclaredFeatures
HPAConfigurableTolerance: 1.33 Alpha, 1.35 Beta on, 1.37 GA on locked
HPAGeneration: 1.37 Beta on
HPAOptimizedSelectorStore: 1.37 Beta on
HPAScaleToZero: 1.16 Alpha, 1.37 Beta on
HostnameOverride: 1.34 Alpha, 1.35 Beta on, 1.37 GA on locked
HugepageAwareEviction: 1.37 Beta on
ImageMaximumGCAge: 1.30 Beta on, 1.35 GA on locked
ImageVolume: 1.33 Beta, 1.35 Beta on, 1.36 GA on locked
ImageVolumeWithDigest: 1.35 Alpha; needs ImageVolume
InOrderInformers: 1.33 Beta on, 1.36 GA on locked
InOrderInformersBatchProcess: 1.35 Beta on
InPlacePodLevelResourcesVerticalScaling: 1.35 Alpha, 1.36 Beta on; needs InPlacePodVerticalScaling
    NodeDeclaredFeatures PodLevelResources
*InPlacePodVerticalScaling: 1.33 Beta on, 1.35 GA on locked
InPlacePodVerticalScalingExclusiveCPUs: 1.32 Alpha; needs InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory: 1.34 Alpha; needs InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers: 1.36 Beta on, 1.37 GA on locked; needs InPlacePodVerticalScaling
    NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes: 1.37 Alpha; needs InPlacePodVerticalScaling
    NodeDeclaredFeatures
*InPlacePodVerticalScalingSchedulerPreemption: 1.37 Alpha; needs InPlacePodVerticalScaling
InformerResourceVersion: 1.30 Alpha, 1.35 GA on
InterPodAffinityHostnameFastPath: 1.37 Alpha
JobBackoffLimitPerIndex: 1.33 GA on locked; removed 1.37
JobManagedBy: 1.32 Beta on, 1.35 GA on locked
JobPodReplacementPolicy: 1.29 Beta on, 1.34 GA on locked; removed 1.37
JobSuccessPolicy: 1.33 GA on locked; removed 1.37
KMSv1: 1.29 Deprecated
KubeProxyIPVS: 1.0 GA on, 1.37 Deprecated on
KubeProxyNFTablesLocalhostNodePorts: 1.37 Alpha
KubeletAllocatedPodsEndpoint: 1.37 Alpha; needs InPlacePodVerticalScaling
KubeletCgroupDriverFromCRI: 1.31 Beta on, 1.34 GA on locked
KubeletCrashLoopBackOffMax: 1.32 Alpha, 1.35 Beta on
KubeletEnsureSecretPulledImages: 1.33 Alpha, 1.35 Beta on
KubeletFineGrainedAuthz: 1.33 Beta on, 1.36 GA on locked
KubeletInUserNamespace: 1.22 Alpha, 1.37 Beta on
KubeletPSI: 1.33 Alpha, 1.34 Beta on, 1.36 GA on locked
KubeletPodResourcesDynamicResources: 1.27 Alpha, 1.34 Beta on, 1.36 GA on locked
KubeletPodResourcesGet: 1.27 Alpha, 1.34 Beta on, 1.36 GA on locked
KubeletPodResourcesListUseActivePods: 1.0 GA, 1.34 Deprecated on
KubeletRegistrationGetOnExistsOnly: 1.32 Deprecated
KubeletSeparateDiskGC: 1.31 Beta on
KubeletServiceAccountTokenForCredentialProviders: 1.33 Alpha, 1.34 Beta on
KubeletTracing: 1.27 Beta on, 1.34 GA on locked
ListFromCacheSnapshot: 1.33 Alpha, 1.34 Beta on
LocalStorageCapacityIsolationFSQuotaMonitoring: 1.31 Beta
LogarithmicScaleDown: 1.31 GA on locked; removed 1.37
*LoggingAlphaOptions: 1.24 Alpha
*LoggingBetaOptions: 1.24 Beta on
ManifestBasedAdmissionControlConfig: 1.36 Alpha, 1.37 Beta on
*MatchLabelKeysInPodAffinity: 1.33 GA on locked
*MatchLabelKeysInPodTopologySpread: 1.27 Beta on
MatchLabelKeysInPodTopologySpreadSelectorMerge: 1.34 Beta on; needs MatchLabelKeysInPodTopologySpread
MaxUnavailableStatefulSet: 1.24 Alpha, 1.35 Beta, 1.37 Beta on
MemoryQoS: 1.22 Alpha, 1.37 Beta on
MultiCIDRServiceAllocator: 1.33 GA on, 1.34 GA on locked
*MutableCSINodeAllocatableCount: 1.33 Alpha, 1.34 Beta, 1.35 Beta on, 1.36 GA on locked
MutablePVNodeAffinity: 1.35 Alpha
MutablePodResourcesForSuspendedJobs: 1.35 Alpha, 1.36 Beta on
MutableSchedulingDirectivesForSuspendedJobs: 1.35 Alpha, 1.36 Beta on
MutatingAdmissionPolicy: 1.32 Alpha, 1.34 Beta, 1.36 GA on
NFTablesNetlink: 1.37 Beta on
NFTablesProxyMode: 1.33 GA on locked
*NativeHistograms: 1.36 Alpha, 1.37 Beta on
NodeControllerLeaseCircuitBreaker: 1.37 Beta on; needs AtomicFIFO
*NodeDeclaredFeatures: 1.35 Alpha, 1.36 Beta on, 1.37 GA on locked
*NodeInclusionPolicyInPodTopologySpread: 1.33 GA on locked
NodeLifecycleConditions: 1.37 Alpha
NodeLogQuery: 1.30 Beta, 1.36 GA on locked
NodeSwap: 1.30 Beta on, 1.34 GA on locked
*NominatedNodeNameForExpectation: 1.34 Alpha, 1.35 Beta on
OpenAPIEnums: 1.24 Beta on
*OpportunisticBatching: 1.35 Beta on
OrderedNamespaceDeletion: 1.33 Beta on, 1.34 GA on locked; removed 1.37
PLEGOnDemandRelist: 1.36 Beta on, 1.37 GA on locked
PersistentVolumeClaimUnusedSinceTime: 1.36 Alpha, 1.37 Beta on
PodAndContainerStatsFromCRI: 1.23 Alpha, 1.37 Beta
PodCertificateRequest: 1.34 Alpha, 1.35 Beta, 1.37 GA on; needs AuthorizeNodeWithSelectors
PodDeletionCost: 1.22 Beta on
*PodGroupPreemptionPolicy: 1.37 Alpha; needs GenericWorkload
PodLevelResourceManagers: 1.36 Alpha, 1.37 Beta; needs PodLevelResources
PodLevelResources: 1.32 Alpha, 1.34 Beta on
PodLevelResourcesFixDefaulting: 1.37 Beta on; needs PodLevelResources
PodLevelResourcesFixKubeletQOSClass: 1.37 Beta on; needs PodLevelResources
PodLifecycleSleepAction: 1.30 Beta on, 1.34 GA on locked; removed 1.37
PodLifecycleSleepActionAllowZero: 1.33 Beta on, 1.34 GA on locked; needs PodLifecycleSleepAction; removed
    1.37
PodLogsQuerySplitStreams: 1.32 Alpha
*PodObservedGenerationTracking: 1.33 Alpha, 1.34 Beta on, 1.35 GA on locked
PodReadyToStartContainersCondition: 1.29 Beta on, 1.37 GA on locked
*PodSchedulingReadiness: 1.30 GA on locked
PodTopologyLabelsAdmission: 1.33 Alpha, 1.35 Beta on
PodsAPI: 1.36 Alpha, 1.37 Beta on
PortForwardWebsockets: 1.31 Beta on
PreferSameTrafficDistribution: 1.33 Alpha, 1.34 Beta on, 1.35 GA on locked
PreventStaticPodAPIReferences: 1.34 Beta on; removed 1.37
ProcMountType: 1.33 Beta on, 1.36 GA on locked; needs UserNamespacesSupport
QOSReserved: 1.11 Alpha
RecoverVolumeExpansionFailure: 1.32 Beta on, 1.34 GA on locked
RecursiveReadOnlyMounts: 1.33 GA on locked
ReduceDefaultCrashLoopBackOffDecay: 1.33 Alpha
RelaxedDNSSearchValidation: 1.33 Beta on, 1.34 GA on locked; removed 1.37
RelaxedEnvironmentVariableValidation: 1.32 Beta on, 1.34 GA on locked
RelaxedServiceNameValidation: 1.34 Alpha, 1.36 Beta on, 1.37 GA on locked
ReloadKubeletClientCAFile: 1.36 Beta on
ReloadKubeletServerCertificateFile: 1.31 Beta on
*RemoteRequestHeaderUID: 1.33 Beta on
ResilientWatchCacheInitialization: 1.31 Beta on, 1.34 GA on locked; removed 1.37
ResourceHealthStatus: 1.31 Alpha, 1.36 Beta on; needs DynamicResourceAllocation
ResourceHealthStatusMessage: 1.36 Beta on; needs ResourceHealthStatus
RestartAllContainersOnContainerExits: 1.35 Alpha, 1.36 Beta on; needs ContainerRestartRules
    NodeDeclaredFeatures
RetryGenerateName: 1.32 GA on locked; removed 1.37
RotateKubeletServerCertificate: 1.12 Beta on
RuntimeClassInImageCriApi: 1.29 Alpha
SELinuxChangePolicy: 1.33 Beta on, 1.36 GA on locked
SELinuxMount: 1.33 Beta, 1.37 GA on
SELinuxMountReadWriteOncePod: 1.28 Beta on, 1.36 GA on locked
*SchedulerAsyncAPICalls: 1.34 Beta
*SchedulerAsyncPreemption: 1.33 Beta on
*SchedulerPopFromBackoffQ: 1.33 Beta on
*SchedulerPreQueueingHints: 1.37 Alpha
*SchedulerQueueingHints: 1.32 Beta on, 1.34 GA on locked; removed 1.37
SeparateCacheWatchRPC: 1.33 Deprecated, 1.36 Deprecated locked
SeparateTaintEvictionController: 1.29 Beta on, 1.34 GA on locked
ServiceAccountNodeAudienceRestriction: 1.33 Beta on
ServiceAccountTokenJTI: 1.32 GA on locked
ServiceAccountTokenNodeBinding: 1.33 GA on locked; needs ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenNodeBindingValidation: 1.32 GA on locked
ServiceAccountTokenPodNodeInfo: 1.32 GA on locked
ServiceCIDRStatusFieldWiping: 1.0 GA, 1.36 Deprecated on
ShardedListAndWatch: 1.36 Alpha
*SidecarContainers: 1.33 GA on locked; removed 1.37
SizeBasedListCostEstimate: 1.34 Beta on
StaleControllerConsistencyDaemonSet: 1.36 Beta on; needs AtomicFIFO
StaleControllerConsistencyHPA: 1.37 Beta on; needs AtomicFIFO
StaleControllerConsistencyJob: 1.36 Beta on; needs AtomicFIFO
StaleControllerConsistencyReplicaSet: 1.36 Beta on; needs AtomicFIFO
StaleControllerConsistencyStatefulSet: 1.36 Beta on; needs AtomicFIFO
StatefulSetRecreateStrategy: 1.37 Alpha
StatefulSetSemanticRevisionComparison: 1.0 Beta on
*StorageCapacityScoring: 1.33 Alpha, 1.37 Beta on
StorageNamespaceIndex: 1.33 Deprecated on
StorageVersionAPI: 1.20 Alpha; needs APIServerIdentity
StorageVersionHash: 1.15 Beta on
StorageVersionMigrator: 1.30 Alpha, 1.35 Beta, 1.37 GA on
StreamingCollectionEncodingToJSON: 1.33 Beta on, 1.34 GA on locked; removed 1.37
StreamingCollectionEncodingToProtobuf: 1.33 Beta on, 1.34 GA on locked; removed 1.37
StrictIPCIDRValidation: 1.33 Alpha, 1.36 Beta on
StructuredAuthenticationConfiguration: 1.30 Beta on, 1.34 GA on locked; removed 1.37
StructuredAuthenticationConfigurationEgressSelector: 1.34 Beta on; needs
    StructuredAuthenticationConfiguration
StructuredAuthenticationConfigurationJWKSMetrics: 1.35 Beta on; needs StructuredAuthenticationConfiguration
SupplementalGroupsPolicy: 1.33 Beta on, 1.35 GA on locked
SystemdWatchdog: 1.32 Beta on, 1.35 GA on locked
*TaintTolerationComparisonOperators: 1.35 Alpha
TokenRequestServiceAccountUIDValidation: 1.34 Beta on
*TopologyAwareWorkloadScheduling: 1.36 Alpha; needs GenericWorkload
TopologyManagerPolicyAlphaOptions: 1.26 Alpha
TopologyManagerPolicyBetaOptions: 1.28 Beta on
TopologyManagerPolicyOptions: 1.32 GA on locked
TranslateStreamCloseWebsocketRequests: 1.30 Beta on
UnauthenticatedHTTP2DOSMitigation: 1.29 Beta on
UnknownVersionInteroperabilityProxy: 1.28 Alpha, 1.36 Beta on; needs APIServerIdentity
UnlockWhileProcessingFIFO: 1.36 Beta on
UserNamespacesHostNetworkSupport: 1.35 Alpha; needs NodeDeclaredFeatures UserNamespacesSupport
UserNamespacesSupport: 1.33 Beta on, 1.36 GA on locked
*VolumeAttributesClass: 1.31 Beta, 1.34 GA on, 1.36 GA on locked
VolumeBindMountOptions: 1.37 Alpha
*VolumeLimitScaling: 1.35 Alpha, 1.37 Beta on
WatchCacheInitializationPostStartHook: 1.31 Beta, 1.36 Beta on, 1.37 GA on locked
WatchList: 1.33 Beta, 1.34 Beta on
*WatchListClient: 1.30 Beta, 1.35 Beta on
WatchListCompression: 1.37 Beta on
WebhookRoundTripLoadBalancing: 1.37 Beta on
WinDSR: 1.33 Beta on, 1.34 GA on locked
WinOverlay: 1.20 Beta on, 1.34 GA on locked
WindowsCPUAndMemoryAffinity: 1.32 Alpha
WindowsGracefulNodeShutdown: 1.32 Alpha, 1.34 Beta on; needs GracefulNodeShutdown
WindowsHostNetwork: 1.33 Deprecated
*WorkloadAwarePreemption: 1.36 Alpha; needs GangScheduling; removed 1.37
WorkloadWithJob: 1.36 Alpha; needs GenericWorkload
"""
