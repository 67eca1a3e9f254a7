"""Who uses claims that are for one pod only."""

from collections.abc import Collection

from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.cycle_state import Cycle


def references(pod: PodInfo, names: Collection[str]) -> int:
    """How many volumes of a pod name one of some claims."""
    return sum(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in names
        for volume in pod.template.volumes
    )


def used_for_one(cycle: Cycle, namespace: str, names: Collection[str]) -> int:
    """How many of some claims are in use by pods on nodes, pods imagined away among them."""
    claims = cycle.table.volumes_in_use.claims
    return sum(
        claims.get(f"{namespace}/{name}", 0) + _imagined_away(cycle, namespace, name) > 0 for name in names
    )


def _imagined_away(cycle: Cycle, namespace: str, name: str) -> int:
    """How many uses of a claim the table lacks because pods are imagined to be gone; guests count against."""
    as_if = cycle.as_if
    if as_if is None:
        return 0
    gone = sum(references(pod, (name,)) for pod in as_if.gone.values() if pod.namespace == namespace)
    guests = sum(references(pod, (name,)) for pod in as_if.guests if pod.namespace == namespace)
    return gone - guests
