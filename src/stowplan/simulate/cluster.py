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
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from stowplan.api.admission import LimitRange
from stowplan.api.decode import Given
from stowplan.api.node import Taint
from stowplan.api.pod import Pod
from stowplan.api.workloads import PriorityClass
from stowplan.config import load, load_file
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.layers.wider import Wider
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import Plugin, Services
from stowplan.scheduler.settings import Settings
from stowplan.simulate.contents import as_listed
from stowplan.simulate.group_scheduling import GroupScheduling
from stowplan.simulate.outcome import Eviction, Outcome
from stowplan.simulate.scheduling import has_controller, is_daemon
from stowplan.simulate.snapshot.files import Snapshot
from stowplan.simulate.snapshot.sources import read_files

if TYPE_CHECKING:
    from stowplan.explain.document.group import GroupDocument
    from stowplan.simulate.creation.manifests import Manifests


class Cluster(GroupScheduling):
    """Nodes, pods and the profiles of a configuration. `seed` decides between nodes of equal score.

    `objects` are objects, builders (`stowplan.testing.node("n")`) or manifests as maps.
    `config` is a KubeSchedulerConfiguration, as text or as the path of a file; `settings` one that is ready.
    With `ties="first"` the first of them is taken, in the order of their names, as some simulators do; with
    `ties="fixed"` the first in a random order that stays the same.
    With the same objects, configuration, seed and calls the results are the same. They are those of a
    scheduler with this seed that is given the same pods in the same order. `services` is what plugins find
    in `handle.scheduler`. Without `reuse` no result is kept between pods.
    """

    def __init__(
        self,
        objects: Iterable[Given] = (),
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

    # Pods that stand somewhere, and decisions

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
        return Explainer(self._framework(pod), self.source, self._nominations(), self._wider())

    def _wider(self) -> Wider:
        """The objects that decide which changes can be offered."""
        objects = self.objects.values()
        return Wider(
            tuple(one for one in objects if isinstance(one, PriorityClass)),
            tuple(one for one in objects if isinstance(one, LimitRange)),
        )

    def explain_group(self, key: str) -> "GroupDocument | None":
        """Why a group of pods waits, by its key; None if nothing is known of it."""
        return run_at_once(self.group_steps(key))

    def group_steps(self, key: str) -> "Generator[None, None, GroupDocument | None]":
        """The same in steps."""
        from stowplan.explain.explainers.group import GroupExplainer

        groups = self.table.groups
        first = next((pod for pod in self.pending.values() if groups.key_of(pod) == key), None)
        framework = next(iter(self.frameworks.values())) if first is None else self._framework(first)
        gates = self.settings.gates
        explainer = GroupExplainer(
            framework,
            self.source,
            self._nominations(),
            placements=gates["TopologyAwareWorkloadScheduling"],
            own_policy=gates["PodGroupPreemptionPolicy"],
        )
        return explainer.steps(key)

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


class _First(Random):
    """No choice at all."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


def _settings(config: str | Path | None, plugins: Sequence[type[Plugin]]) -> Settings:
    loaded = load_file(config) if isinstance(config, Path) else None if config is None else load(config)
    return Settings.of(loaded, plugins)
