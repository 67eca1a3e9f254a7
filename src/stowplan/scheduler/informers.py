"""What a scheduler watches: which kinds of objects, and a reflector for each."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource as Served
from stowplan.api.devices import DeviceClass
from stowplan.api.meta import AnyObject, Namespace, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import EVERY_OBJECT, Selection
from stowplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from stowplan.client import Reader, Reflector
from stowplan.clock import Clock
from stowplan.framework.events import Action, Resource
from stowplan.scheduler.news import News, NodeNews, OtherNews, PodNews

UNFINISHED: Final = Selection.parse(fields="status.phase!=Succeeded,status.phase!=Failed")
"""Pods that can still hold a node: one that has finished looks as if it were deleted."""


class Watched(NamedTuple):
    """A kind of object: where it is served, as what it is read, and what events call it ("" if nothing)."""

    served: Served
    cls: type[Object]
    event: str = ""


PODS: Final = Watched(catalogue.PODS, Pod, Resource.POD)
NODES: Final = Watched(catalogue.NODES, Node, Resource.NODE)

AROUND_PODS: Final = (
    Watched(catalogue.NAMESPACES, Namespace),
    Watched(catalogue.SERVICES, Service),
    Watched(catalogue.REPLICATION_CONTROLLERS, ReplicationController),
    Watched(catalogue.REPLICA_SETS, ReplicaSet),
    Watched(catalogue.STATEFUL_SETS, StatefulSet),
    Watched(catalogue.POD_DISRUPTION_BUDGETS, PodDisruptionBudget),
)
STORAGE: Final = (
    Watched(catalogue.PERSISTENT_VOLUMES, PersistentVolume, Resource.PERSISTENT_VOLUME),
    Watched(catalogue.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, Resource.PERSISTENT_VOLUME_CLAIM),
    Watched(catalogue.STORAGE_CLASSES, StorageClass, Resource.STORAGE_CLASS),
    Watched(catalogue.CSI_NODES, CSINode, Resource.CSI_NODE),
    Watched(catalogue.CSI_DRIVERS, CSIDriver, Resource.CSI_DRIVER),
    Watched(catalogue.CSI_STORAGE_CAPACITIES, CSIStorageCapacity, Resource.CSI_STORAGE_CAPACITY),
    Watched(catalogue.VOLUME_ATTACHMENTS, VolumeAttachment, Resource.VOLUME_ATTACHMENT),
)
DEVICES: Final = (
    Watched(catalogue.RESOURCE_CLAIMS, AnyObject, Resource.RESOURCE_CLAIM),
    Watched(catalogue.RESOURCE_SLICES, AnyObject, Resource.RESOURCE_SLICE),
    Watched(catalogue.DEVICE_CLASSES, DeviceClass, Resource.DEVICE_CLASS),
)
POD_GROUPS: Final = Watched(catalogue.POD_GROUPS, AnyObject, Resource.POD_GROUP)

_BUILT_IN: Final = frozenset(Resource)


def kinds_to_watch(events: Mapping[str, Action], *, groups: bool = False) -> list[Watched]:
    """The kinds to watch beside pods and nodes: what plugins look up, and what they registered for.

    Kinds that are not built in are named `<plural>.<version>.<group>`. Raises ValueError
    for other names.
    """
    kinds = [*AROUND_PODS, *STORAGE, *DEVICES]
    if groups:
        kinds.append(POD_GROUPS)
    known = {kind.served.dotted for kind in kinds}
    for name in events:
        if name in _BUILT_IN:
            continue
        served = custom_resource(name)
        if served.dotted not in known:
            known.add(served.dotted)
            kinds.append(Watched(served, AnyObject, name))
    return kinds


def custom_resource(name: str) -> Served:
    """The resource that `<plural>.<version>.<group>` names, `<plural>.<version>.` in the core group."""
    parts = name.split(".", 2)
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise ValueError(f"event resource {name!r}: expected <plural>.<version>.<group>")
    plural, version, group = parts
    found = next((known for known in catalogue.BUILT_IN if known.dotted == name), None)
    return found or Served(group, version, plural, "", custom=True)


class Informers:
    """Reflectors for all kinds, and the pods they know."""

    def __init__(
        self,
        reader: Reader,
        news: News,
        kinds: Iterable[Watched],
        *,
        clock: Clock,
        rng: Random,
        report: Callable[[str], None],
    ) -> None:
        def reflector(kind: Watched, handler: Any, selection: Selection = EVERY_OBJECT) -> Reflector[Any]:
            return Reflector(
                reader,
                kind.served,
                kind.cls,
                handler,
                clock=clock,
                rng=rng,
                report=report,
                selection=selection,
            )

        self.pods: Reflector[Pod] = reflector(PODS, PodNews(news), UNFINISHED)
        self.nodes: Reflector[Node] = reflector(NODES, NodeNews(news))
        by_kind = [(kind, reflector(kind, OtherNews(news, kind.event))) for kind in kinds]
        self.others = [one for _, one in by_kind]
        self._by_event: dict[str, Reflector[Any]] = {
            PODS.event: self.pods,
            NODES.event: self.nodes,
            **{kind.event or kind.served.kind: one for kind, one in by_kind},
        }

    @property
    def all(self) -> list[Reflector[Any]]:
        """Every reflector: what pods are placed by comes before the pods."""
        return [*self.others, self.nodes, self.pods]

    async def synced(self) -> None:
        """Wait until everything that exists has been heard of."""
        for reflector in self.all:
            await reflector.wait_synced()

    def objects(self, kind: str) -> Mapping[str, Object]:
        """What is known of a kind, named as in events. Raises LookupError if it is not watched."""
        found = self._by_event.get(kind)
        if found is None:
            raise LookupError(f"objects of kind {kind!r} are not watched: register for its events")
        return found.objects

    def pod(self, key: str) -> Pod | None:
        return self.pods.objects.get(key)
