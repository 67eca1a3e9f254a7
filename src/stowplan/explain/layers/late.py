"""The events about a pod on its node and about its claims, where they may say why it does not run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from stowplan.api.catalogue import EVENTS
from stowplan.api.pod import Pod
from stowplan.api.writes import Event
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.starting import may_be_stopped
from stowplan.scheduler.plugins.volumebinding.claims import claim_name
from stowplan.scheduler.table.table import ClusterTable

_ONLY: Final[Mapping[str, Mapping[str, str]]] = {"Pod": {"type": "Warning"}}
"""Further conditions on events about many objects: pods have too many others."""


class LateEvents(NamedTuple):
    """Events about a pod, and those about each of its claims without volume, by name."""

    of_pod: Sequence[Event] = ()
    of_claims: Mapping[str, Sequence[Event]] = MappingProxyType({})


async def late_events(pod: Pod, table: ClusterTable, reads: ObjectReads, *, many: bool = False) -> LateEvents:
    """The events that may say why a pod with a node does not run.

    With `many` others are looked at, too: then the events of the namespace are read once for all of them.
    """
    claims: dict[str, Sequence[Event]] = {}
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        claim = None if name is None else table.storage.claim(f"{pod.namespace}/{name}")
        if name is not None and claim is not None and not claim.spec.volume_name:
            claims[name] = await _about("PersistentVolumeClaim", pod.namespace, name, reads, many=many)
    if not may_be_stopped(pod):
        return LateEvents((), claims)
    return LateEvents(await _about("Pod", pod.namespace, pod.name, reads, many=many), claims)


async def _about(kind: str, namespace: str, name: str, reads: ObjectReads, *, many: bool) -> Sequence[Event]:
    """The events about an object; with `many` out of those about all objects of the kind, read once."""
    if not many:
        return await reads.list(EVENTS, Event, namespace, regarding__kind=kind, regarding__name=name)
    found = await reads.list(EVENTS, Event, namespace, regarding__kind=kind, **_ONLY.get(kind, {}))
    return [one for one in found if one.regarding.name == name]
