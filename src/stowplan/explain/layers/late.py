"""The events about a pod on its node and about its claims, where they may say why it does not run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

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


class Events(Protocol):
    """Where events are read."""

    async def about(self, kind: str, namespace: str, name: str) -> Sequence[Event]: ...


class EventsOfOne:
    """Events of one object after the other: for an answer about one pod."""

    def __init__(self, reads: ObjectReads) -> None:
        self._reads = reads

    async def about(self, kind: str, namespace: str, name: str) -> Sequence[Event]:
        return await self._reads.list(EVENTS, Event, namespace, regarding__kind=kind, regarding__name=name)


class EventsOfMany:
    """Events of all objects of a kind and namespace, read once: for an answer about many pods."""

    def __init__(self, reads: ObjectReads) -> None:
        self._reads = reads
        self._known: dict[tuple[str, str], dict[str, list[Event]]] = {}

    async def about(self, kind: str, namespace: str, name: str) -> Sequence[Event]:
        key = (kind, namespace)
        if key not in self._known:
            by_name: dict[str, list[Event]] = {}
            only = _ONLY.get(kind, {})
            for one in await self._reads.list(EVENTS, Event, namespace, regarding__kind=kind, **only):
                by_name.setdefault(one.regarding.name, []).append(one)
            self._known[key] = by_name
        return self._known[key].get(name, ())


async def late_events(pod: Pod, table: ClusterTable, events: Events) -> LateEvents:
    """The events that may say why a pod with a node does not run."""
    claims: dict[str, Sequence[Event]] = {}
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        claim = None if name is None else table.storage.claim(f"{pod.namespace}/{name}")
        if name is not None and claim is not None and not claim.spec.volume_name:
            claims[name] = await events.about("PersistentVolumeClaim", pod.namespace, name)
    if not may_be_stopped(pod):
        return LateEvents((), claims)
    return LateEvents(await events.about("Pod", pod.namespace, pod.name), claims)
