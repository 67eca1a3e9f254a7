"""Changes to try on a cluster: of nodes, of workloads, of the scheduler. From options or from a file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.labels import SelectorError, parse_selector
from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod
from stowplan.api.rules.taints import NO_EXECUTE, untolerated
from stowplan.localcluster.kubelets.config import EFFECTS, NamedNode, named_nodes
from stowplan.simulate.budgets import Budgets, Drained, drain
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.creation.applying import kind_and_name, pods_of
from stowplan.simulate.creation.manifests import Manifests, read_manifests
from stowplan.simulate.daemons import daemons_of, put_daemons
from stowplan.simulate.outcome import Eviction, Outcome
from stowplan.simulate.scheduling import has_controller, is_daemon
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place, read_document
from stowplan.simulate.snapshot.shapes import objects_of, shapes_at

Names = str | list[str]
_SELECTING: Final = ("=", "!", " in ", " notin ")


class ChangeError(SnapshotError):
    """A change that cannot be made; the message is one line that names it."""


class Tainting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: Names
    taints: Names


class Labelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: Names
    labels: dict[str, str | None]


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One change: exactly one of the fields is set.

    Nodes are given by name or by a label selector; workloads as `deployment/web`. `add_nodes` are shapes, the
    name of a file of shapes, or `{node: count}` for copies of nodes.
    """

    drain: Names | None = None
    cordon: Names | None = None
    uncordon: Names | None = None
    remove: Names | None = None
    add_nodes: str | list[Any] | dict[str, int] | None = None
    taint: Tainting | None = None
    label: Labelling | None = None
    scale: dict[str, int] | None = None
    apply: Names | None = None
    delete: Names | None = None
    priority: dict[str, int] | None = None
    config: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    changes: list[Change]


def read_changes(path: Path) -> list[Change]:
    """The changes of a file. Raises SnapshotError with file, line and field."""
    found, place = read_document(path, _File)
    for number, change in enumerate(found.changes):
        if len(change.fields) != 1:
            names = ", ".join(msgspec.structs.fields(Change)[i].encode_name for i in range(12))
            raise place.wrong(f"changes[{number}]", f"expected exactly one of {names}")
    return [_beside(path, change) for change in found.changes]


def _beside(path: Path, change: Change) -> Change:
    """Files that a change names stand beside its own."""
    if change.apply is not None:
        return replace(change, apply=[str(path.parent / one) for one in _listed(change.apply)])
    if isinstance(change.add_nodes, str):
        return replace(change, add_nodes=str(path.parent / change.add_nodes))
    return replace(change, config=str(path.parent / change.config)) if change.config else change


def applied_manifests(changes: Iterable[Change], namespace: str) -> Manifests:
    """Everything that changes apply. Raises SnapshotError."""
    files = [file for change in changes for file in _listed(change.apply or [])]
    return read_manifests([Path(file) for file in files], namespace)


def make(cluster: Cluster, change: Change, namespace: str, budgets: Budgets) -> Drained:
    """Make one change of a cluster and schedule what has to be. Raises ChangeError, NoSuchObjectError."""
    [(field, value)] = change.fields.items()
    try:
        if field == "drain":
            return drain(cluster, node_names(cluster, value), budgets)
        return Drained(_make(cluster, field, value, namespace))
    except ValueError as error:
        if isinstance(error, SnapshotError):
            raise
        raise ChangeError(f"{field}: {error}") from None


def _make(cluster: Cluster, field: str, value: Any, namespace: str) -> Outcome:
    outcome = Outcome()
    match field:
        case "cordon":
            cluster.cordon(*node_names(cluster, value))
        case "uncordon":
            cluster.uncordon(*node_names(cluster, value))
        case "remove":
            outcome.extend(remove_nodes(cluster, node_names(cluster, value)))
        case "add_nodes":
            daemons = daemons_of(cluster)
            added = new_nodes(cluster, value)
            cluster.add(*added)
            outcome.placed |= put_daemons(
                cluster, daemons, [one.name for one in added if isinstance(one, Node)]
            )
        case "taint":
            for name in node_names(cluster, value.nodes):
                outcome.extend(taint(cluster, name, [parse_taint(one) for one in _listed(value.taints)]))
        case "label":
            for name in node_names(cluster, value.nodes):
                cluster.label(name, value.labels)
        case "scale":
            for title, replicas in value.items():
                outcome.extend(cluster.scale(title, replicas, namespace=namespace))
        case "apply":
            outcome.extend(cluster.apply(*_listed(value), namespace=namespace))
        case "delete":
            for title in _listed(value):
                outcome.extend(delete(cluster, title, namespace))
        case "priority":
            for title, priority in value.items():
                reprioritize(cluster, title, priority, namespace)
        case _:
            raise ChangeError(f"{field}: expected to be the only change")
    return outcome


def node_names(cluster: Cluster, nodes: Names) -> list[str]:
    """The nodes that are meant, by names or label selectors. Raises ChangeError, NoSuchObjectError."""
    found: dict[str, None] = {}
    for one in _listed(nodes):
        if any(mark in one for mark in _SELECTING):
            found.update(dict.fromkeys(selected_nodes(cluster, one)))
        else:
            found[cluster.node(one).name] = None
    return list(found)


def selected_nodes(cluster: Cluster, text: str, field: str = "nodes") -> list[str]:
    """The nodes that a label selector selects, at least one. Raises ChangeError."""
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        raise ChangeError(f"{field} {text}: {error}") from None
    chosen = sorted(node.name for node in cluster.nodes if selector.matches(node.metadata.labels))
    if not chosen:
        raise ChangeError(f"{field} {text}: no node has these labels")
    return chosen


def parse_taint(text: str) -> Taint:
    """`key=value:Effect`, as kubectl writes it. Raises ChangeError."""
    body, colon, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    if not colon or not key or effect not in EFFECTS:
        raise ChangeError(f"taint: expected key=value:Effect with one of {', '.join(EFFECTS)}, got {text!r}")
    return Taint(key=key, value=value, effect=effect)


def taint(cluster: Cluster, name: str, taints: Sequence[Taint]) -> Outcome:
    """Taint a node; pods that do not tolerate NoExecute are evicted, whatever budgets say."""
    cluster.taint(name, *taints)
    if not any(one.effect == NO_EXECUTE for one in taints):
        return Outcome()
    going = [
        pod.key
        for pod in cluster.pods_on(name)
        if untolerated(tuple(taints), pod.spec.tolerations, (NO_EXECUTE,)) is not None
    ]
    return cluster.evict(*going, by="taint")


def remove_nodes(cluster: Cluster, names: Sequence[str]) -> Outcome:
    """Remove nodes; what controllers create instead of their pods is scheduled."""
    outcome = Outcome()
    replacements = []
    for name in names:
        for pod in cluster.remove_node(name):
            if is_daemon(pod):
                continue
            outcome.evictions.append(Eviction(pod.key, name, "remove"))
            if has_controller(pod):
                replacements.append(cluster.replacement(pod))
            else:
                outcome.lost.append(pod.key)
    outcome.extend(cluster.schedule(replacements))
    return outcome


def new_nodes(cluster: Cluster, wanted: str | list[Any] | dict[str, int]) -> list[Any]:
    """Nodes of shapes, or copies of nodes. Raises SnapshotError, NoSuchObjectError."""
    if isinstance(wanted, dict):
        return [
            copy for name, count in wanted.items() for copy in _copies(cluster, cluster.node(name), count)
        ]
    if isinstance(wanted, str):
        data, place = read_document(Path(wanted), object)
    else:
        data, place = {"nodes": wanted}, Place("addNodes", "")
    nodes: list[NamedNode] = []
    for node in named_nodes(shapes_at(data, place)):
        name, number = node.name, 0
        while cluster.table.row_of(name) is not None:
            number += 1
            name = f"{node.name}-new-{number}"
        nodes.append(node._replace(name=name))
    return objects_of(nodes)


def _copies(cluster: Cluster, node: Node, count: int) -> Iterable[Node]:
    number = 0
    while count > 0:
        name = f"{node.name}-copy-{number}"
        number += 1
        if cluster.table.row_of(name) is not None:
            continue
        labels = {**node.metadata.labels}
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = name
        metadata = replace(node.metadata, name=name, uid=f"node-{name}", labels=labels)
        yield replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False))
        count -= 1


def delete(cluster: Cluster, title: str, namespace: str) -> Outcome:
    """Delete a workload with its pods; a pod that has a controller is created anew."""
    pods = pods_of(cluster, title, namespace)
    if kind_and_name(title)[0] == "Pod" and pods[0].key not in cluster.pending:
        return cluster.evict(pods[0].key, by="delete")
    for pod in pods:
        cluster.remove_pod(pod.key)
    return Outcome()


def reprioritize(cluster: Cluster, title: str, priority: int, namespace: str) -> None:
    """Give the pods of a workload another priority, where they are."""
    for pod in pods_of(cluster, title, namespace):
        known = cluster.pod(pod.key)
        cluster.remove_pod(pod.key)
        cluster.add(replace(known, spec=replace(known.spec, priority=priority)))


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else names


def movable(pod: Pod) -> bool:
    """True if a pod can be placed anew: its controller would create it again, and not for its node."""
    return has_controller(pod) and not is_daemon(pod)
