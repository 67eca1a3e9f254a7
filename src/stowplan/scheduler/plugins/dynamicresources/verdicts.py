"""Filter: what DynamicResources thinks of all nodes, and what it finds on one of them.

Verdicts about claims that ask for the same are kept as a column and brought up to date where something
changed. Simple claims are compared with all devices at once; for others every node in doubt is searched.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stowplan.api.devices import DeviceSelector, ResourceClaim
from stowplan.api.node import Node
from stowplan.api.rules.nodeselector import CompiledNodeSelector
from stowplan.scheduler.framework import (
    Code,
    PodInfo,
    Status,
    error,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import (
    Budget,
    BudgetExceededError,
    Step,
    Work,
    standing_still,
)
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.plugins.dynamicresources import extended
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import (
    Allocator,
    Found,
    InvalidPoolsError,
    Searching,
)
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError
from stowplan.scheduler.plugins.dynamicresources.allocation.nodeallocatable import NodeAllocatable
from stowplan.scheduler.plugins.dynamicresources.allocation.nodeoverhead import NodeOverhead
from stowplan.scheduler.plugins.dynamicresources.allocation.operations import (
    OPTIONAL_OPERATIONS,
    skips_operations,
)
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, PoolError
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import Selectors
from stowplan.scheduler.plugins.dynamicresources.columns import DeviceColumns, DeviceComparison, simple_claim
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.plugins.dynamicresources.reuse import Column, Failed, KeptSearches, Searches
from stowplan.scheduler.plugins.dynamicresources.state import OWN_REASON, NodeAllocation, StateData
from stowplan.scheduler.table.devices import DeviceRef
from stowplan.scheduler.table.selection import matching_selector
from stowplan.scheduler.table.table import ClusterTable

Codes = npt.NDArray[np.int64]

UNAVAILABLE, NO_DEVICES, INVALID_POOLS, NO_RESOURCE, STALE_CLAIM = 1, 2, 3, 4, 5
REASONS: Final = {
    UNAVAILABLE: "resourceclaim not available on the node",
    NO_DEVICES: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
    NO_RESOURCE: "cannot fit resource",
    STALE_CLAIM: "cannot schedule extended resource claim",
}

_FEW: Final = 64
"""Up to this number of rows are evaluated one by one."""
_NOTHING: Final = extended.ExtendedRequests((), ())


class Verdicts:
    """Codes of nodes for a pod, and the devices found on one.

    `limit` gives the seconds that the searches of an attempt may take by `timer`, None: any time.
    """

    def __init__(
        self,
        table: ClusterTable,
        features: Features,
        limit: Callable[[], float | None],
        timer: Callable[[], float] = standing_still,
    ) -> None:
        self._table = table
        self._devices = table.devices
        self._features = features
        self._limit = limit
        self._timer = timer
        self._selectors = Selectors(features, timer)
        self._searches = KeptSearches(self._devices.claims.allocated, self._devices.classes)
        self._columns = DeviceColumns(table, features)
        self._comparison = DeviceComparison(self._columns, self._selectors, features)
        overhead = features.choices.node_allocatable_fields == "mapping-and-overhead"
        self._node_allocatable = (NodeOverhead if overhead else NodeAllocatable)(
            table, groups=features.workload_claims
        )

    def allocator(self) -> Allocator:
        return Allocator(
            self._features, self._devices.claims.allocated, self._devices.classes, self._selectors
        )

    def budget(self, attempt: Budget | None) -> Budget:
        """How long an attempt may search."""
        attempt = Budget(self._timer, self._limit()) if attempt is None else attempt
        return attempt.limited(self._limit())

    def basis(self) -> tuple[int, ...]:
        """A search in steps has to look at rows again when this changes."""
        devices = self._devices
        return (
            devices.slices.version,
            devices.classes.version,
            devices.claims.allocated.log.position,
            self._table.node_log.position,
        )

    def drop_stale(self) -> None:
        """Free what is kept of devices that are gone."""
        if self._columns.drop_stale():
            self._searches.clear()

    def codes(
        self, state: StateData, is_available: Callable[[ResourceClaim], bool]
    ) -> Generator[Step, None, Codes]:
        """The verdicts about all rows, in steps. `is_available`: if an allocated claim can be used.

        Finished work is kept if the generator is closed: the next one continues there.
        """
        self._columns.sync()
        codes = yield from self._codes(state)
        for index, claim in enumerate(state.claims):
            if index in state.pending:
                self._check_operations(state, index, codes)
                mask = self._available(state.selectors[index], claim, usable=True)
            elif claim.allocation is None:
                continue
            else:
                mask = self._available(state.selectors[index], claim, usable=is_available(claim))
            state.available[index] = mask
            if mask is not None:
                codes[(codes == 0) & ~mask] = UNAVAILABLE
        if self.depends_on_usage:
            yield from self._look_at_resources(state, codes)
        return codes

    def _check_operations(self, state: StateData, index: int, codes: Codes) -> None:
        """Nodes that cannot skip operations for the devices that another member of the group found."""
        claim = state.seen_claim(index)
        if not (self._features.choices.skip_node_operations and skips_operations(claim)):
            return
        key = claim.key
        text = f"resource claim {key} allocation requires DRAOptionalNodeOperations feature on the node"
        codes[~self._skipping_nodes() & ~np.isin(codes, (NO_RESOURCE, STALE_CLAIM))] = _own_reason(
            state, unresolvable(text)
        )

    def _skipping_nodes(self) -> "npt.NDArray[np.bool_]":
        """The rows whose nodes can skip operations."""
        table = self._table
        declare = [OPTIONAL_OPERATIONS in (features or ()) for features in table.feature_sets]
        found: npt.NDArray[np.bool_] = np.array(declare, dtype=np.bool_)[table.feature_set]
        return found

    @property
    def depends_on_usage(self) -> bool:
        """True if devices take resources of their nodes."""
        return self._features.node_allocatable and self._node_allocatable.is_mapped

    def _look_at_resources(self, state: StateData, codes: Codes) -> Work:
        """Heed what devices take of the nodes' own resources, node by node."""
        claims = state.seen_user_claims()
        for row in np.flatnonzero(self._table.valid).tolist():
            problem = None
            if codes[row] not in (NO_RESOURCE, STALE_CLAIM):
                problem = self._node_allocatable.is_shared(state.pod.pod, row, claims, state.shared)
            if problem is None and not codes[row]:
                problem = yield from self._lacking(state, row)
            if problem is None:
                continue
            if problem.code is Code.ERROR:
                codes[row] = _failed(state, problem.message)
                continue
            codes[row] = _own_reason(state, problem)

    def _lacking(self, state: StateData, row: int) -> Generator[Step, None, Status | None]:
        """Why a node cannot give what the devices found there take of it."""
        name = self._table.name_of(row)
        try:
            found = yield from self._found_on(state, name, row)
        except AllocationError as cause:
            return error(str(cause))
        claims = [state.claims[index] for index in state.to_find() if not state.is_extended(index)]
        new = {claim.key: one for claim, one in zip(claims, found.found if found else (), strict=False)}
        taken = self._node_allocatable.footprint(state.pod.pod, row, state.seen_user_claims(), new)
        if found is not None or taken.statuses:
            known = NodeAllocation([]) if found is None else found
            state.nodes[name] = known._replace(statuses=taken.statuses)
        return taken.problem

    def _codes(self, state: StateData) -> Generator[Step, None, Codes]:
        special, capacity = state.extended, self._table.capacity
        if special is None:
            if state.allocator is None:
                return np.zeros(capacity, dtype=np.int64)
            column = yield from self._column(state, [state.claims[index] for index in state.to_find()])
            return column.copy()
        if special.spec.devices.requests:
            return np.full(capacity, STALE_CLAIM, dtype=np.int64)
        return (yield from self._by_resources(state))

    def _available(self, selector: CompiledNodeSelector | None, claim: ResourceClaim, *, usable: bool) -> Any:
        """The rows where a claim can be used, None: all."""
        table = self._table
        skips = self._features.choices.skip_node_operations and skips_operations(claim)
        if usable and selector is None and not skips:
            return None
        mask = np.zeros(table.capacity, dtype=np.bool_)
        if not usable:
            return mask
        mask[: table.rows_in_use] = (
            True if selector is None else matching_selector(selector, table.all_rows())
        )
        if skips:
            mask &= self._skipping_nodes()
        return mask

    # Extended resources

    def _by_resources(self, state: StateData) -> Generator[Step, None, Codes]:
        """Verdicts where nodes provide different resources by devices, so that their requests differ, too."""
        table = self._table
        codes = np.zeros(table.capacity, dtype=np.int64)
        places = np.zeros(table.capacity, dtype=np.int64)
        asked = self._extended_resources(state.pod)
        for place, name in enumerate(asked):
            offered = table.allocatable_of(name) != 0
            if name in self._devices.classes.resources:
                places[~offered] |= 1 << place
                continue
            for row in np.flatnonzero(~offered[: table.rows_in_use]).tolist():
                node = table.nodes[row]
                if node is not None and name not in (node.status.allocatable or ()):
                    codes[row] = NO_RESOURCE
        in_use = places[: table.rows_in_use]
        for mask in np.unique(in_use[table.valid[: table.rows_in_use]]).tolist():
            resources = [name for place, name in enumerate(asked) if mask >> place & 1]
            if not resources and not state.user_claims:
                continue
            rows = np.flatnonzero((places == mask) & (codes == 0) & table.valid)
            if state.allocator is None or not len(rows):
                continue
            claims = self._claims_for(state, resources)[0]
            column = yield from self._column(state, claims)
            codes[rows] = column[rows]
        return codes

    def _extended_resources(self, pod: PodInfo) -> list[str]:
        return [
            name
            for name, amount in pod.requests.scalars.items()
            if amount and extended.may_mean_devices(name)
        ]

    def _claims_for(
        self, state: StateData, resources: Sequence[str]
    ) -> tuple[list[ResourceClaim], ResourceClaim | None, extended.ExtendedRequests]:
        """The claims without devices as a node needs them that answers some resources with devices."""
        special, asked = state.extended, _NOTHING
        if special is not None:
            asked = extended.requests_for(state.pod.pod, resources, self._devices.classes)
            special = extended.with_requests(special, asked.requests)
        claims = [
            special if special is not None and state.is_extended(index) else state.claims[index]
            for index in state.to_find()
        ]
        return claims, special, asked

    # Columns

    def _column(self, state: StateData, claims: list[ResourceClaim]) -> Generator[Step, None, Codes]:
        """The verdicts of the search for claims about all rows; only those in doubt are looked at.

        When time is up there is none about what is left, which fails the attempt if it matters.
        """
        searches, budget = self._searches.of(claims), self.budget(state.budget)
        column = self._refreshed(searches, claims, budget)
        try:
            if column.stale or column.pending:
                budget.spend(0)
            yield from self._compare(searches, column, budget)
            for row in sorted(column.pending):
                yield from self._settle(state, searches, column, claims, row)
        except BudgetExceededError:
            left = column.stale | column.pending
            at = min(row for row in column.pending or left if self._table.nodes[row] is not None)
            late = Failed(_timed_out(budget.ended_at or self._table.name_of(at)), budget)
            column.failed.update(dict.fromkeys(left, late))
        for row, failed in column.failed.items():
            column.codes[row] = _failed(state, failed.text)
        return column.codes

    def _refreshed(self, searches: Searches, claims: list[ResourceClaim], budget: Budget) -> Column:
        """The column of claims, with the rows that have to be looked at for an attempt."""
        table, columns, classes = self._table, self._columns, self._devices.classes
        column = searches.column
        if column is None or len(column.codes) != table.capacity:
            column = searches.column = Column(table.capacity)
        is_new = column.epoch != columns.epoch or column.classes != classes.version
        touched = None if is_new else columns.touched.since(column.position)
        if is_new:
            searches.simple = simple_claim(claims, classes, self._features) or False
        if touched is None:
            column.stale = set(range(table.rows_in_use))
        else:
            column.stale.update(touched.tolist())
        column.stale.update([row for row, failed in column.failed.items() if failed.budget is not budget])
        for row in column.stale:
            column.failed.pop(row, None)
        column.pending -= column.stale
        column.epoch, column.classes = columns.epoch, classes.version
        column.position = columns.touched.position
        return column

    def _compare(self, searches: Searches, column: Column, budget: Budget) -> Work:
        """Compare claims with devices for stale rows; where that does not tell, a search is pending."""
        if searches.simple and column.stale:
            yield from self._comparison.look_at_contents(searches.simple, budget)
        column.pending |= self._compared(searches, column, column.stale)
        column.stale = set()

    def _compared(self, searches: Searches, column: Column, rows: set[int]) -> set[int]:
        """Take in what a comparison with devices tells of rows; returns those that need a search."""
        simple, columns = searches.simple, self._columns
        if not simple or not rows:
            return rows
        missing = np.full(self._table.capacity, NO_DEVICES, dtype=np.int64)
        if len(rows) > _FEW:
            enough, to_search = self._comparison.count_all(simple)
            missing[: len(enough)][enough] = 0
            listed = np.fromiter(rows, dtype=np.intp, count=len(rows))
            column.codes[listed] = missing[listed]
            to_search &= rows
        else:
            to_search = set()
            for row in rows:
                enough_here = self._comparison.count(simple, row)
                if enough_here is None:
                    to_search.add(row)
                column.codes[row] = 0 if enough_here else NO_DEVICES
        for row in columns.with_invalid_pools & rows:
            if column.codes[row] == NO_DEVICES:
                column.codes[row] = INVALID_POOLS
        return to_search

    def _settle(
        self, state: StateData, searches: Searches, column: Column, claims: list[ResourceClaim], row: int
    ) -> Work:
        """Find out about a row by a search. Raises BudgetExceededError."""
        node = self._table.nodes[row]
        code, text = 0, ""
        if node is not None and self._table.valid.item(row):
            try:
                found = yield from self._search(state, searches, claims, node, row)
                code = NO_DEVICES if found is None else 0
            except AllocationError as cause:
                text = str(cause)
            except PoolError as cause:
                text = f"gather pool information: {cause}"
            except InvalidPoolsError:
                code = INVALID_POOLS
        column.codes[row] = code
        column.pending.discard(row)
        if text:
            column.failed[row] = Failed(text, self.budget(state.budget))

    def _search(
        self, state: StateData, searches: Searches, claims: list[ResourceClaim], node: Node, row: int
    ) -> Searching:
        """Devices for claims on a node, found now or for an earlier pod.

        Raises what `allocate` raises, and PoolError.
        """
        pools = self._columns.pools.of(node, row)
        kept = self._searches.current(searches, node.name, pools)
        if kept is not None:
            return kept.found
        budget = self.budget(state.budget)
        under_way = self._searches.begun(searches, node.name, pools, budget)
        budget.spend(0)
        if under_way is None:
            assert state.allocator is not None
            search = state.allocator.search(node, pools, claims, budget)
            under_way = self._searches.begin(searches, node.name, pools, budget, search)
        while True:
            if not under_way.waits:
                try:
                    under_way.step, under_way.waits = next(under_way.search), True
                except StopIteration as end:
                    found: list[Found] | None = end.value
                    break
                except Exception:
                    searches.under_way.clear()
                    raise
            # Closing this generator leaves the search as it is, to be resumed later.
            yield under_way.step
            under_way.waits = False
        self._searches.keep(searches, node.name, pools, found)
        return found

    # One node

    def found_on(self, state: StateData, name: str) -> NodeAllocation | None:
        """Allocation on a node that passed; None if nothing has to be allocated there.

        Raises AllocationError.
        """
        row = self._table.row_of(name)
        if row is None or (state.codes is not None and state.codes.item(row)):
            return None
        return run_at_once(self._found_on(state, name, row))

    def _found_on(
        self, state: StateData, name: str, row: int
    ) -> Generator[Step, None, NodeAllocation | None]:
        known = state.nodes.get(name)
        if known is not None or state.allocator is None:
            return known
        node = self._table.nodes[row]
        if node is None:
            return None
        resources = self._answered_by_devices(state.pod, row)
        if state.extended is not None and not resources and not state.user_claims:
            return None
        claims, special, asked = self._claims_for(state, resources)
        self._columns.sync()
        try:
            found = yield from self._search(state, self._searches.of(claims), claims, node, row)
        except (PoolError, InvalidPoolsError) as cause:
            raise AllocationError(str(cause) or REASONS[NO_DEVICES]) from None
        except BudgetExceededError:
            raise AllocationError(_timed_out(name)) from None
        if found is None:
            return None
        state.nodes[name] = NodeAllocation(found, special, asked.mappings)
        return state.nodes[name]

    def selects(
        self, selector: DeviceSelector, ref: DeviceRef, budget: Budget
    ) -> Generator[Step, None, bool]:
        """True if a selector chooses a device. Raises CompileError, EvaluationError, BudgetExceededError."""
        expression = "" if selector.cel is None else selector.cel.expression
        return self._selectors.match(expression, ref, budget)

    def pools_on(self, node: Node, row: int) -> list[Pool]:
        """The pools of a node. Raises PoolError."""
        self._columns.sync()
        return self._columns.pools.of(node, row)

    def claims_on(self, state: StateData, row: int) -> list[ResourceClaim]:
        """The claims without devices as a node needs them."""
        claims = self._claims_for(state, self._answered_by_devices(state.pod, row))[0]
        return [claim for claim in claims if claim.spec.devices.requests]

    def _answered_by_devices(self, pod: PodInfo, row: int) -> list[str]:
        """The extended resources of a pod that a node answers with devices."""
        resources = self._devices.classes.resources
        return [
            name
            for name in self._extended_resources(pod)
            if name in resources and not self._table.allocatable_of(name).item(row)
        ]


def _timed_out(node: str) -> str:
    return f"node {node}: timed out trying to allocate devices"


def _failed(state: StateData, text: str) -> int:
    """The code of an error."""
    if text not in state.errors:
        state.errors.append(text)
    return -state.errors.index(text) - 1


def _own_reason(state: StateData, status: Status) -> int:
    """The code of what is said of single nodes."""
    if status not in state.reasons:
        state.reasons.append(status)
    return OWN_REASON + state.reasons.index(status)
