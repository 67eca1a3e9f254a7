"""What a StatefulSet does next: in order, one pod at a time unless it says otherwise."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.api.requests import Json
from stowplan.embedded.controllers.history import HASH
from stowplan.embedded.controllers.informers import namespace_of
from stowplan.embedded.controllers.objects import (
    available_in,
    count_in,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    phase_of,
    spec_of,
)

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
