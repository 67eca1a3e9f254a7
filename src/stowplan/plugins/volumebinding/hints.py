"""What may help pods whose volumes stood in the way."""

from collections.abc import Sequence

from stowplan.api.quantity import QuantityError
from stowplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.volumepools import volume_limit
from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintError,
    HintFunction,
    Resource,
    queue_if,
)
from stowplan.plugins.volumebinding.claims import claim_name
from stowplan.plugins.volumebinding.migration import MIGRATED_PLUGINS


def registrations() -> Sequence[EventRegistration]:
    """The events that may help, with a closer look at most of them."""
    new_or_changed = Action.ADD | Action.UPDATE
    return (
        _registration(Resource.STORAGE_CLASS, new_or_changed, after_class_change),
        EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, new_or_changed), after_claim_change),
        _registration(Resource.PERSISTENT_VOLUME, new_or_changed),
        _registration(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        _registration(Resource.CSI_NODE, new_or_changed, after_csi_node_change),
        _registration(Resource.CSI_DRIVER, Action.UPDATE, after_driver_change),
        _registration(Resource.CSI_STORAGE_CAPACITY, new_or_changed, after_capacity_change),
    )


def _registration(resource: Resource, action: Action, hint: HintFunction | None = None) -> EventRegistration:
    return EventRegistration(ClusterEvent(resource, action), hint, by_template=True)


def after_class_change(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
    """Any new class may, and one whose topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_change(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """One of the pod's own claims may."""
    if new.namespace != pod.namespace:
        return Hint.SKIP
    return queue_if(any(claim_name(pod.name, volume) == new.name for volume in pod.spec.volumes))


def after_csi_node_change(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
    """A new one may, and one that leaves other kinds of volumes to CSI drivers than before."""
    if old is None:
        return Hint.QUEUE
    before, now = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return queue_if(before != now)


def after_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """A driver of the pod that no longer cares for room may."""
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return Hint.SKIP
    return queue_if(any(v.csi is not None and v.csi.driver == new.name for v in pod.spec.volumes))


def after_capacity_change(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """Room that is new may, and room for larger volumes than before."""
    if old is None:
        return Hint.QUEUE
    try:
        before, now = volume_limit(old), volume_limit(new)
    except QuantityError as cause:
        raise HintError(str(cause)) from None
    return queue_if(now is not None and (before is None or now > before))
