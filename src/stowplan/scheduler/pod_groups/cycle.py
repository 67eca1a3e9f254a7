"""The scheduling cycle of a group: a whole tree of pod groups, from the queue to nodes for its members.

The group is checked, placed as a whole, and, if that is not possible, PodGroupPostFilter plugins may make
room. Then every member is carried out or fails on its own, as single pods do; the group gets its condition,
and goes back to the queue if members are left.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import (
    PREEMPT_LOWER_PRIORITY,
    REASON_SCHEDULED,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
    PodGroup,
)
from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import Ref
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.cycle.context import CycleContext, describe
from stowplan.scheduler.cycle.failure_handler import UNHANDLED, Failure, FailureHandler
from stowplan.scheduler.cycle.long_searches import MOST, PutAsideError
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.requests import EvictForGroup, Write
from stowplan.scheduler.cycle.scheduling_cycle import TOP, NodeFinder, SchedulingCycle
from stowplan.scheduler.framework.budget import Budget
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupTrial,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Waited,
    group_info,
)
from stowplan.scheduler.framework.status import Code, error
from stowplan.scheduler.pod_groups.algorithm import GroupAlgorithm
from stowplan.scheduler.pod_groups.result import (
    UNSCHEDULABLE_GROUP,
    GroupOutcome,
    GroupResult,
    GroupStatus,
    PodResult,
)
from stowplan.scheduler.queue.group_queue import GroupSchedulingQueue
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError
from stowplan.scheduler.table.pod_groups import GroupLookupError, GroupTree

SUCCESS: Final = "success"
REJECTED: Final = "rejected"
ERROR: Final = "error"
"""Result of a group's attempt for the queue."""


class GroupConflictError(Exception):
    """A group is invalid before anything is tried; the text is kube-scheduler's."""


REST: Final = 0.2
"""Seconds until the search of a group that was put aside goes on, at least. Backoffs end at whole seconds, so
other pods have the table for one to two seconds, and such a group has it for a fifth of the time at most."""


@dataclass(slots=True)
class _Aside:
    """State of an attempt that was put aside: its budget, the seconds it worked, and since when."""

    budget: Budget
    worked: float
    since: float


class PodGroupCycle:
    """Schedules groups, one after the other.

    `report` has a group's condition written: status, reason and message. `puts_aside`: a group whose search
    for devices takes long while other pods wait returns to the queue, and its attempt goes on later. It
    starts anew then and finds the answers there, as far as no devices changed.
    """

    def __init__(
        self,
        context: CycleContext,
        queue: GroupSchedulingQueue,
        finder: NodeFinder,
        single: SchedulingCycle,
        failures: FailureHandler,
        report: Callable[[PodGroup, str, str, str], None],
        gates: FeatureGates,
        rng: Random,
        *,
        puts_aside: bool = True,
        merges_rejectors: bool = True,
    ) -> None:
        self._context = context
        self._queue = queue
        self._single = single
        self._finder = finder
        self._failures = failures
        self._report_status = report
        self._own_policy = gates["PodGroupPreemptionPolicy"]
        self._paused = 0.0
        """`TimeSlice.paused` when the cycle began."""
        self._told = ""
        """The sentence for the events of members if their group is held back."""
        self._puts_aside = puts_aside and not context.extenders
        self._aside: dict[str, _Aside] = {}
        """The attempts that are put aside, by the root of the group."""
        self._attempt: _Aside
        self._waited_for = False
        """True if the patience of other pods has begun."""
        self.algorithms = {
            profile.name: GroupAlgorithm(
                profile.framework,
                profile.lifecycle,
                finder,
                rng,
                placements=gates["TopologyAwareWorkloadScheduling"],
                nominations=single.nominations,
                timer=context.timer,
                extenders=bool(context.extenders),
                records=TOP if context.hooks.decided is not None else 0,
                merges_rejectors=merges_rejectors,
                hooks=context.hooks,
            )
            for profile in context.profiles.values()
        }

    def schedule_one(self, queued: QueuedPod) -> Waited[None] | None:
        """Schedule a pod or a group that was popped; returns what is left of its cycle."""
        if isinstance(queued, QueuedGroup):
            return self.schedule(queued)
        return self._single.schedule_one(queued)

    def schedule(self, entity: QueuedGroup) -> Waited[None]:
        """Schedule one popped group, in steps.

        An unexpected exception is the group's error and does not end the scheduler.
        """
        context = self._context
        began = context.timer()
        self._paused = context.slice.paused
        self._told = ""
        self._waited_for = False
        entity.cost = entity.held_until = 0
        try:
            yield from self._schedule(entity, began)
        except PutAsideError:
            self._put_aside(entity, began)
        except GeneratorExit:
            for queued in list(entity.pods()):
                self._single.put_back(queued)
            self._end(entity, SUCCESS, any_failed=True)
            raise
        except CacheCorruptedError:
            raise
        except GroupConflictError as problem:
            self._fail_before(entity, str(problem), began)
        except Exception as cause:  # noqa: BLE001 - an error of this group alone
            about = Ref(f"{entity.namespace}/{entity.name}")
            context.unexpected("Group scheduling failed", cause, source="pod_group_cycle", podGroup=about)
            self._fail_before(entity, describe(cause), began)

    def _schedule(self, entity: QueuedGroup, began: float) -> Waited[None]:
        context = self._context
        tree = self._tree(entity)
        profile = self._checked(entity, tree)
        members = self._members(entity)
        if not members:
            self._end(entity, SUCCESS, any_failed=False)
            return
        about = Ref(f"{entity.namespace}/{entity.name}")
        context.logger.info(3, "Attempting to schedule pod group", podGroup=about)
        root = group_info(
            tree,
            {key: [queued.pod for queued in pods] for key, pods in entity.members.items()},
            context.cache.table,
        )
        algorithm = self.algorithms[profile.name]
        with context.freeze.hold(), self._budgeted(entity, began):
            cycle = GroupCycle(context.cache.table, root)
            result = yield from algorithm.run(root, cycle)
            # From here on the table is as it was, but acting on the result cannot start over.
            self._finder.gives_way = None
            before = result.status.code
            result.complete()
            if context.hooks.group_searched is not None:
                context.hooks.group_searched(context.timer() - began)
            found = None
            if before is Code.UNSCHEDULABLE:
                found = yield from self._post_filter(algorithm, cycle, root)
                apply_post_filter(result, found)
            if context.hooks.group_decided is not None:
                context.hooks.group_decided(result, found)
            if found is None:
                self._charge(entity, began, before)
                # The rows that members get are those of the table as it is while it is frozen.
                any_failed = yield from self._submit(profile, entity, result)
        if found is not None:
            self._charge(entity, began, before)
            yield EvictForGroup(root, found)
            any_failed = yield from self._submit(profile, entity, result)
        self._count(profile, result, began)
        self._end(entity, _code(before), any_failed)

    @contextmanager
    def _budgeted(self, entity: QueuedGroup, began: float) -> Iterator[None]:
        """Have the members of a group share the budget of one attempt."""
        context, attempt = self._context, self._aside.pop(entity.root, None)
        if attempt is None:
            budget = Budget(context.timer, None, began=began, pauses=lambda: context.slice.is_over)
            attempt = _Aside(budget, 0.0, began)
        attempt.budget.put_off(began - attempt.since)
        self._attempt = attempt
        self._finder.group_budget = attempt.budget
        self._finder.gives_way = self._gives_way if self._puts_aside else None
        try:
            yield
        finally:
            self._finder.group_budget = self._finder.gives_way = None

    def _gives_way(self) -> bool:
        """True if other pods have waited long enough for a search of the group."""
        context = self._context
        if not self._waited_for:
            self._waited_for = True
            context.slice.begin_patience()
        if not context.slice.is_out_of_patience:
            return False
        if not (context.queue.may_pop or context.freeze.is_in_the_way):
            return False
        if len(self._aside) < MOST:
            return True
        self._forget_gone()
        if len(self._aside) >= MOST:
            self._attempt.budget.end()
        return len(self._aside) < MOST

    def _forget_gone(self) -> None:
        """Forget the attempts of groups that were deleted while they were put aside."""
        groups = self._context.cache.groups
        self._aside = {root: one for root, one in self._aside.items() if groups.tree(root) is not None}

    def _put_aside(self, entity: QueuedGroup, began: float) -> None:
        """Return a group to the queue in the middle of its attempt."""
        context, attempt = self._context, self._attempt
        attempt.since = context.timer()
        attempt.worked += self._worked(began)
        self._aside[entity.root] = attempt
        about = Ref(f"{entity.namespace}/{entity.name}")
        text = "The search for devices takes long; other pods are scheduled meanwhile"
        context.logger.info(2, text, podGroup=about)
        for queued in list(entity.pods()):
            now = context.find(queued.key)
            if now is None or now.metadata.uid != queued.uid:
                context.queue.done(queued.uid)
                entity.remove(queued)
            elif now is not queued.pod.pod:
                queued.update(context.cache.table.info(now))
        self._queue.put_aside(entity, context.clock.monotonic() + REST)
        context.wake()

    def _worked(self, began: float) -> float:
        """Seconds of the scheduler's time since the cycle began."""
        return self._context.timer() - began - self._context.slice.paused + self._paused

    def _charge(self, entity: QueuedGroup, began: float, code: Code) -> None:
        """Add the time of the attempt so far to the group's; one that found no place may be held back."""
        context = self._context
        context.costs.spent(entity, self._worked(began), context.timer(), self._attempt.worked)
        if code is not Code.SUCCESS:
            self._told = context.costs.hold_back(entity)

    # Before anything is tried

    def _tree(self, entity: QueuedGroup) -> GroupTree:
        """The tree of the group as it is now. Raises GroupConflictError."""
        groups = self._context.cache.groups
        tree = groups.tree(entity.root)
        if tree is not None:
            return tree
        try:
            if entity.root.startswith("podgroup/"):
                groups.pod_group(entity.root)
            else:
                groups.composite_pod_group(entity.root)
        except GroupLookupError as missing:
            raise GroupConflictError(str(missing)) from None
        raise GroupConflictError(f"pod group object not found for pod group {entity.root}")

    def _checked(self, entity: QueuedGroup, tree: GroupTree) -> Profile:
        """The profile of the group, if its members agree on what they have to. Raises GroupConflictError."""
        check = Agreement(tree, self._own_policy)
        for pod in self._known(entity, tree):
            check.take(pod)
        profile = self._context.profiles.get(check.scheduler_name)
        if profile is None:
            raise GroupConflictError(f"profile not found for scheduler name {quote(check.scheduler_name)}")
        return profile

    def _known(self, entity: QueuedGroup, tree: GroupTree) -> Iterator[Pod]:
        """The members that wait, then those that have a node."""
        table = self._context.cache.table
        for queued in entity.pods():
            yield queued.pod.pod
        for leaf in tree.leaves:
            state = table.groups.group(leaf.key)
            if state is None:
                missing = f"pod group state not found for pod group {leaf.key}"
                raise GroupConflictError(f"failed to get pod group state: {missing}")
            for uid in state.scheduled:
                yield state.pods[uid]

    def _members(self, entity: QueuedGroup) -> int:
        """Leave out members that are being deleted or have a node; returns how many are left."""
        cache = self._context.cache
        for queued in list(entity.pods()):
            if queued.pod.dying or cache.is_assumed(queued.uid):
                self._single.skip(queued)
                entity.remove(queued)
        return entity.size

    def _fail_before(self, entity: QueuedGroup, message: str, began: float) -> None:
        """Nothing was tried: all members fail with what is wrong with the group."""
        failure = Failure(message, rejected=False)
        for queued in list(entity.pods()):
            self._context.cache.forget(queued.uid)
            self._single.record(queued, None, "error", message)
            self._failures.handle(queued, failure, began)
        tree = self._context.cache.groups.tree(entity.root)
        for leaf in () if tree is None else tree.leaves:
            if isinstance(leaf.obj, PodGroup):
                self._report_status(leaf.obj, "False", REASON_SCHEDULER_ERROR, message)
        self._end(entity, ERROR, any_failed=True)

    # PodGroupPostFilter

    def _post_filter(
        self, algorithm: GroupAlgorithm, cycle: GroupCycle, root: PodGroupInfo
    ) -> Waited[PodGroupPostFilterResult]:
        """See whether room can be made for a group that found no place."""
        context = self._context
        began = context.timer()

        shape = algorithm.shape(root)
        if not context.hooks.sees_details:
            cycle.shape = shape

        def again() -> Waited[GroupTrial]:
            return algorithm.try_again(root, shape)

        result = yield from algorithm.points.post_filter_steps(cycle, root, again)
        against = (yield Write(result.writes)) if result.writes else None
        if against is not None:
            result = PodGroupPostFilterResult(error(against.message).by(against.plugin))
        if context.hooks.group_post_filter_ended is not None:
            name = algorithm.framework.profile.scheduler_name
            context.hooks.group_post_filter_ended(name, result.status, context.timer() - began)
        return result

    # Carrying it out

    def _submit(self, profile: Profile, entity: QueuedGroup, result: GroupResult) -> Waited[bool]:
        """Assign or fail every member, and set the condition of every PodGroup. True if any member failed."""
        any_failed = False
        for leaf in result.root.leaves():
            outcome = result.outcomes[leaf.key]
            queued = entity.members.get(leaf.key, [])
            scheduled = 0
            for member, found in zip(list(queued), outcome.pods, strict=True):
                yield None
                try:
                    failure = self._outcome_of(profile, member, outcome, found)
                except CacheCorruptedError:
                    raise
                except Exception as cause:  # noqa: BLE001 - an error of this member alone
                    failure = self._single.failed_unexpectedly(member, cause)
                if failure is None:
                    scheduled += 1
                    continue
                any_failed = True
                if self._told:
                    failure = replace(failure, message=f"{failure.message} {self._told}")
                began = self._context.timer() - found.seconds
                self._failures.handle(member, failure, began)
            self._report(outcome, scheduled, len(queued) - scheduled)
        return any_failed

    def _outcome_of(
        self, profile: Profile, member: QueuedPod, outcome: GroupOutcome, found: PodResult
    ) -> Failure | None:
        """Carry out what was found for a member; returns why it gets no node."""
        group = outcome.status
        if found.row is not None and group.is_success:
            return self._carry_out(profile, member, found)
        failure = failure_of(outcome, found)
        kind = "unschedulable" if failure.rejected else "error"
        self._single.record(member, found.record, kind, failure.message)
        return failure

    def _carry_out(self, profile: Profile, member: QueuedPod, found: PodResult) -> Failure | None:
        context, cycle, row = self._context, found.cycle, found.row
        assert cycle is not None
        assert row is not None
        cycle.group = cycle.placement = None
        if context.hooks.decided is not None:
            node = context.cache.table.name_of(row)
            self._single.record(member, found.record, "binding", f"binding to {node}")
        began = context.timer() - found.seconds
        return self._single.commit(profile, member, cycle, row, found.feasible, began)

    def _report(self, outcome: GroupOutcome, scheduled: int, unschedulable: int) -> None:
        """Write the condition of a PodGroup, and log what came of it."""
        logger, status = self._context.logger, outcome.status
        group = outcome.info.pod_group
        assert group is not None
        about = Ref(group.key)
        if status.is_success:
            self._report_status(group, "True", REASON_SCHEDULED, status.message)
            logger.info(
                2,
                "Successfully scheduled a pod group",
                podGroup=about,
                scheduledPods=scheduled,
                unschedulablePods=unschedulable,
            )
        elif status.code is Code.ERROR:
            self._report_status(group, "False", REASON_SCHEDULER_ERROR, status.as_error)
            logger.error(
                "Error scheduling pod group",
                podGroup=about,
                errorPods=unschedulable,
                err=status.as_error,
                logger=UNHANDLED,
            )
        else:
            self._report_status(group, "False", REASON_UNSCHEDULABLE, status.message)
            waits = outcome.waits_for_preemption
            message = "Pod group is waiting for preemption" if waits else "Unable to schedule a pod group"
            logger.info(2, message, podGroup=about, unschedulablePods=unschedulable, err=status.message)

    def _count(self, profile: Profile, result: GroupResult, began: float) -> None:
        outcome = result.outcomes[result.root.key]
        kind = "unschedulable"
        if outcome.status.is_success:
            kind = "scheduled"
        elif outcome.status.code is Code.ERROR:
            kind = "error"
        elif outcome.waits_for_preemption:
            kind = "waiting_on_preemption"
        if self._context.hooks.group_attempted is not None:
            self._context.hooks.group_attempted(kind, profile.name, self._context.timer() - began)

    def _end(self, entity: QueuedGroup, code: str, any_failed: bool) -> None:
        """End the attempt: the remaining members return to the queue."""
        try:
            self._queue.add_attempted_group(entity, code, any_failed)
        except AlreadyQueuedError as present:
            about = Ref(f"{entity.namespace}/{entity.name}")
            self._context.logger.error(
                "Failed to add attempted pod group to scheduling queue",
                podGroup=about,
                err=present,
                logger=UNHANDLED,
            )
        self._context.wake()


class Agreement:
    """Properties that the members of a group must share: scheduler, priority and preemption policy."""

    def __init__(self, tree: GroupTree, own_policy: bool) -> None:
        self.scheduler_name = ""
        self._priority = tree.obj.priority
        self._policy = tree.obj.preemption_policy if own_policy else ""
        self._of_group = " as the pod group's preemption policy" if own_policy else ""

    def take(self, pod: Pod) -> None:
        """Compare a member with what was agreed on so far. Raises GroupConflictError."""
        self.scheduler_name = self.scheduler_name or pod.spec.scheduler_name
        same = "all pods in a single pod group should have the same"
        if pod.spec.scheduler_name != self.scheduler_name:
            one, other = quote(pod.spec.scheduler_name), quote(self.scheduler_name)
            raise GroupConflictError(f"{same} .spec.schedulerName set, got: {one} and {other}")
        if pod.priority != self._priority:
            got = f"got {pod.priority} and {self._priority}"
            raise GroupConflictError(f"{same} priority as the pod group's priority, {got}")
        policy = pod.spec.preemption_policy or PREEMPT_LOWER_PRIORITY
        self._policy = self._policy or policy
        if policy != self._policy:
            got = f"got {policy} and {self._policy}"
            raise GroupConflictError(f"{same} preemption policy{self._of_group}, {got}")


def failure_of(outcome: GroupOutcome, found: PodResult) -> Failure:
    """Why a member gets no node, though it may have found one: its group is not placed."""
    group, failure = outcome.status, found.failure
    if group.code is Code.ERROR:
        own = failure is not None and not failure.rejected
        message = failure.message if failure is not None and own else group.message
        return Failure(message, rejected=False)
    if found.row is not None:
        if outcome.waits_for_preemption:
            message, nominated = group.message, found.nominated_node
        else:
            message, nominated = f"{UNSCHEDULABLE_GROUP}, {group.message}", ""
        return Failure(message, rejected=True, nominated_node=nominated, by_group=True)
    assert failure is not None
    return failure


def apply_post_filter(result: GroupResult, found: PodGroupPostFilterResult) -> None:
    """Apply the result of PodGroupPostFilter to the outcomes: nominations, and the message of every group.

    A status that several groups share gets the message once for each of them.
    """
    if found.status.is_success:
        for outcome in result.outcomes.values():
            outcome.waits_for_preemption = True
            for member in outcome.pods:
                nominated = found.nominations.get(member.pod.uid)
                if nominated is not None:
                    member.nominate(nominated)
    if found.status.code is Code.ERROR:
        failed = GroupStatus.failed(found.status.message)
        for outcome in result.outcomes.values():
            outcome.status = failed
    else:
        for outcome in result.outcomes.values():
            outcome.status.reasons.append(found.status.message)


def _code(code: Code) -> str:
    if code is Code.SUCCESS:
        return SUCCESS
    return ERROR if code is Code.ERROR else REJECTED
