"""The claims of a pod: found by name, through the pod's status where they come from a template."""

from stowplan.api.devices import ResourceClaim
from stowplan.api.pod import Pod, PodResourceClaim
from stowplan.cluster.devices import Claims


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


def claims_of(pod: Pod, claims: Claims) -> list[ResourceClaim]:
    """The claims of a pod in the order of its spec. Raises ClaimError unless all are there to be used."""
    found = []
    for asked in pod.spec.resource_claims:
        name = claim_name(pod, asked)
        if name is None:
            continue
        key = f"{pod.namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if asked.resource_claim_name is None and not is_controlled_by(claim, pod):
            raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found


def is_controlled_by(claim: ResourceClaim, pod: Pod) -> bool:
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
    )
