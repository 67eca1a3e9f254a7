"""Reservations of claims: written before a pod is bound, and taken back if it gives up its node.

A claim is reserved for a pod by a write, and whether that took effect may be unknown when the pod gives up.
So a reservation is taken back only once its write is over, and the next binding of the pod waits for that.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stowplan.api.devices import ResourceClaim
from stowplan.api.status import ApiError
from stowplan.scheduler.framework import Handle, PodInfo
from stowplan.scheduler.plugins.dynamicresources import extended
from stowplan.scheduler.plugins.dynamicresources.binder import ClaimBinder, ClaimWriteError
from stowplan.scheduler.plugins.dynamicresources.claims import existing_claims
from stowplan.scheduler.plugins.dynamicresources.groupclaims import GroupClaims
from stowplan.scheduler.plugins.dynamicresources.state import StateData, is_in_memory
from stowplan.scheduler.table.devices import Claims


class Reservations:
    """A profile's writes of claims outside the scheduling cycle. `binder` creates the object that writes."""

    def __init__(self, claims: Claims, handle: Handle, binder: Callable[[], ClaimBinder]) -> None:
        self._claims = claims
        self._handle = handle
        self._binder = binder
        self._tasks: set[asyncio.Task[None]] = set()
        self._releases: dict[str, set[asyncio.Task[None]]] = {}
        """By the uid of a pod, the reservations for it that are being taken back."""

    # Before a pod is bound

    async def released(self, state: StateData, pod: PodInfo) -> None:
        """Wait until earlier reservations for a pod are taken back, and see its claims as they are then."""
        if pod.uid not in self._releases:
            return
        while under_way := self._releases.get(pod.uid):
            await asyncio.wait([*under_way])
        for index, claim in enumerate(state.claims):
            if not is_in_memory(claim):
                state.claims[index] = self._claims.get(claim.key) or claim

    async def write(self, state: StateData, index: int, pod: PodInfo) -> None:
        """Write a claim. If the binding is cancelled meanwhile, the write is not: who can say what it did?"""

        async def write() -> None:
            state.claims[index] = await self._binder().bind(state, index, pod)

        state.writing = asyncio.get_running_loop().create_task(write())
        self._tasks.add(state.writing)
        state.writing.add_done_callback(self._written)
        await asyncio.shield(state.writing)

    def _written(self, task: asyncio.Task[None]) -> None:
        """A write is over. If its binding was cancelled, its result is checked here only."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    # After it has given up its node

    def take_back(self, state: StateData, pod: PodInfo) -> None:
        """Give back what was reserved, if a write is under way once it is known what became of it."""
        if state.writing is None or state.writing.done():
            self._take_back(state, pod)
        else:
            self._note_release(
                pod.uid, self._start(self._take_back_later(state, pod), f"unreserve {pod.key}")
            )

    def take_back_tried(self, state: StateData, kept: GroupClaims) -> None:
        """The same for a member of a group while the group is tried: nothing was written."""
        uids = [claim.metadata.uid for claim in state.user_claims]
        if state.extended is not None:
            uids.append(state.extended_uid)
        for uid in uids:
            if self._claims.remove_pending(uid, tried=True):
                kept.pending.pop(uid, None)

    def clear_status(self, pod: PodInfo) -> None:
        """Write that the pod's claims take nothing of the node's own resources."""
        self._start(self._binder().tell_pod(pod, ()), f"clear status of {pod.key}")

    def clear_leftovers(self, pod: PodInfo) -> None:
        """Take back the unfinished writes of an attempt, as when the scheduler was restarted.

        kube-scheduler leaves them until the pod is scheduled or gone. A pod that waits for something else
        would keep devices from others, and a claim with a reservation for it could never be deleted.
        """
        if self._handle.services is None or pod.uid in self._releases:
            return
        claims = self._claims
        reserved = [claim for claim in existing_claims(pod.pod, claims) if claim.is_reserved_for(pod.uid)]
        special = extended.find_claim(pod.pod, claims)
        if reserved or special is not None:
            clearing = self._clear(pod, reserved, special)
            self._note_release(pod.uid, self._start(clearing, f"clear claims of {pod.key}"))

    async def _take_back_later(self, state: StateData, pod: PodInfo) -> None:
        assert state.writing is not None
        await asyncio.wait([state.writing])
        self._take_back(state, pod)
        self._handle.scheduler.activate([pod.pod])

    def _take_back(self, state: StateData, pod: PodInfo) -> None:
        claims = self._claims
        for uid, claim in zip(state.uids, state.user_claims, strict=False):
            if claims.remove_pending(uid) and claim.allocation is None:
                # The write counts, even if the API server's event has not arrived yet.
                claims.restore(claim.key)
            if claim.allocation is not None and claim.is_reserved_for(pod.uid):
                self._release(claim, pod)
        released = claims.take_released()
        if released:
            self._handle.scheduler.activate(released)
        special = state.extended
        if special is None:
            return
        if is_in_memory(special):
            claims.remove_pending(state.extended_uid)
        else:
            self._start(self._delete_extended(state, special, pod), f"delete {special.key}")

    async def _delete_extended(self, state: StateData, special: ResourceClaim, pod: PodInfo) -> None:
        """Delete a claim; its devices stay taken until it is gone, even if no event has reported them yet.

        If it cannot be deleted, it stays as it was written: the informer may not have reported its devices.
        """
        is_gone = False
        try:
            await self._clear(pod, (), special)
            is_gone = True
        finally:
            if self._claims.remove_pending(state.extended_uid) and is_gone:
                self._claims.restore(special.key)

    def _release(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Take back the reservation of a pod in the background; its next binding waits for that."""
        task = self._start(self._clear(pod, (claim,), None), f"unreserve {claim.key}")
        self._note_release(pod.uid, task)

    async def _clear(
        self, pod: PodInfo, reserved: Sequence[ResourceClaim], special: ResourceClaim | None
    ) -> None:
        """Give back claims of a pod, unless another scheduler has bound it: then it uses them.

        That is the case if this scheduler stopped for a while, and another one took over from it. A claim for
        extended resources is used only if the pod's status names it, which is written before the pod is
        bound: any other is unknown to the pod, and nothing else would ever delete it.
        """
        binder = self._binder()
        placed = await binder.placed(pod.pod)
        if placed is None:
            for claim in reserved:
                await binder.unreserve(claim, pod.uid)
        if special is not None and (placed is None or placed.extended_claim != special.name):
            await binder.delete(special, patiently=True)

    def _note_release(self, pod_uid: str, task: asyncio.Task[None]) -> None:
        under_way = self._releases.setdefault(pod_uid, set())
        under_way.add(task)

        def done(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            if not under_way and self._releases.get(pod_uid) is under_way:
                del self._releases[pod_uid]

        task.add_done_callback(done)

    def _start(self, write: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Write something in the background; if it fails, controllers clean up once the pod is gone."""
        task = asyncio.get_running_loop().create_task(self._logged(write, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _logged(self, write: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await write
        except (ApiError, ClaimWriteError) as cause:
            self._handle.scheduler.logger.error(what, err=cause)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
