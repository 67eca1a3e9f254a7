"""Storage objects in one line each, and pods that use them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stowplan.api.meta import LabelSelector, ObjectMeta, OwnerReference
from stowplan.api.pod import (
    EphemeralVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimVolumeSource,
    Pod,
    ResourceRequirements,
    Volume,
)
from stowplan.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from stowplan.testing import pod as pod_named
from stowplan.testing.builders import ZONE

NAMESPACE = "default"
WAITING, IMMEDIATE = "WaitForFirstConsumer", "Immediate"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def storage_class(
    name: str = "fast",
    mode: str | None = WAITING,
    provisioner: str = NO_PROVISIONER,
    allowed: Sequence[Mapping[str, Sequence[str]]] = (),
) -> StorageClass:
    terms = (
        tuple(TopologySelectorLabelRequirement(key=key, values=tuple(values)) for key, values in term.items())
        for term in allowed
    )
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=tuple(TopologySelectorTerm(match_label_expressions=term) for term in terms),
    )


def claim(
    name: str,
    size: str | None = "10Gi",
    *,
    class_name: str | None = "fast",
    modes: Sequence[str] = ("ReadWriteOnce",),
    bound_to: str = "",
    names: str = "",
    phase: str = "Pending",
    deleted: bool = False,
    owner: str = "",
    annotations: Mapping[str, str] | None = None,
    version: str = "1",
    **spec: Any,
) -> PersistentVolumeClaim:
    noted = dict(annotations or {})
    if bound_to:
        noted["pv.kubernetes.io/bind-completed"] = "yes"
    owners = (OwnerReference(kind="Pod", uid=owner, controller=True),) if owner else ()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            resource_version=version,
            annotations=noted,
            owner_references=owners,
            deletion_timestamp="2025-01-01T00:00:00Z" if deleted else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            storage_class_name=class_name,
            resources=ResourceRequirements(requests={} if size is None else {"storage": size}),
            volume_name=bound_to or names,
            **spec,
        ),
        status=PersistentVolumeClaimStatus(phase="Bound" if bound_to else phase),
    )


def volume(
    name: str,
    size: str = "10Gi",
    *,
    zone: str = "",
    needs: Mapping[str, Sequence[str]] | None = None,
    class_name: str = "fast",
    modes: Sequence[str] = ("ReadWriteOnce",),
    claimed_by: str = "",
    claim_uid: str = "",
    phase: str = "Available",
    labels: Mapping[str, str] | None = None,
    deleted: bool = False,
    version: str = "1",
    **spec: Any,
) -> PersistentVolume:
    reference = None
    if claimed_by:
        reference = ObjectReference(
            kind="PersistentVolumeClaim", namespace=NAMESPACE, name=claimed_by, uid=claim_uid
        )
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            resource_version=version,
            labels=dict(labels or {}),
            deletion_timestamp="2025-01-01T00:00:00Z" if deleted else None,
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=tuple(modes),
            storage_class_name=class_name,
            claim_ref=reference,
            node_affinity=affinity({ZONE: [zone]} if zone else needs),
            **spec,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def affinity(needs: Mapping[str, Sequence[str]] | None) -> VolumeNodeAffinity | None:
    """Nodes must have one of the values for each of some labels."""
    if needs is None:
        return None
    expressions = tuple(
        NodeSelectorRequirement(key=key, operator="In", values=tuple(values)) for key, values in needs.items()
    )
    term = NodeSelectorTerm(match_expressions=expressions)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def driver(name: str, storage_capacity: bool | None = True) -> CSIDriver:
    return CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(storage_capacity=storage_capacity))


def room(
    name: str,
    capacity: str | None,
    *,
    zone: str | None = None,
    largest: str | None = None,
    class_name: str = "fast",
) -> CSIStorageCapacity:
    """Room for nodes of a zone; "" stands for every node, None for no node."""
    topology = None
    if zone is not None:
        topology = LabelSelector(match_labels={ZONE: zone} if zone else {})
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="kube-system"),
        storage_class_name=class_name,
        capacity=capacity,
        maximum_volume_size=largest,
        node_topology=topology,
    )


def using(name: str, *claims: str, ephemeral: Sequence[str] = ()) -> Pod:
    """A pod with a volume for each claim, and others whose claims are made for it."""
    made = pod_named(name).obj()
    volumes = [
        Volume(name=f"v{n}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=one))
        for n, one in enumerate(claims)
    ]
    volumes += [Volume(name=one, ephemeral=EphemeralVolumeSource()) for one in ephemeral]
    return replace(made, spec=replace(made.spec, volumes=tuple(volumes)))
