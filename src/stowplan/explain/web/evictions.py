"""Who was evicted for whom, as a running scheduler remembers it."""

from typing import Any, Final

from stowplan.api.pod import Pod
from stowplan.explain.explainer import PodExplanation
from stowplan.explain.facts import preempted
from stowplan.explain.states import GONE
from stowplan.scheduler import Scheduler

SOURCE: Final = "the running scheduler"


def eviction_facts(scheduler: Scheduler, pod: Pod) -> dict[str, Any]:
    """Who was evicted for a pod, and for whom it is being evicted itself."""
    decisions = scheduler.context.decisions
    found: dict[str, Any] = {}
    made = decisions.evicted_for(pod.metadata.uid)
    if made is not None:
        found["evictions"] = made.document()
    condition = preempted(pod)
    suffered = decisions.eviction_of(pod.key)
    if condition is not None and suffered is not None:
        found["evicted"] = {**suffered.document(), "message": condition.message}
    return found


def explain_gone(scheduler: Scheduler, key: str) -> PodExplanation | None:
    """What is known of a pod that is not there any more: that it was evicted, and for whom."""
    suffered = scheduler.context.decisions.eviction_of(key)
    if suffered is None:
        return None
    document = suffered.document()
    where = f" from {suffered.done.node}" if suffered.done.node else ""
    message = f"evicted{where} for {suffered.by}, {document['time']}"
    found = PodExplanation(key, GONE, SOURCE, scheduler.context.cache.table.node_count, message)
    found.facts["evicted"] = {**document, "message": ""}
    return found
