"""Documents about pod groups: all of them as lines, members and queue of one, its domains by node."""

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import INITIALLY_SCHEDULED, GroupObject
from stowplan.explain.document.cluster import GroupLine, GroupMap
from stowplan.explain.document.group import GroupDocument, MemberOfGroup
from stowplan.explain.states import INCOMPLETE, PLACED, WAITING
from stowplan.explain.web.nodes import node_rows
from stowplan.runtime.clock import as_date
from stowplan.scheduler import Scheduler
from stowplan.scheduler.framework.pod_groups.placement import Placement
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.table.pod_groups import GroupTree, PodGroups

MOST_MEMBERS: Final = 2000
"""How many members of a group are listed."""

KINDS: Final = {"podgroup": "PodGroup", "compositepodgroup": "CompositePodGroup"}
_ORDER: Final = (WAITING, INCOMPLETE, PLACED)


def namespaces(groups: PodGroups) -> set[str]:
    """The namespaces that have groups."""
    return {key.split("/")[1] for key in groups.all_keys()}


def group_lines(scheduler: Scheduler, visible: Collection[str], search: str) -> list[GroupLine]:
    """All groups whose name contains a text, those first that wait; nothing is tried for that."""
    groups = scheduler.context.cache.table.groups
    wanted = search.lower()
    totals = _Totals(groups)
    lines = [
        group_line(scheduler, key, totals)
        for key in groups.all_keys()
        if key.split("/")[1] in visible and wanted in key.split("/", 1)[1]
    ]
    return sorted(lines, key=lambda line: (_ORDER.index(line.state), line.since or "~", line.group))


def group_line(scheduler: Scheduler, key: str, totals: "_Totals | None" = None) -> GroupLine:
    """A group as one line of a list: what it asks for, how many of its pods have a node, where it waits."""
    groups = scheduler.context.cache.table.groups
    kind, namespace, name = key.split("/")
    obj = groups.object(key)
    total = (totals or _Totals(groups)).of(key)
    parent = None if obj is None else groups.parent_of(obj)
    queued = _in_queue(scheduler, total.first)
    return GroupLine(
        group=f"{namespace}/{name}",
        kind=KINDS[kind],
        state=total.state,
        policy=None if obj is None else "gang" if obj.is_gang else "basic",
        minimum=None if obj is None else obj.minimum,
        priority=None if obj is None else obj.priority,
        topology_key=(obj.topology_key or None) if obj is not None else None,
        pods=total.pods,
        scheduled=total.scheduled,
        parent=None if parent is None else parent.split("/", 1)[1],
        created=None if obj is None else obj.metadata.creation_timestamp,
        message=_message(obj),
        place=queued.place,
        since=queued.since,
        until=queued.until,
        attempts=queued.attempts,
        held_by=queued.held_by,
    )


def with_queue_and_members(found: GroupDocument, scheduler: Scheduler, key: str) -> GroupDocument:
    """The document with what only a running scheduler knows: queue, members and their nodes."""
    groups = scheduler.context.cache.table.groups
    line = group_line(scheduler, key)
    members: list[MemberOfGroup] = []
    for leaf in _leaves(groups, key):
        state = groups.group(leaf)
        for pod in () if state is None else list(state.pods.values())[: MOST_MEMBERS - len(members)]:
            members.append(MemberOfGroup(pod.key, _node_of(scheduler, pod), leaf.split("/", 1)[1]))
    return replace(
        found,
        priority=line.priority,
        parent=line.parent,
        created=line.created,
        place=line.place,
        since=line.since,
        until=line.until,
        attempts=line.attempts,
        held_by=line.held_by,
        members=tuple(sorted(members, key=lambda one: (one.group, one.node is not None, one.pod))),
    )


def group_map(scheduler: Scheduler, key: str, placements: Collection[Placement]) -> GroupMap:
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
    names = tuple(name for name, _ in domains)
    return GroupMap(names, column[rows].tolist(), members[rows].tolist())


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


class _Total(NamedTuple):
    """The state of a group without trying anything: `placed`, `incomplete` or `waiting`, how many pods
    are below it, how many of them have a node, and the first that has none."""

    state: str
    pods: int = 0
    scheduled: int = 0
    first: Pod | None = None


class _Totals:
    """The totals of groups, each worked out once from those of the groups below it."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self._known: dict[str, _Total] = {}

    def of(self, key: str) -> _Total:
        """That of one group. In a circle of groups the one that was come from does not count."""
        known = self._known
        left, begun = [key], set[str]()
        while left:
            at = left[-1]
            children = self._children(at)
            missing = [] if at in known or at in begun else [one for one in children if one not in known]
            begun.add(at)
            if missing:
                left += [one for one in missing if one not in begun]
                continue
            left.pop()
            if at not in known:
                known[at] = self._total(at, [known[child] for child in children if child in known])
        return known[key]

    def _children(self, key: str) -> list[str]:
        """The keys of the groups directly below, in the order in which they are tried."""
        composite = self._groups.composite_group(key)
        objects = [] if composite is None else [self._groups.object(child) for child in composite.children]
        known = [obj for obj in objects if obj is not None]
        known.sort(key=lambda obj: (obj.metadata.creation_timestamp, obj.name))
        return [obj.group_key for obj in known]

    def _total(self, key: str, parts: Collection[_Total]) -> _Total:
        state, obj = self._groups.group(key), self._groups.object(key)
        if state is not None:
            stage = WAITING if state.unscheduled else PLACED
            if obj is None or state.all_count < obj.minimum:
                stage = INCOMPLETE
            first = next(iter(state.unscheduled), None)
            pod = None if first is None else state.pods[first]
            return _Total(stage, state.all_count, state.scheduled_count, pod)
        if obj is None:
            return _Total(INCOMPLETE)
        placed = sum(part.state == PLACED for part in parts)
        stage = PLACED if placed >= obj.minimum else WAITING
        return _Total(
            INCOMPLETE if len(parts) < obj.minimum else stage,
            sum(part.pods for part in parts),
            sum(part.scheduled for part in parts),
            next((part.first for part in parts if part.first is not None), None),
        )


def _message(obj: GroupObject | None) -> str:
    """Last message of the scheduler about a group that it could not place."""
    conditions = () if obj is None else obj.status.conditions
    return next(
        (one.message for one in conditions if one.type == INITIALLY_SCHEDULED and one.status == "False"), ""
    )


class _InQueue(NamedTuple):
    """Where a group waits, since when, until when at the latest, and how often it was tried."""

    place: str | None = None
    since: str | None = None
    until: str | None = None
    attempts: int = 0
    held_by: str = ""


def _in_queue(scheduler: Scheduler, first: Pod | None) -> _InQueue:
    context = scheduler.context
    queued = None if first is None else context.queue.get(first.key)
    if first is None or queued is None:
        return _InQueue()
    entity = queued.group if isinstance(queued.group, QueuedGroup) else queued
    until = context.queue.next_try(first.key)
    return _InQueue(
        context.queue.place_of(first.key),
        timestamp(as_date(context.clock, entity.timestamp)),
        None if until is None else timestamp(as_date(context.clock, until)),
        entity.attempts,
        "" if entity.gate is None else entity.gate.message,
    )


def _node_of(scheduler: Scheduler, pod: Pod) -> str | None:
    return pod.spec.node_name or scheduler.context.cache.assumed.get(pod.metadata.uid)
