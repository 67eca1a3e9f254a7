"""All pods of a running scheduler that do not run, by cause."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.explain.commands import with_commands
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.layers import Decider
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.causes import NEAREST, causes_of_documents, pending_document
from stowplan.explain.explainers.elsewhere import unevaluated
from stowplan.explain.explainers.notcreated import unread_of, workloads_without_pods
from stowplan.explain.layers.late import EventsOfMany
from stowplan.explain.layers.owners import owner_of
from stowplan.explain.layers.reads import ObjectReads, read_wider
from stowplan.explain.layers.starting import may_be_stopped
from stowplan.explain.layers.wider import NOTHING_KNOWN, Wider
from stowplan.explain.recorded import queue_state, with_refusal
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.web.evictions import SOURCE
from stowplan.explain.web.turns import in_turns
from stowplan.scheduler import Scheduler

if TYPE_CHECKING:
    from stowplan.explain.web.documents import Inspection


class PodsThatDoNotRun:
    """One answer about all pods of the namespaces that somebody may see."""

    def __init__(
        self, inspection: "Inspection", scheduler: Scheduler, visible: Collection[str], reads: ObjectReads
    ) -> None:
        self._inspection = inspection
        self._scheduler = scheduler
        self._visible = visible
        self._reads = reads
        self._events = EventsOfMany(reads)
        self._table = scheduler.context.cache.table

    async def document(self) -> PendingDocument:
        """The causes. Each group and template is explained once, with pauses.

        Meanwhile pods may be placed and others come: those of the beginning are told of.
        """
        queue, table = self._scheduler.context.queue, self._table
        waiting = [queued.pod.pod for queued in queue if queued.pod.namespace in self._visible]
        infos = {pod.metadata.uid: table.info(pod) for pod in waiting}
        whole_of = {pod.metadata.uid: table.groups.whole_of(pod) for pod in waiting}
        groups: dict[str | None, GroupDocument | None] = {None: None}
        for key in whole_of.values():
            if key is not None and key not in groups:
                groups[key] = await self._inspection.explain_group(self._scheduler, key)
        wider = await read_wider(self._reads, "") if waiting else NOTHING_KNOWN
        explained: dict[Any, PodDocument] = {}
        for pod in waiting:
            template, group = infos[pod.metadata.uid].template, groups[whole_of[pod.metadata.uid]]
            told = pod.spec.scheduling_gates or (group is not None and group.is_waiting)
            if not told and template not in explained:
                explained[template] = await self._waiting(pod, wider)
        return pending_document(
            waiting,
            lambda pod: infos[pod.metadata.uid],
            lambda info: explained[info.template],
            lambda pod: groups[whole_of[pod.metadata.uid]],
            SOURCE,
            await self._others(),
        )

    async def _waiting(self, pod: Pod, wider: Wider) -> PodDocument:
        """A pod in the queue, with commands for its changes."""
        context = self._scheduler.context
        info = self._inspection.info(self._scheduler, pod)
        found = await self._inspection.explain(self._scheduler, info, NEAREST, wider)
        found = replace(found, queue=queue_state(context, pod.key))
        found = with_refusal(found, context.decisions.by_key(pod.key))
        if found.changes:
            found = with_commands(found, await owner_of(pod, self._reads))
        return await self._told(found, pod)

    async def _others(self) -> PendingDocument:
        """Pods that do not run and are not in the queue: of other schedulers, stopped on their nodes, or not
        created."""
        pods = self._scheduler.informers.pods.objects
        assumed = self._scheduler.context.cache.assumed
        deciders = self._inspection.deciders(self._scheduler, self._reads)
        elsewhere: list[PodDocument] = []
        undecided: dict[Any, PodDocument] = {}
        """By template: pods that are alike are tried with one of our profiles once."""
        not_started: list[PodDocument] = []
        async for some in in_turns(list(pods.values())):
            for pod in some:
                if pod.is_finished or pod.namespace not in self._visible:
                    continue
                if pod.spec.node_name or pod.metadata.uid in assumed:
                    if pod.metadata.uid in assumed or may_be_stopped(pod):
                        found = await self._on_its_node(pod, deciders.ours(pod))
                        if found.stopped is not None:
                            not_started.append(found)
                elif deciders.ours(pod) is None:
                    elsewhere.append(await self._elsewhere(pod, await deciders.of(pod), undecided))
        unknown = [one for one in elsewhere if one.decider is not None and one.decider.kind == "unknown"]
        everywhere = self._inspection.all_namespaces() <= set(self._visible)
        namespaces = () if everywhere else sorted(self._visible)
        not_created = await workloads_without_pods(namespaces, pods.values(), self._reads)
        return PendingDocument(
            elsewhere=causes_of_documents(elsewhere),
            not_started=causes_of_documents(not_started),
            not_created=not_created,
            incomplete=(
                *(line for one in unknown for line in one.incomplete),
                *(f"pods that cannot be created: {line}" for line in unread_of(self._reads)),
            ),
        )

    async def _elsewhere(self, pod: Pod, decider: Decider, undecided: dict[Any, PodDocument]) -> PodDocument:
        """A pod that this scheduler does not decide."""
        info = self._inspection.info(self._scheduler, pod)
        if info.template not in undecided:
            tried = await self._inspection.explain_undecided(self._scheduler, pod, decider)
            if tried.changes:
                tried = with_commands(tried, await owner_of(pod, self._reads))
            undecided[info.template] = tried
        found = unevaluated(info, self._table, SOURCE, decider)
        return await self._told(replace(found, changes=undecided[info.template].changes), pod)

    async def _on_its_node(self, pod: Pod, decider: Decider | None) -> PodDocument:
        """A pod on its node, or on the way to it, without why it is there."""
        info = self._inspection.info(self._scheduler, pod)
        found = unevaluated(info, self._table, SOURCE, decider)
        return await self._told(replace(found, queue=queue_state(self._scheduler.context, pod.key)), pod)

    async def _told(self, found: PodDocument, pod: Pod) -> PodDocument:
        scheduler, reads = self._scheduler, self._reads
        return told_pod(await self._inspection.with_layers(scheduler, found, pod, reads, self._events))
