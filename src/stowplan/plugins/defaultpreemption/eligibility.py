"""May a pod make others go at all?"""

from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.status import Code

REASON_NEVER = "not eligible due to preemptionPolicy=Never."
REASON_TERMINATING = "not eligible due to a terminating pod on the nominated node."

_NEVER = "Never"
_CONDITION = "DisruptionTarget"
_CONDITION_REASON = "PreemptionByScheduler"


def objection(evaluation: Evaluation, pod: PodInfo) -> str | None:
    """Why a pod may not preempt others; None: it may.

    One that has made room on a node already waits until its victims are gone, unless that node has become
    hopeless in the meantime.
    """
    if pod.spec.preemption_policy == _NEVER:
        return REASON_NEVER
    promised = pod.pod.status.nominated_node_name
    table = evaluation.cycle.table
    row = table.row_of(promised) if promised else None
    if row is None or evaluation.status(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return None
    leaving = any(
        info.priority < pod.priority and was_preempted(info.pod) for info in table.pods_on[row].values()
    )
    return REASON_TERMINATING if leaving else None


def was_preempted(pod: Pod) -> bool:
    """Is a pod on its way out because a scheduler made it go?"""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == _CONDITION:
            return condition.status == "True" and condition.reason == _CONDITION_REASON
    return False
