"""The claims of a pod: found by name, through the pod's status where they come from a template.

With the gate DRAWorkloadResourceClaims a claim of a pod may belong to the pod's group: then it is made for
the group, and reserved for all its pods at once.
"""

from collections.abc import Iterator
from typing import Final

from stowplan.api.devices import ResourceClaim, ResourceClaimConsumerReference
from stowplan.api.meta import OwnerReference
from stowplan.api.pod import Pod, PodResourceClaim
from stowplan.api.pod_groups import PodGroup, PodGroupResourceClaim
from stowplan.scheduler.table.devices import Claims

GROUP_API: Final = "scheduling.k8s.io"
POD_GROUPS: Final = "podgroups"


class ClaimError(Exception):
    """Why the claims of a pod are not all there."""


def claim_name(pod: Pod, asked: PodResourceClaim) -> str | None:
    """The name of a claim; None if the pod turned out not to need it. Raises ClaimError."""
    if asked.resource_claim_name is not None:
        return asked.resource_claim_name
    if asked.resource_claim_template_name is not None:
        for status in pod.status.resource_claim_statuses:
            if status.name == asked.name:
                return status.resource_claim_name
        raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
    raise ClaimError(f'pod "{pod.key}", spec.resourceClaim "{asked.name}": unsupported ResourceClaim source')


def named_claims(pod: Pod) -> list[tuple[PodResourceClaim, str]]:
    """A pod's claim references with the names of the claims, without those that turned out not to be needed.

    Raises ClaimError.
    """
    named = [(asked, claim_name(pod, asked)) for asked in pod.spec.resource_claims]
    return [(asked, name) for asked, name in named if name is not None]


def claims_of(pod: Pod, claims: Claims, *, groups: bool = False) -> list[ResourceClaim]:
    """The claims of a pod in the order of its spec. Raises ClaimError unless all are there to be used.

    `groups`: claims may have been made for the pod's group.
    """
    found = []
    for asked, name in named_claims(pod):
        key = f"{pod.namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if asked.resource_claim_name is None:
            _check_owner(claim, pod, groups=groups)
        found.append(claim)
    return found


def existing_claims(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    """The claims that a pod names and that are there, to be used or not."""
    for asked in pod.spec.resource_claims:
        try:
            name = claim_name(pod, asked)
        except ClaimError:
            continue
        claim = None if name is None else claims.get(f"{pod.namespace}/{name}")
        if claim is not None:
            yield claim


def _check_owner(claim: ResourceClaim, pod: Pod, *, groups: bool) -> None:
    """Check that a claim from a template was made for the pod. Raises ClaimError."""
    if is_controlled_by(claim, pod.metadata.uid):
        return
    group = _group_name(pod) if groups else ""
    if not group:
        raise ClaimError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
    owner = _controller(claim)
    if (
        owner is None
        or owner.name != group
        or owner.kind != "PodGroup"
        or not owner.api_version.startswith(f"{GROUP_API}/")
    ):
        raise ClaimError(
            f"ResourceClaim {claim.key} was not created for Pod {pod.key} "
            f"(neither Pod nor PodGroup {group} is the owner)"
        )


def is_controlled_by(claim: ResourceClaim, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)


def _controller(claim: ResourceClaim) -> OwnerReference | None:
    return next((owner for owner in claim.metadata.owner_references if owner.controller), None)


def _group_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


# Reservations of claims


def is_reserved_for(claim: ResourceClaim, pod: Pod, *, groups: bool = False) -> bool:
    """True if a claim is reserved for a pod; with `groups` also if it is reserved for its group.

    The uid of the group is not compared, only its name: pods do not know it.
    """
    if claim.is_reserved_for(pod.metadata.uid):
        return True
    name = _group_name(pod) if groups else ""
    return bool(name) and any(
        one.api_group == GROUP_API and one.resource == POD_GROUPS and one.name == name
        for one in claim.status.reserved_for
    )


def consumer_of(
    pod: Pod, asked: PodResourceClaim, group: PodGroup | None
) -> ResourceClaimConsumerReference | None:
    """For whom a claim is to be reserved: the group if it lists the same claim, else (None) the pod."""
    if group is None or not any(_is_same(asked, one) for one in group.spec.resource_claims):
        return None
    return ResourceClaimConsumerReference(
        api_group=GROUP_API, resource=POD_GROUPS, name=group.name, uid=group.metadata.uid
    )


def _is_same(asked: PodResourceClaim, listed: PodGroupResourceClaim) -> bool:
    return (
        asked.name == listed.name
        and asked.resource_claim_name == listed.resource_claim_name
        and asked.resource_claim_template_name == listed.resource_claim_template_name
    )


def claim_name_of_group(group: PodGroup, asked: PodGroupResourceClaim) -> str | None:
    """The name of a claim of a group; None if it is not needed. Raises ClaimError."""
    if asked.resource_claim_name is not None:
        return asked.resource_claim_name
    if asked.resource_claim_template_name is not None:
        for status in group.status.resource_claim_statuses:
            if status.name == asked.name:
                return status.resource_claim_name
        raise ClaimError(f"PodGroup {group.key}: ResourceClaim not created yet")
    raise ClaimError(
        f"PodGroup {group.key}, spec.resourceClaim {asked.name}: none of the supported fields are set"
    )
