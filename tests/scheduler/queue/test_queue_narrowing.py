"""The gate SchedulerPreQueueingHints: events of a claim ask only about the pods that use it."""

from collections.abc import Sequence
from typing import Any

import pytest

from releases import V1_37
from scheduler.queue.still_queue import Rig, rig
from stowplan.api.decode import convert
from stowplan.api.devices import ResourceClaim
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
    queue_if,
)
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.queue.instrument import QueueInstrument
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import PodBuilder, pod

UPDATED = ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE)


class Unaware(Plugin):
    """Hears of claims, and cannot tell which pods they may help."""

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(UPDATED),)


class Aware(Unaware):
    """Hears of claims, and knows that only their users are concerned unless devices are free again."""

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(UPDATED, self._hint, only_claim=_only),)

    def _hint(self, pod: PodInfo, old: ResourceClaim, new: ResourceClaim) -> Hint:
        used = [one.resource_claim_name for one in pod.spec.resource_claims]
        return queue_if(_only(old, new) is None or new.name in used)


def _only(old: ResourceClaim, new: ResourceClaim) -> str | None:
    return None if old.allocation is not None and new.allocation is None else new.key


class Noting(QueueInstrument):
    def __init__(self) -> None:
        self.noted: list[tuple[str, bool]] = []

    def narrowed(self, plugin: str, to_some: bool) -> None:
        self.noted.append((plugin, to_some))


def using(name: str, claim: str) -> PodBuilder:
    return pod(name).spec(resource_claims=(PodResourceClaim(name="c", resource_claim_name=claim),))


def claim(name: str = "c", **status: Any) -> ResourceClaim:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return convert({"metadata": metadata, "status": status}, ResourceClaim)


RESERVED = claim(reservedFor=[{"resource": "pods", "name": "x", "uid": "x"}])
ALLOCATED = claim(allocation={"devices": {"results": []}})


def waiting(noting: Noting, **gates: bool) -> Rig:
    claims = [claim(), claim("d")]
    found = rig(Aware, Unaware, gates=FeatureGates(gates, V1_37), objects=claims, instrument=noting)
    found.waiting(using("uses", "c"), "Aware")
    found.waiting(using("uses-too", "c"), "Unaware")
    found.waiting(using("other", "d"), "Aware")
    found.waiting(pod("plain"), "Unaware")
    return found


@pytest.mark.parametrize(
    ("gates", "old", "woken", "told"),
    [
        ({}, claim(), {"uses", "uses-too", "plain"}, None),
        ({}, ALLOCATED, {"uses", "other", "uses-too", "plain"}, None),
        ({"SchedulerPreQueueingHints": True}, claim(), {"uses", "uses-too"}, True),
        ({"SchedulerPreQueueingHints": True}, ALLOCATED, {"uses", "other", "uses-too", "plain"}, False),
    ],
    ids=["off", "off, freed", "narrowed", "freed"],
)
def test_who_is_woken(gates: dict[str, bool], old: ResourceClaim, woken: set[str], told: bool | None) -> None:
    noting = Noting()
    found = waiting(noting, **gates)
    found.queue.move_all(UPDATED, old, RESERVED)
    names = ("uses", "uses-too", "other", "plain")
    assert {name for name in names if found.place(name) != "unschedulable"} == woken
    assert {to_some for _, to_some in noting.noted} == (set() if told is None else {told})
