"""Which lists a strategic merge patch merges element by element, and what tells their elements apart.

The API marks these lists one by one. Nearly always the list's name decides; a list not named here is
replaced as a whole (tolerations and taints, for instance).
"""

from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import CSI_NODES, ENDPOINTS, NODES, SERVICES, Resource

PRIMITIVE: Final = ""
"""The key of lists of plain values: the elements are their own keys."""

_EVERYWHERE: Final[Mapping[str, str]] = {
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "finalizers": PRIMITIVE,
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_IN: Final[Mapping[Resource, Mapping[str, str]]] = {
    SERVICES: {**_EVERYWHERE, "ports": "port"},
    NODES: {**_EVERYWHERE, "addresses": "type", "podCIDRs": PRIMITIVE},
    CSI_NODES: {**_EVERYWHERE, "drivers": "name"},
    ENDPOINTS: {"finalizers": PRIMITIVE, "ownerReferences": "uid"},
}


def merge_keys(resource: Resource) -> Mapping[str, str]:
    """The merge key of every merged list in objects of a resource, by the list's name."""
    return _IN.get(resource, _EVERYWHERE)
