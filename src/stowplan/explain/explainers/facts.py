"""Facts about a pod and its neighbours: gates, a nomination, evictions."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from stowplan.api.pod import Pod, PodCondition
from stowplan.explain.document.pod import ClaimNote, PodDocument
from stowplan.explain.document.preemption import Eviction
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.plugins.dynamicresources.explanation.shortfall import claim_text
from stowplan.scheduler.plugins.volumebinding.claims import claim_name
from stowplan.scheduler.plugins.volumebinding.shortfall import place_of
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.volumepools import class_of

_TARGET: Final = "DisruptionTarget"
_PREEMPTED: Final = "PreemptionByScheduler"


def with_facts(
    found: PodDocument, info: PodInfo, table: ClusterTable, nominations: Nominations
) -> PodDocument:
    """The document with the facts about a pod that are to be told first."""
    pod = info.pod
    nominated = pod.status.nominated_node_name or None
    leaving = () if nominated is None else tuple(_leaving(info, table, nominated))
    condition = preempted(pod)
    by = () if condition is None else tuple(_nominated(info, nominations))
    group = table.groups.key_of(pod)
    return replace(
        found,
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates) if info.row < 0 else (),
        nominated_node=nominated,
        evictions=Eviction(node=nominated, victims=leaving) if leaving else None,
        claims=tuple(_claims(info, table)),
        evicted=None if condition is None else Eviction(by=by, message=condition.message),
        pod_group=None if group is None else group.split("/", 1)[1],
        labels=dict(pod.metadata.labels),
        priority=pod.spec.priority or 0,
    )


def _claims(info: PodInfo, table: ClusterTable) -> Iterator[ClaimNote]:
    """The claims of a pod, and what is known of each."""
    storage = table.storage
    for volume in info.pod.spec.volumes:
        name = claim_name(info.name, volume)
        if name is None:
            continue
        claim = storage.claim(f"{info.namespace}/{name}")
        if claim is None:
            yield ClaimNote(name, "does not exist")
        elif claim.spec.volume_name:
            bound = storage.volume(claim.spec.volume_name)
            where = "does not exist" if bound is None else place_of(bound)
            yield ClaimNote(name, f"bound to {claim.spec.volume_name}, which {where}")
        else:
            asked = claim.spec.resources.requests.get("storage", "any size")
            of_class = class_of(claim)
            found = storage.classes.get(of_class)
            if found is None:
                state = "no such class" if of_class else "no class"
            else:
                state = f"binding {found.volume_binding_mode or 'Immediate'}"
            yield ClaimNote(name, f"not bound, asks for {asked} of class {of_class!r} ({state})")
    for one in info.pod.spec.resource_claims:
        yield ClaimNote(one.name, claim_text(info.pod, one, table.devices.claims))


def preempted(pod: Pod) -> PodCondition | None:
    """The condition that says that a scheduler evicted a pod to make room."""
    for condition in pod.status.conditions:
        if condition.type == _TARGET and condition.status == "True" and condition.reason == _PREEMPTED:
            return condition
    return None


def _leaving(info: PodInfo, table: ClusterTable, node: str) -> list[str]:
    """Pods that preemption evicted from the node that a pod is nominated to, and that are still there."""
    row = table.row_of(node)
    if row is None:
        return []
    others = table.pods_on[row].values()
    return sorted(
        other.key for other in others if other.priority < info.priority and preempted(other.pod) is not None
    )


def _nominated(victim: PodInfo, nominations: Nominations) -> list[str]:
    """More important pods that are nominated to the victim's node."""
    waiting = nominations.get(victim.row, ())
    return sorted(info.key for info in waiting if info.priority > victim.priority)
