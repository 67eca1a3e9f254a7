"""The StatefulSet controller: pods with names and volumes of their own, one after the other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from stowplan.api.catalogue import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.history import (
    HASH,
    forget_old,
    present_revision,
    revisions_of,
    template_of,
)
from stowplan.embedded.controllers.objects import (
    available_in,
    controller_reference,
    count_in,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
    selector_in,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.embedded.controllers.podcontrol import claim_objects, pod_from

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Create:
    """Create the pod of an ordinal, of a revision."""

    ordinal: int
    revision: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a pod; `condemned` ones do not come back."""

    pod: Json
    condemned: bool = False


Step = Create | Delete


@dataclass(frozen=True, slots=True)
class View:
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


def next_steps(view: View) -> list[Step]:
    """What to do now. In order, there is at most one thing to do at a time."""
    steps: list[Step] = []
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        step, waits = _replica_step(view, ordinal, pod)
        if step is not None:
            steps.append(step)
        if waits and view.in_order:
            return steps
    condemned = [view.pods[n] for n in sorted(view.pods, reverse=True) if n not in view.ordinals]
    for pod in condemned:
        if not is_deleting(pod):
            steps.append(Delete(pod, condemned=True))
        if view.in_order:
            return steps
    return steps or _update_step(view)


def _replica_step(view: View, ordinal: int, pod: Json | None) -> tuple[Step | None, bool]:
    """What a replica needs, and whether the ones after it have to wait for it."""
    if pod is None:
        return Create(ordinal, view.revision_for(ordinal)), True
    if is_finished(pod) and not is_deleting(pod):
        return Delete(pod), True
    return None, not view.is_healthy(pod)


def _update_step(view: View) -> list[Step]:
    """The next pod of an old revision to go, from the last to the first, when all after it are well."""
    if view.on_delete:
        return []
    lowest = view.ordinals.start + view.partition
    for ordinal in reversed(view.ordinals):
        pod = view.pods.get(ordinal)
        if ordinal < lowest or pod is None:
            return []
        if revision_of(pod) != view.update and not is_deleting(pod):
            return [Delete(pod)]
        if not view.is_healthy(pod):
            return []
    return []


def status_for(view: View, collisions: int) -> Json:
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
    return {
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


def claims_for(obj: Json, ordinal: int, owner: Json | None) -> list[Json]:
    """The claims of a replica; `owner` says with whom they go."""
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
        if owner is not None:
            claim["metadata"]["ownerReferences"] = [owner]
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


def retention(obj: Json, when: str) -> bool:
    """Whether claims go when the set is deleted or scaled down."""
    return (spec_of(obj).get("persistentVolumeClaimRetentionPolicy") or {}).get(when) == "Delete"


class StatefulSetController(Controller):
    """Keeps the pods of StatefulSets, and makes their claims."""

    name: ClassVar[str] = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.follow(STATEFUL_SETS)
        self.pods = self.follow_owned(PODS, STATEFUL_SETS.kind, self.sets)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.revisions = self.informer(CONTROLLER_REVISIONS)

    async def sync(self, key: str) -> None:
        obj = self.sets.get(key)
        if obj is None:
            return
        pods = await claim_objects(self, self.pods, STATEFUL_SETS, obj, selector_in(obj))
        self.rest(key, len(pods))
        held = revisions_of(self.revisions, obj)
        update = await present_revision(self, STATEFUL_SETS, obj, held)
        numbered = {n: pod for pod in pods if (n := ordinal_of(obj, pod)) is not None}
        current = status_of(obj).get("currentRevision") or name_of(update)
        if all(name_of(one) != current for one in held):
            current = name_of(update)
        view = View(obj, numbered, current, name_of(update), self.now())
        revisions = {name_of(one): one for one in (*held, update)}
        if not is_deleting(obj):
            for step in next_steps(view):
                await self._take(obj, step, revisions)
        await self.set_status(
            STATEFUL_SETS, obj, status_for(view, count_in(status_of(obj), "collisionCount"))
        )
        if count_in(spec_of(obj), "minReadySeconds"):
            self.queue.add_after(key, 1.0)
        used = {current, name_of(update), *map(revision_of, pods)}
        await forget_old(self, obj, held, used)

    async def _take(self, obj: Json, step: Step, revisions: dict[str, Json]) -> None:
        if isinstance(step, Create):
            await self._create(obj, step, revisions[step.revision])
            return
        if step.condemned and retention(obj, "whenScaled"):
            await self._condemn_claims(obj, step.pod)
        await self.delete(PODS, step.pod)
        set_name, pod_name = name_of(obj), name_of(step.pod)
        note = f"delete Pod {pod_name} in StatefulSet {set_name} successful"
        await self.record_event(obj, "SuccessfulDelete", note)

    async def _create(self, obj: Json, step: Create, revision: Json) -> None:
        template, name = template_of(revision), f"{name_of(obj)}-{step.ordinal}"
        await self._create_claims(obj, step.ordinal)
        spec: Json = {"hostname": name, "volumes": volumes_for(obj, template, step.ordinal)}
        if spec_of(obj).get("serviceName"):
            spec["subdomain"] = spec_of(obj)["serviceName"]
        labels = {POD_NAME: name, POD_INDEX: str(step.ordinal), HASH: name_of(revision)}
        pod = pod_from(template, STATEFUL_SETS, obj, name=name, labels=labels, spec=spec)
        try:
            await self.create(PODS, pod)
        except ApiError as error:
            if error.is_already_exists:
                return
            note = f"create Pod {name} in StatefulSet {name_of(obj)} failed error: {error}"
            await self.record_event(obj, "FailedCreate", note, WARNING)
            raise
        note = f"create Pod {name} in StatefulSet {name_of(obj)} successful"
        await self.record_event(obj, "SuccessfulCreate", note)

    async def _create_claims(self, obj: Json, ordinal: int) -> None:
        owner = controller_reference(STATEFUL_SETS, obj) if retention(obj, "whenDeleted") else None
        for claim in claims_for(obj, ordinal, owner):
            name = claim["metadata"]["name"]
            if self.claims.get(f"{namespace_of(obj)}/{name}") is not None:
                continue
            try:
                await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
            except ApiError as error:
                if not error.is_already_exists:
                    raise
            note = f"create Claim {name} Pod {name_of(obj)}-{ordinal} in StatefulSet {name_of(obj)} success"
            await self.record_event(obj, "SuccessfulCreate", note)

    async def _condemn_claims(self, obj: Json, pod: Json) -> None:
        """Let the claims of a pod that does not come back go with it."""
        ordinal = ordinal_of(obj, pod)
        assert ordinal is not None
        for claim in claims_for(obj, ordinal, None):
            held = self.claims.get(f"{namespace_of(obj)}/{claim['metadata']['name']}")
            if held is None:
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
            change = {"metadata": {"ownerReferences": [owner]}}
            await self.change(PERSISTENT_VOLUME_CLAIMS, held, change)
