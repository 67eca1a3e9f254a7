"""The contents of a cluster in memory: nodes, pods and other objects in the table of the profiles.

Every change is recorded with how to undo it. What is scheduled where is up to `cluster`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api import catalogue
from stowplan.api.admission import READ, ResourceQuota
from stowplan.api.catalogue import Resource
from stowplan.api.coscheduling import see_pod
from stowplan.api.decode import Given, as_object
from stowplan.api.meta import AnyObject, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.events import Resource as EventResource
from stowplan.scheduler.framework.events import build_hint_map
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.interface import Services
from stowplan.scheduler.framework.known_objects import KnownObjects
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.random_sources import RandomSources
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.simulate.undo import UndoLog

if TYPE_CHECKING:
    from stowplan.simulate.creation.admission import AdmissionStore, Quotas


class NoSuchObjectError(LookupError):
    """A node or pod that the cluster does not have."""


class ClusterContents:
    """One table with the profiles of a configuration, and the objects in it."""

    def __init__(self, settings: Settings, seed: int, services: Services | None, *, reuse: bool) -> None:
        self.settings = settings
        self.table = ClusterTable(settings.release)
        self.pending: dict[str, Pod] = {}
        """Pods without a node, by `namespace/name`."""
        self.messages: dict[str, str] = {}
        """Why those that were tried got no node."""
        self.objects: dict[tuple[type[Object], str], Object] = {}
        """Everything but nodes and pods, by type and `namespace/name`."""
        self._known = KnownObjects()
        profiles = settings.config.profiles
        rngs = RandomSources.of(Random(seed), len(profiles))
        self.frameworks = {
            profile.scheduler_name: Framework(
                profile,
                self.table,
                settings.registry,
                settings.gates,
                rng=rng,
                services=services,
                reuse=reuse,
                lookup=self.lookup,
            )
            for profile, rng in zip(profiles, rngs.frameworks, strict=True)
        }
        self._lifecycles = {name: Lifecycle(framework) for name, framework in self.frameworks.items()}
        self._choice = rngs.node_finder
        self._undo = UndoLog((rngs.node_finder, *rngs.frameworks))
        self._keys: dict[str, str] = {}
        """The uid of every pod that has a node, by `namespace/name`."""
        self._reserved: dict[str, tuple[str, Cycle, str]] = {}
        """Placements made here, by uid: profile, cycle and node, to be given to Unreserve."""
        self._nominated: dict[str, tuple[PodInfo, str]] = {}
        self._quotas: dict[str, ResourceQuota] = {}
        self._used: dict[str, Json] = {}
        """Quotas that were charged, by `namespace/name`."""
        self._admission: AdmissionStore | None = None
        self._see = see_pod(settings.gates) or _as_it_is

    # Objects

    def lookup(self, kind: str) -> Mapping[str, Object]:
        """Objects by kind for plugins. As in a scheduler, one of them has to be registered for the kind."""
        if kind not in self._registered:
            raise LookupError(f"objects of kind {kind!r} are not watched: register for its events")
        if kind == EventResource.POD:
            return {key: self.pod(key) for key in (*self.pending, *self._keys)}
        if kind == EventResource.NODE:
            return {node.name: node for node in self.table.nodes if node is not None}
        return self._known.of(kind)

    @cached_property
    def _registered(self) -> frozenset[str]:
        """The kinds of objects that plugins registered for."""
        always = (EventResource.POD, EventResource.NODE)
        plugins = [framework.plugins.values() for framework in self.frameworks.values()]
        return frozenset((*always, *(kind for some in plugins for kind in build_hint_map(some).watched())))

    def add(self, *objects: Given) -> None:
        """Take in objects, new or changed. Pods without a node are pending; finished pods are left out."""
        for obj in map(as_object, objects):
            if isinstance(obj, Node):
                self._put_node(obj)
            elif not isinstance(obj, Pod):
                self._put(obj)
            elif obj.is_finished:
                continue
            elif obj.spec.node_name:
                self._put_pod(self._see(obj))
            else:
                self._put_waiting(self._see(obj))

    def remove(self, *objects: Given) -> None:
        """Remove objects. Pods of a removed node are removed with it."""
        for obj in map(as_object, objects):
            if isinstance(obj, Node):
                self.remove_node(obj.name)
            elif isinstance(obj, Pod):
                self.remove_pod(obj.key)
            else:
                self._discard(obj)

    def remove_node(self, name: str) -> list[Pod]:
        """Remove a node; returns the pods that were on it and are gone with it."""
        pods = self.pods_on(name)
        for pod in pods:
            self._take(pod.key)
        node = self.node(name)
        self.table.remove_node(name)
        self._undo.note(lambda: self.table.put_node(node))
        return pods

    def remove_pod(self, key: str) -> Pod:
        """Remove a pod, pending or not."""
        self._release(self.pod(key))
        if key in self.pending:
            pod = self.pending[key]
            self._undo.set(self.pending, key, None)
            self._undo.set(self.messages, key, None)
            self._nominate(self.table.info(pod), None)
            self._leave_group(pod)
            return pod
        return self._take(key)

    def node(self, name: str) -> Node:
        """A node by its name. Raises NoSuchObjectError."""
        row = self.table.row_of(name)
        node = None if row is None else self.table.nodes[row]
        if node is None:
            raise NoSuchObjectError(f"no node {name}")
        return node

    def pod(self, key: str) -> Pod:
        """A pod by `namespace/name`, with its node if it has one. Raises NoSuchObjectError."""
        pending = self.pending.get(key)
        if pending is not None:
            return pending
        info = self._info(key)
        if info.row >= 0 and not info.pod.spec.node_name:
            return replace(info.pod, spec=replace(info.pod.spec, node_name=self.table.names[info.row]))
        return info.pod

    @property
    def nodes(self) -> list[Node]:
        return [node for node in self.table.nodes if node is not None]

    @property
    def placements(self) -> dict[str, str]:
        """The node of every pod that has one, by `namespace/name`."""
        names, pods = self.table.names, self.table.pods
        return {key: names[pods[uid].row] for key, uid in self._keys.items() if pods[uid].row >= 0}

    @property
    def pods(self) -> list[Pod]:
        """The pods that have a node, as they were when they were scheduled or read."""
        known = self.table.pods
        return [known[uid].pod for uid in self._keys.values()]

    @property
    def all_pods(self) -> dict[str, Pod]:
        """All pods as they were read, by `namespace/name`, those that wait too."""
        known = self.table.pods
        found = {key: known[uid].pod for key, uid in self._keys.items()} | self.pending
        return dict(sorted(found.items()))

    def info(self, pod: Pod) -> PodInfo:
        """A pod as the table has it, or as it would be."""
        return self.table.pods.get(pod.metadata.uid) or self.table.info(pod)

    def has_pod(self, key: str) -> bool:
        """True if there is a pod of that name, pending or not."""
        return key in self._keys or key in self.pending

    def pending_of(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of some pods that wait."""
        return [self.pending[pod.key] for pod in pods if pod.key in self.pending]

    @property
    def admission(self) -> "AdmissionStore":
        """The API server's admission, with the objects of this cluster that it reads."""
        from stowplan.simulate.creation.admission import AdmissionStore

        if self._admission is None:
            self._admission = AdmissionStore(self.objects.values(), self.settings.gates)
        return self._admission

    @cached_property
    def quotas(self) -> "Quotas":
        """The quotas of this cluster. What is charged in a fork is given back at its end."""
        from stowplan.simulate.creation.admission import Quotas

        return Quotas(self._quotas.values, self._of_kind, self._used, self._charge)

    def _charge(self, quota: str, charged: Json) -> None:
        self._undo.set(self._used, quota, charged)

    def _of_kind(self, resource: Resource, namespace: str) -> Iterator[Object]:
        """The objects of a kind in a namespace, for quotas that have not been counted yet."""
        known: Iterable[Object] = self.objects.values()
        if resource == catalogue.PODS:
            known = (*self.pods, *self.pending.values())
        for obj in known:
            if type(obj).__name__ == resource.kind and obj.namespace == namespace:
                yield obj

    def _release(self, pod: Pod) -> None:
        """Give back to quotas what a pod was charged for that is gone for good."""
        if self._quotas:
            self.quotas.release(catalogue.PODS, pod)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods on a node. Raises NoSuchObjectError."""
        row = self.table.row_of(node)
        if row is None:
            raise NoSuchObjectError(f"no node {node}")
        return [info.pod for info in self.table.pods_on[row].values()]

    def placements_of(self, key: str) -> str:
        """The node of a pod, "" if it is on none that is known."""
        row = self._info(key).row
        return self.table.names[row] if row >= 0 else ""

    def seen(self, pod: Pod) -> Pod:
        """A pod as the scheduler sees it: as a member of a group if a label says so."""
        return self._see(pod)

    # Nominated pods

    def _nominate(self, info: PodInfo, node: str | None) -> None:
        if node is not None or info.uid in self._nominated:
            self._undo.set(self._nominated, info.uid, None if node is None else (info, node))

    def _nominations(self) -> Nominations:
        found: dict[int, list[PodInfo]] = {}
        for info, node in self._nominated.values():
            row = self.table.row_of(node)
            if row is not None:
                found.setdefault(row, []).append(info)
        return found

    def _nominated_row(self, info: PodInfo) -> int | None:
        nominated = self._nominated.get(info.uid)
        node = info.pod.status.nominated_node_name if nominated is None else nominated[1]
        return self.table.row_of(node) if node else None

    # The table, with how to undo each change

    def _put_node(self, node: Node) -> None:
        row = self.table.row_of(node.name)
        old = None if row is None else self.table.nodes[row]
        self.table.put_node(node)
        if old is None:
            self._undo.note(lambda: self.table.remove_node(node.name))
        else:
            self._undo.note(lambda: self.table.put_node(old))

    def _set_unschedulable(self, names: Iterable[str], value: bool) -> None:
        for name in names:
            node = self.node(name)
            if node.spec.unschedulable != value:
                self._put_node(replace(node, spec=replace(node.spec, unschedulable=value)))

    def _put_pod(self, pod: Pod) -> None:
        if pod.key in self._keys:
            self._take(pod.key)
        elif pod.key in self.pending:
            self.remove_pod(pod.key)
        info = self.table.put_pod(pod)
        self._keys[pod.key] = info.uid
        self._undo.note(lambda: self._drop_pod(info))
        self._join_group(pod)

    def _put_waiting(self, pod: Pod) -> None:
        """Take in a pod without a node; its nominated node, if any, is kept for it as in a scheduler."""
        self._undo.set(self.pending, pod.key, pod)
        nominated = pod.status.nominated_node_name
        if nominated:
            self._nominate(self.table.info(pod), nominated)
        self._join_group(pod)

    def _join_group(self, pod: Pod) -> None:
        groups = self.table.groups
        if groups.enabled:
            groups.put_pod(pod)
            self._undo.note(lambda: groups.remove_pod(pod))

    def _leave_group(self, pod: Pod) -> None:
        groups = self.table.groups
        state = groups.group_of(pod) if groups.enabled else None
        if state is None:
            return
        assumed = pod.metadata.uid in state.assumed
        groups.remove_pod(pod)

        def back() -> None:
            groups.put_pod(pod)
            if assumed:
                groups.assume(pod)

        self._undo.note(back)

    def _drop_pod(self, info: PodInfo) -> None:
        self.table.remove_pod(info.uid)
        del self._keys[info.key]

    def _take(self, key: str) -> Pod:
        """Take a pod off its node."""
        info = self._info(key)
        row = info.row
        order = list(self.table.pods_on[row]) if row >= 0 and self._undo.is_recording else []
        pod = self.pod(key)
        node = self.table.names[row] if row >= 0 else pod.spec.node_name
        held = self._reserved.pop(info.uid, None)
        if held is not None:
            self._lifecycles[held[0]].unreserve(held[1], info, held[2])
        self.table.remove_pod(info.uid)
        del self._keys[key]
        self._undo.note(lambda: self._restore(info, node, order, held))
        self._leave_group(info.pod)
        return pod

    def _restore(
        self, info: PodInfo, node: str, order: list[str], held: tuple[str, Cycle, str] | None
    ) -> None:
        """Put a pod back to where it was, also in the order of the pods of its node."""
        self.table.place(info, node)
        self._keys[info.key] = info.uid
        if info.row >= 0 and order:
            pods = self.table.pods_on[info.row]
            known = {uid: pods.pop(uid) for uid in order}
            pods.update(known)
        if held is not None:
            self._reserved[info.uid] = held
            self._lifecycles[held[0]].reserve(held[1], info, held[2])

    def _put(self, obj: Object) -> None:
        old = self.objects.get(_place(obj))
        if isinstance(obj, ResourceQuota):
            self._undo.set(self._used, obj.key, None)
        self._put_quietly(obj)
        self._undo.note(lambda: self._discard_quietly(obj) if old is None else self._put_quietly(old))

    def _discard(self, obj: Object) -> None:
        old = self.objects.get(_place(obj))
        if old is None:
            raise NoSuchObjectError(f"no {type(obj).__name__} {obj.key}")
        if isinstance(obj, ResourceQuota):
            self._undo.set(self._used, obj.key, None)
        self._discard_quietly(old)
        self._undo.note(lambda: self._put_quietly(old))

    def _put_quietly(self, obj: Object) -> None:
        self.table.put(obj)
        self._known.put(obj)
        self.objects[_place(obj)] = obj
        self._admission_changed(obj, there=True)

    def _discard_quietly(self, obj: Object) -> None:
        self.table.discard(obj)
        self._known.discard(obj)
        del self.objects[_place(obj)]
        self._admission_changed(obj, there=False)

    def _admission_changed(self, obj: Object, *, there: bool) -> None:
        """See what admission and quotas read; the store of admission is made again when it is used."""
        if isinstance(obj, ResourceQuota):
            if there:
                self._quotas[obj.key] = obj
            else:
                del self._quotas[obj.key]
        elif type(obj) in READ:
            self._admission = None

    def _info(self, key: str) -> PodInfo:
        uid = self._keys.get(key)
        if uid is None:
            raise NoSuchObjectError(f"no pod {key}")
        return self.table.pods[uid]


def _place(obj: Object) -> tuple[type[Object], str]:
    """Where an object is kept; custom resources of several kinds may have one name."""
    key = f"{obj.api_version}/{obj.kind} {obj.key}" if isinstance(obj, AnyObject) else obj.key
    return type(obj), key


def _as_it_is(pod: Pod) -> Pod:
    return pod


def as_listed(objects: Iterable[Given]) -> list[Object]:
    """Objects in the order in which an API server lists them, pods last.

    Between equal nodes the order decides, too: it has to be that of a scheduler's informers.
    """
    return sorted(
        map(as_object, objects), key=lambda obj: (isinstance(obj, Pod), not isinstance(obj, Node), obj.key)
    )
