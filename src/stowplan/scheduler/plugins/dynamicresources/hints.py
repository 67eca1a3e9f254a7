"""Queueing hints: which changes may help a pod that waits for devices."""

from collections.abc import Sequence

from stowplan.api.devices import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from stowplan.api.pod import Pod
from stowplan.api.releases import Behaviour
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    PodInfo,
    Resource,
    queue_if,
)
from stowplan.scheduler.framework.advanced import pod_resources
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError, claims_of
from stowplan.scheduler.table.devices import Claims


class ClaimHints:
    """Hints about claims and about the waiting pod itself."""

    def __init__(self, claims: Claims, behaviour: Behaviour, *, groups: bool = False) -> None:
        self._claims = claims
        self._groups = groups
        self._pods = pod_resources(behaviour)
        self._deletions = behaviour.queueing.claim_deletion_events

    def registrations(self) -> Sequence[EventRegistration]:
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        changed = Action.ADD | Action.UPDATE
        named = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return (
            EventRegistration(ClusterEvent(Resource.NODE, nodes)),
            EventRegistration(
                ClusterEvent(Resource.RESOURCE_CLAIM, Action.ALL if self._deletions else changed),
                self.after_claim_change,
                only_claim=_only_claim,
            ),
            EventRegistration(ClusterEvent(self._pods.of_target, named), self.after_pod_change),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, changed)),
            EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, changed)),
        )

    def after_claim_change(self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim | None) -> Hint:
        """Freed devices may help any pod, a change of a claim the pod it belongs to.

        So may the deletion of a claim for extended resources that an earlier attempt left behind and
        PostFilter deletes: kube-scheduler lets the pod wait until it retries all pods.
        """
        if new is None:
            return queue_if(old is not None and (old.allocation is not None or _is_made_for(old, pod)))
        try:
            claims = claims_of(pod.pod, self._claims, groups=self._groups)
        except ClaimError:
            return Hint.SKIP
        if _lost_devices(old, new):
            return Hint.QUEUE
        if not any(claim.metadata.uid == new.metadata.uid for claim in claims):
            return Hint.SKIP
        return queue_if(old is None or old.status != new.status)

    def after_pod_change(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        """The pod itself, if all its claims are there now."""
        if new.metadata.uid != pod.uid:
            return Hint.SKIP
        try:
            claims_of(new, self._claims, groups=self._groups)
        except ClaimError:
            return Hint.SKIP
        return Hint.QUEUE


def _is_made_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    return _is_special(claim) and any(one.uid == pod.uid for one in claim.metadata.owner_references)


def _is_special(claim: ResourceClaim) -> bool:
    """True if the scheduler created the claim, for extended resources."""
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true"


def _lost_devices(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    return old is not None and old.allocation is not None and (new is None or new.allocation is None)


def _only_claim(old: ResourceClaim | None, new: ResourceClaim | None) -> str | None:
    """Devices that are free again may help any pod, everything else only the users of the claim."""
    changed = new or old
    if changed is None or _lost_devices(old, new) or (new is None and _is_special(changed)):
        return None
    return changed.key
