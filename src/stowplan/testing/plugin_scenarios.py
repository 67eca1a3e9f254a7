"""Random small clusters with a plugin in their profile, pods to schedule, and something that changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.api.decode import Given, as_object
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ClusterEvent,
)
from stowplan.scheduler.framework.interface import (
    ExtensionPoint,
    Plugin,
    points_of,
)
from stowplan.scheduler.framework.known_objects import KnownObjects
from stowplan.scheduler.framework.profile import PluginUse, ProfileSpec, resolve_plugins
from stowplan.scheduler.framework.registry import Registry, checked, load_plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import default_plugins, in_tree_points, in_tree_registry
from stowplan.scheduler.queue.cluster_events import UpdateEvents
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster_strategies as some
from stowplan.testing.builders import HOSTNAME, NodeBuilder, PodBuilder, builder_text
from stowplan.testing.clusters import AnyNode, AnyPlugin, AnyPod, Config, profiles_of

Pods = st.SearchStrategy[Any] | Iterable[AnyPod] | None
Nodes = st.SearchStrategy[Any] | Iterable[AnyNode] | None


@dataclass(frozen=True)
class Subject:
    """The plugin and its profiles: together with the others, and alone."""

    cls: type[Plugin]
    profile: ProfileSpec
    alone: ProfileSpec
    registry: Registry
    objects: tuple[Object, ...] = ()

    @property
    def name(self) -> str:
        return self.cls.name

    def framework(self, table: ClusterTable, *, alone: bool = False) -> Framework:
        profile = self.alone if alone else self.profile
        return Framework(profile, table, self.registry, reuse=False, lookup=self.known.of)

    @cached_property
    def known(self) -> KnownObjects:
        """The objects besides nodes and pods, which are the same in all clusters."""
        known = KnownObjects()
        for obj in self.objects:
            known.put(obj)
        return known


def subject_of(plugin: AnyPlugin, args: Any, config: Config, objects: Iterable[Given] = ()) -> Subject:
    cls = load_plugin(plugin) if isinstance(plugin, str) else checked(getattr(plugin, "__name__", ""), plugin)
    registry = in_tree_registry()
    if registry.get(cls.name) is not cls:
        registry = registry.with_plugins([cls])
    implements = {**in_tree_points(), **registry.offered}
    if config is None:
        sorts = ExtensionPoint.QUEUE_SORT in points_of(cls)
        others = [
            use
            for use in default_plugins()
            if use.name != cls.name
            and not (sorts and ExtensionPoint.QUEUE_SORT in implements.get(use.name, ()))
        ]
        usual = [use for use in default_plugins() if use.name == cls.name]
        uses = [*others, *(usual or [PluginUse(cls.name, 1)])]
        profile = ProfileSpec(
            "default-scheduler", plugins=resolve_plugins("default-scheduler", {}, uses, implements)
        )
    else:
        profile = _profile_with(cls.name, profiles_of(config, registry))
    if args is not None:
        profile = _with_args(profile, {**profile.args, cls.name: args})
    needed = ["DefaultBinder"]
    if ExtensionPoint.QUEUE_SORT not in points_of(cls):
        needed.append("PrioritySort")
    names = dict.fromkeys((*needed, cls.name))
    plugins = resolve_plugins("alone", {}, [PluginUse(name, 1) for name in names], implements)
    alone = ProfileSpec("alone", plugins=plugins, args=profile.args)
    return Subject(cls, profile, alone, registry, tuple(map(as_object, objects)))


def _profile_with(name: str, profiles: Sequence[ProfileSpec]) -> ProfileSpec:
    for profile in profiles:
        if any(use.name == name for uses in profile.plugins.values() for use in uses):
            return profile
    raise ValueError(f"config: expected a profile that enables plugin {name}")


def _with_args(profile: ProfileSpec, args: Mapping[str, Any]) -> ProfileSpec:
    return ProfileSpec(profile.scheduler_name, plugins=profile.plugins, args=args)


def pod_templates(given: Pods) -> st.SearchStrategy[Pod]:
    """Pods without a name and a node."""
    if given is None:
        return some.pods()
    return _chosen(given, "pods").map(_template)


def _template(given: AnyPod) -> Pod:
    pod = given.obj() if isinstance(given, PodBuilder) else given
    return deepcopy(replace(pod, spec=replace(pod.spec, node_name="")))


def named_nodes(given: Nodes) -> st.SearchStrategy[Node]:
    """Nodes with one of a few names, so that one comes in the place of another."""
    if given is None:
        return some.any_node
    return st.builds(renamed, _chosen(given, "nodes"), some.node_names)


def renamed(given: AnyNode, name: str) -> Node:
    node = deepcopy(given.obj() if isinstance(given, NodeBuilder) else given)
    labels = dict(node.metadata.labels)
    if labels.get(HOSTNAME) == node.name:
        labels[HOSTNAME] = name
    return replace(node, metadata=replace(node.metadata, name=name, labels=labels))


def _chosen(given: Any, what: str) -> st.SearchStrategy[Any]:
    if isinstance(given, st.SearchStrategy):
        return given
    choices = list(given)
    if not choices:
        raise ValueError(f"{what}: expected a strategy or at least one builder")
    return st.sampled_from(choices)


@dataclass(frozen=True)
class Change:
    """One object before and after; with `own` it is the pod that waits to be scheduled."""

    old: Node | Pod | None
    new: Node | Pod | None
    own: bool = False

    def apply(self, table: ClusterTable) -> None:
        match self.old, self.new:
            case _ if self.own:
                pass
            case _, Node() as node:
                table.put_node(node)
            case _, Pod() as pod:
                table.put_pod(pod)
            case Node() as node, None:
                table.remove_node(node.name)
            case Pod() as pod, None:
                table.remove_pod(pod.metadata.uid)

    def events(self, gates: FeatureGates = DEFAULT_GATES) -> list[ClusterEvent]:
        match self.old, self.new:
            case Node() as old, Node() as new:
                return UpdateEvents(gates).of_node(old, new)
            case Pod() as old, Pod() as new:
                return UpdateEvents(gates).of_pod(old, new, is_target=self.own)
            case None, Node():
                return [NODE_ADD]
            case Node(), None:
                return [NODE_DELETE]
            case None, Pod():
                return [ASSIGNED_POD_ADD]
        return [ASSIGNED_POD_DELETE]

    def text(self) -> str:
        if self.old is None:
            assert self.new is not None
            return f"{builder_text(self.new)} is added"
        gone = builder_text(self.old)
        return f"{gone} is removed" if self.new is None else f"{gone} becomes {builder_text(self.new)}"


@dataclass(frozen=True)
class Scenario:
    """A cluster, two pods to schedule that may be identical, others that may be nominated, and changes, each
    of which may be the next one."""

    nodes: list[Node]
    running: list[Pod]
    pods: list[Pod]
    others: list[Pod]
    changes: list[Change]
    objects: tuple[Object, ...] = ()

    def table(self) -> ClusterTable:
        """The cluster, with a row whose node is gone.

        This is a bare table and not a `simulate.Cluster`, the host of everything else, because three of the
        checks look at what the host hides. Pods stay on a row whose node is gone: `Cluster.remove_node` takes
        them along. A change of a pod is one step, after which the logs of changed rows are read: the host
        takes the pod off and puts it back. And over one table there are, at the same time, the whole profile
        and the plugin alone (`Subject.framework`), without kept results, made anew for each question: a host
        has one framework for each profile as long as it lives.
        """
        table = ClusterTable()
        for obj in self.objects:
            table.put(obj)
        for node in self.nodes:
            table.put_node(node)
        table.put_node(renamed(self.nodes[0], "gone"))
        for pod in self.running:
            table.put_pod(pod)
        table.remove_node("gone")
        return table

    def lines(self, *pods: Pod, change: Change | None = None) -> list[str]:
        """The cluster in builders."""
        found = ["nodes:", *_indented(self.nodes)]
        if self.running:
            found += ["running pods:", *_indented(self.running)]
        if pods:
            found += ["pod to schedule:" if len(pods) == 1 else "pods to schedule:", *_indented(pods)]
        if change is not None:
            found += ["then:", f"    {change.text()}"]
        return found


def _indented(objects: Iterable[Node | Pod]) -> list[str]:
    return [f"    {builder_text(obj)}" for obj in objects]


@st.composite
def scenarios(
    draw: st.DrawFn,
    pods: st.SearchStrategy[Pod],
    nodes: st.SearchStrategy[Node],
    objects: tuple[Object, ...] = (),
) -> Scenario:
    made = draw(st.lists(nodes, min_size=1, max_size=4, unique_by=lambda node: node.name))
    names = st.sampled_from([node.name for node in made])
    running = [named(pod, f"r{n}", draw(names)) for n, pod in enumerate(draw(st.lists(pods, max_size=4)))]
    first, second = draw(pods), draw(pods)
    parts = draw(st.sampled_from(["nothing", "labels", "annotations", "metadata", "spec", "all"]))
    pending = [named(first, "p1"), named(mixed(first, second, parts), "p2")]
    others = [named(pod, f"o{n}") for n, pod in enumerate(draw(st.lists(pods, min_size=1, max_size=2)))]
    one_change = _changes(made, running, pending[0], pods, nodes)
    changes = draw(st.lists(one_change, min_size=1, max_size=4))
    pairs = draw(st.lists(st.tuples(st.sampled_from(made), nodes), min_size=1, max_size=3))
    changes += [change for old, other in pairs for change in _node_changes(old, other)]
    return deepcopy(Scenario(made, running, pending, others, changes, objects))


def _node_changes(old: Node, other: Node) -> Iterator[Change]:
    """A node becomes like another, one part at a time."""
    for part in ("labels", "annotations", "spec", "status", "all"):
        new = mixed(old, renamed(other, old.name), part)
        if new != old:
            yield Change(old, new)


@st.composite
def _changes(
    draw: st.DrawFn,
    made: list[Node],
    running: list[Pod],
    pending: Pod,
    pods: st.SearchStrategy[Pod],
    nodes: st.SearchStrategy[Node],
) -> Change:
    kinds = ["node comes", "pod comes", "pod itself changes"]
    kinds += ["pod goes", "pod changes"] if running else []
    taken = {pod.spec.node_name for pod in running}
    empty = [node for node in made if node.name not in taken]
    kinds += ["node goes"] if empty and len(made) > 1 else []
    match draw(st.sampled_from(kinds)):
        case "node comes":
            return Change(None, renamed(draw(nodes), "new"))
        case "node goes":
            return Change(draw(st.sampled_from(empty)), None)
        case "pod comes":
            return Change(None, named(draw(pods), "new", draw(st.sampled_from(made)).name))
        case "pod goes":
            return Change(draw(st.sampled_from(running)), None)
        case "pod changes":
            before = draw(st.sampled_from(running))
            return Change(before, mixed(before, draw(pods), draw(st.sampled_from(["labels", "annotations"]))))
    return Change(
        pending, mixed(pending, draw(pods), draw(st.sampled_from(["labels", "annotations"]))), own=True
    )


def named(template: Pod, name: str, node: str = "") -> Pod:
    meta = replace(template.metadata, name=name, uid=f"uid-{name}")
    return replace(template, metadata=meta, spec=replace(template.spec, node_name=node))


def mixed(one: Any, other: Any, parts: str) -> Any:
    """An object with some parts of another."""
    if parts in ("labels", "annotations"):
        changes: dict[str, Any] = {parts: getattr(other.metadata, parts)}
        return replace(one, metadata=replace(one.metadata, **changes))
    if parts == "metadata":
        labels, annotations = other.metadata.labels, other.metadata.annotations
        return replace(one, metadata=replace(one.metadata, labels=labels, annotations=annotations))
    if parts == "all":
        return replace(mixed(one, other, "metadata"), spec=other.spec, status=other.status)
    return one if parts == "nothing" else replace(one, **{parts: getattr(other, parts)})
