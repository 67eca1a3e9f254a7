"""The simulator's cluster for tests of plugins: builders, decisions, and pods that wait at Permit."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec

from stowplan.api.decode import Given, as_object
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.releases import DEFAULT, Release
from stowplan.api.releases import release as release_of
from stowplan.config import LoadedConfig, build, load, load_file
from stowplan.config.types import API_VERSION, KIND
from stowplan.explain.document.decision import Decision
from stowplan.explain.recorded import decide
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import Plugin, Services
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.registry import Registry, load_plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.settings import Settings
from stowplan.simulate.cluster import Cluster as SimulatedCluster
from stowplan.simulate.scheduling import pods_of
from stowplan.testing.binding import Binder, RecordedEvent, TestClock, TestServices
from stowplan.testing.builders import NodeBuilder, PodBuilder

AnyNode = Node | NodeBuilder
AnyPod = Pod | PodBuilder
Config = str | Path | Mapping[str, Any] | ProfileSpec | None
AnyPlugin = type[Plugin] | str


class Cluster:
    """Nodes, pods and a scheduler's profiles. Made by `cluster`."""

    def __init__(self, settings: Settings, seed: int, reuse: bool) -> None:
        self._services = services = TestServices(self)
        self._host = SimulatedCluster(
            settings=settings, seed=seed, reuse=reuse, services=cast(Services, services)
        )
        self.table = self._host.table
        self.frameworks = self._host.frameworks
        self._binder = Binder(services, self._host, settings.registry.own)
        self._rng = Random(seed)

    def add(self, *objects: Given) -> None:
        """Take in nodes, pods that run on one, and other objects, new or changed."""
        for obj in map(as_object, objects):
            if isinstance(obj, Pod) and not obj.spec.node_name:
                raise ValueError(f"pod {obj.key}: expected one that is on a node; others go to schedule()")
            self._host.add(obj)

    def remove(self, *objects: Given) -> None:
        """Forget objects again. Pods of a removed node are removed with it."""
        self._host.remove(*objects)

    def evaluate(self, pod: AnyPod) -> Evaluation:
        """Filter and score every node. The result is valid until the cluster changes.

        Raises PluginError if a plugin fails.
        """
        obj = _pod(pod)
        nominated = obj.status.nominated_node_name
        row = self.table.row_of(nominated) if nominated else None
        return self._framework(obj).evaluate(self.table.info(obj), nominated_row=row)

    def decide(self, pod: AnyPod, top: int = 5) -> Decision:
        """Decision for a pod in the current state. Changes nothing except later random choices."""
        return decide(self.evaluate(pod), self._rng.randrange, top)

    def schedule(self, pod: AnyPod, top: int = 5) -> Decision:
        """Find a node for a pod and put it there. The decision says which node, or why none.

        Reserve, Permit, PreBind and PostBind plugins are called as in a scheduler, but at once; in-tree ones
        that would write to the API server are not. A pod that waits at Permit has its node and is `waiting`
        until plugins allow it (then it is bound), or turn it away, or it has waited too long.
        """
        obj = _pod(pod)
        evaluation = self.evaluate(obj)
        decision = decide(evaluation, self._rng.randrange, top)
        if decision.node is None:
            return decision
        info = self.table.info(obj)
        self._host.assume(info, decision.node)
        status = self._binder.hold(self._framework(obj), evaluation.cycle, info, decision.node)
        self._binder.settle()
        if status.is_success or status.code is Code.WAIT:
            return decision
        return msgspec.structs.replace(decision, node=None, message=status.message)

    def objects(self, kind: str) -> Mapping[str, Object]:
        """The objects of a kind, as `handle.objects` has them. Raises LookupError if no plugin registered."""
        return self._host.lookup(kind)

    @property
    def clock(self) -> TestClock:
        """The clock of plugins, `handle.scheduler.clock`. It stands still; see `advance`."""
        return self._services.clock

    def advance(self, seconds: float) -> None:
        """Let time pass: pods that have waited at Permit for too long are turned away."""
        self._services.clock.advance(seconds)
        self._binder.settle()

    @property
    def waiting(self) -> dict[str, list[str]]:
        """The pods that wait at Permit, by key, and the plugins they wait for."""
        return {held.pod.key: held.pending_plugins for held in self._services.waiting}

    @property
    def rejected(self) -> dict[str, str]:
        """The pods that were turned away while they waited at Permit, by key, and why."""
        return dict(self._binder.rejections)

    @property
    def events(self) -> list[RecordedEvent]:
        """The events that plugins recorded."""
        return list(self._services.events)

    def pods_on(self, node_name: str) -> list[str]:
        """The keys (`namespace/name`) of the pods on a node."""
        return [pod.key for pod in self._host.pods_on(node_name)]

    def _framework(self, pod: Pod) -> Framework:
        name = pod.spec.scheduler_name
        found = self.frameworks.get(name)
        if found is None:
            raise LookupError(
                f"pod {pod.key}: no profile for scheduler {name!r}, there is {', '.join(self.frameworks)}"
            )
        return found


def cluster(
    nodes: Iterable[AnyNode] = (),
    pods: Iterable[AnyPod] = (),
    *,
    objects: Iterable[Given] = (),
    config: Config = None,
    plugins: Iterable[AnyPlugin] = (),
    seed: int = 0,
    reuse: bool = True,
    release: str = DEFAULT.name,
) -> Cluster:
    """A cluster with nodes, pods that run on them, and other objects.

    All are given as objects, builders or manifests (maps), custom resources as manifests.
    `config` is a KubeSchedulerConfiguration: its text, a path, or the same as a map; or a resolved profile.
    `plugins` are classes or references such as `module:Class`; without a config they join the default
    profile, with one it says whether and how they are used. `seed` decides among equally good nodes.
    With `reuse=False` no result is reused between pods, to check a plugin's declarations. `release` is that
    of Kubernetes, such as "1.36".
    """
    classes = [load_plugin(plugin) if isinstance(plugin, str) else plugin for plugin in plugins]
    registry = in_tree_registry().with_plugins(classes)
    made = Cluster(_settings(config, registry, release_of(release)), seed, reuse)
    made.add(*objects, *nodes, *pods)
    return made


def _settings(config: Config, registry: Registry, release: Release) -> Settings:
    if isinstance(config, ProfileSpec):
        built = replace(build(loaded_config(None, [], release)), profiles=(config,))
    else:
        built = build(loaded_config(config, list(registry.added), release), registry)
    return Settings(built, FeatureGates(release=release), registry)


def profiles_of(config: Config, registry: Registry, release: Release = DEFAULT) -> Sequence[ProfileSpec]:
    """The profiles of a configuration; without one, the default profile with the plugins that were added."""
    if isinstance(config, ProfileSpec):
        return (config,)
    loaded = loaded_config(config, list(registry.added), release)
    return build(loaded, registry).profiles


def loaded_config(
    config: str | Path | Mapping[str, Any] | None, added: list[str], release: Release = DEFAULT
) -> LoadedConfig:
    """A configuration; without one, the default configuration with the plugins that were added."""
    if config is None:
        config = _joining(added)
    gates = FeatureGates(release=release)
    if isinstance(config, Path):
        return load_file(config, gates)
    return load(config if isinstance(config, str) else json.dumps(config), gates)


def _joining(names: list[str]) -> Mapping[str, Any]:
    """The default configuration with some plugins more."""
    enabled = [{"name": name} for name in names]
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}


def _pod(given: Given) -> Pod:
    [pod] = pods_of(given)
    return pod
