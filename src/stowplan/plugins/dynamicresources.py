"""DynamicResources: devices through resource claims. So far it does the right thing for pods without claims.

A pod with claims is not supported yet: its attempt ends with an error that says so.
"""

from collections.abc import Hashable, Sequence

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Resource
from stowplan.framework.interface import Extremes, Plugin, Reads, Scores
from stowplan.framework.status import SKIP, NotBuiltError, Status, error, unschedulable
from stowplan.plugins.args import DynamicResourcesArgs

REASON_NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"


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
