"""Pod groups: the finalizer that protects one, and its claims (the gate DRAWorkloadResourceClaims).

A claim of a pod is one of its group if name and reference are the same in both. It is then reserved for the
group, and one that is made from a template is owned by the group.
"""

from typing import Final

from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    controller_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

GROUP_PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
"""The finalizer that keeps a deleted group until its last pod has ended."""

_FIELDS: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")


def group_name_of(pod: Json) -> str:
    """The group that a pod belongs to, empty if it belongs to none."""
    return (spec_of(pod).get("schedulingGroup") or {}).get("podGroupName") or ""


def group_key_of(pod: Json) -> list[str]:
    """The key of the pod group that a pod belongs to, if it belongs to one."""
    name = group_name_of(pod)
    return [f"{namespace_of(pod)}/{name}"] if name else []


def templates_of(group: Json) -> list[str]:
    """The keys of the templates that a group's claims are made from."""
    asked = (one.get("resourceClaimTemplateName") for one in spec_of(group).get("resourceClaims") or ())
    return [f"{namespace_of(group)}/{name}" for name in asked if name]


def is_shared(group: Json, asked: Json) -> bool:
    """True if a claim that a pod requests is one of its group."""
    wanted = [asked.get(field) for field in _FIELDS]
    claims = spec_of(group).get("resourceClaims") or ()
    return any([one.get(field) for field in _FIELDS] == wanted for one in claims)


def claim_of(group: Json, entry: str) -> str:
    """The name of the claim that was made for a group from a template, empty if none was yet."""
    for status in status_of(group).get("resourceClaimStatuses") or ():
        if status.get("name") == entry:
            return status.get("resourceClaimName") or ""
    return ""


def is_owned_by_group_of(claim: Json, pod: Json) -> bool:
    """True if a claim was made for the group that a pod belongs to."""
    owner = controller_of(claim)
    if owner is None or owner.get("kind") != POD_GROUPS.kind:
        return False
    api_group = str(owner.get("apiVersion", "")).partition("/")[0]
    return api_group == POD_GROUPS.group and owner.get("name") == group_name_of(pod) != ""


def is_group(consumer: Json) -> bool:
    """True if a consumer of a claim is a pod group."""
    return consumer.get("apiGroup") == POD_GROUPS.group and consumer.get("resource") == POD_GROUPS.plural


def is_reserved_for(claim: Json, pod: Json) -> bool:
    """True if a claim is reserved for a pod, or for its group."""
    for consumer in status_of(claim).get("reservedFor") or ():
        if is_group(consumer):
            if consumer.get("name") == group_name_of(pod):
                return True
        elif consumer.get("uid") == uid_of(pod):
            return True
    return False


def consumer_of(pod: Json, group: Json | None) -> Json:
    """Whom a claim of a pod is to be reserved for: its group, if the claim is the group's."""
    if group is None:
        return {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
    mine = {"name": name_of(group), "uid": uid_of(group)}
    return {"apiGroup": POD_GROUPS.group, "resource": POD_GROUPS.plural, **mine}
