"""Workloads for the API: read with the rights of the viewer, their pods explained by the scheduler."""

from typing import Final

from stowplan.api.pod import Pod
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.workload import WorkloadDocument
from stowplan.explain.explainers.workload import explain_workload
from stowplan.explain.layers.owners import TYPES
from stowplan.explain.layers.reads import ClientReads, ObjectReads
from stowplan.explain.web.documents import Inspection
from stowplan.explain.web.evictions import SOURCE

KINDS: Final = {f"{kind.lower()}s": kind for kind in TYPES}
"""Workloads by the plural in their path."""


async def workload(
    inspection: Inspection, kind: str, namespace: str, name: str, reads: ObjectReads | None
) -> WorkloadDocument | None:
    """The document about a workload; None if there is none of that name."""
    scheduler = inspection.scheduler
    if scheduler is None:
        return None
    reads = ClientReads(scheduler.context.client) if reads is None else reads
    pods = [pod for pod in scheduler.informers.pods.objects.values() if pod.namespace == namespace]

    async def explained(pod: Pod) -> PodDocument | None:
        return await inspection.pod(pod.namespace, pod.name, reads)

    now = scheduler.context.clock.now()
    return await explain_workload(kind, namespace, name, pods, reads, explained, SOURCE, now)
