"""The StatefulSet controller: pods with names and volumes of their own, one after the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from stowplan.api.catalogue import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.workloads.history import (
    HASH,
    REVISION_HASH,
    claim_revisions,
    forget_old,
    present_revision,
    template_of,
)
from stowplan.localcluster.controllers.workloads.podcontrol import claim_objects, pod_from
from stowplan.localcluster.objects.fields import (
    available_in,
    controller_reference,
    count_in,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    omit_empty,
    owners_of,
    phase_of,
    selector_in,
    spec_of,
    status_of,
    uid_of,
)

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

MOST_STEPS: Final = 500
"""Steps of one look at a set; the pods that they make bring about the next look."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the pod of an ordinal, of a revision."""

    ordinal: int
    revision: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a pod."""

    pod: Json


Step = Create | Delete


@dataclass(frozen=True, slots=True)
class StatefulSetView:
    """A StatefulSet with its pods by ordinal, and its two revisions by name."""

    obj: Json
    pods: Mapping[int, Json]
    current: str
    update: str
    now: float

    @property
    def ordinals(self) -> range:
        spec = spec_of(self.obj)
        start = count_in(spec.get("ordinals") or {}, "start")
        return range(start, start + count_in(spec, "replicas", 1))

    @property
    def in_order(self) -> bool:
        return spec_of(self.obj).get("podManagementPolicy") != "Parallel"

    @property
    def partition(self) -> int:
        return count_in(
            (spec_of(self.obj).get("updateStrategy") or {}).get("rollingUpdate") or {}, "partition"
        )

    @property
    def on_delete(self) -> bool:
        return (spec_of(self.obj).get("updateStrategy") or {}).get("type") == "OnDelete"

    def is_healthy(self, pod: Json) -> bool:
        min_ready = count_in(spec_of(self.obj), "minReadySeconds")
        return not is_deleting(pod) and available_in(pod, min_ready, self.now) == 0.0

    def revision_for(self, ordinal: int) -> str:
        """The revision a new pod is of: below the partition, and while an update waits, still the old one."""
        if self.current == self.update:
            return self.update
        if self.on_delete:
            return self.update
        return self.current if ordinal - self.ordinals.start < self.partition else self.update


def ordinal_of(obj: Json, pod: Json) -> int | None:
    """Which number a pod has in its set, None if it has none."""
    name, prefix = name_of(pod), f"{name_of(obj)}-"
    rest = name.removeprefix(prefix)
    return int(rest) if name.startswith(prefix) and rest.isdigit() else None


def revision_of(pod: Json) -> str:
    return labels_of(pod).get(HASH, "")


def next_steps(view: StatefulSetView) -> list[Step]:
    """The next steps. In order, there is at most one thing to do, in parallel MOST_STEPS of them."""
    steps: list[Step] = []
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        step, waits = _replica_step(view, ordinal, pod)
        if step is not None:
            steps.append(step)
        if (waits and view.in_order) or len(steps) >= MOST_STEPS:
            return steps
    condemned = [view.pods[n] for n in sorted(view.pods, reverse=True) if n not in view.ordinals]
    if condemned and view.in_order:
        return _condemned_step(view, condemned)
    steps += [Delete(pod) for pod in condemned if not is_deleting(pod)]
    return steps + _update_step(view)


def _condemned_step(view: StatefulSetView, condemned: Sequence[Json]) -> list[Step]:
    """The last pod goes first, when it is well; of those that are not, the first goes first."""
    last = condemned[0]
    first_unhealthy = next((pod for pod in reversed(condemned) if not view.is_healthy(pod)), None)
    waits = is_deleting(last) or not (view.is_healthy(last) or last is first_unhealthy)
    return [] if waits else [Delete(last)]


def _replica_step(view: StatefulSetView, ordinal: int, pod: Json | None) -> tuple[Step | None, bool]:
    """Next step for a replica, and True if the ones after it have to wait for it."""
    if pod is None:
        return Create(ordinal, view.revision_for(ordinal)), True
    if is_finished(pod) and not is_deleting(pod):
        return Delete(pod), True
    return None, not view.is_healthy(pod)


def _update_step(view: StatefulSetView) -> list[Step]:
    """The next pod of an old revision to go, from the last to the first, when all after it are well."""
    if view.on_delete:
        return []
    lowest = view.ordinals.start + view.partition
    for ordinal in reversed(view.ordinals):
        pod = view.pods.get(ordinal)
        if ordinal < lowest or pod is None:
            return []
        if revision_of(pod) != view.update and not is_deleting(pod) and not is_finished(pod):
            return [Delete(pod)]
        if not view.is_healthy(pod):
            return []
    return []


def status_for(view: StatefulSetView, collisions: int) -> Json:
    """The counts of a StatefulSet, and which revisions it has."""
    pods = list(view.pods.values())
    min_ready = count_in(spec_of(view.obj), "minReadySeconds")

    def of(revision: str) -> int:
        return sum(1 for pod in pods if revision_of(pod) == revision and not is_deleting(pod))

    ready = sum(1 for pod in pods if phase_of(pod) == "Running" and is_ready(pod))
    updated, wanted = of(view.update), len(view.ordinals)
    current = view.current
    if current != view.update and not view.on_delete and updated == wanted == ready == len(pods):
        current = view.update
    counts = {
        "observedGeneration": view.obj["metadata"].get("generation", 1),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": sum(1 for pod in pods if available_in(pod, min_ready, view.now) == 0.0),
        "currentReplicas": of(current),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": view.update,
        "collisionCount": collisions,
    }
    return omit_empty(counts, "replicas", "availableReplicas", "collisionCount")


def claims_for(obj: Json, ordinal: int) -> list[Json]:
    """The claims of a replica."""
    labels = (spec_of(obj).get("selector") or {}).get("matchLabels") or {}
    found: list[Json] = []
    for template in spec_of(obj).get("volumeClaimTemplates") or ():
        metadata = template.get("metadata") or {}
        claim: Json = {
            "metadata": {
                "name": f"{metadata.get('name', '')}-{name_of(obj)}-{ordinal}",
                "namespace": namespace_of(obj),
                "labels": {**(metadata.get("labels") or {}), **labels},
                "annotations": dict(metadata.get("annotations") or {}),
            },
            "spec": dict(template.get("spec") or {}),
        }
        found.append(claim)
    return found


def volumes_for(obj: Json, template: Json, ordinal: int) -> list[Json]:
    """A replica's volumes: those of its own claims, and of the template's those with other names."""
    own = [
        {
            "name": one.get("metadata", {}).get("name", ""),
            "persistentVolumeClaim": {"claimName": f"{one['metadata']['name']}-{name_of(obj)}-{ordinal}"},
        }
        for one in spec_of(obj).get("volumeClaimTemplates") or ()
    ]
    names = {one["name"] for one in own}
    given: Iterable[Json] = (template.get("spec") or {}).get("volumes") or ()
    return [*own, *(one for one in given if one.get("name") not in names)]


def replica_pod(obj: Json, revision: Json, ordinal: int) -> Json:
    """The pod of an ordinal, of the template of a revision."""
    template, name = template_of(revision), f"{name_of(obj)}-{ordinal}"
    spec: Json = {"hostname": name, "volumes": volumes_for(obj, template, ordinal)}
    if spec_of(obj).get("serviceName"):
        spec["subdomain"] = spec_of(obj)["serviceName"]
    labels = {POD_NAME: name, POD_INDEX: str(ordinal), HASH: name_of(revision)}
    return pod_from(template, STATEFUL_SETS, obj, name=name, labels=labels, spec=spec)


def retention(obj: Json, when: str) -> bool:
    """True if claims are deleted with the set, or when it is scaled down."""
    return (spec_of(obj).get("persistentVolumeClaimRetentionPolicy") or {}).get(when) == "Delete"


def claim_owners(obj: Json, pod: Json, claim: Json, *, condemned: bool) -> list[Json] | None:
    """The owners a claim is to have so that it goes with the set or with its pod; None: as it has.

    Whoever had the set's or the pod's name before keeps what it owns.
    """
    held = list(owners_of(claim))
    named = ((STATEFUL_SETS, obj), (PODS, pod))
    ours = [one for one in held if any(_is_reference_to(one, *which) for which in named)]
    if any(one.get("uid") not in (uid_of(obj), uid_of(pod)) for one in ours):
        return None
    others = [one for one in held if one not in ours]
    when_deleted, when_scaled = retention(obj, "whenDeleted"), retention(obj, "whenScaled")
    wanted = others
    if any(one.get("controller") for one in others):
        wanted = others
    elif condemned and when_scaled:
        wanted = [*others, controller_reference(PODS, pod)]
    elif when_deleted:
        wanted = [*others, controller_reference(STATEFUL_SETS, obj)]
    return None if wanted == held else wanted


def _is_reference_to(reference: Json, resource: Resource, obj: Json) -> bool:
    named = resource.api_version, resource.kind, name_of(obj)
    return (reference.get("apiVersion"), reference.get("kind"), reference.get("name")) == named


class StatefulSetController(Controller):
    """Keeps the pods of StatefulSets, and makes their claims."""

    name: ClassVar[str] = "statefulset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.sets = self.follow(STATEFUL_SETS)
        self.pods = self.follow_owned(PODS, STATEFUL_SETS.kind, self.sets)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.revisions = self.informer(CONTROLLER_REVISIONS)

    async def sync(self, key: str) -> None:
        obj = self.sets.get(key)
        if obj is None:
            return
        selector = selector_in(obj)
        pods = await claim_objects(
            self, self.pods, STATEFUL_SETS, obj, selector, lambda pod: ordinal_of(obj, pod) is not None
        )
        self.rest(key, len(pods))
        held = await claim_revisions(self, self.revisions, STATEFUL_SETS, obj, selector)
        update, collisions = await present_revision(self, STATEFUL_SETS, obj, held, REVISION_HASH)
        numbered = {n: pod for pod in pods if (n := ordinal_of(obj, pod)) is not None}
        current = status_of(obj).get("currentRevision") or name_of(update)
        if all(name_of(one) != current for one in held):
            current = name_of(update)
        view = StatefulSetView(obj, numbered, current, name_of(update), self.now())
        try:
            if not is_deleting(obj):
                await self._keep_up(view)
                revisions = {name_of(one): one for one in (*held, update)}
                for step in next_steps(view):
                    await self._take(view, step, revisions)
        finally:
            await self.set_status(STATEFUL_SETS, obj, status_for(view, collisions))
        self._look_again(key, view)
        used = {current, name_of(update), *map(revision_of, pods)}
        await forget_old(self, obj, held, used)

    def _look_again(self, key: str, view: StatefulSetView) -> None:
        """When the next pod has been ready for long enough."""
        min_ready = count_in(spec_of(view.obj), "minReadySeconds")
        waiting = [left for pod in view.pods.values() if (left := available_in(pod, min_ready, view.now))]
        if waiting:
            self.queue.add_after(key, min(waiting))

    async def _keep_up(self, view: StatefulSetView) -> None:
        """Pods keep their names in labels, and claims that go when they should."""
        for ordinal, pod in view.pods.items():
            changed = await self._own_claims(view, ordinal, pod)
            if labels_of(pod).get(POD_NAME) != name_of(pod):
                labels = {POD_NAME: name_of(pod), POD_INDEX: str(ordinal)}
                await self.change(PODS, pod, {"metadata": {"labels": labels}})
                changed = True
            if changed and ordinal in view.ordinals:
                await self._told(view.obj, "Update", name_of(pod))
            if phase_of(pod) == "Pending" and ordinal in view.ordinals and not is_deleting(pod):
                await self._create_claims(view.obj, ordinal)

    async def _own_claims(self, view: StatefulSetView, ordinal: int, pod: Json) -> bool:
        """Let the claims of a pod go with the set or with the pod; whether there was something to change."""
        changed = False
        for claim in claims_for(view.obj, ordinal):
            held = self.claims.get(f"{namespace_of(view.obj)}/{name_of(claim)}")
            if held is None:
                continue
            wanted = claim_owners(view.obj, pod, held, condemned=ordinal not in view.ordinals)
            if wanted is not None:
                change = {"metadata": {"ownerReferences": wanted or None}}
                await self.change(PERSISTENT_VOLUME_CLAIMS, held, change)
                changed = True
        return changed

    async def _take(self, view: StatefulSetView, step: Step, revisions: dict[str, Json]) -> None:
        if isinstance(step, Delete):
            await self.delete(PODS, step.pod)
            await self._told(view.obj, "Delete", name_of(step.pod))
        elif not self._has_stale_claim(view.obj, step.ordinal):
            await self._create(view, step, revisions[step.revision])

    def _has_stale_claim(self, obj: Json, ordinal: int) -> bool:
        """True if a claim still belongs to an earlier pod of the name: it has to be deleted first."""
        if not retention(obj, "whenScaled"):
            return False
        pod = {"metadata": {"name": f"{name_of(obj)}-{ordinal}"}}
        return any(
            _is_reference_to(owner, PODS, pod)
            for claim in claims_for(obj, ordinal)
            for owner in owners_of(self.claims.get(f"{namespace_of(obj)}/{name_of(claim)}") or claim)
        )

    async def _create(self, view: StatefulSetView, step: Create, revision: Json) -> None:
        obj = view.obj
        pod = replica_pod(obj, revision, step.ordinal)
        name = name_of(pod)
        try:
            if await self._create_claims(obj, step.ordinal):
                # Whoever hears of the pod is to know its claims, the scheduler for one.
                await self.wait_for_own_writes()
            made = await self.create(PODS, pod)
        except ApiError as error:
            if not error.is_already_exists:
                await self._told(obj, "Create", name, error)
            raise
        await self._own_claims(view, step.ordinal, made)
        await self._told(obj, "Create", name)

    async def _create_claims(self, obj: Json, ordinal: int) -> bool:
        """Create the claims of a replica that are missing; whether there were some."""
        created = False
        for claim in claims_for(obj, ordinal):
            name = claim["metadata"]["name"]
            held = self.claims.get(f"{namespace_of(obj)}/{name}")
            if held is not None:
                if is_deleting(held):
                    raise ApiError(409, "Conflict", f"pvc {name} is being deleted")
                continue
            pod_name = f"{name_of(obj)}-{ordinal}"
            try:
                await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
            except ApiError as error:
                if not error.is_already_exists:
                    what = f"Create Claim {name} for Pod {pod_name} in StatefulSet {name_of(obj)}"
                    await self.record_event(obj, "FailedCreate", f"{what} failed error: {error}", WARNING)
                raise
            note = f"Create Claim {name} Pod {pod_name} in StatefulSet {name_of(obj)} success"
            await self.record_event(obj, "SuccessfulCreate", note)
            created = True
        return created

    async def _told(self, obj: Json, verb: str, pod: str, error: ApiError | None = None) -> None:
        note = f"{verb} Pod {pod} in StatefulSet {name_of(obj)}"
        if error is None:
            await self.record_event(obj, f"Successful{verb}", f"{note} successful")
        else:
            await self.record_event(obj, f"Failed{verb}", f"{note} failed error: {error}", WARNING)
