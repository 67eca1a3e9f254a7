"""Why a node has no devices for a pod, and what would help. Computed on request only."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan.api.devices import ALL_DEVICES, ResourceClaim
from stowplan.api.node import Node
from stowplan.api.rules.amounts import smaller_requests
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.advanced import (
    Budget,
    BudgetExceededError,
    Obstacle,
    Relevance,
    Remedy,
    Shortfall,
    standing_still,
)
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.plugins.dynamicresources import extended
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool, PoolError
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Request, requests_of
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import CompileError, EvaluationError
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError, claims_of
from stowplan.scheduler.plugins.dynamicresources.explanation.diagnosis import (
    PATIENCE,
    DeviceProblem,
    Diagnosis,
    Holders,
    held_by,
)
from stowplan.scheduler.plugins.dynamicresources.explanation.remedies import remedies_for
from stowplan.scheduler.plugins.dynamicresources.explanation.shortfall import (
    failing_device,
    shown_constraint,
    shown_obstacle,
    shown_shortfall,
)
from stowplan.scheduler.plugins.dynamicresources.state import StateData
from stowplan.scheduler.plugins.dynamicresources.verdicts import Verdicts
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.devices import DeviceRef
from stowplan.scheduler.table.table import ClusterTable

CUT: Final = "the search was cut after half a second: too many combinations of devices to look at all of them"
_COMPARED: Final = 4
"""Nodes whose reasons are compared in words: each may take many milliseconds."""
_NEARLY_NOTHING: Final = 0.05
"""Shortfall of a node that has enough free devices, though not the right ones."""


class DeviceExplanations:
    """Says what nodes lack for the claims of pods.

    All answers about one attempt together may take PATIENCE by `timer`; then they say that they were cut.
    """

    def __init__(
        self,
        table: ClusterTable,
        verdicts: Verdicts,
        timer: Callable[[], float] = standing_still,
        *,
        groups: bool = False,
    ) -> None:
        self._table = table
        self._timer = timer
        self._groups = groups
        self._devices = table.devices
        self._verdicts = verdicts
        self._holders = Holders(table.devices.claims)

    def shortfall(self, state: StateData | None, pod: PodInfo, row: int) -> Shortfall | None:
        node = self._table.nodes[row]
        if state is None or node is None:
            return None
        elsewhere = self._elsewhere(state, node, row)
        try:
            diagnosis = self._diagnosis(state, row, node)
            problem = None if diagnosis is None else diagnosis.problem()
        except (AllocationError, PoolError) as cause:
            return Shortfall("error", str(cause))
        except BudgetExceededError:
            return Shortfall("search", CUT)
        if diagnosis is None or problem is None:
            return elsewhere
        size = self._size(diagnosis.claims, diagnosis.pools, diagnosis.budget)
        return shown_shortfall(diagnosis, problem, self._devices.slices, size)

    def relevance(self, state: StateData | None, rows: Rows) -> "npt.NDArray[np.int64]":
        """Nodes without any device that is free or taken are of another kind."""
        found = np.full(len(rows), Relevance.STATE, dtype=np.int64)
        slices = [view.slice.spec for view in self._devices.slices.all()]
        having = {spec.node_name for spec in slices}
        if state is not None and all(spec.node_name for spec in slices):
            claims = self._verdicts.claims_on(state, int(rows[0])) if len(rows) else []
            missing = [self._table.name_of(row) not in having for row in rows.tolist()]
            found[np.array(missing, dtype=np.bool_) & bool(claims)] = Relevance.KIND
            return found
        for place, row in enumerate(rows.tolist()):
            node = self._table.nodes[row]
            if state is None or node is None:
                continue
            try:
                claims = self._verdicts.claims_on(state, row)
                has_devices = any(pool.devices for pool in self._verdicts.pools_on(node, row))
            except PoolError:
                continue
            if claims and not has_devices:
                found[place] = Relevance.KIND
        return found

    def obstacle(self, state: StateData | None, pod: PodInfo, rows: Rows) -> Obstacle | None:
        """Reason of the nearest of some nodes: how many devices of which class are free."""
        node = self._table.nodes[int(rows[0])]
        if state is None or node is None:
            return None
        try:
            diagnosis = self._diagnosis(state, int(rows[0]), node)
            problem = None if diagnosis is None else diagnosis.problem()
        except (AllocationError, PoolError, BudgetExceededError):
            return None
        if diagnosis is None or problem is None:
            return None
        if problem.request is None:
            return Obstacle(shown_constraint(problem))
        classes = " or ".join(dict.fromkeys(one.class_name for one in requests_of(problem.request)))
        if not diagnosis.devices:
            whole = len(rows) == self._table.node_count
            text = f"{'no node has' if whole else 'no'} devices of class {classes}"
            return Obstacle(text, "cluster" if whole else "on")
        return Obstacle(shown_obstacle(problem, classes, holders=len(rows) == 1))

    def obstacle_kinds(self, state: StateData | None, pod: PodInfo, rows: Rows) -> list[int]:
        """Nodes by the reason in words; of many, those that were not compared are told like the nearest."""
        known: dict[str, int] = {}
        found = []
        for row in rows[:_COMPARED]:
            obstacle = self.obstacle(state, pod, np.array([row, row], dtype=np.intp))
            text = "" if obstacle is None else obstacle.text
            found.append(known.setdefault(text, len(known)))
        return found + [0] * (len(rows) - len(found))

    def sizes(self, state: StateData | None, pod: PodInfo, rows: Rows) -> "npt.NDArray[np.float64]":
        """Shortfall of nodes, by the number of their free devices that a request selects."""
        budget = self._budget(state)
        return np.array([self._size_on(state, row, budget) for row in rows.tolist()], dtype=np.float64)

    def _budget(self, state: StateData | None = None) -> Budget:
        if state is None:
            return Budget(self._timer, PATIENCE)
        if state.explaining is None:
            state.explaining = Budget(self._timer, PATIENCE)
        return state.explaining

    def _size_on(self, state: StateData | None, row: int, budget: Budget) -> float:
        node = self._table.nodes[row]
        if state is None or node is None:
            return 1.0
        try:
            claims = self._verdicts.claims_on(state, row)
            return self._size(claims, self._verdicts.pools_on(node, row), budget)
        except PoolError:
            return 1.0

    def _size(self, claims: Sequence[ResourceClaim], pools: Sequence[Pool], budget: Budget) -> float:
        """Share of devices that is missing; everything, if it would take too long to find out."""
        wanted = sum(map(_fewest, claims))
        taken = self._devices.claims.allocated.devices
        options = [
            option
            for claim in claims
            for request in claim.spec.devices.requests
            for option in requests_of(request)
        ]
        try:
            free = sum(
                ref.id not in taken and any(self._selects(option, ref, budget) for option in options)
                for pool in pools
                for ref in pool.devices
            )
        except BudgetExceededError:
            return 1.0
        return max((wanted - free) / wanted, _NEARLY_NOTHING) if wanted else 1.0

    def _selects(self, request: Request, ref: DeviceRef, budget: Budget) -> bool:
        device_class = self._devices.classes.get(request.class_name)
        of_class = () if device_class is None else device_class.spec.selectors
        budget.spend()
        try:
            return all(
                run_at_once(self._verdicts.selects(selector, ref, budget))
                for selector in (*of_class, *request.selectors)
            )
        except (CompileError, EvaluationError):
            return False

    def remedies(self, state: StateData | None, pod: PodInfo, row: int) -> Iterator[Remedy]:
        node = self._table.nodes[row]
        if state is None or node is None:
            return
        try:
            diagnosis = self._diagnosis(state, row, node)
            problem = None if diagnosis is None else diagnosis.problem()
        except (AllocationError, BudgetExceededError, PoolError):
            return
        if diagnosis is None or problem is None:
            return
        for remedy in remedies_for(pod.pod, diagnosis, problem, self._holders, self._table):
            if not remedy.of_claim or not _is_for_extended(problem.claim):
                yield remedy
        if _is_for_extended(problem.claim):
            yield from self._smaller_request(pod, problem)

    def _smaller_request(self, pod: PodInfo, problem: DeviceProblem) -> Iterator[Remedy]:
        """Fewer of an extended resource: as many as devices are free."""
        request = problem.request
        exactly = None if request is None else request.exactly
        if request is None or exactly is None:
            return
        device_class = self._devices.classes.get(exactly.device_class_name)
        names = () if device_class is None else device_class.resource_names
        resource = next((name for name in pod.requests.scalars if name in names), "")
        free = sum(len(problem.usable(option)) for option in requests_of(request))
        if not resource or not 0 < free < exactly.count:
            return
        patch = smaller_requests(pod.pod, {resource: free})
        if patch is not None:
            text = f"request {free} {resource} (now {exactly.count})"
            yield Remedy("requests", text, patch, (exactly.count - free) / exactly.count)

    def failure(self, pod: PodInfo, nodes: Sequence[str]) -> str:
        """The device that an expression fails for on one of the nodes."""
        try:
            claims = claims_of(pod.pod, self._devices.claims, groups=self._groups)
        except ClaimError:
            return ""
        asking = [claim for claim in claims if claim.allocation is None]
        budget = self._budget()
        for name in nodes:
            row = self._table.row_of(name)
            node = None if row is None else self._table.nodes[row]
            if node is None or row is None:
                continue
            try:
                pools = self._verdicts.pools_on(node, row)
            except PoolError:
                continue
            allocator = self._verdicts.allocator()
            diagnosis = Diagnosis(allocator, self._holders, node, pools, asking, budget)
            try:
                found = failing_device(diagnosis)
            except BudgetExceededError:
                return ""
            if found:
                return f"{found}, on {name}"
        return ""

    def _elsewhere(self, state: StateData, node: Node, row: int) -> Shortfall | None:
        """A claim whose devices cannot be used on the node."""
        for index, claim in enumerate(state.claims):
            allocation, available = claim.allocation, state.available[index]
            if allocation is None or available is None or available.item(row):
                continue
            devices = ", ".join("/".join(one.id[1:]) for one in allocation.devices.results)
            users = f"; it is reserved for {held_by([claim])}" if claim.status.reserved_for else ""
            selector = state.selectors[index]
            if selector is not None and not selector.matches(node.metadata.labels, node.name):
                return Shortfall("claim elsewhere", f"claim {claim.name} has {devices}{users}")
            return Shortfall(
                "devices not ready", f"claim {claim.name}: {devices} did not become ready{users}"
            )
        return None

    def _diagnosis(self, state: StateData, row: int, node: Node) -> Diagnosis | None:
        claims = self._verdicts.claims_on(state, row)
        if not claims:
            return None
        pools = self._verdicts.pools_on(node, row)
        return Diagnosis(self._verdicts.allocator(), self._holders, node, pools, claims, self._budget(state))


def _is_for_extended(claim: ResourceClaim) -> bool:
    return claim.name == extended.IN_MEMORY_NAME


def _fewest(claim: ResourceClaim) -> int:
    """Minimum number of devices a claim needs."""
    counts = []
    for request in claim.spec.devices.requests:
        options = requests_of(request)
        counts.append(min((1 if one.mode == ALL_DEVICES else one.count for one in options), default=0))
    return sum(counts)
