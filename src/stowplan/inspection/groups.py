"""What is told about groups of pods: all of them as lines, members and queue of one, its domains by node."""

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import INITIALLY_SCHEDULED, GroupObject
from stowplan.clock import as_date
from stowplan.cluster.pod_groups import GroupTree, PodGroups, PodGroupState
from stowplan.explain.states import INCOMPLETE, PLACED, WAITING
from stowplan.framework.placement import Placement
from stowplan.inspection.nodes import node_rows
from stowplan.queue.queued_group import QueuedGroup
from stowplan.scheduler import Scheduler

MOST_MEMBERS: Final = 2000
"""How many members of a group are listed."""

KINDS: Final = {"podgroup": "PodGroup", "compositepodgroup": "CompositePodGroup"}
_ORDER: Final = (WAITING, INCOMPLETE, PLACED)


def namespaces(groups: PodGroups) -> set[str]:
    """The namespaces that have groups."""
    return {key.split("/")[1] for key in groups.all_keys()}


def group_lines(scheduler: Scheduler, visible: Collection[str], search: str) -> list[dict[str, Any]]:
    """All groups whose name contains a text, those first that wait; nothing is tried for that."""
    groups = scheduler.context.cache.table.groups
    wanted = search.lower()
    lines = [
        group_line(scheduler, key)
        for key in groups.all_keys()
        if key.split("/")[1] in visible and wanted in key.split("/", 1)[1]
    ]
    return sorted(lines, key=lambda line: (_ORDER.index(line["state"]), line["since"] or "~", line["group"]))


def group_line(scheduler: Scheduler, key: str) -> dict[str, Any]:
    """A group as one line of a list: what it asks for, how many of its pods have a node, where it waits."""
    groups = scheduler.context.cache.table.groups
    kind, namespace, name = key.split("/")
    obj = groups.object(key)
    leaves = [state for leaf in _leaves(groups, key) if (state := groups.group(leaf)) is not None]
    parent = None if obj is None else groups.parent_of(obj)
    return {
        "group": f"{namespace}/{name}",
        "kind": KINDS[kind],
        "state": _state(groups, key, obj),
        "policy": None if obj is None else "gang" if obj.is_gang else "basic",
        "minimum": None if obj is None else obj.minimum,
        "priority": None if obj is None else obj.priority,
        "topologyKey": (obj.topology_key or None) if obj is not None else None,
        "pods": sum(state.all_count for state in leaves),
        "scheduled": sum(state.scheduled_count for state in leaves),
        "parent": None if parent is None else parent.split("/", 1)[1],
        "created": None if obj is None else obj.metadata.creation_timestamp,
        "message": _message(obj),
        **_queue(scheduler, leaves),
    }


def group_facts(scheduler: Scheduler, key: str) -> dict[str, Any]:
    """What the explanation of a group does not have: the line of it, its members and where they are."""
    groups = scheduler.context.cache.table.groups
    line = group_line(scheduler, key)
    found: list[dict[str, Any]] = []
    for leaf in _leaves(groups, key):
        state = groups.group(leaf)
        for pod in () if state is None else list(state.pods.values())[: MOST_MEMBERS - len(found)]:
            found.append({"pod": pod.key, "node": _node_of(scheduler, pod), "group": leaf.split("/", 1)[1]})
    names = ("priority", "parent", "created", "place", "since", "until", "attempts", "heldBy")
    return {
        **{name: line[name] for name in names},
        "members": sorted(found, key=lambda one: (one["group"], one["node"] is not None, one["pod"])),
    }


def group_map(scheduler: Scheduler, key: str, placements: Collection[Placement]) -> dict[str, Any]:
    """By node, in the order of `/nodes`: which domain it is in (-1: none), and how many members are on it."""
    table = scheduler.context.cache.table
    rows = node_rows(table)
    domains = [(one.name, one.rows_of(table)) for one in placements] or _labelled(scheduler, key)
    column = np.full(max(table.capacity, 1), -1, dtype=np.int64)
    for place in reversed(range(len(domains))):
        column[domains[place][1]] = place
    members = np.zeros(max(table.capacity, 1), dtype=np.int64)
    for leaf in _leaves(table.groups, key):
        state = table.groups.group(leaf)
        for uid in () if state is None else state.scheduled:
            info = table.pods.get(uid)
            if info is not None and info.row >= 0:
                members[info.row] += 1
    return {
        "domains": [name for name, _ in domains],
        "nodes": column[rows].tolist(),
        "members": members[rows].tolist(),
    }


def _labelled(scheduler: Scheduler, key: str) -> list[tuple[str, Any]]:
    """The domains of a group that nothing is to be tried for: the values of its topology label."""
    table = scheduler.context.cache.table
    obj = table.groups.object(key)
    label = "" if obj is None else obj.topology_key
    found: dict[str, list[int]] = {}
    for row in node_rows(table) if label else ():
        node = table.nodes[row]
        value = None if node is None else node.metadata.labels.get(label)
        if value is not None:
            found.setdefault(value, []).append(row)
    return [(value, found[value]) for value in sorted(found)]


def _leaves(groups: PodGroups, key: str) -> Iterator[str]:
    """The keys of the PodGroups below a group, or its own."""
    if key.startswith("podgroup/"):
        yield key
        return
    tree: GroupTree | None = groups.tree(key)
    yield from () if tree is None else [leaf.key for leaf in tree.leaves]


def _state(groups: PodGroups, key: str, obj: GroupObject | None) -> str:
    """`placed`, `incomplete` or `waiting`, by what is known without trying anything."""
    state = groups.group(key)
    if obj is None:
        return INCOMPLETE
    if state is not None:
        if state.all_count < obj.minimum:
            return INCOMPLETE
        return WAITING if state.unscheduled else PLACED
    tree = groups.tree(key)
    states = [] if tree is None else [_state(groups, child.key, child.obj) for child in tree.children]
    if len(states) < obj.minimum:
        return INCOMPLETE
    return PLACED if states.count(PLACED) >= obj.minimum else WAITING


def _message(obj: GroupObject | None) -> str:
    """What the scheduler last said about a group that it could not place."""
    conditions = () if obj is None else obj.status.conditions
    return next(
        (one.message for one in conditions if one.type == INITIALLY_SCHEDULED and one.status == "False"), ""
    )


def _queue(scheduler: Scheduler, leaves: Collection[PodGroupState]) -> dict[str, Any]:
    """Where a group waits, since when, until when at the latest, and how often it was tried."""
    context = scheduler.context
    first = next((pod for state in leaves for pod in state.unscheduled_pods), None)
    queued = None if first is None else context.queue.get(first.key)
    if first is None or queued is None:
        return {"place": None, "since": None, "until": None, "attempts": 0, "heldBy": ""}
    entity = queued.group if isinstance(queued.group, QueuedGroup) else queued
    until = context.queue.next_try(first.key)
    return {
        "place": context.queue.place_of(first.key),
        "since": timestamp(as_date(context.clock, entity.timestamp)),
        "until": None if until is None else timestamp(as_date(context.clock, until)),
        "attempts": entity.attempts,
        "heldBy": "" if entity.gate is None else entity.gate.message,
    }


def _node_of(scheduler: Scheduler, pod: Pod) -> str | None:
    return pod.spec.node_name or scheduler.context.cache.assumed.get(pod.metadata.uid)
