"""DynamicResources: finds devices for the claims of a pod, and gets them written."""

from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.devices import (
    MOST_SUBREQUESTS,
    AllocationResult,
    ResourceClaim,
)
from stowplan.api.pod import Pod
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.framework import (
    SKIP,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    NodeRows,
    Plugin,
    PodInfo,
    PostFilterResult,
    Reads,
    ScoreRange,
    Scores,
    Signs,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    ALL_ROWS,
    SKIP_CLASS,
    Budget,
    Evaluation,
    GroupCycle,
    LongSearchError,
    Obstacle,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Remedy,
    ScheduleGroup,
    Shortfall,
    StaleRows,
    Step,
    Work,
)
from stowplan.scheduler.framework.budget import run_at_once
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.plugins.dynamicresources import extended
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError
from stowplan.scheduler.plugins.dynamicresources.allocation.nodeallocatable import Statuses, with_statuses
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import compiled
from stowplan.scheduler.plugins.dynamicresources.allocation.results import allocation_result
from stowplan.scheduler.plugins.dynamicresources.args import DynamicResourcesArgs
from stowplan.scheduler.plugins.dynamicresources.binder import ClaimBinder, ClaimWriteError
from stowplan.scheduler.plugins.dynamicresources.claims import (
    ClaimError,
    claims_of,
    is_reserved_for,
)
from stowplan.scheduler.plugins.dynamicresources.conditions import BindingFailedError, has_timed_out, is_ready
from stowplan.scheduler.plugins.dynamicresources.explanation.explanations import DeviceExplanations
from stowplan.scheduler.plugins.dynamicresources.features import features_of
from stowplan.scheduler.plugins.dynamicresources.groupclaims import (
    DELETE,
    GroupClaims,
    GroupPostFilter,
    MemberClaims,
    consumers_of,
    freeing_for,
)
from stowplan.scheduler.plugins.dynamicresources.hints import ClaimHints
from stowplan.scheduler.plugins.dynamicresources.reservations import Reservations
from stowplan.scheduler.plugins.dynamicresources.state import (
    OWN_REASON,
    NodeAllocation,
    StateData,
    is_in_memory,
)
from stowplan.scheduler.plugins.dynamicresources.verdicts import REASONS, UNAVAILABLE, Verdicts
from stowplan.scheduler.plugins.normalize import by_highest
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.devices import with_allocation
from stowplan.scheduler.table.pod_groups import GroupLookupError

REASON_NO_CLAIMS: Final = "no new claims to deallocate"
REASON_DEALLOCATED: Final = "deallocation of ResourceClaim completed"
REASON_DELETED: Final = "deletion of ResourceClaim completed"
REASON_STILL_NOT: Final = "still not schedulable"
NOT_FOUND: Final = "not found"


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Rejects nodes without devices for the claims of a pod; allocates and reserves them on the chosen one.

    Pods without claims are skipped, all others form a class with those identical in everything else: verdicts
    on nodes are kept from one to the next, except where they differ.
    """

    contract = Contract(
        reads=Reads.NODE,
        reads_others=Reads.ANYTHING,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        needs=("resourceclaims", "resourceslices", "deviceclasses"),
        scores_only_if_filtering=True,
        can_fail=True,
        skips_deferred_resizes=True,
        idle_for_plain_pods=True,
        parallel_pre_bind=True,
    )

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._table = handle.table
        self._devices = handle.table.devices
        self._features = features_of(handle.gates)
        self._devices.slices.heed_rules(handle.gates["DRADeviceTaintRules"])
        self._verdicts = Verdicts(handle.table, self._features, self._filter_limit, handle.timer)
        takes_room = self._features.node_allocatable
        self.contract = replace(self.contract, changes_assumed_pods=takes_room, filters_by_pods=takes_room)
        if takes_room:
            handle.table.count_claims()
        self._reservations = Reservations(self._devices.claims, handle, self._binder)
        self._for_groups = self._features.workload_claims
        self.mixes_up_shared = False
        """True if a member's own claims and those it shares get each other's devices where the shared ones
        come first in its spec, as in kube-scheduler 1.37. That is a bug there: a claim gets devices that it
        did not ask for, and devices are allocated twice. Recordings have it."""
        self._explanations = DeviceExplanations(
            self._table, self._verdicts, handle.timer, groups=self._for_groups
        )
        self._group_post_filter = GroupPostFilter(
            self._devices.claims,
            handle.table.groups,
            self._binder,
            lambda: handle.scheduler,
            for_groups=self._for_groups,
        )

    def sign(self, pod: PodInfo) -> Hashable:
        return self._concerns(pod)

    def _concerns(self, pod: PodInfo) -> bool:
        """True if a pod has claims, or extended resources that mean devices."""
        if pod.spec.resource_claims:
            return True
        return self._features.extended_resources and extended.asks_for_devices(pod, self._devices.classes)

    def events(self) -> Sequence[EventRegistration]:
        return ClaimHints(
            self._devices.claims, self.handle.behaviour, groups=self._for_groups
        ).registrations()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        try:
            self._claims_of(pod.pod)
        except ClaimError as cause:
            self._reservations.clear_leftovers(pod)
            return unresolvable(str(cause))
        return None

    def always_enqueues(self, pod: PodInfo) -> bool:
        return not pod.spec.resource_claims

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """The claims of a pod. Raises ClaimError."""
        return claims_of(pod, self._devices.claims, groups=self._for_groups)

    # PreFilter

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not self._concerns(pod):
            cycle.write(self, True)
            return SKIP_CLASS
        cycle.write(self, StateData(pod, [], None))
        try:
            claims = self._claims_of(pod.pod)
            special = self._extended_claim(pod)
            consumers = consumers_of(pod.pod, self._table.groups) if self._for_groups else ()
        except (ClaimError, GroupLookupError) as cause:
            return unresolvable(str(cause))
        if not claims and special is None:
            return SKIP
        state = StateData(pod, claims, special)
        state.consumers = consumers
        kept = self._kept_for_group(cycle)
        if kept is not None:
            kept.share(state, self._devices.claims)
        for index, claim in enumerate(state.claims):
            status = self._check_claim(state, index, claim)
            if status is not None:
                return status
        if state.to_find():
            self._devices.claims.searches += 1
            state.allocator = self._verdicts.allocator()
            state.budget = self._verdicts.budget(cycle.budget)
        cycle.write(self, state)
        return None

    def _extended_claim(self, pod: PodInfo) -> ResourceClaim | None:
        """The claim for extended resources that mean devices, from an earlier attempt or a new one."""
        if not self._features.extended_resources:
            return None
        if not extended.asks_for_devices(pod, self._devices.classes):
            return None
        return extended.find_claim(pod.pod, self._devices.claims) or extended.new_claim(pod.pod)

    def _kept_for_group(self, cycle: Cycle) -> GroupClaims | None:
        """State kept while the pod's group is placed, None if there is none or the pod is alone."""
        found: GroupClaims | None = None if cycle.group is None else cycle.group.read(self)
        return found

    def _check_claim(self, state: StateData, index: int, claim: ResourceClaim) -> Status | None:
        allocation = state.allocations[index] if index in state.pending else claim.allocation
        if allocation is not None:
            if allocation.node_selector is not None:
                selector = compiled(allocation.node_selector)
                if selector.parse_error is not None:
                    return error(selector.parse_error)
                state.selectors[index] = selector
            return None
        if self._devices.claims.pending_allocation(claim.metadata.uid) is not None:
            self._devices.claims.await_pending(claim.metadata.uid, state.pod.pod)
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        return None if state.is_extended(index) else self._check_requests(claim)

    def _check_requests(self, claim: ResourceClaim) -> Status | None:
        """Rejection if a class that a claim requests does not exist."""
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                asked = [(request.name, request.exactly.device_class_name)]
            elif not request.first_available:
                return unresolvable(
                    f"resource claim {claim.key}, request {request.name}: unknown request type"
                )
            elif not self._features.prioritized_list:
                return unresolvable(
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            else:
                asked = [
                    (f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available
                ]
            for name, class_name in asked:
                if not class_name:
                    return error(f"request {name}: unsupported request type")
                if self._devices.classes.get(class_name) is None:
                    return unresolvable(f"request {name}: device class {class_name} does not exist")
        return None

    # Filter

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        state = self._state(cycle)
        if state is None or not state.claims:
            return None
        codes: Codes = self._codes(state)[nodes.rows]
        return codes

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        state = self._state(cycle)
        return 0 if state is None or not state.claims else self._codes(state).item(row)

    def stale_filter_rows(self, cycle: Cycle, pod: PodInfo, then: object, now: object) -> StaleRows:
        """The rows where a pod's claims fare differently from those of the pod before."""
        if not isinstance(then, StateData) or not isinstance(now, StateData) or then.codes is None:
            return ALL_ROWS
        codes = self._codes(now)
        if len(codes) != len(then.codes) or then.errors or now.errors or then.reasons or now.reasons:
            return ALL_ROWS
        changed: Rows = (codes != then.codes).nonzero()[0]
        return changed

    def _codes(self, state: StateData) -> Codes:
        """The verdicts about all rows, worked out once in an attempt.

        Raises LongSearchError if that takes longer than a stretch and the attempt can be interrupted.
        """
        if state.codes is None or self._verdicts.depends_on_usage:
            work = self._verdicts.codes(state, self._is_usable)
            budget = state.budget
            if budget is None or budget.pauses is None:
                state.codes = run_at_once(work)
            else:
                state.codes = self._at_a_stretch(state, work, budget)
        return state.codes

    def _at_a_stretch(self, state: StateData, work: Generator[Step, None, Codes], budget: Budget) -> Codes:
        while True:
            try:
                step = next(work)
            except StopIteration as end:
                codes: Codes = end.value
                return codes
            if step is not None or budget.is_stretch_over:
                work.close()
                raise LongSearchError(self._ahead(state))

    def _ahead(self, state: StateData) -> Work:
        """Search in steps until nothing is left to be searched; devices and nodes may change in between.

        Nothing is said here. The pod is filtered again afterwards, and then most verdicts are there.
        """
        left = True
        while left:
            basis = self._verdicts.basis()
            if state.allocator is not None:
                state.allocator = self._verdicts.allocator()
            work = self._verdicts.codes(state, self._is_usable)
            left = False
            for step in work:
                yield step
                if self._verdicts.basis() != basis:
                    work.close()
                    left = True
                    break

    def _state(self, cycle: Cycle) -> StateData | None:
        found: object = cycle.read(self)
        return found if isinstance(found, StateData) else None

    def _is_usable(self, claim: ResourceClaim) -> bool:
        """True unless the devices of a claim failed to become ready."""
        if not self._features.binding_conditions:
            return True
        try:
            return is_ready(claim) or not has_timed_out(claim, self._now(), self._binding_timeout)
        except BindingFailedError:
            return False

    def _filter_limit(self) -> float | None:
        """Seconds that the searches of an attempt may take, None: any time.

        kube-scheduler allows as much for each node, looks at many nodes at once, and ends the attempt at the
        first that takes longer: here nodes come one after the other.
        """
        limit: Duration | None = self.args.filter_timeout
        return (
            limit.seconds if self._features.filter_timeout and limit is not None and limit.seconds else None
        )

    @property
    def _binding_timeout(self) -> float:
        limit: Duration | None = self.args.binding_timeout
        return 600.0 if limit is None else limit.seconds

    def _now(self) -> float:
        services = self.handle.services
        return 0.0 if services is None else services.clock.now()

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        if code < 0:
            state = self._state(cycle)
            assert state is not None
            return error(state.errors[-code - 1])
        if code >= OWN_REASON:
            state = self._state(cycle)
            assert state is not None
            return state.reasons[code - OWN_REASON]
        return unresolvable(REASONS[code])

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        """Pods on a node make no difference here, unless devices take of the node's resources."""
        return not self._features.node_allocatable

    def drop_stale(self) -> None:
        self._verdicts.drop_stale()

    # Explanations

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        return self._explanations.shortfall(self._state(cycle), pod, row)

    def shortfall_sizes(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> "npt.NDArray[np.float64]":
        return self._explanations.sizes(self._state(cycle), pod, rows)

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Codes:
        return self._explanations.relevance(self._state(cycle), rows)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        return self._explanations.obstacle(self._state(cycle), pod, rows)

    def obstacle_kinds(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Sequence[int]:
        return self._explanations.obstacle_kinds(self._state(cycle), pod, rows)

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        return self._explanations.remedies(self._state(cycle), pod, row)

    def failure(self, pod: PodInfo, nodes: Sequence[str]) -> str:
        return self._explanations.failure(pod, nodes)

    # PostFilter

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Status | PostFilterResult:
        """Free devices that do not help where they are: those of one claim that only this pod uses.

        A pod that an earlier PreFilter plugin rejected outright never got to this plugin's PreFilter; its
        state is missing then, and the whole phase ends here.
        """
        state: object = cycle.read(self)
        if state is None and not self._is_skipped(pod):
            self._reservations.clear_leftovers(pod)
            return error(NOT_FOUND)
        if not isinstance(state, StateData) or not state.claims:
            self._reservations.clear_leftovers(pod)
            return self._cannot_help(REASON_NO_CLAIMS)
        return self._free(cycle, pod, state)

    def _is_skipped(self, pod: PodInfo) -> bool:
        """True if PreFilter skips the pod because it has its devices and waits for a resize."""
        return pod.template.resize_deferred and self.handle.gates[RESIZE_PREEMPTION]

    def _free(self, cycle: Cycle, pod: PodInfo, state: StateData) -> PostFilterResult:
        freeing = freeing_for(pod.uid, state, self._unavailable(cycle.evaluation, state))
        if freeing is not None:
            write = self._group_post_filter.having_done(freeing, pod.pod)
            reason = REASON_DELETED if freeing.what == DELETE else REASON_DEALLOCATED
            return PostFilterResult(unschedulable(reason), writes=(write,))
        self._reservations.clear_leftovers(pod)
        return PostFilterResult(self._cannot_help(REASON_STILL_NOT))

    def _cannot_help(self, reason: str) -> Status:
        """PostFilter status of a pod that cannot be helped."""
        return unschedulable(reason) if self.handle.behaviour.devices.post_filter_text else unschedulable()

    def _unavailable(self, evaluation: Evaluation | None, state: StateData) -> list[int]:
        """The claims that were not available on nodes where this plugin was the first to say no."""
        if evaluation is None or all(mask is None for mask in state.available):
            return []
        found: set[int] = set()
        for status, rows in evaluation.rejections().items():
            if status.plugin == self.name and REASONS[UNAVAILABLE] in status.reasons:
                for index, mask in enumerate(state.available):
                    if mask is not None and not mask[rows].all():
                        found.add(index)
        return sorted(found)

    # Groups

    def member_filtered(self, cycle: Cycle, evaluation: Evaluation) -> None:
        """Remember a member's claims that were not available; it had to get as far as this plugin."""
        found: object = cycle.read(self)
        if found is None or cycle.group is None:
            return
        state = found if isinstance(found, StateData) else StateData(cycle.pod, [], None)
        kept = self._keep_for_group(cycle.group)
        kept.members[cycle.pod.uid] = MemberClaims(state, self._unavailable(evaluation, state))

    def _keep_for_group(self, cycle: GroupCycle) -> GroupClaims:
        kept: GroupClaims | None = cycle.read(self)
        if kept is None:
            kept = GroupClaims()
            cycle.write(self, kept)
        return kept

    def pod_group_post_filter(
        self, cycle: GroupCycle, group: PodGroupInfo, schedule: ScheduleGroup
    ) -> Status | PodGroupPostFilterResult:
        """Free devices for a group; not for composite groups, nor for one that is bound to a part of the
        nodes.

        The state is missing if no member got as far as this plugin's PreFilter: an error for a built-in
        group, as in kube-scheduler, but not for one of scheduler-plugins.
        """
        placed = self.handle.gates["TopologyAwareWorkloadScheduling"]
        if group.is_composite or (placed and group.object.spec.scheduling_constraints is not None):
            return unschedulable()
        kept: GroupClaims | None = cycle.read(self)
        if kept is None:
            known_by_label = isinstance(group.object, CoschedulingPodGroup)
            return unschedulable() if known_by_label else error(NOT_FOUND)
        return self._group_post_filter.run(kept, group)

    # Score

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> bool:
        """True if scores differ from node to node."""
        state = self._state(cycle)
        return (
            state is not None
            and state.allocator is not None
            and self._features.prioritized_list
            and any(
                request.first_available for claim in state.claims for request in claim.spec.devices.requests
            )
        )

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, then: bool | None, now: bool) -> StaleRows:
        return ALL_ROWS if then or now or then is None else NO_ROWS

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        """Earlier alternatives of requests are better."""
        state = self._state(cycle)
        if state is None or not self.score_basis(cycle, pod):
            return None
        names = self._table.names
        rows = np.arange(self._table.capacity)[nodes.rows].tolist()
        return np.array([self._score_of(state, names[row]) for row in rows], dtype=np.int64)

    def _score_of(self, state: StateData, node: str) -> int:
        found = self._verdicts.found_on(state, node)
        if found is None:
            return 0
        new = iter(found.found)
        claims = [state.seen_claim(index) for index in range(len(state.claims))]
        return sum(
            _score(claim, {chosen.request.full_name for chosen in next(new).devices})
            if claim.allocation is None
            else _score(claim, {result.request for result in claim.allocation.devices.results})
            for claim in claims
        )

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return by_highest(scores, extremes, reverse=False)

    def allocations(self, state: StateData, node: str) -> list[tuple[ResourceClaim, AllocationResult]]:
        """Allocations to write on a node for the claims that need devices. Raises AllocationError."""
        found = self._verdicts.found_on(state, node)
        if found is None:
            return []
        claims = [self._claim_for(state, index, found) for index in state.to_find()]
        return [
            (claim, allocation_result(claim, one, node, self._features, self.handle.rng))
            for claim, one in zip(claims, found.found, strict=True)
        ]

    def _claim_for(self, state: StateData, index: int, found: NodeAllocation) -> ResourceClaim:
        """A claim as a node needs it."""
        if state.is_extended(index) and found.extended_claim is not None:
            return found.extended_claim
        return state.claims[index]

    # Reserve

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        """Put the allocation in flight, so that no other pod gets these devices."""
        state = self._state(cycle)
        if state is None or not (state.pending or state.allocator is not None):
            return None
        kept = None if cycle.group is None else self._keep_for_group(cycle.group)
        if state.allocator is not None and state.reserved_on != node:
            problem = self._decide(state, node)
            if problem is not None:
                return problem
        for index in state.to_allocate():
            allocation = state.allocations[index]
            if allocation is None:
                continue
            claim = state.claims[index]
            if state.chosen is not None:
                claim = self._claim_for(state, index, state.chosen)
            problem = self._signal(claim, allocation)
            if problem is not None:
                return problem
            if kept is not None:
                kept.pending.setdefault(claim.metadata.uid, set()).add(pod.uid)
        return None

    def _decide(self, state: StateData, node: str) -> Status | None:
        """Choose the devices that were found on a node."""
        places = state.to_find()
        try:
            found = self._verdicts.found_on(state, node)
        except AllocationError as cause:
            return error(str(cause))
        if found is None or not found.found:
            if all(state.is_extended(index) for index in places):
                return None
            return error("claim allocation not found for node")
        if len(found.found) != len(places):
            return error(
                f"internal error, have {len(found.found)} allocations, {len(places)} claims to allocate, "
                f"want {len(places)} claims"
            )
        state.chosen = found
        try:
            allocations = self.allocations(state, node)
        except AllocationError as cause:
            return error(str(cause))
        decided = [allocation for _, allocation in allocations]
        if self.mixes_up_shared and state.pending:
            decided += [one for index in sorted(state.pending) if (one := state.allocations[index])]
            places = state.to_allocate()
        for index, allocation in zip(places, decided, strict=True):
            state.allocations[index] = allocation
        state.reserved_on = node
        return None

    def _signal(self, claim: ResourceClaim, allocation: AllocationResult) -> Status | None:
        """Tell that a claim is being allocated, unless it turns out that it is allocated already."""
        claims, uid = self._devices.claims, claim.metadata.uid
        is_checked = self._features.choices.reserve_skips_allocated and not is_in_memory(claim)
        if is_checked and claims.pending_allocation(uid) is None:
            seen = claims.get(claim.key)
            if seen is None:
                missing = f'{claim.key}, UID={uid}: could not find ResourceClaim "{claim.key}"'
                return error(
                    f"internal error, couldn't signal allocation for claim {claim.name}: "
                    f"look up assumed claim {missing}"
                )
            if seen.metadata.uid == uid and seen.allocation is not None:
                return None
        claims.signal_pending(with_allocation(claim, allocation))
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        """Give back what was reserved."""
        state = self._state(cycle)
        if state is None or not state.claims:
            return
        if cycle.group is not None:
            # The group was only tried: nothing was written.
            self._reservations.take_back_tried(state, self._keep_for_group(cycle.group))
            return
        if self._statuses(state, node):
            self._reservations.clear_status(pod)
        self._reservations.take_back(state, pod)

    def close(self) -> None:
        self._reservations.close()

    # Resources of the node that devices take

    def assumed_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> Pod | None:
        """The pod as it counts on its node from now on, None if that is as it is."""
        state = self._state(cycle)
        statuses = () if state is None else self._statuses(state, node)
        before = pod.pod.status.node_allocatable_resource_claim_statuses
        return None if statuses == before else with_statuses(pod.pod, statuses)

    @staticmethod
    def _statuses(state: StateData, node: str) -> Statuses:
        found = state.nodes.get(node)
        return () if found is None else found.statuses

    # PreBind

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        state = self._state(cycle)
        return SKIP if state is None or not state.claims else None

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        state = self._state(cycle)
        if state is None or not state.claims:
            return None
        binder = self._binder()
        await self._reservations.released(state, pod)
        written: list[str] = []
        try:
            for index, claim in enumerate(state.claims):
                if not is_reserved_for(claim, pod.pod, groups=self._for_groups):
                    await self.handle.scheduler.in_turn(pod.pod)
                    await self._reservations.write(state, index, pod)
                    written.append(state.uids[index])
            statuses = self._statuses(state, node)
            if statuses:
                await binder.tell_pod(pod, statuses)
            if self._features.binding_conditions:
                await binder.wait_until_ready(state, pod, node)
        except (ClaimWriteError, BindingFailedError) as cause:
            return error(str(cause))
        if self._features.choices.in_flight_until == "pre-bind-succeeded":
            for uid in written:
                self._devices.claims.remove_pending(uid, force=True)
        return None

    def _binder(self) -> ClaimBinder:
        return ClaimBinder(self._devices.claims, self.handle.scheduler, self._features, self._binding_timeout)


def _score(claim: ResourceClaim, allocated: set[str]) -> int:
    return sum(
        MOST_SUBREQUESTS - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in allocated
    )
