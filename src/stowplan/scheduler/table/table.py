"""The cluster table: nodes are rows, what plugins read are columns, counts are kept as things change."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from stowplan.api.meta import Object
from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError, milli_value_of, value_of
from stowplan.api.releases import DEFAULT, Release
from stowplan.api.rules.resources import is_scalar
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64
from stowplan.runtime.sharding import ShardedDict
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.columns import (
    CORE_RESOURCES,
    BoolColumn,
    IdColumn,
    IntColumn,
    Interned,
    ResourceLines,
)
from stowplan.scheduler.table.devices import DEVICE_TYPES, Devices
from stowplan.scheduler.table.labelsets import LabelSets
from stowplan.scheduler.table.lookups import DisruptionBudgets, Lookups
from stowplan.scheduler.table.matchers import Matchers, RowSets
from stowplan.scheduler.table.nodecontents import HostPortIndex, ImageIndex
from stowplan.scheduler.table.nodelabels import LabelColumn, NodeLabels
from stowplan.scheduler.table.pod_groups import GROUP_TYPES, PodGroups
from stowplan.scheduler.table.podinfo import PodInfo, PodTemplate, Templates, counted_alike
from stowplan.scheduler.table.storage import STORAGE_TYPES, Storage
from stowplan.scheduler.table.terms import TermGroups
from stowplan.scheduler.table.view import NodeRow, NodeRows
from stowplan.scheduler.table.volumesinuse import VolumesInUse

Matrix = npt.NDArray[np.int64]

_FIRST_CAPACITY = 64
_FEW_LINES = 16
_NO_LABELS: dict[str, str] = {}
_NO_PODS: dict[str, PodInfo] = {}


class ClusterTable:
    """Nodes, the pods on them, and everything about them that decides where the next pod goes.

    Rows are stable while a node exists and used again after it is gone. Pods on a node that is not known
    wait aside and count for nothing until the node appears.

    Two logs say which rows changed: `node_log` for what nodes are (labels, taints, features), `usage_log`
    for what they can hold and what they hold. `topology_version` changes with the set of nodes, their
    labels and their taints.

    Amounts are 64 bits wide. A sum over a row's pods that is more than that stands at the largest number
    until enough of them have left; the exact sum is kept aside. `release` decides what a pod takes.
    """

    def __init__(self, release: Release = DEFAULT) -> None:
        self.release = release
        self.capacity = _FIRST_CAPACITY
        self.rows_in_use = 0
        self.pods_are_read = False
        """True if the pods on a row may be read individually, and not only as sums."""
        self.node_count = 0
        self.topology_version = 0
        self.node_log = ChangeLog()
        self.usage_log = ChangeLog()
        self.imagined = 0
        """Number of entries of `usage_log` that come from pods added or removed for a trial only."""
        self.lookups = Lookups()
        self.budgets = DisruptionBudgets(release.behaviour.preempting.pdb_grouping == "stop-at-exceeded")
        self.storage = Storage()
        self.devices = Devices()
        self.groups = PodGroups()
        self.images = ImageIndex()
        self.host_ports = HostPortIndex()

        self.nodes: list[Node | None] = []
        self.names: list[str] = []
        """The nodes' names by row; what stands in a row without a node means nothing."""
        self.pods_on: list[dict[str, PodInfo]] = []
        self.pods: ShardedDict[PodInfo] = ShardedDict()
        self._row_of: dict[str, int] = {}
        self.volumes_in_use = VolumesInUse(self.storage, self.usage_log, self._row_of.get, self.capacity)
        self._free_rows: list[int] = []
        self._orphans: dict[str, dict[str, PodInfo]] = {}

        self.resources = ResourceLines()
        self._offered: list[tuple[str, ...]] = []
        """By row, the resources that its node offers besides the first three."""
        self._elsewhere: dict[str, dict[int, int]] = {}
        """Amounts that pods take of resources that no node offers, which have no line: name → row → amount.
        """
        self._exceeding: dict[tuple[bool, int, int], int] = {}
        """Sums that 64 bits do not hold, by (is it of `non_zero`?, line, row)."""
        size = self.capacity
        self.valid: BoolColumn = np.zeros(size, dtype=np.bool_)
        self.unschedulable: BoolColumn = np.zeros(size, dtype=np.bool_)
        self.taint_set: IdColumn = np.zeros(size, dtype=np.intp)
        self.feature_set: IdColumn = np.zeros(size, dtype=np.intp)
        self.allowed_pods: IntColumn = np.zeros(size, dtype=np.int64)
        self.pod_count: IntColumn = np.zeros(size, dtype=np.int64)
        self.allocatable: Matrix = np.zeros((len(CORE_RESOURCES), size), dtype=np.int64)
        self.requested: Matrix = np.zeros((len(CORE_RESOURCES), size), dtype=np.int64)
        self.non_zero: Matrix = np.zeros((2, size), dtype=np.int64)
        self.labels = NodeLabels(self.nodes, size)
        self._see_amounts()

        self.taint_sets: Interned[tuple[Taint, ...]] = Interned(())
        self.feature_sets: Interned[frozenset[str]] = Interned(frozenset())

        label_sets = LabelSets()
        self._label_sets = label_sets
        self.term_groups = TermGroups(label_sets, self.lookups, self.labels)
        self.matchers = Matchers(label_sets)
        self.row_sets = RowSets()
        self._templates = Templates(label_sets, self.term_groups, release.behaviour.rules)

    def count_claims(self) -> None:
        """From now on resources of nodes count that pods take through claims. There are no pods yet."""
        self._templates.count_claims = True

    # Looking

    def row_of(self, name: str) -> int | None:
        """The row of a node, None if there is no such node."""
        return self._row_of.get(name)

    @property
    def free_rows(self) -> Sequence[int]:
        """Rows without a node; the last one is used next."""
        return self._free_rows

    def name_of(self, row: int) -> str:
        return self.names[row]

    def node(self, name: str) -> NodeRow | None:
        row = self._row_of.get(name)
        return None if row is None else NodeRow(self, row)

    def all_rows(self) -> NodeRows:
        return NodeRows(self, slice(0, self.rows_in_use))

    def label_column(self, key: str) -> LabelColumn:
        """The column of a label, for a single lookup. Callers that keep it acquire it from `labels`."""
        return self.labels.column(key)

    def allocatable_of(self, resource: str) -> IntColumn:
        """Allocatable amount of one resource, by row."""
        line = self.resources.find(resource)
        offered: IntColumn = (
            np.zeros(self.capacity, dtype=np.int64) if line is None else self.allocatable[line]
        )
        return offered

    def requested_of(self, resource: str) -> IntColumn:
        """Sum of the pods' requests for one resource, by row."""
        line = self.resources.find(resource)
        if line is not None:
            requested: IntColumn = self.requested[line]
            return requested
        requested = np.zeros(self.capacity, dtype=np.int64)
        for row, amount in self._elsewhere.get(resource, {}).items():
            requested[row] = min(amount, MAX_INT64)
        return requested

    def exactly_requested(self, line: int, row: int) -> int:
        """The sum of what the pods of a row ask for, however large it is."""
        exact = self._exceeding.get((False, line, row)) if self._exceeding else None
        return self.requested.item(line, row) if exact is None else exact

    def taken_by(self, template: PodTemplate) -> Sequence[tuple[int, int]]:
        """Amounts that pods of a template take, as lines of the resource columns and amounts.

        Resources that no node offers are left out.
        """
        if not template.scalars:
            return template.taken
        found = ((self.resources.find(name), amount) for name, amount in template.scalars)
        return [*template.taken, *((line, amount) for line, amount in found if line is not None)]

    def pods_without_row(self) -> Iterator[PodInfo]:
        """The pods on nodes that are not known (any more)."""
        return (info for pods in self._orphans.values() for info in pods.values())

    def sizes(self) -> dict[str, int]:
        """Number of entries of every table, by name.

        All but the first group shrink with the objects of the cluster. Rows are used again but never freed: a
        cluster that shrank keeps its capacity.
        """
        return {
            "row capacity": self.capacity,
            "rows ever in use": self.rows_in_use,
            "rows in use": self.node_count,
            "pods": len(self.pods),
            "nodes with pods but no row": len(self._orphans),
            "resource lines": len(self.allocatable),
            "resources without a line": len(self._elsewhere),
            "sums past 64 bits": len(self._exceeding),
            "taint sets": len(self.taint_sets),
            "feature sets": len(self.feature_sets),
            "templates": len(self._templates),
            "images": len(self.images.states),
            **self.groups.sizes(),
            **self.labels.sizes(),
            **self._label_sets.sizes(),
            **self.matchers.sizes(),
            **self.term_groups.sizes(),
            **self.host_ports.sizes(),
            **self.lookups.sizes(),
            **self.budgets.sizes(),
            **self.storage.sizes(),
            **self.devices.sizes(),
            **self.volumes_in_use.sizes(),
        }

    # Objects around pods

    def put(self, obj: Object) -> None:
        """Take in any object that is neither a node nor a pod, new or changed."""
        if isinstance(obj, PodDisruptionBudget):
            self.budgets.put(obj)
        elif isinstance(obj, STORAGE_TYPES):
            self.storage.put(obj)
            self.volumes_in_use.storage_changed(obj)
        elif isinstance(obj, DEVICE_TYPES):
            self._around_devices(obj, self.devices.put)
        elif isinstance(obj, GROUP_TYPES):
            self.groups.put(obj)
        else:
            self._around(obj, self.lookups.put)

    def discard(self, obj: Object) -> None:
        """Forget an object that is neither a node nor a pod."""
        if isinstance(obj, PodDisruptionBudget):
            self.budgets.remove(obj)
        elif isinstance(obj, STORAGE_TYPES):
            self.storage.remove(obj)
            self.volumes_in_use.storage_changed(obj)
        elif isinstance(obj, DEVICE_TYPES):
            self._around_devices(obj, self.devices.remove)
        elif isinstance(obj, GROUP_TYPES):
            self.groups.remove(obj)
        else:
            self._around(obj, self.lookups.remove)

    def _around(self, obj: Object, change: Callable[[Object], None]) -> None:
        before = self.lookups.namespaces_version
        change(obj)
        if self.lookups.namespaces_version != before:
            self.term_groups.namespace_changed(obj.name)

    def _around_devices(self, obj: Object, change: Callable[[Object], None]) -> None:
        """Apply a change to device classes: the extended resources that mean devices change the requests of
        pods."""
        before = self.devices.classes.resources
        change(obj)
        if self.devices.classes.resources != before:
            self.lookups.groups_version += 1

    # Nodes

    def put_node(self, node: Node) -> int:
        """Add a node or take in its new state; returns its row. Raises QuantityError, changing nothing."""
        amounts = allocatable_amounts(node)
        row = self._row_of.get(node.metadata.name)
        if row is None:
            return self._add_node(node, amounts)
        self._change_node(row, node, amounts)
        return row

    def remove_node(self, name: str) -> None:
        """Forget a node. Pods still on it are set aside until a node of that name comes back."""
        row = self._row_of.pop(name)
        node = self.nodes[row]
        assert node is not None
        pods = self.pods_on[row]
        for info in pods.values():
            self._add(info, row, -1)
        if pods:
            self._orphans[name] = pods
        self.volumes_in_use.node_removed(name, row)
        self.images.remove(row, node.status.images)
        self.nodes[row] = None
        self.labels.change(row, node.metadata.labels, _NO_LABELS)
        self.pods_on[row] = _NO_PODS
        self.valid[row] = False
        self.unschedulable[row] = False
        self.taint_set[row] = self.taint_sets.exchange(self.taint_set.item(row), ())
        self.feature_set[row] = self.feature_sets.exchange(self.feature_set.item(row), frozenset())
        self.allowed_pods[row] = 0
        self.allocatable[:, row] = 0
        self._offer(row, ())
        self.node_count -= 1
        self._free_rows.append(row)
        self._touch_node(row)

    def _add_node(self, node: Node, amounts: dict[str, int]) -> int:
        row = self._free_rows.pop() if self._free_rows else self._new_row()
        name = node.metadata.name
        self._row_of[name] = row
        self.nodes[row] = node
        self.names[row] = name
        self.pods_on[row] = self._orphans.pop(name, {})
        self.valid[row] = True
        self.node_count += 1
        self.labels.change(row, _NO_LABELS, node.metadata.labels)
        self._write_node(row, node, amounts)
        self.images.add(row, node.status.images)
        self.volumes_in_use.node_added(name, row)
        self._touch_node(row)
        for info in self.pods_on[row].values():
            self._add(info, row, 1)
        return row

    def _change_node(self, row: int, node: Node, amounts: dict[str, int]) -> None:
        old = self.nodes[row]
        assert old is not None
        relabelled = old.metadata.labels != node.metadata.labels
        carriers = [info for info in self.pods_on[row].values() if relabelled and info.template.carries_terms]
        for info in carriers:
            self._count_terms(info, -1)
        self.nodes[row] = node
        if relabelled:
            self.labels.change(row, old.metadata.labels, node.metadata.labels)
        for info in carriers:
            self._count_terms(info, 1)
        if old.status.images != node.status.images:
            self.images.remove(row, old.status.images)
            self.images.add(row, node.status.images)
        self._write_node(row, node, amounts)
        if relabelled or old.spec != node.spec:
            self._touch_node(row)
            return
        if old.status.allocatable != node.status.allocatable:
            self.usage_log.append(row)
        if old.status != node.status or old.metadata.annotations != node.metadata.annotations:
            self.node_log.append(row)

    def _write_node(self, row: int, node: Node, amounts: dict[str, int]) -> None:
        self.unschedulable[row] = node.spec.unschedulable
        self.taint_set[row] = self.taint_sets.exchange(self.taint_set.item(row), node.spec.taints)
        self.feature_set[row] = self.feature_sets.exchange(
            self.feature_set.item(row), frozenset(node.status.declared_features)
        )
        self.allowed_pods[row] = amounts.pop("pods", 0)
        self._offer(row, tuple(name for name in amounts if name not in CORE_RESOURCES))
        self.allocatable[:, row] = 0
        for name, amount in amounts.items():
            self.allocatable[self.resources.find(name), row] = max(amount, 0)

    def _offer(self, row: int, names: tuple[str, ...]) -> None:
        """Set the resources that the node of a row offers besides the first three."""
        before = self._offered[row]
        if before == names:
            return
        self._offered[row] = names
        for name in names:
            self._acquire_line(name)
        for name in before:
            self._release_line(name)
        self._fit_lines()

    def hold_resource(self, name: str) -> int:
        """The line of a resource that a profile scores: it keeps it, whether or not a node offers some."""
        line = self._acquire_line(name)
        self._fit_lines()
        return line

    def line_of(self, name: str) -> int:
        """The line of a resource that a profile holds."""
        line = self.resources.find(name)
        assert line is not None, name
        return line

    def _acquire_line(self, name: str) -> int:
        line = self.resources.acquire(name)
        taken = self._elsewhere.pop(name, None)
        if taken is not None:
            self._fit_lines()
            for row, amount in taken.items():
                self._change_exactly(False, line, row, amount)
        return line

    def _release_line(self, name: str) -> None:
        line = self.resources.release(name)
        if line is None:
            return
        rows = self.requested[line].nonzero()[0].tolist()
        if rows:
            self._elsewhere[name] = {row: self.exactly_requested(line, row) for row in rows}
            self.requested[line] = 0
            for row in rows:
                self._exceeding.pop((False, line, row), None)

    def _touch_node(self, row: int) -> None:
        self.topology_version += 1
        self.node_log.append(row)
        self.usage_log.append(row)

    # Pods

    def info(self, pod: Pod) -> PodInfo:
        """A pod as the table sees it, not yet on any node. Raises QuantityError."""
        return PodInfo(pod, self._templates.of(pod))

    def put_pod(self, pod: Pod) -> PodInfo:
        """Take in a pod that has a node, or the new state of one; confirms it if it was assumed.

        Raises QuantityError, changing nothing.
        """
        info = self.info(pod)
        known = self.pods.get(pod.metadata.uid)
        if known is not None:
            self.remove_pod(known.uid)
        self.place(info, pod.spec.node_name)
        return info

    def add_pods(self, pods: Iterable[Pod], refused: Callable[[Pod, QuantityError], None]) -> None:
        """Add many pods that have a node and are not known yet: `put_pod` for each, but sums are computed at
        once.

        `refused` is called for pods with unreadable amounts, which are left out.
        """
        template_of, known, row_of = self._templates.of, self.pods, self._row_of.get
        pods_on, count_besides = self.pods_on, self._count_besides
        rows: list[int] = []
        templates: list[PodTemplate] = []
        for pod in pods:
            try:
                template = template_of(pod)
            except QuantityError as error:
                refused(pod, error)
                continue
            info = PodInfo(pod, template)
            uid, name = info.uid, pod.spec.node_name
            known[uid] = info
            row = row_of(name)
            if row is None:
                self._orphans.setdefault(name, {})[uid] = info
                continue
            pods_on[row][uid] = info
            info.row = row
            count_besides(info, template, row, 1)
            rows.append(row)
            templates.append(template)
        if rows:
            self._add_amounts(rows, templates)
            self.usage_log.extend(rows)

    def _add_amounts(self, rows: list[int], templates: list[PodTemplate]) -> None:
        """Add the amounts that pods of these templates on these rows take of the first three resources."""
        numbers = {template: number for number, template in enumerate(dict.fromkeys(templates))}
        which = np.fromiter(map(numbers.__getitem__, templates), dtype=np.intp, count=len(templates))
        there = np.array(rows, dtype=np.intp)
        times = np.bincount(which).tolist()
        np.add.at(self.pod_count, there, 1)
        for matrix, is_non_zero in ((self.requested, False), (self.non_zero, True)):
            for line in range(len(CORE_RESOURCES) if not is_non_zero else len(matrix)):
                amounts = [dict(one.non_zero if is_non_zero else one.taken).get(line, 0) for one in numbers]
                most = sum(amount * often for amount, often in zip(amounts, times, strict=True))
                if not most:
                    continue
                if self._exceeding or most + int(matrix[line][there].max()) > MAX_INT64:
                    for row, number in zip(rows, which.tolist(), strict=True):
                        self._change_exactly(is_non_zero, line, row, amounts[number])
                else:
                    np.add.at(matrix[line], there, np.array(amounts, dtype=np.int64)[which])

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node, known or not."""
        self.pods[info.uid] = info
        row = self._row_of.get(node_name)
        if row is None:
            self._orphans.setdefault(node_name, {})[info.uid] = info
            return
        self.pods_on[row][info.uid] = info
        self._add(info, row, 1)

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node ahead of the API server's word for it."""
        info.assumed = True
        self.place(info, node_name)

    def confirm(self, pod: Pod) -> PodInfo:
        """The API server's word that an assumed pod stands where it was assumed."""
        info = self.pods.get(pod.metadata.uid)
        if info is None or not info.assumed or info.row < 0 or self.names[info.row] != pod.spec.node_name:
            return self.put_pod(pod)
        if (pod.metadata.deletion_timestamp is not None) != info.dying:
            return self.put_pod(pod)
        template = self._templates.of(pod)
        if template is not info.template:
            if not self._counts_as_before(info, pod, template):
                return self.put_pod(pod)
            info.template.label_set.count(info.row, -1, info.dying)
            template.label_set.count(info.row, 1, info.dying)
            info.template = template
        if pod.status.start_time != info.pod.status.start_time:
            self.usage_log.append(info.row)
        info.pod = pod
        info.assumed = False
        return info

    def _counts_as_before(self, info: PodInfo, pod: Pod, template: PodTemplate) -> bool:
        """True if no count changes with a pod's new state."""
        if self.pods_are_read or not counted_alike(info.template, template):
            return False
        return not self.budgets or self.budgets.of(info) == self.budgets.of(PodInfo(pod, template))

    def forget(self, uid: str) -> PodInfo:
        """Take an assumed pod back."""
        return self.remove_pod(uid)

    def remove_pod(self, uid: str) -> PodInfo:
        """Take a pod away."""
        info = self.pods.pop(uid)
        if info.row >= 0:
            self._take_off(info)
            return info
        for name, orphans in self._orphans.items():
            if orphans.pop(uid, None) is not None:
                if not orphans:
                    del self._orphans[name]
                break
        return info

    def put_on(self, info: PodInfo, row: int) -> None:
        """Put a pod on a row and count it there, for a trial or to undo one.

        To add a pod to the cluster, call `place`.
        """
        self.imagined += 1
        self.pods_on[row][info.uid] = info
        self._add(info, row, 1)

    def take_off(self, info: PodInfo) -> None:
        """Take a pod off its row for a trial, or after one; the table still knows it."""
        self.imagined += 1
        self._take_off(info)

    @property
    def pods_version(self) -> int:
        """Changes with what nodes can hold and hold, but not with trials that are over."""
        return self.usage_log.position - self.imagined

    def _take_off(self, info: PodInfo) -> None:
        row = info.row
        self._add(info, row, -1)
        del self.pods_on[row][info.uid]

    def _add(self, info: PodInfo, row: int, sign: int) -> None:
        """A pod comes to a row (1) or leaves it (-1)."""
        info.row = row if sign > 0 else -1
        template, size = info.template, self.capacity
        if self._exceeding:
            self._add_exactly(template, row, sign)
        else:
            for amounts, taken in (
                (self._requested_seen, template.taken),
                (self._non_zero_seen, template.non_zero),
            ):
                for line, amount in taken:
                    try:
                        amounts[line * size + row] += sign * amount
                    except ValueError:
                        self._change_exactly(taken is template.non_zero, line, row, sign * amount)
        self._pod_count_seen[row] += sign
        self._count_besides(info, template, row, sign)
        self.usage_log.append(row)

    def _count_besides(self, info: PodInfo, template: PodTemplate, row: int, sign: int) -> None:
        """A pod comes to a row or leaves it: everything but the first three resources and their number."""
        if template.scalars:
            self._add_scalars(template, row, sign)
        if template.ports:
            self.host_ports.add(row, template.ports, sign)
        if template.volumes:
            self.volumes_in_use.count(info, row, sign)
        label_set = template.label_set
        label_set.count(row, sign, info.dying)
        for matcher in label_set.matchers:
            if not info.dying or matcher.dying_too:
                matcher.count(row, sign)
        if template.carries_terms:
            for group in template.groups:
                self.term_groups.count(group, row, sign)

    def _add_exactly(self, template: PodTemplate, row: int, sign: int) -> None:
        """Add a pod's amounts of the first three resources while some sum exceeds 64 bits."""
        for line, amount in template.taken:
            self._change_exactly(False, line, row, sign * amount)
        for line, amount in template.non_zero:
            self._change_exactly(True, line, row, sign * amount)

    def _add_scalars(self, template: PodTemplate, row: int, sign: int) -> None:
        """Add a pod's amounts of other resources; those without a line are kept in a dict."""
        for name, amount in template.scalars:
            line = self.resources.find(name)
            if line is not None:
                self._change_exactly(False, line, row, sign * amount)
                continue
            rows = self._elsewhere.setdefault(name, {})
            rows[row] = taken = rows.get(row, 0) + sign * amount
            if not taken:
                del rows[row]
                if not rows:
                    del self._elsewhere[name]

    def _change_exactly(self, non_zero: bool, line: int, row: int, delta: int) -> None:
        """Add to a sum that may be, or become, more than 64 bits hold."""
        matrix = self.non_zero if non_zero else self.requested
        exact = self._exceeding.pop((non_zero, line, row), None)
        amount = (matrix.item(line, row) if exact is None else exact) + delta
        matrix[line, row] = held = max(min(amount, MAX_INT64), MIN_INT64)
        if held != amount:
            self._exceeding[non_zero, line, row] = amount

    def _count_terms(self, info: PodInfo, sign: int) -> None:
        for group in info.template.groups:
            self.term_groups.count(group, info.row, sign)

    # Room

    def _new_row(self) -> int:
        row = self.rows_in_use
        if row == self.capacity:
            self._grow_rows()
        self.rows_in_use += 1
        self.nodes.append(None)
        self.names.append("")
        self._offered.append(())
        self.pods_on.append(_NO_PODS)
        return row

    def _grow_rows(self) -> None:
        old, new = self.capacity, self.capacity * 2
        self.capacity = new
        for name in ("valid", "unschedulable", "taint_set", "feature_set", "allowed_pods", "pod_count"):
            column = getattr(self, name)
            grown = np.zeros(new, dtype=column.dtype)
            grown[:old] = column
            setattr(self, name, grown)
        for name in ("allocatable", "requested", "non_zero"):
            matrix = getattr(self, name)
            grown = np.zeros((len(matrix), new), dtype=np.int64)
            grown[:, :old] = matrix
            setattr(self, name, grown)
        self._see_amounts()
        self.labels.resize(new)
        self.volumes_in_use.attached.resize(new)

    def _fit_lines(self) -> None:
        """Have as many lines as there are resources that need one.

        Few lines are cut off at once, of many a half is kept, so that no row of changes costs much.
        """
        needed, there = len(self.resources), len(self.allocatable)
        if needed > there:
            lines = max(needed, there + there // 2)
        elif needed < there and (there <= _FEW_LINES or needed <= there // 2):
            lines = needed
        else:
            return
        for name in ("allocatable", "requested"):
            matrix = np.zeros((lines, self.capacity), dtype=np.int64)
            kept = min(lines, there)
            matrix[:kept] = getattr(self, name)[:kept]
            setattr(self, name, matrix)
        self._see_amounts()

    def _see_amounts(self) -> None:
        """Look at what pods take as plain memory, line after line.

        A single number is changed there in half the time that it takes in an array.
        """
        self._requested_seen: memoryview[int] = self.requested.reshape(-1).data
        self._non_zero_seen: memoryview[int] = self.non_zero.reshape(-1).data
        self._pod_count_seen: memoryview[int] = self.pod_count.data


def allocatable_amounts(node: Node) -> dict[str, int]:
    """Allocatable amounts of a node, cpu in millicores; only resources that scheduling knows."""
    return {
        name: milli_value_of(raw) if name == "cpu" else value_of(raw)
        for name, raw in node.status.allocatable.items()
        if name == "pods" or name in CORE_RESOURCES or is_scalar(name)
    }


def load(table: ClusterTable, objects: Iterable[Object]) -> None:
    """Take in objects as a cluster lists them; pods that are finished or on no node are left out."""
    for obj in objects:
        if isinstance(obj, Node):
            table.put_node(obj)
        elif isinstance(obj, Pod):
            if obj.spec.node_name and not obj.is_finished:
                table.put_pod(obj)
        else:
            table.put(obj)
