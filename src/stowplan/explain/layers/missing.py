"""Objects that a pod names and that do not exist: it is not queued before they do."""

from collections.abc import Iterator, Sequence

from stowplan.api.catalogue import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from stowplan.api.devices import ResourceClaim, ResourceClaimTemplate
from stowplan.api.names import closest
from stowplan.api.pod import Pod
from stowplan.explain.document.layers import MissingObject
from stowplan.explain.layers.reads import ObjectReads


async def missing_objects(pod: Pod, reads: ObjectReads) -> tuple[MissingObject, ...]:
    """The ResourceClaims and templates that a pod names and that are not in its namespace."""
    known = {one.name: one for one in pod.status.resource_claim_statuses}
    found: list[MissingObject] = []
    for one in pod.spec.resource_claims:
        if one.resource_claim_name:
            name = one.resource_claim_name
            if await reads.get(RESOURCE_CLAIMS, ResourceClaim, pod.namespace, name) is None:
                claims = await reads.list(RESOURCE_CLAIMS, ResourceClaim, pod.namespace)
                names = [claim.name for claim in claims]
                found += _missing("ResourceClaim", name, names, reads)
        elif one.resource_claim_template_name and one.name not in known:
            name = one.resource_claim_template_name
            templates = await reads.list(RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplate, pod.namespace)
            names = [template.name for template in templates]
            found += _missing("ResourceClaimTemplate", name, names, reads)
    return tuple(found)


def _missing(kind: str, name: str, existing: Sequence[str], reads: ObjectReads) -> Iterator[MissingObject]:
    if name not in existing and f"{kind.lower()}s" not in reads.unread:
        yield MissingObject(kind, name, closest(name, existing))
