"""Which nodes a pod's claims allow, worked out in the plainest way and from nothing the scheduler computed.

Only what runs have is known here: three classes (storageobjects.py), sizes in Gi, node affinity by one label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.chaos.rules import thousandths
from stowplan.chaos.storageobjects import FOR_ONE, STATIC

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Volumes by name, claims by key and classes by name."""

    volumes: Mapping[str, PersistentVolume]
    claims: Mapping[str, PersistentVolumeClaim]
    classes: Mapping[str, StorageClass]

    def allows(self, pod: Pod, labels: Mapping[str, str]) -> bool | None:
        """Whether a node with these labels can have a pod's claims; None if that is not easily said."""
        open_claims: list[PersistentVolumeClaim] = []
        for key in claims_of(pod):
            claim = self.claims.get(key)
            if claim is None or claim.metadata.deletion_timestamp or claim.status.phase == "Lost":
                return False
            if is_bound(claim):
                volume = self.volumes.get(claim.spec.volume_name)
                if volume is None or not reaches(volume, labels):
                    return False
            else:
                open_claims.append(claim)
        if not open_claims:
            return True
        return self._can_have(open_claims[0], labels) if len(open_claims) == 1 else None

    def _can_have(self, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool | None:
        if claim.spec.storage_class_name not in self.classes:
            return False
        if claim.spec.storage_class_name != STATIC:
            return None
        return any(_is_free(volume, claim) and reaches(volume, labels) for volume in self.volumes.values())


def claims_of(pod: Pod) -> list[str]:
    """The keys of a pod's claims."""
    keys: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{pod.namespace}/{pod.name}-{volume.name}")
    return keys


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_for_one(claim: PersistentVolumeClaim) -> bool:
    """Whether only one pod may use a claim."""
    return FOR_ONE in claim.spec.access_modes


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether a volume can be reached from a node with these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(
        all(labels.get(wanted.key) in wanted.values for wanted in term.match_expressions)
        for term in affinity.required.node_selector_terms
    )


def _is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is nobody's and will do for a claim."""
    spec = volume.spec
    return (
        spec.claim_ref is None
        and volume.status.phase == "Available"
        and not volume.metadata.deletion_timestamp
        and spec.storage_class_name == claim.spec.storage_class_name
        and set(claim.spec.access_modes) <= set(spec.access_modes)
        and thousandths(spec.capacity["storage"]) >= thousandths(claim.spec.resources.requests["storage"])
    )
