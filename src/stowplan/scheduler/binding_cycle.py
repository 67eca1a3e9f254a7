"""The binding cycle: carrying out a decision in the background, while the next pods are being scheduled.

Wait at Permit, PreBind, Bind, PostBind, in this order; a failure releases the node and passes the pod to the
failure handler.
"""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Final

import msgspec

from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.assignment import Assignment
from stowplan.scheduler.cycle.context import describe
from stowplan.scheduler.cycle.failure_handler import (
    OVERRIDING,
    UNHANDLED,
    UPDATING,
    Failure,
    FailureHandler,
    failed_late,
    failed_on_node,
)
from stowplan.scheduler.events import NORMAL, nomination_patch, patch_status
from stowplan.scheduler.extenders import ExtenderError
from stowplan.scheduler.extenders.rounds import bind_round
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE
from stowplan.scheduler.framework.status import SUCCESS, Code, Status, error
from stowplan.scheduler.metrics.scheduling import BINDING
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError
from stowplan.scheduler.tasks import released
from stowplan.scheduler.turns import BOUND, FAIL, on_behalf_of

WORKERS: Final = 64
"""Number of pods that may be in Bind at a time without a task; the others wait for their turn."""

_BINDING: Final = (BINDING,)


class BindingCycle:
    """Binds pods. A pod that has to wait for something gets a task, the others share workers.

    With `announcing` (the feature gate NominatedNodeNameForExpectation) the node of a pod whose binding takes
    a while is written to its status first.
    """

    def __init__(
        self,
        context: Context,
        failures: FailureHandler,
        *,
        announcing: bool = True,
        workers: int = WORKERS,
    ) -> None:
        self.most_workers = workers
        self._context = context
        self._failures = failures
        self._announcing = announcing
        self._at_work = context.metrics.at_work
        self._assigned: dict[str, Assignment] = {}
        self._ready: deque[Assignment] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._called = False
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self.pre_binding = PreBindingPods()

    def start(self, assignment: Assignment) -> None:
        """Bind a pod in the background."""
        uid = assignment.queued.uid
        self._assigned[uid] = assignment
        if assignment.waits or assignment.pre_bind:
            self._waiting[uid] = self._context.tasks.start(self._wait_and_bind(assignment), "binding")
        else:
            self._ready.append(assignment)
            if not self._called:
                self._call_worker()

    @property
    def has_backlog(self) -> bool:
        """True if pods wait for others to be bound."""
        return bool(self._ready)

    # The order of things

    async def _wait_and_bind(self, assignment: Assignment) -> None:
        """The binding cycle of a pod that has to wait for something before it can be bound."""
        self._at_work[_BINDING] += 1
        announced = ""
        if self._context.turns is not None:
            on_behalf_of.set(assignment.queued.uid)
        try:
            announced = await self._announce(assignment)
            failure = await self._prepare(assignment)
            if failure is None:
                await self._bind(assignment, announced)
            else:
                await self._fail(assignment, failure, announced)
        except CacheCorruptedError:
            raise
        except Exception as cause:  # noqa: BLE001 - an error of this pod alone
            await self._fail_unexpectedly(assignment, cause, announced)
        finally:
            self._waiting.pop(assignment.queued.uid, None)
            self._at_work[_BINDING] -= 1

    async def _bind_at_once(self, assignment: Assignment) -> None:
        """The binding cycle of a pod that has nothing to wait for."""
        self._at_work[_BINDING] += 1
        if self._context.turns is not None:
            on_behalf_of.set(assignment.queued.uid)
        try:
            if assignment.ready.code is Code.ERROR:
                await self._fail(assignment, failed_late(assignment.ready))
            else:
                self._context.queue.done(assignment.queued.uid)
                await self._bind(assignment)
        except CacheCorruptedError:
            raise
        except Exception as cause:  # noqa: BLE001 - an error of this pod alone
            await self._fail_unexpectedly(assignment, cause)
        finally:
            self._at_work[_BINDING] -= 1

    async def _announce(self, assignment: Assignment) -> str:
        """Write to the pod's status where it is going. Returns the node if that was written."""
        if not self._announcing or assignment.ready.code is Code.ERROR:
            return ""
        context, pod = self._context, assignment.queued.pod.pod
        if context.dispatcher is not None:
            context.dispatcher.patch_status(pod, nominated_node=assignment.node)
            return assignment.node
        context.logger.info(
            3, UPDATING, pod=Ref(pod.key), nominatedNodeName=assignment.node, nominatingMode=OVERRIDING
        )
        try:
            await patch_status(context.client, pod, nomination_patch(pod, assignment.node), context.rng)
        except ApiError as failure:
            context.logger.error(
                "Failed to update the nominated node name in the binding cycle",
                pod=Ref(pod.key),
                nominatedNodeName=assignment.node,
                err=failure,
            )
        return assignment.node

    async def _prepare(self, assignment: Assignment) -> Failure | None:
        """Wait at Permit, then run PreBind; returns what stood against it."""
        if assignment.ready.code is Code.ERROR:
            return failed_late(assignment.ready)
        if assignment.waits:
            status = await self._wait_on_permit(assignment)
            if not status.is_success:
                return failed_on_node(status)
        self._context.queue.done(assignment.queued.uid)
        if assignment.pre_bind:
            status = await self._pre_bind(assignment)
            if not status.is_success:
                return failed_late(status)
        return None

    async def _wait_on_permit(self, assignment: Assignment) -> Status:
        context, uid = self._context, assignment.queued.uid
        waiting = context.waiting.get(uid)
        assert waiting is not None
        began = context.timer()
        try:
            status = await waiting.verdict()
        finally:
            context.waiting.remove(uid)
        context.metrics.permit_waited(status.code.label, context.timer() - began)
        if status.is_success or status.code.is_rejection:
            return status
        return error(f"waiting on permit for pod: {status.message}")

    async def _pre_bind(self, assignment: Assignment) -> Status:
        """Run PreBind plugins in a task that preemption can cancel."""
        uid = assignment.queued.uid
        work = asyncio.ensure_future(
            assignment.profile.lifecycle.pre_bind(
                assignment.pre_bind, assignment.cycle, assignment.queued.pod, assignment.node
            )
        )
        self.pre_binding.add(uid, work)
        why = None
        try:
            status = await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.cancelled():
                work.cancel()
                raise
            status = SUCCESS
        finally:
            why = self.pre_binding.remove(uid)
        return error(why) if why is not None and status.is_success else status

    async def _bind(self, assignment: Assignment, announced: str = "") -> None:
        """Have an extender bind the pod, or the first Bind plugin that does not skip it; then PostBind."""
        context, queued = self._context, assignment.queued
        if not context.may_schedule():
            self._give_up(assignment)
            return
        assignment.sending = True
        status = await self._bind_by_extender(assignment) if context.extenders else None
        if status is None:
            status = await assignment.profile.lifecycle.bind(assignment.cycle, queued.pod, assignment.node)
        assignment.sending = False
        if status.code is not Code.SUCCESS:
            context.logger.info(1, "Failed to bind pod", pod=Ref(queued.key))
            await self._fail(assignment, failed_late(status), announced)
            return
        self._report_bound(assignment)
        tells = assignment.profile.lifecycle.tells_of_bindings
        if context.turns is not None and (tells or assignment.cycle.pods_to_activate):
            await context.turns.take(BOUND, queued.uid, None)
        if tells:
            await self._post_bind(assignment)
        if assignment.cycle.pods_to_activate:
            context.queue.activate(assignment.cycle.pods_to_activate)
            context.wake()
        self._assigned.pop(queued.uid, None)

    async def _bind_by_extender(self, assignment: Assignment) -> Status | None:
        """None if no extender wants to bind the pod."""
        try:
            bound = await bind_round(self._context.extenders, assignment.queued.pod.pod, assignment.node)
        except ExtenderError as failure:
            return error(str(failure))
        return None if bound.binder is None else SUCCESS

    def _report_bound(self, assignment: Assignment) -> None:
        context, queued = self._context, assignment.queued
        if context.logger.level >= 2:
            context.logger.info(
                2,
                "Successfully bound pod to node",
                pod=Ref(queued.key),
                node=assignment.node,
                evaluatedNodes=assignment.evaluated,
                feasibleNodes=assignment.feasible,
            )
        note = f"Successfully assigned {queued.key} to {assignment.node}"
        name, first = assignment.profile.name, queued.first_attempt
        context.recorder.event(queued.pod.pod, NORMAL, "Scheduled", "Binding", note, name)
        waited = None if first is None else context.clock.monotonic() - first
        took = context.timer() - assignment.began
        if context.hooks.bound is not None:
            context.hooks.bound(assignment, note, took, waited)
        if queued.flushed and context.logger.level >= 4:
            context.logger.info(
                4,
                "Pod scheduled after flush from unschedulablePods",
                pod=Ref(queued.key),
                unschedulablePlugins={plugin: {} for plugin in sorted(queued.unschedulable_plugins)},
                pendingPlugins={plugin: {} for plugin in sorted(queued.pending_plugins)},
            )

    async def _post_bind(self, assignment: Assignment) -> None:
        pod = assignment.queued.pod
        for problem in await assignment.profile.lifecycle.post_bind(assignment.cycle, pod, assignment.node):
            self._context.logger.error(problem, pod=Ref(pod.key))

    # Failure

    async def _fail(self, assignment: Assignment, failure: Failure, announced: str = "") -> None:
        """The pod does not get its node after all.

        The room it leaves may be what others wait for; the pod itself must not be requeued by its own leaving
        if it was rejected.
        """
        context, queued = self._context, assignment.queued
        if context.freeze.held:
            await released(context.freeze)
        if context.turns is not None:
            message = await context.turns.take(FAIL, queued.uid, failure.message)
            failure = replace(failure, message=message)
        if assignment.given_up:
            return
        if problem := context.cache.forget_problem(queued.pod.pod, assignment.node):
            context.logger.error("ForgetPod failed", err=problem, logger=UNHANDLED)
        left = self._release(assignment)
        failure = replace(failure, announced=announced)
        if left is not None and not failure.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, left)
        outcome = "unschedulable" if failure.rejected else "error"
        self._went_on(queued.uid, outcome, failure.message)
        self._failures.handle(queued, failure, assignment.began)
        if left is not None and failure.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, left, excluding=queued.uid)
        context.wake()

    async def _fail_unexpectedly(self, assignment: Assignment, cause: Exception, announced: str = "") -> None:
        pod = Ref(assignment.queued.key)
        self._context.unexpected("Binding cycle failed", cause, source="binding_cycle", pod=pod)
        if assignment.queued.uid in self._assigned:
            await self._fail(assignment, Failure(describe(cause), rejected=False), announced)

    def _release(self, assignment: Assignment) -> Pod | None:
        """Give back what the pod holds; returns the pod on the node it leaves, None if it had left before."""
        context, queued = self._context, assignment.queued
        self._assigned.pop(queued.uid, None)
        context.waiting.remove(queued.uid)
        for problem in assignment.profile.lifecycle.unreserve(assignment.cycle, queued.pod, assignment.node):
            context.logger.error(problem, pod=Ref(queued.key))
        left = context.cache.assumed_pod(queued.pod.pod)
        context.cache.forget(queued.uid)
        return left

    async def left(self, uid: str) -> None:
        """Wait until a pod that was told to give up its node, at Permit or in PreBind, has done so."""
        task = self._waiting.get(uid)
        if task is not None:
            await asyncio.wait([task])

    # The end

    async def finished(self) -> None:
        """Wait for everything that was started, but for pods that wait at Permit: that may take long."""
        while True:
            waiting = [task for uid, task in self._waiting.items() if uid not in self._context.waiting]
            if self._ready and not self._called:
                self._call_worker()
            if not waiting and not self._workers:
                return
            await asyncio.wait([*waiting, *self._workers], return_when=asyncio.FIRST_COMPLETED)

    async def give_up(self) -> "Unbound":
        """Bind no more pods: release their nodes and put them back into the queue.

        Nothing is written about them: to the next scheduler they are ordinary pending pods. If a binding is
        being sent, only the API server knows its outcome.
        """
        await released(self._context.freeze)
        self._ready.clear()
        tasks = [*self._waiting.values(), *self._workers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._called = False
        left = list(self._assigned.values())
        for assignment in left:
            self._give_up(assignment)
        return Unbound(
            [one.queued.key for one in left if not one.sending],
            [one.queued.key for one in left if one.sending],
        )

    def _give_up(self, assignment: Assignment) -> None:
        context, queued = self._context, assignment.queued
        assignment.given_up = True
        self._release(assignment)
        self._went_on(queued.uid, "error", "the scheduler stopped before the pod was bound")
        known = context.find(queued.key)
        if known is None or known.spec.node_name or known.metadata.uid != queued.uid:
            context.queue.done(queued.uid)
            return
        try:
            context.queue.add_unschedulable_if_not_present(queued, pod=known)
        except AlreadyQueuedError as present:
            context.logger.info(4, "Pod is in the queue already", pod=Ref(queued.key), err=present)

    def _went_on(self, uid: str, outcome: str, message: str) -> None:
        if self._context.hooks.attempt_went_on is not None:
            self._context.hooks.attempt_went_on(uid, outcome, message)

    # Workers

    def _call_worker(self) -> None:
        """Start one more worker. One at a time: each worker starts the next if there is need.

        So where the API server answers at once, as a store in this process does, one worker binds all pods.
        """
        if len(self._workers) < self.most_workers:
            self._called = True
            worker = self._context.tasks.start(self._work(), "binding worker")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        """Bind what is ready; let others run before going on with what has come since."""
        ready = self._ready
        self._called = False
        while ready:
            left = len(ready)
            while ready and left:
                left -= 1
                assignment = ready.popleft()
                if ready and not self._called:
                    self._call_worker()
                await self._bind_at_once(assignment)
            if ready:
                await asyncio.sleep(0)


class Unbound(msgspec.Struct, frozen=True):
    """Pods that were assigned to nodes and are not bound, by `namespace/name`.

    The bindings of `unknown` ones were being sent: the API server may still carry them out.
    """

    given_up: list[str]
    unknown: list[str]

    def __bool__(self) -> bool:
        return bool(self.given_up or self.unknown)


class PreBindingPods:
    """Pods in PreBind, by uid: until it is over they can still be made to give up their node."""

    def __init__(self) -> None:
        self._work: dict[str, asyncio.Future[Status]] = {}
        self._cancelled: dict[str, str] = {}

    def add(self, uid: str, work: "asyncio.Future[Status]") -> None:
        self._work[uid] = work

    def remove(self, uid: str) -> str | None:
        """PreBind is over; returns why it was cancelled, None if it was not."""
        self._work.pop(uid, None)
        return self._cancelled.pop(uid, None)

    def __contains__(self, uid: str) -> bool:
        return uid in self._work

    def cancel(self, uid: str, why: str) -> bool:
        """Have a pod give up its node. False if it is too late for that."""
        work = self._work.get(uid)
        if work is None or uid in self._cancelled:
            return False
        self._cancelled[uid] = why
        work.cancel(why)
        return True
