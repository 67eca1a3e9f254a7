"""NodeVolumeLimits: what may help a pod that it rejected."""

from typing import Final

from stowplan.api.csitranslation import TranslationError, in_tree_kind, translated_inline
from stowplan.api.pod import Pod
from stowplan.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from stowplan.cluster.attachments import claim_name
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintError,
    Resource,
    queue_if,
)
from stowplan.plugins.nodevolumelimits.wanted import concerns


def after_csi_node_update(pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
    """A driver can attach more than before."""
    before = _limits(old)
    return queue_if(any(count > before.get(driver, 0) for driver, count in _limits(new).items()))


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }


def after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
    """A pod that may have had something attached is gone."""
    return queue_if(old.is_placed and any(map(concerns, old.spec.volumes)))


def after_new_claim(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    """A claim of the pod is there."""
    if new.namespace != pod.namespace:
        return Hint.SKIP
    return queue_if(any(claim_name(pod.pod, volume) == new.name for volume in pod.template.volumes))


def after_detachment(pod: PodInfo, old: VolumeAttachment, new: None) -> Hint:
    """A volume is detached that belongs to a driver the pod has to do with, as far as can be told."""
    for volume in pod.template.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        if in_tree_kind(volume) is None:
            continue
        try:
            source = translated_inline(volume, pod.namespace)
        except TranslationError as cause:
            raise HintError(f"converting volume({volume.name}) from inline to csi: {cause}") from None
        if source.driver == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


REGISTRATIONS: Final = (
    EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
    EventRegistration(
        ClusterEvent(Resource.CSI_NODE, Action.UPDATE), after_csi_node_update, by_template=True
    ),
    EventRegistration(ClusterEvent(Resource.POD, Action.DELETE), after_pod_deletion, by_template=True),
    EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), after_new_claim),
    EventRegistration(
        ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), after_detachment, by_template=True
    ),
)
