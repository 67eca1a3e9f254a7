"""Feature gates: which optional behaviour exists, how mature it is, and whether it is on.

Gates are resolved once, when the configuration is read and profiles are built; nothing asks for them
in the middle of scheduling a pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """How mature a feature is."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Gate:
    """What is known of one gate: its stage, its default, and whether that default can be changed."""

    stage: Stage
    default: bool
    locked: bool = False


def _gates(gate: Gate, names: str) -> dict[str, Gate]:
    return dict.fromkeys(names.split(), gate)


GATES: Mapping[str, Gate] = {
    **_gates(
        Gate(Stage.GA, default=True, locked=True),
        "DRAAdminAccess DynamicResourceAllocation InPlacePodVerticalScaling MatchLabelKeysInPodAffinity "
        "MutableCSINodeAllocatableCount NodeInclusionPolicyInPodTopologySpread PodObservedGenerationTracking "
        "PodSchedulingReadiness SchedulerQueueingHints SidecarContainers VolumeAttributesClass",
    ),
    **_gates(Gate(Stage.GA, default=True), "DRAPrioritizedList"),
    **_gates(
        Gate(Stage.BETA, default=True),
        "ClearingNominatedNodeNameAfterBinding ComponentFlagz ComponentStatusz ContextualLogging "
        "DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource "
        "DRAPartitionableDevices DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization "
        "DRASchedulerFilterTimeout InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread "
        "MatchLabelKeysInPodTopologySpreadSelectorMerge NodeDeclaredFeatures NominatedNodeNameForExpectation "
        "OpportunisticBatching PodLevelResources SchedulerAsyncPreemption SchedulerPopFromBackoffQ",
    ),
    **_gates(
        Gate(Stage.BETA, default=False),
        "CoordinatedLeaderElection DRADeviceTaintRules SchedulerAsyncAPICalls",
    ),
    **_gates(
        Gate(Stage.ALPHA, default=False),
        "DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims GangScheduling "
        "GenericWorkload NativeHistograms StorageCapacityScoring TaintTolerationComparisonOperators "
        "TopologyAwareWorkloadScheduling VolumeLimitScaling WorkloadAwarePreemption",
    ),
}
"""Every gate that concerns scheduling, with its default in Kubernetes 1.36."""


class FeatureGates(Mapping[str, bool]):
    """The gates of one run: the defaults, some of them changed. Immutable.

    Reading the name of a gate that does not exist is a programming error and raises KeyError.
    """

    __slots__ = ("_enabled",)

    def __init__(self, changed: Mapping[str, bool] | Iterable[tuple[str, bool]] = ()) -> None:
        self._enabled = {name: gate.default for name, gate in GATES.items()}
        for name, value in dict(changed).items():
            if name not in GATES:
                raise KeyError(name)
            self._enabled[name] = value

    def __getitem__(self, name: str) -> bool:
        return self._enabled[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._enabled)

    def __len__(self) -> int:
        return len(self._enabled)

    def __hash__(self) -> int:
        return hash(tuple(self._enabled.items()))

    def __repr__(self) -> str:
        changed = {name: on for name, on in self._enabled.items() if on != GATES[name].default}
        return f"FeatureGates({changed})"


DEFAULT_GATES = FeatureGates()
"""All gates at their defaults."""
