"""Workloads for the API: read with the rights of the viewer, their pods explained by the scheduler."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.workload import WorkloadDocument, WorkloadLine, WorkloadsDocument
from stowplan.explain.explainers.workload import explain_workload
from stowplan.explain.layers.owners import TYPES, controller_of
from stowplan.explain.layers.reads import ClientReads, ObjectReads
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.documents import Inspection
from stowplan.explain.web.evictions import SOURCE

KINDS: Final = {f"{kind.lower()}s": kind for kind in TYPES}
"""Workloads by the plural in their path."""
_JOBS: Final = ("Job", "CronJob")
_FINISHED: Final = ("Failed", "Succeeded")
"""Phases of pods that schedulers do not watch; Jobs are judged by them."""
_READ_AGAIN: Final = 10.0
"""Seconds for which names are kept: a search asks for each key that is pressed."""


class WorkloadNames:
    """The workloads of the cluster by name, read with the rights of the scheduler while somebody searches."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._read = float("-inf")
        self._lines: tuple[WorkloadLine, ...] = ()
        self._reading = asyncio.Lock()

    async def found(self, viewer: Viewer, search: str, limit: int) -> WorkloadsDocument:
        """Workloads whose name contains a text, as far as a viewer may read them and pods beside them."""
        scheduler = self._inspection.scheduler
        if scheduler is None:
            return WorkloadsDocument()
        async with self._reading:
            now = scheduler.context.clock.monotonic()
            if now - self._read > _READ_AGAIN:
                self._lines = tuple([line async for line in _lines(ClientReads(scheduler.context.client))])
                self._read = now
        wanted = search.lower()
        found = [
            line for line in self._lines if wanted in line.workload.lower() and await _may_see(viewer, line)
        ]
        return WorkloadsDocument(tuple(found[:limit]), len(found))


async def _lines(reads: ObjectReads) -> AsyncIterator[WorkloadLine]:
    """Those that nothing else made: not the ReplicaSets of a Deployment, or the Jobs of a CronJob."""
    for kind, (resource, cls) in TYPES.items():
        for one in await reads.list(resource, cls):
            if controller_of(one) is None:
                yield WorkloadLine(one.key, kind)


async def _may_see(viewer: Viewer, line: WorkloadLine) -> bool:
    namespace = line.workload.partition("/")[0]
    return await viewer.may_see(namespace) and await viewer.may_list(TYPES[line.kind][0], namespace)


async def workload(
    inspection: Inspection, kind: str, namespace: str, name: str, reads: ObjectReads | None
) -> WorkloadDocument | None:
    """The document about a workload; None if there is none of that name."""
    scheduler = inspection.scheduler
    if scheduler is None:
        return None
    reads = ClientReads(scheduler.context.client) if reads is None else reads
    pods = [pod for pod in scheduler.informers.pods.objects.values() if pod.namespace == namespace]
    for phase in _FINISHED if kind in _JOBS else ():
        pods += await reads.list(PODS, Pod, namespace, status__phase=phase)

    async def explained(pod: Pod) -> PodDocument | None:
        return await inspection.pod(pod.namespace, pod.name, reads)

    now = scheduler.context.clock.now()
    return await explain_workload(kind, namespace, name, pods, reads, explained, SOURCE, now)
