"""Asynchronous API calls (feature gate SchedulerAsyncAPICalls): a queue with at most one call per pod.

Nobody waits for a status patch, and a newer call takes the place of an older one that has not been sent: one
of the same type is merged with it, a more relevant one overwrites it, a less relevant one is skipped. While a
call is being executed, what comes for its pod waits. Calls without effect are not sent.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from stowplan.api.pod import Pod, PodCondition
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.events import conditions_patch, is_replaced, patch_status

POD_STATUS_PATCH: Final = "pod_status_patch"
POD_BINDING: Final = "pod_binding"
RELEVANCES: Final = {POD_STATUS_PATCH: 1, POD_BINDING: 2}
"""How relevant types of calls are; the values of the label `call_type`."""


class ApiCall(ABC):
    """A call about one pod. `in_flight` is the task that executes it."""

    type: str

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.in_flight: asyncio.Task[None] | None = None
        self.finished: asyncio.Future[None] | None = None

    @property
    @abstractmethod
    def has_effect(self) -> bool: ...

    @abstractmethod
    async def execute(self) -> None:
        """Send it. Raises ApiError."""

    @abstractmethod
    def merge(self, older: "ApiCall") -> None:
        """Take over from an older call of the type what this one leaves open."""

    def finish(self, error: Exception | None = None) -> None:
        """Tell who waits. A call that was skipped or overwritten counts as done."""
        if self.finished is None or self.finished.done():
            return
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)


class BindingCall(ApiCall):
    """Binds a pod, by what a Bind plugin sends."""

    type = POD_BINDING

    def __init__(self, uid: str, send: Callable[[], Awaitable[None]]) -> None:
        super().__init__(uid)
        self._send = send

    @property
    def has_effect(self) -> bool:
        return True

    async def execute(self) -> None:
        await self._send()

    def merge(self, older: ApiCall) -> None:
        """It takes the place of the older one."""


class StatusPatchCall(ApiCall):
    """Writes conditions of a pod, and its nominated node unless that is None.

    With `keeps_conditions` (since 1.37) conditions of other types in an older call are kept; before, an older
    condition is kept only if this call has none.
    """

    type = POD_STATUS_PATCH

    def __init__(
        self,
        context: Context,
        pod: Pod,
        conditions: Sequence[PodCondition],
        nominated_node: str | None,
        *,
        keeps_conditions: bool,
    ) -> None:
        super().__init__(pod.metadata.uid)
        self._context = context
        self._keeps_conditions = keeps_conditions
        self.pod = pod
        self.conditions = list(conditions)
        self.nominated_node = nominated_node

    @property
    def has_effect(self) -> bool:
        now = self._context.clock.now()
        return conditions_patch(self.pod, self.conditions, now, self.nominated_node) is not None

    def merge(self, older: ApiCall) -> None:
        assert isinstance(older, StatusPatchCall)
        if self.nominated_node is None:
            self.nominated_node = older.nominated_node
        if self._keeps_conditions or not self.conditions:
            types = {one.type for one in self.conditions}
            self.conditions += [one for one in older.conditions if one.type not in types]

    async def execute(self) -> None:
        context, logger = self._context, self._context.logger
        pod = self._latest()
        if pod is None:
            return
        for one in self.conditions if logger.enabled(3) else ():
            logger.info(
                3,
                "Updating pod condition",
                pod=Ref(pod.key),
                conditionType=one.type,
                conditionStatus=one.status,
                conditionReason=one.reason,
            )
        patch = conditions_patch(pod, self.conditions, context.clock.now(), self.nominated_node)
        if patch is None:
            text = "Pod status patch call does not need to be executed because it has no effect"
            logger.info(5, text, pod=Ref(pod.key))
            return
        try:
            await patch_status(context.client, pod, patch, context.rng)
        except ApiError as error:
            if is_replaced(error):
                return
            logger.error("Failed to patch pod status", pod=Ref(pod.key), err=error)
            raise

    def _latest(self) -> Pod | None:
        """The pod as it was last seen; None if another one has its name by now."""
        known = self._context.find(self.pod.key)
        if known is None:
            return self.pod
        if known.metadata.uid != self.uid:
            return None
        changed = known.metadata.resource_version != self.pod.metadata.resource_version
        return known if changed else self.pod


class ApiDispatcher:
    """Executes calls in the background, the oldest first, for different pods at the same time."""

    def __init__(self, context: Context, *, keeps_conditions: bool) -> None:
        self._context = context
        self._keeps_conditions = keeps_conditions
        self._metrics = context.metrics.async_calls
        self._calls: dict[str, ApiCall] = {}
        """The newest call of each pod that waits or is being executed."""
        self._in_flight: dict[str, ApiCall] = {}

    def patch_status(
        self, pod: Pod, conditions: Sequence[PodCondition] = (), nominated_node: str | None = None
    ) -> None:
        """Write conditions of a pod and its nominated node; None leaves that alone."""
        self._add(
            StatusPatchCall(
                self._context, pod, conditions, nominated_node, keeps_conditions=self._keeps_conditions
            )
        )

    async def bind(self, uid: str, send: Callable[[], Awaitable[None]]) -> None:
        """Bind a pod when no other write for it is under way, and wait for it. Raises what `send` raises.

        A caller that stops waiting withdraws the call, as far as that is possible.
        """
        call = BindingCall(uid, send)
        call.finished = asyncio.get_running_loop().create_future()
        self._add(call)
        try:
            await call.finished
        except asyncio.CancelledError:
            self._withdraw(call)
            raise

    def _add(self, call: ApiCall) -> None:
        older = self._calls.get(call.uid)
        is_sent = call.uid in self._in_flight
        if older is not None and not self._replaces(call, older):
            call.finish()
            return
        if not call.has_effect and not is_sent:
            if older is not None:
                self._remove(older)
            call.finish()
            return
        self._calls[call.uid] = call
        if older is None:
            self._enqueue(call)
        elif not is_sent and older.type != call.type:
            self._metrics.pending(older.type, -1)
            self._metrics.pending(call.type, 1)

    def _replaces(self, call: ApiCall, older: ApiCall) -> bool:
        """True if a call takes the place of an older one, False if it is less relevant."""
        if RELEVANCES[call.type] < RELEVANCES[older.type]:
            return False
        if call.type == older.type:
            call.merge(older)
        if self._in_flight.get(call.uid) is not older:
            older.finish()
        return True

    def _enqueue(self, call: ApiCall) -> None:
        self._metrics.pending(call.type, 1)
        self._context.tasks.start(self._execute(call.uid), "API call")

    def _remove(self, call: ApiCall) -> None:
        """Take out a call that waits; the task that is to execute it finds nothing."""
        del self._calls[call.uid]
        self._metrics.pending(call.type, -1)

    def _withdraw(self, call: ApiCall) -> None:
        if call.in_flight is not None:
            call.in_flight.cancel()
        elif self._calls.get(call.uid) is call:
            if call.uid in self._in_flight:
                self._calls[call.uid] = self._in_flight[call.uid]
            else:
                self._remove(call)

    async def _execute(self, uid: str) -> None:
        """Execute the newest call about a pod, then have the next one executed that has come meanwhile."""
        call = self._calls.get(uid)
        if call is None or uid in self._in_flight:
            return
        context = self._context
        self._metrics.pending(call.type, -1)
        self._in_flight[uid] = call
        call.in_flight = asyncio.current_task()
        failure: Exception | None = None
        began = context.timer()
        try:
            await call.execute()
        except Exception as error:  # noqa: BLE001 - waiting callers get it; a status must not end the scheduler
            failure = error
            if call.finished is None and not isinstance(error, ApiError):
                context.unexpected("API call failed", error, source="api_call", callType=call.type)
        finally:
            call.in_flight = None
            del self._in_flight[uid]
            self._finalize(call)
        self._metrics.executed(call.type, "success" if failure is None else "error", context.timer() - began)
        call.finish(failure)

    def _finalize(self, call: ApiCall) -> None:
        newest = self._calls[call.uid]
        if newest is call:
            del self._calls[call.uid]
        elif self._context.tasks.is_running:
            self._enqueue(newest)
