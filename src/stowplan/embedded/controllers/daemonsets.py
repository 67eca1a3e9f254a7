"""DaemonSets: one pod on every node that it fits."""

from collections.abc import Sequence
from typing import ClassVar, Final

from stowplan.api.catalogue import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller, all_at_once, in_growing_batches
from stowplan.embedded.controllers.daemondecisions import (
    Daemon,
    affinity_for,
    assigned_node,
    plan,
    status_for,
    tolerations_of,
    updates,
)
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.history import (
    HASH,
    forget_old,
    hash_of,
    present_revision,
    revisions_of,
)
from stowplan.embedded.controllers.objects import (
    count_in,
    is_deleting,
    labels_of,
    name_of,
    selector_in,
    spec_of,
)
from stowplan.embedded.controllers.ownership import claimed
from stowplan.embedded.controllers.templates import pod_from

GENERATION: Final = "pod-template-generation"
FAILED_PAUSE: Final = 1.0
"""Seconds before a daemon that has failed on a node comes back there."""


class DaemonSets(Controller):
    """Keeps a pod of every DaemonSet on every node that it fits."""

    name: ClassVar[str] = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.follow(DAEMON_SETS)
        self.pods = self.follow_owned(PODS, DAEMON_SETS.kind, self.sets)
        self.nodes = self.informer(NODES)
        self.revisions = self.informer(CONTROLLER_REVISIONS)
        self.nodes.listen(self._node_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and _seen(old) == _seen(new):
            return
        for key in self.sets.objects:
            self.queue.add(key)

    async def sync(self, key: str) -> None:
        daemon_set = self.sets.get(key)
        if daemon_set is None or is_deleting(daemon_set):
            return
        pods = await claimed(self, self.pods, DAEMON_SETS, daemon_set, selector_in(daemon_set))
        self.rest(key, len(self.nodes.objects))
        held = revisions_of(self.revisions, daemon_set)
        revision = await present_revision(self, DAEMON_SETS, daemon_set, held)
        hash_ = hash_of(revision)
        daemon = Daemon(daemon_set)
        on: dict[str, list[Json]] = {}
        for pod in pods:
            on.setdefault(assigned_node(pod), []).append(pod)
        await self._manage(key, daemon_set, daemon, on, pods, hash_)
        status = status_for(daemon_set, daemon, self.nodes, on, hash_, self.now())
        await self.set_status(DAEMON_SETS, daemon_set, status)
        if count_in(spec_of(daemon_set), "minReadySeconds"):
            self.queue.add_after(key, 1.0)
        await forget_old(self, daemon_set, held, {hash_, *(labels_of(pod).get(HASH, "") for pod in pods)})

    async def _manage(
        self,
        key: str,
        daemon_set: Json,
        daemon: Daemon,
        on: dict[str, list[Json]],
        pods: Sequence[Json],
        hash_: str,
    ) -> None:
        todo = plan(daemon, self.nodes, on, hash_)
        failed = set(todo.failed)
        create = [node for node in todo.create if node not in failed]
        if failed:
            self.queue.add_after(key, FAILED_PAUSE)
        await all_at_once(self._delete(daemon_set, pod) for pod in todo.delete)
        await in_growing_batches(len(create), lambda n: self._create(daemon_set, create[n], hash_))
        if not create and not todo.delete:
            wanted = sum(1 for node in self.nodes if daemon.fits(node)[0])
            going = updates(daemon_set, wanted, pods, hash_, self.now())
            await all_at_once(self._delete(daemon_set, pod) for pod in going)

    async def _create(self, daemon_set: Json, node: str, hash_: str) -> None:
        template = spec_of(daemon_set).get("template") or {}
        spec = template.get("spec") or {}
        labels = {HASH: hash_, GENERATION: str(daemon_set["metadata"].get("generation", 1))}
        pinned = {"affinity": affinity_for(spec, node), "tolerations": tolerations_of(spec)}
        try:
            made = await self.create(
                PODS, pod_from(template, DAEMON_SETS, daemon_set, labels=labels, spec=pinned)
            )
        except ApiError as error:
            await self.tell(daemon_set, "FailedCreate", f"Error creating: {error}", WARNING)
            raise
        await self.tell(daemon_set, "SuccessfulCreate", f"Created pod: {name_of(made)}")

    async def _delete(self, daemon_set: Json, pod: Json) -> None:
        await self.delete(PODS, pod)
        await self.tell(daemon_set, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")


def _seen(node: Json) -> object:
    """What of a node decides about daemons."""
    return labels_of(node), spec_of(node).get("taints")
