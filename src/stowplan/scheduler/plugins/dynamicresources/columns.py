"""Devices as columns: a check for enough devices for a simple claim, on all nodes at once.

Every device is a slot with a content (everything selectors, tolerations and constraints look at; many devices
share one) and a state (free or not). A claim with one request for n devices, a selector and maybe constraints
on equal attributes can be met where n free devices with a suitable content have the same values. So a claim
is compared with contents, not with devices, and nodes are counted with numpy. The exact devices are searched
for once a node was chosen. Nodes with devices that need a closer look, as shared ones, are left to the
search.
"""

from array import array
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from stowplan.api.devices import EXACT_COUNT, MOST_RESULTS, DeviceClass, DeviceID, ResourceClaim
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.scheduler.framework.advanced import STRETCH, Budget, Step, Work
from stowplan.scheduler.plugins.dynamicresources.allocation.capacity import CapacityError, capacity_rules
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import concerns, look_up, values_of
from stowplan.scheduler.plugins.dynamicresources.allocation.nodepools import NodePools
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, PoolError, available_counters
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, requests_of, tolerated
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import (
    CompileError,
    EvaluationError,
    Selectors,
)
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.devices import Classes, Consumed, DeviceRef, PoolID
from stowplan.scheduler.table.table import ClusterTable

Numbers = npt.NDArray[np.int64]
Counters = dict[str, dict[str, Quantity]]

NO, YES, SEARCH, ALONE = 0, 1, 2, 3
"""Of a device: it cannot be given, it can, only the search can tell, it can as the only one of a node."""

_MOST_SHARED: Final = 256
"""A node that sees more devices which are not its own is left to the search."""
_SLACK: Final = 4096
"""Up to this number of slots of removed devices are kept."""
_LACKING, _UNCLEAR = -1, -2
"""Instead of the number of a group: an attribute is missing, or cannot be compared simply."""
_ZERO: Final = quantity_of("0")
_NOTHING: Final[Consumed] = {}


class DeviceColumns:
    """The devices of all rows: slots, contents, and which are free. `sync` brings them up to date.

    `touched` are the rows of which something changed; `epoch` counts the times when that was all.
    """

    def __init__(self, table: ClusterTable, features: Features) -> None:
        self._table = table
        self._allocated = table.devices.claims.allocated
        self._features = features
        self.pools = NodePools(table, features)
        self.touched = ChangeLog()
        self.epoch = 0
        self._nodes = self._allocations = -1
        self.left_to_search: set[int] = set()
        self.with_invalid_pools: set[int] = set()
        self._forget()

    def _forget(self) -> None:
        self._slot_of: dict[DeviceID, int] = {}
        self._refs: list[DeviceRef] = []
        self._pool_slots: dict[PoolID, tuple[Pool, list[int]]] = {}
        self._contents: dict[tuple[str, bytes], int] = {}
        self.samples: list[DeviceRef] = []
        """A device of each content."""
        self._content_of = array("q")
        self._states = bytearray()
        self._entries: tuple[Numbers, Numbers] | None = None
        self._slots_of: list[list[int]] = []
        self._live = 0
        self.left_to_search.clear()
        self.with_invalid_pools.clear()

    # Changes

    def sync(self) -> None:
        """Take in what happened to slices, nodes and allocations."""
        table = self._table
        rows = self.pools.refresh()
        nodes = None if self._nodes < 0 else table.node_log.since(self._nodes)
        self._nodes = table.node_log.position
        if rows is None or nodes is None or len(self._refs) > 2 * self._live + _SLACK:
            self._build()
            return
        rows.update(nodes.tolist())
        for row in rows:
            self._place(row)
            self.touched.append(row)
        if rows:
            self._entries = None
        self._sync_allocations()

    def drop_stale(self) -> bool:
        """Build the columns anew if most of their devices are gone; returns whether they were."""
        if not self._refs:
            return False
        self.sync()
        if len(self._refs) <= 2 * self._live:
            return False
        self._build()
        return True

    def _build(self) -> None:
        """Everything anew."""
        self._forget()
        self.epoch += 1
        self._allocations = self._allocated.log.position
        for row in range(self._table.rows_in_use):
            self._place(row)

    def _sync_allocations(self) -> None:
        log = self._allocated.log
        if log.position == self._allocations:
            return
        numbers = log.since(self._allocations)
        self._allocations = log.position
        if numbers is None:
            for pool, slots in self._pool_slots.values():
                self._set_states(pool, slots)
            self.epoch += 1
            return
        for number in numbers.tolist():
            id = self._allocated.pool_of(number)
            known = self._pool_slots.get(id)
            if known is not None:
                self._set_states(*known)
            for row in self.pools.rows_of(id):
                self.touched.append(row)

    def _place(self, row: int) -> None:
        """List the devices of a row."""
        while len(self._slots_of) <= row:
            self._slots_of.append([])
        self._live -= len(self._slots_of[row])
        slots = self._slots_of[row] = []
        self.left_to_search.discard(row)
        self.with_invalid_pools.discard(row)
        node = self._table.nodes[row]
        if node is None or not self._table.valid.item(row):
            return
        try:
            pools = self.pools.of(node, row)
        except PoolError:
            self.left_to_search.add(row)
            return
        if any(pool.is_invalid for pool in pools):
            self.with_invalid_pools.add(row)
        usable = [pool for pool in pools if not (pool.is_incomplete or pool.is_invalid)]
        if self._is_for_search(usable):
            self.left_to_search.add(row)
            return
        for pool in usable:
            slots += self._slots(pool)
        self._live += len(slots)

    @staticmethod
    def _is_for_search(pools: Sequence[Pool]) -> bool:
        """True if only a search can evaluate a node: devices select nodes, or there are very many."""
        foreign = 0
        for pool in pools:
            for ref in pool.devices:
                spec = ref.slice.spec
                if spec.per_device_node_selection:
                    return True
                foreign += not spec.node_name
                if foreign > _MOST_SHARED:
                    return True
        return False

    def _slots(self, pool: Pool) -> list[int]:
        """The slots of the devices of a pool; nodes that see the same devices have the same."""
        found = []
        fresh = False
        for ref in pool.devices:
            slot = self._slot_of.get(ref.id)
            if slot is None or self._refs[slot] is not ref:
                slot = self._slot_of[ref.id] = len(self._refs)
                self._refs.append(ref)
                self._content_of.append(self._content(ref))
                self._states.append(NO)
                fresh = True
            found.append(slot)
        known = self._pool_slots.get(pool.id)
        counts = pool.counter_sets or (known is not None and known[0].counter_sets)
        if fresh or known is None or (counts and known[0] is not pool):
            every = found if known is None else list({*known[1], *found})
            every = [slot for slot in every if self._slot_of[self._refs[slot].id] == slot]
            self._pool_slots[pool.id] = (pool, every)
            self._set_states(pool, every)
        return found

    def _content(self, ref: DeviceRef) -> int:
        device = ref.device
        seen = (
            device.attributes,
            device.capacity,
            device.allow_multiple_allocations,
            bool(device.binding_conditions),
            ref.taints,
        )
        key = (ref.id[0], msgspec.msgpack.encode(seen))
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = len(self.samples)
            self.samples.append(ref)
        else:
            # Expressions see the same of both, so they need to be evaluated only once.
            ref.matches, ref.seen = self.samples[found].matches, self.samples[found].seen
        return found

    # Which are free

    def _set_states(self, pool: Pool, slots: Iterable[int]) -> None:
        left = available_counters(pool, self._allocated) if pool.counter_sets else None
        for slot in slots:
            self._states[slot] = self._state(self._refs[slot], left)

    def _state(self, ref: DeviceRef, left: Counters | None) -> int:
        allocated, features, device = self._allocated, self._features, ref.device
        if ref.id in allocated.devices:
            return NO
        if ref.id in allocated.shared and not features.consumable_capacity:
            return NO
        if device.consumes_counters and not features.partitionable:
            return NO
        if features.heeds_skipped_operations and ref.slice.spec.skip_node_operations:
            return SEARCH
        shares = features.consumable_capacity and bool(device.allow_multiple_allocations)
        if shares or ref.id in allocated.shared or ref.id in allocated.capacity:
            return SEARCH
        if not device.consumes_counters:
            return YES
        if features.compatibility_groups:
            return SEARCH
        return ALONE if _has_counters(ref, left or {}) else NO

    # Looking at them

    @property
    def height(self) -> int:
        return len(self._slots_of)

    def entries(self) -> tuple[Numbers, Numbers]:
        """Rows and slots of all devices that nodes see."""
        if self._entries is None:
            lengths = [len(slots) for slots in self._slots_of]
            rows = np.repeat(np.arange(len(lengths)), lengths)
            total = int(sum(lengths))
            slots = np.fromiter(chain.from_iterable(self._slots_of), dtype=np.int64, count=total)
            self._entries = (rows, slots)
        return self._entries

    def contents(self) -> Numbers:
        """The content of every slot."""
        return np.array(self._content_of, dtype=np.int64)

    def states(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(bytes(self._states), dtype=np.uint8)

    def of_row(self, row: int) -> list[tuple[int, int]]:
        """Content and state of the devices of a row."""
        contents, states = self._content_of, self._states
        return [(contents[slot], states[slot]) for slot in self._slots_of[row]]


def _has_counters(ref: DeviceRef, left: Counters) -> bool:
    """True if the counters of a pool have enough for a device, and none is overdrawn already."""
    drawn = {one.counter_set: one.counters for one in ref.device.consumes_counters}
    for name, counters in left.items():
        wanted = drawn.get(name, {})
        for key, available in counters.items():
            counter = wanted.get(key)
            if available < (_ZERO if counter is None else quantity_of(counter.value)):
                return False
    return True


@dataclass(slots=True)
class SimpleClaim:
    """A claim with one request for some devices, and constraints on attributes they must have in common.

    `verdicts` are about contents: NO, YES or SEARCH. `groups` number the values that devices must share.
    """

    claim: ResourceClaim
    request: Request
    device_class: DeviceClass
    attributes: tuple[str, ...]
    verdicts: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    values: dict[Hashable, int] = field(default_factory=dict)

    def forget(self) -> None:
        self.verdicts.clear()
        self.groups.clear()
        self.values.clear()


def simple_claim(claims: Sequence[ResourceClaim], classes: Classes, features: Features) -> SimpleClaim | None:
    """The only claim of a pod if columns can answer it, None if a search has to."""
    if len(claims) != 1 or len(claims[0].spec.devices.requests) != 1:
        return None
    asked = claims[0].spec.devices
    given = asked.requests[0]
    if given.exactly is None or given.first_available:
        return None
    (request,) = requests_of(given)
    device_class = classes.get(request.class_name)
    attributes = []
    for constraint in asked.constraints:
        if constraint.match_attribute is None:
            return None
        if concerns(frozenset(constraint.requests), request.name, ""):
            attributes.append(constraint.match_attribute)
    is_simple = (
        device_class is not None
        and request.mode == EXACT_COUNT
        and 1 <= request.count <= MOST_RESULTS
        and not (request.sets_admin or request.derived)
        and not (request.asks_capacity and not features.consumable_capacity)
        and all(selector.cel is not None for selector in request.selectors)
    )
    if not is_simple or device_class is None:
        return None
    return SimpleClaim(claims[0], request, device_class, tuple(attributes))


class DeviceComparison:
    """Compares simple claims with the devices of nodes."""

    def __init__(self, columns: DeviceColumns, selectors: Selectors, features: Features) -> None:
        self._columns = columns
        self._selectors = selectors
        self._features = features
        self._capacity = capacity_rules(features)

    def count_all(self, claim: SimpleClaim) -> tuple[npt.NDArray[np.bool_], set[int]]:
        """By row whether there are enough devices, and the rows that need a search.

        All contents must have been looked at.
        """
        columns = self._columns
        rows, slots = columns.entries()
        height = columns.height
        contents, states = columns.contents(), columns.states()
        verdicts = np.array(claim.verdicts or [NO], dtype=np.uint8)[contents]
        groups = np.array(claim.groups or [0], dtype=np.int64)[contents]
        suits = (verdicts == YES) & (states != NO)
        needs_search = (verdicts == SEARCH) | (suits & (states == SEARCH))
        if claim.request.count > 1:
            needs_search |= suits & (states == ALONE)
        to_search = set(np.unique(rows[needs_search[slots]]).tolist()) | columns.left_to_search
        chosen = (suits & ~needs_search)[slots]
        width = max(len(claim.values), 1)
        keys = rows[chosen] * width + groups[slots[chosen]]
        counted = np.bincount(keys, minlength=height * width).reshape(height, width)
        return counted.max(axis=1, initial=0) >= claim.request.count, to_search

    def count(self, claim: SimpleClaim, row: int) -> bool | None:
        """True if a row has enough devices, None if a search is needed."""
        columns = self._columns
        if row in columns.left_to_search:
            return None
        verdicts, groups, wanted = claim.verdicts, claim.groups, claim.request.count
        counted: dict[int, int] = {}
        enough = False
        for content, state in columns.of_row(row):
            verdict = verdicts[content]
            if verdict == SEARCH:
                return None
            if verdict == NO or state == NO:
                continue
            if state == SEARCH or (state == ALONE and wanted > 1):
                return None
            group = groups[content]
            counted[group] = counted.get(group, 0) + 1
            enough = enough or counted[group] >= wanted
        return enough

    def look_at_contents(self, claim: SimpleClaim, budget: Budget) -> Work:
        """Compare a claim with contents that it was not compared with yet, in steps.

        Finished work is kept. Raises BudgetExceededError.
        """
        for ref in self._columns.samples[len(claim.verdicts) :]:
            group, verdict = self._group(claim, ref), (yield from self._verdict(claim, ref, budget))
            if not (len(claim.verdicts) + 1) % STRETCH:
                budget.spend(STRETCH)
                yield None
            if verdict == YES and group < 0:
                verdict = NO if group == _LACKING else SEARCH
            claim.verdicts.append(verdict)
            claim.groups.append(max(group, 0))

    def _verdict(self, claim: SimpleClaim, ref: DeviceRef, budget: Budget) -> Generator[Step, None, int]:
        request, device, features = claim.request, ref.device, self._features
        if device.binding_conditions and not features.binding_conditions:
            return NO
        try:
            for selector in chain(claim.device_class.spec.selectors, request.selectors):
                expression = "" if selector.cel is None else selector.cel.expression
                kept = ref.matches.get(expression)
                if kept is None or isinstance(kept, Exception):
                    kept = yield from self._selectors.match(expression, ref, budget)
                if not kept:
                    return NO
        except (CompileError, EvaluationError):
            return SEARCH
        if features.consumable_capacity:
            try:
                # Consumption by others can only make it worse; devices that can be shared are searched
                # anyway.
                if not self._capacity.fits(request.capacity, device.capacity, _NOTHING, _NOTHING):
                    return NO
            except CapacityError:
                return SEARCH
        return YES if not features.device_taints or tolerated(ref.taints, request.tolerations) else NO

    def _group(self, claim: SimpleClaim, ref: DeviceRef) -> int:
        """The number of the values that a device must have in common with others."""
        found = []
        for name in claim.attributes:
            attribute = look_up(ref, name)
            if attribute is None:
                return _LACKING
            values = values_of(attribute, lists=self._features.list_attributes)
            if len(values) != 1:
                return _UNCLEAR
            found.append(next(iter(values)))
        return claim.values.setdefault(tuple(found), len(claim.values))
