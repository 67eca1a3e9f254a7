"""Documents about pods of a cluster in memory: of those in it, and of pods that manifests would create."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.explain.document.layers import Decider
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.causes import NEAREST
from stowplan.explain.explainers.elsewhere import profile_for, unevaluated, with_profile_change
from stowplan.explain.explainers.layered import with_layers
from stowplan.explain.explainers.members import as_member, group_of_pod
from stowplan.explain.explainers.notcreated import unread_of
from stowplan.explain.layers.deciders import Deciders
from stowplan.explain.layers.late import EventsOfMany
from stowplan.explain.layers.owners import with_owners
from stowplan.explain.layers.reads import DumpReads, ObjectReads
from stowplan.explain.layers.webhooks import webhooks_not_called
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import PENDING
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.snapshot.files import SnapshotError

if TYPE_CHECKING:
    # Explanations of pods that exist need no admission.
    from stowplan.simulate.creation.manifests import Manifests


class Evaluation:
    """Documents about pods, made here: evaluated if one of the profiles decides the pod."""

    def __init__(self, engine: Cluster, reads: ObjectReads, now: float | None) -> None:
        self.engine = engine
        self.reads = reads
        self.now = now
        self._events = EventsOfMany(reads)
        self._deciders = Deciders(engine.frameworks, engine.all_pods.values, reads, now)

    @classmethod
    def of_dump(cls, engine: Cluster) -> "Evaluation":
        return cls(engine, DumpReads(engine.objects.values()), None)

    @property
    def unread_events(self) -> tuple[str, ...]:
        """The reason why the events of a cluster are not known. Most dumps have none: that is no gap."""
        return () if self.now is None else unread_of(self.reads)

    async def uncalled_webhooks(self, pod: Pod) -> Sequence[str]:
        """The webhooks of a cluster that the creation of a pod would call. Dumps seldom have any."""
        if self.now is None:
            return ()
        return await webhooks_not_called(pod, self.engine.table.lookups.namespaces, self.reads)

    def is_ours(self, pod: Pod) -> bool:
        """True if one of the profiles decides the pod."""
        return self._deciders.ours(pod) is not None

    async def ours(self, pod: Pod, nearest: int | None = None) -> PodDocument:
        """The document about a pod of one of our profiles."""
        found = self.engine.explainer_for(pod).explain(self.engine.info(pod), nearest=nearest)
        return await self._finished(found, pod, self._deciders.ours(pod), many=nearest is not None)

    async def on_its_node(self, pod: Pod) -> PodDocument:
        """The document about a pod on its node without why it is there."""
        engine, info = self.engine, self.engine.info(pod)
        found = unevaluated(info, engine.table, engine.source, self._deciders.ours(pod))
        return await self._finished(found, pod, found.decider, many=True)

    async def document(self, pod: Pod) -> PodDocument:
        """The document about any pod."""
        if self.is_ours(pod):
            return await self.ours(pod)
        engine, decider = self.engine, await self._deciders.of(pod)
        found = unevaluated(engine.info(pod), engine.table, engine.source, decider)
        if decider.kind == "nobody" and found.state == PENDING:
            profile = profile_for(pod.spec.scheduler_name, engine.frameworks)
            renamed = replace(pod, spec=replace(pod.spec, scheduler_name=profile))
            tried = engine.explainer_for(renamed).explain(engine.info(renamed), nearest=NEAREST)
            found = with_profile_change(found, pod, tried, profile)
        return await self._finished(found, pod, decider)

    async def member(self, pod: Pod) -> PodDocument:
        """The document about any pod, with commands for its changes and the group it waits for."""
        engine, found = self.engine, await self.document(pod)
        found = await with_owners(found, pod, self.reads)
        return as_member(found, run_at_once(group_of_pod(engine.table.groups, pod, engine.group_steps)))

    async def new(self, pod: Pod) -> PodDocument:
        """The document about a pod of a manifest, with the webhooks that its creation would call."""
        document = await self.member(pod)
        return replace(document, incomplete=(*document.incomplete, *await self.uncalled_webhooks(pod)))

    async def _finished(
        self, found: PodDocument, pod: Pod, decider: Decider | None, *, many: bool = False
    ) -> PodDocument:
        """The document with its decider, the layers around the decision, and what was not read."""
        engine = self.engine
        found = await with_layers(
            replace(found, decider=decider),
            pod,
            engine.table,
            self.reads,
            self.now,
            extenders=engine.settings.config.extenders,
            unread=engine.unread,
            without_plugins=engine.settings.without_plugins,
            events=self._events if many else None,
        )
        return told_pod(found)


def pods_of_manifests(cluster: Cluster, manifests: "Manifests", source: str) -> list[Pod]:
    """A pod of everything in manifests that makes pods, as it would be created in the cluster.

    The other members of its group are created with it. `source` names the manifests in errors. Raises
    SnapshotError.
    """
    from stowplan.simulate.creation.pods import PodSource, create_others

    create_others(cluster, manifests)
    found = []
    for workload in manifests.workloads:
        made = PodSource(cluster, workload)
        for pod in made.create(1)[:1]:
            if cluster.table.groups.key_of(cluster.seen(pod)) is not None:
                cluster.add(*made.create(max(workload.replicas - 1, 0)))
            metadata = replace(pod.metadata, name=workload.name, uid=f"new-{workload.name}")
            found.append(replace(cluster.seen(pod), metadata=metadata))
        if made.refusal:
            raise SnapshotError(f"{workload.place or workload.title}: not created: {made.refusal}")
    cluster.add(*(pod for pod in found if cluster.table.groups.key_of(pod) is not None))
    if not found:
        raise SnapshotError(f"{source}: expected a pod or a workload")
    return found
