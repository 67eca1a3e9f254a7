"""Which taints a node should have for the state it is in, and when pods have to leave it for them."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.api.requests import Json
from stowplan.api.taints import NO_EXECUTE, NO_SCHEDULE, tolerates
from stowplan.embedded.controllers.objects import condition_of, labels_of, spec_of

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_BY_CONDITION: Final = (
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
)
_SCHEDULING_KEYS: Final = frozenset((*(key for _, _, key in _BY_CONDITION), UNSCHEDULABLE))
_EVICTION_KEYS: Final = frozenset((NOT_READY, UNREACHABLE))

ZONE: Final = "topology.kubernetes.io/zone"
LARGE: Final = 50
"""A zone with more nodes still loses some when most of it is down; a smaller one loses none."""

MOSTLY_DOWN: Final = 0.55
RATE: Final = 0.1
SLOW_RATE: Final = 0.01


def is_ready_node(node: Json) -> bool:
    return (condition_of(node, "Ready") or {}).get("status") == "True"


def eviction_taint(node: Json) -> str:
    """The taint that makes pods leave, "" if the node is well or has not said anything yet."""
    status = (condition_of(node, "Ready") or {}).get("status")
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(str(status), "")


def taints_for(node: Json, stamp: str, *, evict: bool) -> list[Json] | None:
    """The taints a node should have, None if it has them. `evict`: pods may be made to leave it now.

    Taints of others stay. One that makes pods leave goes at once when its cause is gone.
    """
    held: Sequence[Json] = spec_of(node).get("taints") or ()
    for_scheduling = [
        key for kind, value, key in _BY_CONDITION if (condition_of(node, kind) or {}).get("status") == value
    ]
    if spec_of(node).get("unschedulable"):
        for_scheduling.append(UNSCHEDULABLE)
    leaving = eviction_taint(node)
    has_leaving = any((one.get("key"), one.get("effect")) == (leaving, NO_EXECUTE) for one in held)
    wanted = [(key, NO_SCHEDULE) for key in for_scheduling]
    if leaving and (evict or has_leaving):
        wanted.append((leaving, NO_EXECUTE))
    kept = [one for one in held if not _is_ours(one) or (one.get("key"), one.get("effect")) in wanted]
    there = {(one.get("key"), one.get("effect")) for one in kept}
    added = [
        {"key": key, "effect": effect, "timeAdded": stamp}
        for key, effect in wanted
        if (key, effect) not in there
    ]
    return [*kept, *added] if added or len(kept) != len(held) else None


def _is_ours(taint: Json) -> bool:
    key, effect = taint.get("key"), taint.get("effect")
    if effect == NO_SCHEDULE:
        return key in _SCHEDULING_KEYS
    return effect == NO_EXECUTE and key in _EVICTION_KEYS


def zone_of(node: Json) -> str:
    return labels_of(node).get(ZONE, "")


def eviction_rate(nodes: Iterable[Json], zone: str) -> float:
    """How many nodes of a zone may lose their pods per second.

    If all nodes are down the fault is likely to be ours. If most of a zone is, it goes slowly or not at all.
    """
    well = sick = others = 0
    for node in nodes:
        ready = is_ready_node(node)
        others += ready
        if zone_of(node) == zone:
            well += ready
            sick += not ready
    if not others:
        return 0.0
    if not well:
        return RATE
    if sick > 2 and sick / (sick + well) >= MOSTLY_DOWN:
        return SLOW_RATE if sick + well > LARGE else 0.0
    return RATE


def leaving_in(taints: Sequence[Json], pod: Json) -> float | None:
    """Seconds that a pod may stay on a node with these taints, None if it may stay for good."""
    driving = [msgspec.convert(taint, Taint) for taint in taints if taint.get("effect") == NO_EXECUTE]
    if not driving:
        return None
    tolerations = msgspec.convert(spec_of(pod).get("tolerations") or (), tuple[Toleration, ...])
    limits: list[float] = []
    for taint in driving:
        suited = [one for one in tolerations if tolerates(one, taint)]
        if not suited:
            return 0.0
        limits += [
            max(float(one.toleration_seconds), 0.0) for one in suited if one.toleration_seconds is not None
        ]
    return min(limits, default=None)
