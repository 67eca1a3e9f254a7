"""The binding cycle: carrying out a decision, in the background, while the next pods are being placed."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from stowplan.api.status import ApiError
from stowplan.extenders import ExtenderError
from stowplan.extenders.rounds import bind_round
from stowplan.framework.cycle import Cycle
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Code, Status, error
from stowplan.logs import Ref
from stowplan.metrics.scheduling import BINDING
from stowplan.queue.queued import QueuedPod
from stowplan.reporting import NORMAL, nomination_patch, patch_status
from stowplan.reporting.outbox import Outbox
from stowplan.scheduler.context import Context, Profile
from stowplan.scheduler.failure import (
    OVERRIDING,
    UPDATING,
    Failure,
    FailureHandling,
    failed_late,
    failed_on_node,
)

_BINDING: Final = (BINDING,)


class Chosen(msgspec.Struct, frozen=True):
    """A pod and the node that is held for it. `began` is when its attempt did.

    `busy` are the PreBind plugins with work to do for it, unless `ready` says that they could not tell. A pod
    that `waits` does so at Permit.
    """

    profile: Profile
    queued: QueuedPod
    cycle: Cycle
    node: str
    began: float
    feasible: int
    evaluated: int
    ready: Status
    busy: Sequence[Plugin]
    waits: bool


class BindingCycle:
    """Binds pods, each in a task of its own: waits at Permit, prepares, binds, and tells of it.

    Whatever fails gives the node back and hands the pod to failure handling. With `announcing` (the feature
    gate NominatedNodeNameForExpectation) a pod whose binding takes a while is told its node before.
    """

    def __init__(self, context: Context, failures: FailureHandling, *, announcing: bool = True) -> None:
        self._context = context
        self._failures = failures
        self._announcing = announcing
        self._at_work = context.metrics.at_work
        self._soon: Outbox[Chosen] = Outbox(self._run, limit=sys.maxsize, writers=sys.maxsize)
        self._under_way: dict[str, Chosen] = {}
        self._slow: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Bind pods until cancelled."""
        await self._soon.run()

    def begin(self, chosen: Chosen) -> None:
        """Bind a pod in the background.

        One that has to wait for something gets a task of its own. The others share as few as will do: where
        the API server answers at once, as a store in this process does, one task binds them all.
        """
        uid = chosen.queued.uid
        self._under_way[uid] = chosen
        if chosen.waits or chosen.busy:
            self._slow[uid] = self._context.tasks.start(self._run_slowly(chosen), "binding")
        else:
            self._soon.put(chosen)

    async def finished(self) -> None:
        """Come back when all that was begun is done, but for pods that wait at Permit: that may take long."""
        while slow := [task for uid, task in self._slow.items() if uid not in self._context.waiting]:
            await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
        await self._soon.drain()

    async def undo(self) -> list[str]:
        """Give back what pods hold that are not bound yet, and bind none of them. Returns their names.

        Nothing is written about them: for whoever schedules next they are pods like any other.
        """
        for task in self._slow.values():
            task.cancel()
        await asyncio.gather(*self._slow.values(), return_exceptions=True)
        undone = list(self._under_way.values())
        self._under_way.clear()
        for chosen in undone:
            for problem in chosen.profile.lifecycle.unreserve(chosen.cycle, chosen.queued.pod, chosen.node):
                self._context.journal.problem(problem, pod=chosen.queued.key)
            if self._context.cache.is_assumed(chosen.queued.uid):
                self._context.cache.forget(chosen.queued.uid)
        return [chosen.queued.key for chosen in undone]

    async def _run(self, chosen: Chosen) -> None:
        """Bind a pod that has nothing to wait for."""
        self._at_work[_BINDING] += 1
        try:
            if chosen.ready.code is Code.ERROR:
                await self._failed(chosen, failed_late(chosen.ready))
            else:
                self._context.queue.done(chosen.queued.uid)
                await self._bind(chosen)
        finally:
            self._at_work[_BINDING] -= 1

    async def _run_slowly(self, chosen: Chosen) -> None:
        """Bind a pod that has to wait for something before."""
        self._at_work[_BINDING] += 1
        try:
            announced = await self._announce(chosen)
            failure = await self._prepare(chosen)
            if failure is None:
                await self._bind(chosen, announced)
            else:
                await self._failed(chosen, failure, announced)
        finally:
            self._slow.pop(chosen.queued.uid, None)
            self._at_work[_BINDING] -= 1

    async def _prepare(self, chosen: Chosen) -> Failure | None:
        """Wait at Permit, and do what must be done before a pod can be bound; returns what was in the way."""
        if chosen.ready.code is Code.ERROR:
            return failed_late(chosen.ready)
        context, uid = self._context, chosen.queued.uid
        if chosen.waits:
            status = await self._wait(chosen)
            if not status.is_success:
                return failed_on_node(status)
        context.queue.done(uid)
        if chosen.busy:
            status = await self._pre_bind(chosen, chosen.busy)
            if not status.is_success:
                return failed_late(status)
        return None

    async def _bind(self, chosen: Chosen, announced: str = "") -> None:
        """Have an extender bind the pod, or the first plugin that will, and tell of it."""
        context, queued = self._context, chosen.queued
        status = await self._bind_by_extender(chosen) if context.extenders else None
        if status is None:
            status = await chosen.profile.lifecycle.bind(chosen.cycle, queued.pod, chosen.node)
        if status.code is not Code.SUCCESS:
            context.journal.info(1, "Failed to bind pod", pod=Ref(queued.key))
            await self._failed(chosen, failed_late(status), announced)
            return
        self._bound(chosen)
        if chosen.profile.lifecycle.tells_of_bindings:
            await self._post_bind(chosen)
        if chosen.cycle.pods_to_activate:
            context.queue.activate(chosen.cycle.pods_to_activate)
            context.stir()
        del self._under_way[queued.uid]

    async def _bind_by_extender(self, chosen: Chosen) -> Status | None:
        """None if no extender wants to bind the pod."""
        try:
            bound = await bind_round(self._context.extenders, chosen.queued.pod.pod, chosen.node)
        except ExtenderError as failure:
            return error(str(failure))
        return None if bound.binder is None else SUCCESS

    async def _announce(self, chosen: Chosen) -> str:
        """Tell others where the pod is going: it will be a while until it is bound. Returns what was told."""
        if not self._announcing or chosen.ready.code is Code.ERROR:
            return ""
        context, pod = self._context, chosen.queued.pod.pod
        context.journal.info(
            3, UPDATING, pod=Ref(pod.key), nominatedNodeName=chosen.node, nominatingMode=OVERRIDING
        )
        try:
            await patch_status(context.client, pod, nomination_patch(pod, chosen.node), context.rng)
        except ApiError as failure:
            context.journal.problem(
                "Failed to update the nominated node name in the binding cycle",
                pod=Ref(pod.key),
                nominatedNodeName=chosen.node,
                err=failure,
            )
        return chosen.node

    async def _wait(self, chosen: Chosen) -> Status:
        context, uid = self._context, chosen.queued.uid
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

    async def _pre_bind(self, chosen: Chosen, busy: Sequence[Plugin]) -> Status:
        """Run PreBind plugins in a task that preemption can cancel."""
        context, uid = self._context, chosen.queued.uid
        work = asyncio.ensure_future(
            chosen.profile.lifecycle.pre_bind(busy, chosen.cycle, chosen.queued.pod, chosen.node)
        )
        context.pre_binding.add(uid, work)
        why = None
        try:
            status = await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.cancelled():
                work.cancel()
                raise
            status = SUCCESS
        finally:
            why = context.pre_binding.remove(uid)
        return error(why) if why is not None and status.is_success else status

    # What came of it

    def _bound(self, chosen: Chosen) -> None:
        context, queued = self._context, chosen.queued
        if context.journal.detail >= 2:
            context.journal.info(
                2,
                "Successfully bound pod to node",
                pod=Ref(queued.key),
                node=chosen.node,
                evaluatedNodes=chosen.evaluated,
                feasibleNodes=chosen.feasible,
            )
        note = f"Successfully assigned {queued.key} to {chosen.node}"
        name, first = chosen.profile.name, queued.first_attempt
        context.recorder.event(queued.pod.pod, NORMAL, "Scheduled", "Binding", note, name)
        waited = None if first is None else context.clock.monotonic() - first
        took = context.timer() - chosen.began
        context.metrics.bound(name, took, queued.attempts, waited, queued.flushed)
        context.decisions.update(queued.uid, "bound", note)
        if queued.flushed and context.journal.detail >= 4:
            context.journal.info(
                4,
                "Pod scheduled after flush from unschedulablePods",
                pod=Ref(queued.key),
                unschedulablePlugins={plugin: {} for plugin in sorted(queued.unschedulable_plugins)},
                pendingPlugins={plugin: {} for plugin in sorted(queued.pending_plugins)},
            )

    async def _post_bind(self, chosen: Chosen) -> None:
        pod = chosen.queued.pod
        for problem in await chosen.profile.lifecycle.post_bind(chosen.cycle, pod, chosen.node):
            self._context.journal.problem(problem, pod=Ref(pod.key))

    async def _failed(self, chosen: Chosen, failure: Failure, announced: str = "") -> None:
        await self._context.still.free()
        self._give_back(chosen, replace(failure, announced=announced))
        del self._under_way[chosen.queued.uid]

    def _give_back(self, chosen: Chosen, failure: Failure) -> None:
        """The pod does not get its node after all.

        The room it leaves may be what others wait for; the pod itself must not be woken by its own leaving
        if it was rejected.
        """
        context, queued = self._context, chosen.queued
        context.waiting.remove(queued.uid)
        for problem in chosen.profile.lifecycle.unreserve(chosen.cycle, queued.pod, chosen.node):
            context.journal.problem(problem, pod=Ref(queued.key))
        left = context.cache.assumed_pod(queued.pod.pod)
        context.cache.forget(queued.uid)
        if left is not None and not failure.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, left)
        outcome = "unschedulable" if failure.rejected else "error"
        context.decisions.update(queued.uid, outcome, failure.message)
        self._failures.handle(queued, failure, chosen.began)
        if left is not None and failure.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, left, excluding=queued.uid)
        context.stir()
