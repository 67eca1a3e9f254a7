"""The events about a pod on its node and about its claims, where they may say why it does not run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from stowplan.api.catalogue import EVENTS
from stowplan.api.pod import Pod
from stowplan.api.writes import Event
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.starting import may_be_stopped
from stowplan.scheduler.plugins.volumebinding.claims import claim_name
from stowplan.scheduler.table.table import ClusterTable


class LateEvents(NamedTuple):
    """Events about a pod, and those about each of its claims without volume, by name."""

    of_pod: Sequence[Event] = ()
    of_claims: Mapping[str, Sequence[Event]] = MappingProxyType({})


async def late_events(pod: Pod, table: ClusterTable, reads: ObjectReads, *, many: bool = False) -> LateEvents:
    """The events that may say why a pod with a node does not run.

    With `many` others are looked at, too: then the warnings of the namespace are read once for all of them.
    """
    claims: dict[str, Sequence[Event]] = {}
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        claim = None if name is None else table.storage.claim(f"{pod.namespace}/{name}")
        if name is not None and claim is not None and not claim.spec.volume_name:
            claims[name] = await _about("PersistentVolumeClaim", pod.namespace, name, reads)
    if not may_be_stopped(pod):
        return LateEvents((), claims)
    if not many:
        return LateEvents(await _about("Pod", pod.namespace, pod.name, reads), claims)
    warnings = await reads.list(EVENTS, Event, pod.namespace, type="Warning")
    return LateEvents([one for one in warnings if one.regarding.name == pod.name], claims)


async def _about(kind: str, namespace: str, name: str, reads: ObjectReads) -> Sequence[Event]:
    return await reads.list(EVENTS, Event, namespace, regarding__kind=kind, regarding__name=name)
