"""A cluster in memory on which the real engine places pods: try something, look, keep it or take it back.

    cluster = Cluster(nodes, seed=1)
    with cluster.fork():
        cluster.drain("node-7")
        print(cluster.pending)

A fork costs nothing: changes are recorded with how to undo them, and a fork that ends without `commit` undoes
its own in reverse order. The table, the random choices and what plugins reserved are then as before.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.node import Taint
from stowplan.api.pod import Pod
from stowplan.config import load, load_file
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.pod import Explainer
from stowplan.runtime.logs import Logger
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import NO_NODES, fit_error
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import post_filter_steps, run_to_end
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin, Services
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, PluginError
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.simulate.contents import ClusterContents, as_listed
from stowplan.simulate.outcome import Eviction, Outcome
from stowplan.simulate.snapshot.files import Snapshot
from stowplan.simulate.snapshot.sources import read_files

if TYPE_CHECKING:
    from stowplan.explain.document.group import GroupDocument
    from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
    from stowplan.simulate.creation.manifests import Manifests

_DAEMON_SET: Final = "DaemonSet"
_MIRROR: Final = "kubernetes.io/config.mirror"


class Cluster(ClusterContents):
    """Nodes, pods and the profiles of a configuration. `seed` decides between nodes of equal score.

    `config` is a KubeSchedulerConfiguration, as text or as the path of a file; `settings` one that is ready.
    With `ties="first"` the first of them is taken, in the order of their names, as some simulators do; with
    `ties="fixed"` the first in a random order that stays the same.
    With the same objects, configuration, seed and calls the results are the same. They are those of a
    scheduler with this seed that is given the same pods in the same order. `services` is what plugins find
    in `handle.scheduler`. Without `reuse` no result is kept between pods.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        settings: Settings | None = None,
        config: str | Path | None = None,
        plugins: Sequence[type[Plugin]] = (),
        seed: int = 0,
        ties: Literal["random", "first", "fixed"] = "random",
        source: str = "simulation",
        notes: Sequence[str] = (),
        services: Services | None = None,
        reuse: bool = True,
    ) -> None:
        super().__init__(
            _settings(config, plugins) if settings is None else settings, seed, services, reuse=reuse
        )
        self.source = source
        """Where the objects come from, for explanations."""
        self.notes = list(notes)
        """What is missing of them, and why."""
        self.unread: dict[str, str] = {}
        """Resources of which it is not known what exists, with the reason."""
        self._tie_break = self._choice if ties == "random" else _First()
        listed = as_listed(objects)
        if ties == "fixed":
            Random(seed).shuffle(listed)
            listed.sort(key=lambda obj: isinstance(obj, Pod))
        self.add(*listed)

    @classmethod
    def load(
        cls,
        source: Snapshot | str | Path | Sequence[str | Path],
        *,
        settings: Settings | None = None,
        config: str | Path | None = None,
        plugins: Sequence[type[Plugin]] = (),
        seed: int = 0,
    ) -> "Cluster":
        """The cluster of a snapshot, or of files that `kubectl get -o yaml` wrote. Raises SnapshotError."""
        if not isinstance(source, Snapshot):
            paths = [source] if isinstance(source, str | Path) else source
            source = read_files([Path(path) for path in paths])
        found = cls(
            source.objects,
            settings=settings,
            config=config,
            plugins=plugins,
            seed=seed,
            source=source.source,
            notes=source.notes,
        )
        found.unread = dict(source.unread)
        return found

    # Changes of nodes

    def cordon(self, *names: str) -> None:
        """Mark nodes unschedulable."""
        self._set_unschedulable(names, True)

    def uncordon(self, *names: str) -> None:
        self._set_unschedulable(names, False)

    def taint(self, name: str, *taints: Taint) -> None:
        """Add taints to a node; one of the same key and effect is replaced."""
        node = self.node(name)
        new = {(taint.key, taint.effect): taint for taint in (*node.spec.taints, *taints)}
        self._put_node(replace(node, spec=replace(node.spec, taints=tuple(new.values()))))

    def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; those set to None are removed."""
        node = self.node(name)
        merged = {**node.metadata.labels, **labels}
        kept = {key: value for key, value in merged.items() if value is not None}
        self._put_node(replace(node, metadata=replace(node.metadata, labels=kept)))

    def drain(self, *names: str) -> Outcome:
        """Cordon nodes, evict their pods and schedule what their controllers create instead.

        Pods of a DaemonSet and static pods stay, as with `kubectl drain --ignore-daemonsets`. A pod without a
        controller is gone for good and counts as lost.
        """
        self.cordon(*names)
        outcome = Outcome()
        replacements = []
        for name in names:
            for pod in self.pods_on(name):
                if is_daemon(pod):
                    continue
                self._take(pod.key)
                outcome.evictions.append(Eviction(pod.key, name, "drain"))
                if has_controller(pod):
                    replacements.append(self.replacement(pod))
                else:
                    self._release(pod)
                    outcome.lost.append(pod.key)
        outcome.extend(self.schedule(replacements))
        return outcome

    def evict(self, *keys: str, by: str = "eviction") -> Outcome:
        """Evict pods, whatever budgets say, and schedule what their controllers create instead."""
        outcome = Outcome()
        replacements = []
        for key in keys:
            node = self.placements_of(key)
            pod = self._take(key)
            outcome.evictions.append(Eviction(key, node, by))
            if has_controller(pod):
                replacements.append(self.replacement(pod))
            else:
                self._release(pod)
                outcome.lost.append(key)
        outcome.extend(self.schedule(replacements))
        return outcome

    # Workloads

    def apply(
        self, *sources: "str | Path | Manifests", replicas: int | None = None, namespace: str = "default"
    ) -> Outcome:
        """Create what manifests say (files, or what `read_manifests` made of them) and schedule its pods.

        A workload that is there already is rolled out: new pods, then old ones go. Raises SnapshotError.
        """
        from stowplan.simulate.creation.applying import apply

        return apply(self, sources, replicas, namespace)

    def scale(self, workload: str, replicas: int, *, namespace: str = "default") -> Outcome:
        """Give a workload (`deployment/web`) so many pods. Raises NoSuchObjectError."""
        from stowplan.simulate.creation.applying import scale

        return scale(self, workload, replicas, namespace)

    # Scheduling

    def schedule(self, pods: Pod | Iterable[Pod] | None = None, *, preempt: bool = True) -> Outcome:
        """Schedule pods, in the order of the queue; without an argument, all pods that are pending.

        A pod that finds no node stays pending. With `preempt` it may evict pods of lower priority, whose
        replacements (for those with a controller) are then scheduled as well. Raises ValueError for a pod
        that has a node.
        """
        given = self.pending.values() if pods is None else (pods,) if isinstance(pods, Pod) else pods
        queue = _Queue(next(iter(self.frameworks.values())))
        for pod in list(given):
            if pod.key in self._keys:
                raise ValueError(f"pod {pod.key} has a node already: expected pods that wait for one")
            queue.push(self.table.info(pod))
        outcome = Outcome()
        while queue:
            self._schedule_one(queue.pop(), queue, outcome, preempt)
        return outcome

    def framework_of(self, pod: Pod) -> Framework:
        """The profile that schedules a pod; the first one if it names none of them."""
        return self._framework(pod)

    def gate_of(self, pod: Pod) -> str:
        """Why a pod may not be tried at all, "" if it may."""
        return self._gate(self.table.info(pod))

    def assume(self, info: PodInfo, node: str) -> None:
        """Put a pod on a node it was given. Reserve, Permit and what follows are up to the caller."""
        self.table.assume(info, node)
        self._keys[info.key] = info.uid

    def forget(self, info: PodInfo) -> None:
        """Take a pod off the node it was given."""
        self.table.forget(info.uid)
        del self._keys[info.key]

    def put_copy(self, pod: Pod, name: str, node: str) -> None:
        """Put a pod like another on a node, whatever the scheduler would say."""
        metadata = replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}~{name}")
        self._put_pod(replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node)))

    def evaluate(self, pod: Pod) -> Evaluation:
        """Filter and score every node for a pod. Good until the cluster changes. Raises PluginError."""
        info = self.table.info(pod)
        return self._framework(pod).evaluate(info, self._nominations(), self._nominated_row(info))

    def explain(self, key: str) -> PodDocument:
        """Why a pod is where it is, or why it is pending and what would have to change."""
        return self.explainer_for(self.pod(key)).explain(self.info(self.pod(key)))

    def explainer_for(self, pod: Pod) -> Explainer:
        """Explanations by the profile that schedules a pod."""
        return Explainer(self._framework(pod), self.source, self._nominations())

    def explain_group(self, key: str) -> "GroupDocument | None":
        """Why a group of pods waits, by its key; None if nothing is known of it."""
        return run_at_once(self.group_steps(key))

    def group_steps(self, key: str) -> "Generator[None, None, GroupDocument | None]":
        """The same in steps."""
        from stowplan.explain.explainers.group import GroupExplainer

        groups = self.table.groups
        first = next((pod for pod in self.pending.values() if groups.key_of(pod) == key), None)
        framework = next(iter(self.frameworks.values())) if first is None else self._framework(first)
        topology = self.settings.gates["TopologyAwareWorkloadScheduling"]
        explainer = GroupExplainer(framework, self.source, self._nominations(), placements=topology)
        return explainer.steps(key)

    def replacement(self, pod: Pod) -> Pod:
        """The pod that its controller creates when it is gone: of the same name, to be easy to follow."""
        uid = f"{pod.metadata.uid.partition('~')[0]}~{self._undo.next_number()}"
        metadata = replace(pod.metadata, uid=uid, deletion_timestamp=None)
        status = replace(pod.status, phase="Pending", nominated_node_name="", start_time=None, conditions=())
        return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)

    # Forks

    @contextmanager
    def fork(self) -> Iterator["Cluster"]:
        """Whatever is changed in the block is undone at its end, unless it was committed. Forks can nest."""
        with self._undo.fork():
            yield self

    def commit(self) -> None:
        """Keep what was changed in all forks that are open."""
        self._undo.commit()

    def revert(self) -> None:
        """Undo everything that was changed in the forks that are open."""
        self._undo.revert()

    # One pod

    @cached_property
    def _finder(self) -> "NodeFinder":
        """Made when the first pod is scheduled: explanations need no scheduling cycle."""
        from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
        from stowplan.scheduler.node_sampler import NodeSampler

        logger = Logger()
        return NodeFinder(NodeSampler(self.table, logger), self._tie_break, logger)

    def _schedule_one(self, info: PodInfo, queue: "_Queue", outcome: Outcome, preempt: bool) -> None:
        pod = info.pod
        gate = self._gate(info)
        if gate:
            self._wait(pod, gate, outcome)
            return
        if not self.table.node_count:
            self._wait(pod, NO_NODES, outcome)
            return
        try:
            found = self._finder.find(
                self._framework(pod), info, self._nominations(), self._nominated_row(info)
            )
        except PluginError as failure:
            self._wait(pod, str(failure), outcome)
            return
        if found.row is not None:
            self._place(info, self.table.names[found.row], found.evaluation.cycle, outcome)
        elif preempt:
            self._preempt(info, found.evaluation, queue, outcome)
        else:
            self._wait(pod, fit_error(found.evaluation), outcome)

    def _gate(self, info: PodInfo) -> str:
        """Why a pod may not be tried at all, "" if it may."""
        framework = self._framework(info.pod)
        for plugin in framework.gating():
            status = plugin.pre_enqueue(info)
            if status is not None and not status.is_success:
                return str(status.message)
        return ""

    def _place(self, info: PodInfo, node: str, cycle: Cycle, outcome: Outcome) -> None:
        pod = info.pod
        name = self._framework(pod).profile.scheduler_name
        self.assume(info, node)
        status, _ = self._lifecycles[name].run_reserve_and_permit(cycle, info, node)
        if not status.is_success and status.code is not Code.WAIT:
            self._lifecycles[name].unreserve(cycle, info, node)
            self.forget(info)
            self._wait(pod, status.message, outcome)
            return
        self._reserved[info.uid] = (name, cycle, node)
        self._undo.note(lambda: self._unplace(info, cycle, node))
        if pod.key in self.pending:
            self._undo.set(self.pending, pod.key, None)
        self._undo.set(self.messages, pod.key, None)
        self._nominate(info, None)
        outcome.placed[pod.key] = node

    def _unplace(self, info: PodInfo, cycle: Cycle, node: str) -> None:
        name, *_ = self._reserved.pop(info.uid)
        self._lifecycles[name].unreserve(cycle, info, node)
        self.table.remove_pod(info.uid)
        del self._keys[info.key]

    def _preempt(self, info: PodInfo, evaluation: Evaluation, queue: "_Queue", outcome: Outcome) -> None:
        """Evict pods of lower priority if that makes room, and try again; else the pod has to wait."""
        plugins = self._framework(info.pod).at(ExtensionPoint.POST_FILTER)
        try:
            found = run_to_end(post_filter_steps(plugins, evaluation.cycle, info))
        except PluginError as failure:
            self._wait(info.pod, str(failure), outcome)
            return
        if not found.status.is_success or not found.nominated_node:
            self._wait(info.pod, fit_error(evaluation, found.status.message), outcome)
            return
        self._nominate(info, found.nominated_node)
        queue.push(info)
        for victim in found.victims:
            self._take(victim.key)
            outcome.placed.pop(victim.key, None)
            outcome.evictions.append(Eviction(victim.key, found.nominated_node, info.key))
            if has_controller(victim):
                queue.push(self.table.info(self.replacement(victim)))
            else:
                self._release(victim)
                outcome.lost.append(victim.key)

    def _wait(self, pod: Pod, message: str, outcome: Outcome) -> None:
        self._undo.set(self.pending, pod.key, pod)
        self._undo.set(self.messages, pod.key, message)
        outcome.pending[pod.key] = message

    def _framework(self, pod: Pod) -> Framework:
        """The profile that schedules a pod; the first one if it names none of them."""
        return self.frameworks.get(pod.spec.scheduler_name) or next(iter(self.frameworks.values()))


class _First(Random):
    """No choice at all."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


class _Queue:
    """Pods in the order of the profile's QueueSort plugin; of equals the first that came."""

    def __init__(self, framework: Framework) -> None:
        self._sort_key = framework.sorting().sort_key
        self._heap: list[tuple[Any, int, PodInfo]] = []
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, info: PodInfo) -> None:
        self._came += 1
        heappush(self._heap, (self._sort_key(QueuedPod(info, float(self._came))), self._came, info))

    def pop(self) -> PodInfo:
        return heappop(self._heap)[2]


def _settings(config: str | Path | None, plugins: Sequence[type[Plugin]]) -> Settings:
    loaded = load_file(config) if isinstance(config, Path) else None if config is None else load(config)
    return Settings.of(loaded, plugins)


def has_controller(pod: Pod) -> bool:
    """Whether somebody creates the pod again when it is gone."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def is_daemon(pod: Pod) -> bool:
    """Whether a drain leaves the pod alone: it belongs to its node."""
    return _MIRROR in pod.metadata.annotations or any(
        owner.kind == _DAEMON_SET for owner in pod.metadata.owner_references
    )
