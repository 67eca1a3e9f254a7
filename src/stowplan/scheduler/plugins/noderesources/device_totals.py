"""Devices that stand for an extended resource, counted by node for scoring: all devices, and those in use.

Every slice that is for a node counts, of any generation, as in kube-scheduler.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from stowplan.api.devices import DeviceClass, DeviceID
from stowplan.api.pod import NodeSelector
from stowplan.api.rules.nodeselector import compile_node_selector
from stowplan.scheduler.framework.advanced import FeatureGates
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import (
    CompileError,
    EvaluationError,
    Selectors,
)
from stowplan.scheduler.plugins.dynamicresources.features import features_of
from stowplan.scheduler.table.columns import IntArray
from stowplan.scheduler.table.devices import DeviceRef, PoolID, SliceView
from stowplan.scheduler.table.selection import matching_selector
from stowplan.scheduler.table.table import ClusterTable

_NOWHERE: Final = np.zeros(0, dtype=np.intp)


class Totals(NamedTuple):
    """By row: how many devices of a class a node sees, and how many of these are allocated."""

    capacity: IntArray
    allocated: IntArray


class _Share(NamedTuple):
    """Devices of a slice, and the rows that see them."""

    rows: IntArray
    ids: tuple[DeviceID, ...]


class DeviceTotals:
    """Totals by extended resource, updated on request."""

    def __init__(self, table: ClusterTable, gates: FeatureGates) -> None:
        self._table = table
        self._devices = table.devices
        self._enabled = gates["DRAExtendedResource"]
        self._selectors = Selectors(features_of(gates))
        self._kept: dict[str, _ClassTotals] = {}

    @property
    def any(self) -> bool:
        """True if there is a resource that means devices."""
        return self._enabled and bool(self._devices.classes.resources)

    def means_devices(self, resource: str) -> bool:
        return self._enabled and resource in self._devices.classes.resources

    def of(self, resource: str) -> Totals | None:
        """None if the resource does not mean devices."""
        device_class = self._devices.classes.for_resource(resource) if self._enabled else None
        if device_class is None:
            self._kept.pop(resource, None)
            return None
        kept = self._kept.get(resource)
        if kept is None or kept.device_class is not device_class:
            kept = self._kept[resource] = _ClassTotals(self._table, self._selectors, device_class)
        return kept.totals()


class _ClassTotals:
    """Totals of one class."""

    def __init__(self, table: ClusterTable, selectors: Selectors, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self._table = table
        self._slices = table.devices.slices
        self._allocated = table.devices.claims.allocated
        self._selectors = selectors
        self._basis: tuple[int, int, int] | None = None
        self._position = -1
        self._shares: dict[PoolID, list[_Share]] = {}
        self._in_use: dict[PoolID, list[int]] = {}
        self._totals = Totals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def totals(self) -> Totals:
        table, log = self._table, self._allocated.log
        basis = (self._slices.version, table.node_log.position, table.capacity)
        pools = log.since(self._position) if basis == self._basis else None
        self._basis, self._position = basis, log.position
        if pools is None:
            self._build()
        else:
            for number in pools.tolist():
                self._recount(self._allocated.pool_of(number))
        return self._totals

    def _build(self) -> None:
        size = self._table.capacity
        self._totals = Totals(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
        self._shares.clear()
        self._in_use.clear()
        failed: list[IntArray] = []
        for view in self._slices.all():
            for rows, refs in self._seen(view):
                try:
                    ids = tuple(ref.id for ref in refs if self._matches(ref))
                except (CompileError, EvaluationError):
                    failed.append(rows)
                    continue
                if ids and len(rows):
                    self._totals.capacity[rows] += len(ids)
                    self._shares.setdefault(view.pool, []).append(_Share(rows, ids))
                    self._in_use.setdefault(view.pool, []).append(0)
        for pool in self._shares:
            self._recount(pool)
        for rows in failed:
            # A selector that fails for a device leaves the node without any.
            self._totals.capacity[rows] = 0

    def _recount(self, pool: PoolID) -> None:
        counts = self._in_use.get(pool)
        for place, share in enumerate(self._shares.get(pool, ())):
            assert counts is not None
            now = sum(self._allocated.is_allocated(id) for id in share.ids)
            self._totals.allocated[share.rows] += now - counts[place]
            counts[place] = now

    def _seen(self, view: SliceView) -> list[tuple[IntArray, Sequence[DeviceRef]]]:
        """The devices of a slice by the rows that see them."""
        spec = view.slice.spec
        if not spec.per_device_node_selection:
            return [
                (self._rows(spec.node_name, spec.all_nodes, spec.node_selector, other=True), view.devices)
            ]
        return [
            (self._rows(ref.device.node_name, ref.device.all_nodes, ref.device.node_selector), (ref,))
            for ref in view.devices
        ]

    def _rows(
        self, name: str | None, everywhere: bool | None, selector: NodeSelector | None, *, other: bool = False
    ) -> IntArray:
        """The rows that a choice of nodes means; `other`: what no choice at all means."""
        table = self._table
        if not everywhere and name:
            row = table.row_of(name)
            return _NOWHERE if row is None else np.array([row], dtype=np.intp)
        if not everywhere and selector is not None:
            matching = matching_selector(compile_node_selector(selector), table.all_rows())
            return np.flatnonzero(matching & table.valid[: table.rows_in_use])
        return np.flatnonzero(table.valid) if everywhere or other else _NOWHERE

    def _matches(self, ref: DeviceRef) -> bool:
        """True if the class selects a device. Expressions do not see here if it can be shared."""
        if ref.device.allow_multiple_allocations:
            ref = DeviceRef(ref.slice, replace(ref.device, allow_multiple_allocations=None), ref.taints)
        return all(
            self._selectors.matches(selector.cel.expression, ref)
            for selector in self.device_class.spec.selectors
            if selector.cel is not None
        )
