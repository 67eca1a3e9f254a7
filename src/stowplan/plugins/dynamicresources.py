"""DynamicResources: devices through resource claims. So far it does the right thing for pods without claims.

A pod with claims is not supported yet: its attempt ends with an error that says so.
"""

from collections.abc import Hashable, Sequence
from typing import Self

from msgspec.structs import replace

from stowplan.api.feature_gates import DEFAULT_GATES
from stowplan.api.fielderrors import Path, forbidden, invalid
from stowplan.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Cycle,
    EventRegistration,
    Extremes,
    FeatureGates,
    NodeRows,
    NotBuiltError,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Scores,
    Status,
    error,
    unschedulable,
)
from stowplan.gocompat.durations import Duration
from stowplan.plugins.args import PluginArgs

REASON_NO_CLAIMS = "no new claims to deallocate"

FILTER_TIMEOUT = Duration.of_seconds(10)
BINDING_TIMEOUT = Duration.of_seconds(600)
NOT_FOUND = "not found"


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Time limits: for searching devices on one node (zero: none), and for devices to become ready.

    Each belongs to feature gates. None means unset, which `completed` turns into the default of 10 s and
    10 min; with the gates off it stays None and must not be set.
    """

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates["DRASchedulerFilterTimeout"]:
            filter_timeout = FILTER_TIMEOUT
        if binding_timeout is None and _has_binding_timeout(gates):
            binding_timeout = BINDING_TIMEOUT
        return replace(self, filter_timeout=filter_timeout, binding_timeout=binding_timeout)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        limit, where = self.filter_timeout, path.child("filterTimeout")
        if limit is not None and not gates["DRASchedulerFilterTimeout"]:
            errors.append(forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif limit is not None and limit < Duration():
            errors.append(invalid(where, str(limit), "must be zero or positive"))
        limit, where = self.binding_timeout, path.child("bindingTimeout")
        if limit is not None and not _has_binding_timeout(gates):
            gate_names = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
            errors.append(forbidden(where, f"{gate_names} feature gate is disabled"))
        elif limit is not None and limit < Duration.of_seconds(1):
            errors.append(invalid(where, str(limit), "must be at least 1 second"))
        return errors


def _has_binding_timeout(gates: FeatureGates) -> bool:
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]


class DynamicResources(Plugin):
    """Without claims it has nothing to filter, scores every node 0, and says so when nothing fits."""

    args_type = DynamicResourcesArgs
    reads = Reads.NOTHING
    signs_template = True
    constant_pre_filter = True

    def sign(self, pod: PodInfo) -> Hashable:
        return bool(pod.spec.resource_claims)

    def events(self) -> Sequence[EventRegistration]:
        """What can help any pod that waits for devices; what its claims are about comes with the claims."""
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        changed = Action.ADD | Action.UPDATE
        return (
            EventRegistration(ClusterEvent(Resource.NODE, nodes)),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, changed)),
            EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, changed)),
        )

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if pod.spec.resource_claims:
            raise NotBuiltError(self.name, "pods with resource claims are not supported yet")
        cycle.write(self, True)
        return SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> None:
        return None

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Status:
        """Nothing to give back for a pod without claims.

        A pod that an earlier PreFilter plugin rejected outright never got to this plugin's PreFilter; then
        what it wants to know is missing, and the whole phase ends here.
        """
        return unschedulable(REASON_NO_CLAIMS) if cycle.read(self) else error(NOT_FOUND)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        return None

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: Extremes) -> Scores:
        return scores
