"""Evictions and their preemptors, as a running scheduler remembers them."""

from typing import Final

from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.facts import preempted
from stowplan.explain.recorded import eviction_document
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import GONE
from stowplan.scheduler import Scheduler

SOURCE: Final = "the running scheduler"


def with_evictions(found: PodDocument, scheduler: Scheduler, pod: Pod) -> PodDocument:
    """The document with who was evicted for a pod, and for whom it is being evicted itself."""
    decisions = scheduler.context.decisions
    made = decisions.evicted_for(pod.metadata.uid)
    if made is not None:
        found = replace(found, evictions=eviction_document(made))
    condition = preempted(pod)
    suffered = decisions.eviction_of(pod.key)
    if condition is not None and suffered is not None:
        found = replace(found, evicted=eviction_document(suffered, condition.message))
    return found


def explain_gone(scheduler: Scheduler, key: str) -> PodDocument | None:
    """Document of a pod that is gone: that it was evicted, and for whom."""
    suffered = scheduler.context.decisions.eviction_of(key)
    if suffered is None:
        return None
    where = f" from {suffered.done.node}" if suffered.done.node else ""
    nodes = scheduler.context.cache.table.node_count
    found = PodDocument(
        pod=key,
        state=GONE,
        source=SOURCE,
        message=f"evicted{where} for {suffered.by}, {timestamp(suffered.time)}",
        nodes=nodes,
        feasible=nodes,
        evicted=eviction_document(suffered),
    )
    return told_pod(found, scheduler.context.clock.now())
