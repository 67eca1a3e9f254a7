"""ResourceClaims of pods as a kubelet prepares them, and the devices that simulated drivers report."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    is_controlled_by,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.localcluster.objects.groupclaims import is_owned_by_group_of, is_reserved_for

PREPARED: Final = "Prepared"
_DEVICE: Final = ("driver", "pool", "device", "shareID")


class NotPreparedError(Exception):
    """A claim that cannot be prepared; the text is the kubelet's."""


def has_claims(pod: Json) -> bool:
    return bool(spec_of(pod).get("resourceClaims") or status_of(pod).get("extendedResourceClaimStatus"))


def prepared_claims(pod: Json, find: Callable[[str], Json | None]) -> list[Json]:
    """The claims of a pod, allocated and reserved for it. Raises NotPreparedError if one is not."""
    found: list[Json] = []
    for name, is_made in _claims_of(pod):
        claim = find(f"{namespace_of(pod)}/{name}")
        if claim is None:
            missing = f'resourceclaims.resource.k8s.io "{name}" not found'
            raise NotPreparedError(f"fetch ResourceClaim {name}: {missing}")
        if is_made and not is_controlled_by(claim, pod) and not is_owned_by_group_of(claim, pod):
            both = f"{namespace_of(pod)}/{name} was not created for Pod {namespace_of(pod)}/{name_of(pod)}"
            raise NotPreparedError(f"ResourceClaim {both} (Pod is not owner)")
        if not is_reserved_for(claim, pod):
            which = f"ResourceClaim {name} ({uid_of(claim)})"
            raise NotPreparedError(f"pod {name_of(pod)} ({uid_of(pod)}) is not allowed to use {which}")
        if not status_of(claim).get("allocation"):
            raise NotPreparedError(f"ResourceClaim {name}: not allocated")
        found.append(claim)
    return found


def _claims_of(pod: Json) -> Iterator[tuple[str, bool]]:
    """The names of a pod's claims, and whether each was made for it from a template."""
    statuses = {one.get("name"): one for one in status_of(pod).get("resourceClaimStatuses") or ()}
    for asked in spec_of(pod).get("resourceClaims") or ():
        if asked.get("resourceClaimName"):
            yield asked["resourceClaimName"], False
            continue
        status = statuses.get(asked.get("name"))
        if status is None:
            raise NotPreparedError(f'pod "{namespace_of(pod)}/{name_of(pod)}": ResourceClaim not created yet')
        if status.get("resourceClaimName"):
            yield status["resourceClaimName"], True
    extended = status_of(pod).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"], False


def reported_devices(claim: Json, pod: Json, drivers: Collection[str], stamp: str) -> list[Json] | None:
    """The devices of a claim as their drivers report them once prepared, None if they do already.

    Drivers that are not simulated report for themselves.
    """
    known = list(status_of(claim).get("devices") or ())
    there = {tuple(one.get(part) for part in _DEVICE) for one in known}
    results = (status_of(claim)["allocation"].get("devices") or {}).get("results") or ()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": PREPARED,
        "message": f"prepared on node {node_of(pod)}",
        "lastTransitionTime": stamp,
    }
    added: list[Json] = []
    for result in results:
        if result.get("driver") not in drivers:
            continue
        device = {part: result[part] for part in _DEVICE if part in result}
        if tuple(device.get(part) for part in _DEVICE) not in there:
            added.append({**device, "conditions": [ready]})
    return [*known, *added] if added else None
