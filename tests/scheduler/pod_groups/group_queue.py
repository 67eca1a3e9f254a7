"""A queue with pod groups: events come in as event handlers pass them on."""

from collections.abc import Iterable
from typing import Any

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.api.releases.v1_37 import RELEASE as V1_37
from stowplan.config import default_config
from stowplan.config.build import build
from stowplan.scheduler.cache import GroupCache
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.framework.events import ClusterEvent
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.build import queue_for
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import NodeBuilder, PodBuilder

START = 1_700_000_000.0
TREES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")


class StoppedClock:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class GroupRig:
    """The queue of a scheduler with the default profile, its cache, and short ways to say what happens."""

    def __init__(self, *gates: str, plugins: Iterable[type[Plugin]] = (), **options: Any) -> None:
        self.gates = FeatureGates(dict.fromkeys(gates or ("GenericWorkload",), True), V1_37)
        self.clock = StoppedClock()
        table = ClusterTable(V1_37)
        registry = in_tree_registry().with_plugins(list(plugins))
        profile = build(default_config(self.gates), registry).profiles[0]
        self.framework = Framework(profile, table, registry, self.gates)
        made = queue_for([self.framework], self.clock, self.gates, **options)
        assert isinstance(made, GroupSchedulingQueue)
        self.queue = made
        self.cache = GroupCache(table, lambda text: None)
        self.handlers = EventHandlers(
            self.cache, self.queue, ("default-scheduler",), WaitingPods(), gates=self.gates
        )
        self._version = 0

    def add(self, *objects: PodBuilder | GroupObject | NodeBuilder) -> None:
        for obj in objects:
            if isinstance(obj, PodBuilder):
                self.handlers.add_pod(obj.obj())
            elif isinstance(obj, NodeBuilder):
                self.handlers.add_node(obj.obj())
            else:
                self.handlers.add_group(obj)

    def delete(self, *objects: PodBuilder | GroupObject) -> None:
        for obj in objects:
            if isinstance(obj, PodBuilder):
                self.handlers.delete_pod(obj.obj())
            else:
                self.handlers.delete_group(obj)

    def wait(self, seconds: float) -> None:
        self.clock.time += seconds
        self.queue.flush_backoff()

    def pop(self) -> QueuedGroup:
        queued = self.queue.pop()
        assert isinstance(queued, QueuedGroup)
        return queued

    def pop_names(self) -> list[str]:
        """The members of the group that is popped next, in their order."""
        return names(self.pop())

    def fail(self, group: QueuedGroup, code: str = "rejected", *plugins: str) -> None:
        """Every member comes back, rejected by these plugins, and then the group."""
        for member in list(group.pods()):
            self.queue.add_unschedulable_if_not_present(member, plugins)
        self.queue.add_attempted_group(group, code)

    def place(self, name: str) -> str | None:
        return self.queue.place_of(f"default/{name}")

    def happens(self, event: ClusterEvent, old: Pod | None = None, new: Any = None) -> None:
        self.queue.move_all(event, old, new)


def names(group: QueuedGroup) -> list[str]:
    return [member.pod.name for member in group.pods()]


def single(queued: QueuedPod | None) -> str:
    """The name of a pod that was popped alone."""
    assert queued is not None
    assert not isinstance(queued, QueuedGroup)
    return queued.pod.name
