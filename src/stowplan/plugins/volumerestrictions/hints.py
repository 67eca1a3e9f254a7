"""VolumeRestrictions: what may help a pod that it rejected."""

from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolumeClaim
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.volumesinuse import conflict
from stowplan.framework.events import Hint, queue_if


def after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
    """A pod of the namespace is gone that used one of the disks, or a claim of that name."""
    if old.namespace != pod.namespace:
        return Hint.SKIP
    volumes = pod.template.volumes
    if any(conflict(volume, other) for volume in volumes for other in old.spec.volumes):
        return Hint.QUEUE
    claims = _named(pod)
    return queue_if(
        any(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in claims
            for volume in old.spec.volumes
        )
    )


def after_new_claim(pod: PodInfo, old: None, new: PersistentVolumeClaim) -> Hint:
    """A claim that the pod names is there."""
    return queue_if(new.namespace == pod.namespace and new.name in _named(pod))


def _named(pod: PodInfo) -> set[str]:
    volumes = pod.template.volumes
    return {v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None}
