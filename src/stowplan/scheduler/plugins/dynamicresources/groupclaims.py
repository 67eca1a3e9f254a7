"""Claims while a group is placed: members share what one of them found, and what can be freed if all fails.

Devices for a claim that several members use are found for the first of them. The others get the same, though
nothing is written yet: as long as the group is tried, they know of each other.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stowplan.api.devices import ResourceClaim, ResourceClaimConsumerReference
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import PodGroup
from stowplan.api.status import ApiError
from stowplan.scheduler.framework import (
    PodInfo,
    Services,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import PodGroupInfo, PodGroupPostFilterResult
from stowplan.scheduler.plugins.dynamicresources.binder import ClaimBinder, ClaimWriteError
from stowplan.scheduler.plugins.dynamicresources.claims import (
    ClaimError,
    claim_name_of_group,
    consumer_of,
    is_controlled_by,
    is_reserved_for,
    named_claims,
)
from stowplan.scheduler.plugins.dynamicresources.state import StateData, is_in_memory
from stowplan.scheduler.table.devices import Claims
from stowplan.scheduler.table.pod_groups import PodGroups

REASON_COMPLETED: Final = "deallocation and deletion of ResourceClaims completed"
REASON_GROUP_DEALLOCATED: Final = "deallocation of PodGroup ResourceClaim completed"
REASON_GROUP_UNRESERVED: Final = "ResourceClaim unreserved for PodGroup"
DEALLOCATE: Final = "deallocate"
DELETE: Final = "delete"

Write = Callable[[], Awaitable[Status | None]]


class MemberClaims(NamedTuple):
    """The claims of a member, and the places of those that were not available on some node."""

    state: StateData
    unavailable: list[int]


@dataclass(slots=True)
class GroupClaims:
    """State kept while a group is placed.

    `pending` are the claims that members have found devices for, by uid, with the uids of these members.
    `members` are the claims of every member that reached this plugin, by uid.
    """

    pending: dict[str, set[str]] = field(default_factory=dict)
    members: dict[str, MemberClaims] = field(default_factory=dict)

    def shared_with(self, pod_uid: str) -> frozenset[str]:
        """The claims that others than a pod have found devices for."""
        return frozenset(uid for uid, pods in self.pending.items() if pods - {pod_uid})

    def share(self, state: StateData, claims: Claims) -> None:
        """Have a member use the devices that earlier ones found for the same claims."""
        state.shared = self.shared_with(state.pod.uid)
        for index, claim in enumerate(state.claims):
            uid = claim.metadata.uid
            if claim.allocation is None and uid in self.pending:
                allocation = claims.pending_allocation(uid)
                if allocation is not None:
                    state.share(index, allocation)


def consumers_of(pod: Pod, groups: PodGroups) -> list[ResourceClaimConsumerReference | None]:
    """For whom each claim of a pod is reserved: its group if that lists the claim, else (None) the pod.

    Raises ClaimError, GroupLookupError.
    """
    key = groups.key_of(pod)
    group = None if key is None else groups.pod_group(key)
    return [consumer_of(pod, asked, group) for asked, _ in named_claims(pod)]


class Freeing(NamedTuple):
    """A claim that keeps devices where they do not help, and what is to be done with it."""

    what: str
    claim: ResourceClaim


def freeing_for(pod_uid: str, state: StateData, unavailable: list[int]) -> Freeing | None:
    """A claim that only this pod uses and that can be freed; None if there is none."""
    for index in unavailable:
        if state.is_extended(index):
            break
        claim = state.claims[index]
        if all(one.uid == pod_uid for one in claim.status.reserved_for):
            return Freeing(DEALLOCATE, claim)
    special = state.extended
    if special is not None and not is_in_memory(special):
        return Freeing(DELETE, special)
    return None


class GroupPostFilter:
    """Claims to free for a group that found no place.

    `for_groups`: claims can be reserved for groups.
    """

    def __init__(
        self,
        claims: Claims,
        groups: PodGroups,
        binder: Callable[[], ClaimBinder],
        services: Callable[[], Services],
        *,
        for_groups: bool,
    ) -> None:
        self._claims = claims
        self._groups = groups
        self._binder = binder
        self._services = services
        self._for_groups = for_groups

    def run(self, kept: GroupClaims, group: PodGroupInfo) -> PodGroupPostFilterResult:
        """Free claims of single pods; where that is no help, claims of the group."""
        writes: list[Write] = []
        freed: set[str] = set()
        nothing_found = False
        for pod in group.pods:
            member = kept.members.get(pod.uid)
            if member is None:
                continue
            freeing = freeing_for(pod.uid, *member)
            nothing_found |= freeing is None
            if freeing is not None and freeing.claim.key not in freed:
                freed.add(freeing.claim.key)
                writes.append(self.having_done(freeing))
        if nothing_found and self._for_groups and group.pods:
            result = self._free_claims_of_group(kept, group, group.pods[0])
            if result is not None:
                return result._replace(writes=(*writes, *result.writes))
        return PodGroupPostFilterResult(unschedulable(REASON_COMPLETED), writes=tuple(writes))

    def having_done(self, freeing: Freeing, pod: Pod | None = None) -> Write:
        """Write a claim; an error is what comes back.

        `pod` is the one that it is reserved for. If its binding got no answer, it may have a node that the
        informer has not seen yet: then it uses the claim. kube-scheduler does not check that.
        """

        async def write() -> Status | None:
            binder, claim = self._binder(), freeing.claim
            if freeing.what == DEALLOCATE and claim.allocation is None:
                # Devices were found for it in this attempt only: nothing is written.
                return None
            try:
                if pod is not None and claim.is_reserved_for(pod.metadata.uid) and await binder.placed(pod):
                    return None
                await (binder.delete(claim) if freeing.what == DELETE else binder.deallocate(claim))
            except (ApiError, ClaimWriteError) as cause:
                return error(str(cause))
            return None

        return write

    def _free_claims_of_group(
        self, kept: GroupClaims, info: PodGroupInfo, pod: PodInfo
    ) -> PodGroupPostFilterResult | None:
        """Take devices from a claim of a group that has no pod on a node, or the group off a claim."""
        group = info.pod_group
        if group is None or self._groups.scheduled_count(info.key):
            return None
        only = [group.metadata.uid]
        for member in kept.members.values():
            for index in member.unavailable:
                claim = member.state.claims[index]
                if [one.uid for one in claim.status.reserved_for] in ([], only):
                    write = self.having_done(Freeing(DEALLOCATE, claim))
                    return PodGroupPostFilterResult(unschedulable(REASON_GROUP_DEALLOCATED), writes=(write,))
        try:
            reserved = list(self._reserved(group, pod))
        except ClaimError as cause:
            return PodGroupPostFilterResult(error(str(cause)))
        if not reserved:
            return None
        unreserve = self._unreserving(reserved, group.metadata.uid)
        return PodGroupPostFilterResult(unresolvable(REASON_GROUP_UNRESERVED), writes=(unreserve,))

    def _reserved(self, group: PodGroup, pod: PodInfo) -> Iterator[ResourceClaim]:
        """The claims of a group that have devices and are reserved for it. Raises ClaimError."""
        for asked in group.spec.resource_claims:
            name = claim_name_of_group(group, asked)
            if name is None:
                continue
            key = f"{group.namespace}/{name}"
            claim = self._claims.get(key)
            if claim is None:
                raise ClaimError(f'could not find ResourceClaim "{key}"')
            made = asked.resource_claim_name is None
            if made and not is_controlled_by(claim, group.metadata.uid):
                continue
            if claim.allocation is not None and is_reserved_for(claim, pod.pod, groups=True):
                yield claim

    def _unreserving(self, claims: list[ResourceClaim], uid: str) -> Write:
        """Take a group off the first claim for which that works."""

        async def write() -> Status | None:
            for claim in claims:
                try:
                    await self._binder().unreserve(claim, uid, patiently=False)
                except (ApiError, ClaimWriteError) as cause:
                    self._services().logger.error(
                        "postfilter unreserving claim", resourceclaim=claim.key, err=cause
                    )
                else:
                    break
            return None

        return write
