"""Preemption carried out: victims are deleted in the background; the preemptor stays out of the queue."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import (
    COMPOSITE_POD_GROUP_TYPE,
    POD_GROUP_TYPE,
    CompositePodGroup,
    GroupObject,
    PodGroup,
)
from stowplan.api.requests import DeleteOptions
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.binding_cycle import BindingCycle
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.decisions import PreemptionRecord
from stowplan.scheduler.events import (
    NORMAL,
    Related,
    is_replaced,
    nomination_patch,
    patch_status,
    related,
    victim_patch,
)
from stowplan.scheduler.framework.held_pods import is_going
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.pod_groups.placement import PodGroupInfo, PodGroupPostFilterResult
from stowplan.scheduler.framework.protocols import PreemptionPlugin
from stowplan.scheduler.turns import DELETED, FOR, LAST_VICTIM, PREEMPTED, PREEMPTING, VICTIM

T = TypeVar("T")

POD: Final = "pod"

AT_A_TIME: Final = 32
"""Preemptors whose victims are being deleted at a time. The others wait for their turn, so that the first get
their nodes soon though there are thousands: otherwise the first victim of each would go before the last one
of any.
"""

SEEN_WITHIN: Final = 1.0
"""Seconds for which a preemptor is held back because the informer is late to see its last victim going."""

WHOLE_CLUSTER: Final = "cluster"
"""Value where a pod's preemption names its node."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A preemptor: a pod, or the topmost group of a tree.

    `kind` is `pod`, `podgroup` or `compositepodgroup`. `pods` are the ones that wait for the victims to go;
    at least one.
    """

    kind: str
    object: Pod | GroupObject
    pods: Sequence[Pod]

    @classmethod
    def of_pod(cls, pod: Pod) -> "Preemptor":
        return cls(POD, pod, (pod,))

    @classmethod
    def of_group(cls, group: PodGroupInfo) -> "Preemptor":
        kind = COMPOSITE_POD_GROUP_TYPE if group.is_composite else POD_GROUP_TYPE
        return cls(kind, group.object, tuple(pod.pod for pod in group.waiting_pods()))

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def key(self) -> str:
        return self.object.key

    @property
    def priority(self) -> int:
        return self.object.priority

    @property
    def scheduler_name(self) -> str:
        return self.pods[0].spec.scheduler_name

    @property
    def related(self) -> Related | None:
        """Reference to a group in events of victims; there is none for a pod."""
        if isinstance(self.object, PodGroup):
            return related(self.object, "scheduling.k8s.io/v1beta1", "PodGroup")
        if isinstance(self.object, CompositePodGroup):
            return related(self.object, "scheduling.k8s.io/v1alpha3", "CompositePodGroup")
        return None


class Preemption:
    """Carries out the decisions of PostFilter plugins.

    Each victim is marked as a disruption target and deleted, and gets an event. A victim that is not bound
    yet just does not get its node. All but the last victim are deleted at the same time; the last one
    follows, and its deletion makes the queue retry the preemptor. If another client deleted that one before
    its turn, the preemptor is retried nevertheless.
    """

    def __init__(
        self,
        context: Context,
        binding: BindingCycle,
        *,
        asynchronous: bool = True,
        activates: bool = False,
        measured: bool = False,
        parallelism: int = 16,
    ) -> None:
        self._context = context
        self._activates = activates
        """True to retry a preemptor at once whose last victim was not bound yet (since 1.37)."""
        self._measured = measured
        """True if metrics have the real result and duration (since 1.37); before, `success` and none."""
        self._parallelism = parallelism
        """Number of victims that are deleted at the same time."""
        self._binding = binding
        self._asynchronous = asynchronous
        self._slots = asyncio.Semaphore(AT_A_TIME)

    @property
    def has_backlog(self) -> bool:
        """True if further preemptors have to wait until the victims of others are deleted."""
        return self._slots.locked()

    async def prepare_for_pod(self, pod: Pod, found: PostFilterResult) -> None:
        """Delete the victims of a pod's preemption, which chose a node."""
        node = found.nominated_node
        assert node
        metrics = self._context.metrics.preempting
        if metrics.shown and self._context.cache.table.budgets:
            chosen = found.candidates.get(node)
            metrics.disrupted(POD, 0, 0 if chosen is None else chosen.violations)
        await self._prepare(Preemptor.of_pod(pod), node, found.victims)

    async def prepare_for_group(self, group: PodGroupInfo, found: PodGroupPostFilterResult) -> None:
        """Count a group's search for victims, and delete these if there are any."""
        metrics, search = self._context.metrics.preempting, found.preemption
        if search is not None:
            metrics.attempted_by_group(search.result)
            if search.seconds is not None:
                metrics.evaluated(POD_GROUP_TYPE, search.result, search.seconds)
        chosen = bool(found.victims) or (search is not None and search.seconds is not None)
        if not found.status.is_success or not chosen:
            return
        preemptor = Preemptor.of_group(group)
        metrics.selected_by_group(len(found.victims))
        if search is not None:
            metrics.disrupted(preemptor.kind, search.disruptions, search.violations)
        if found.victims and self._context.decisions.wanted:
            self._remember(preemptor, found)
        await self._prepare(preemptor, WHOLE_CLUSTER, found.victims)

    def _remember(self, preemptor: Preemptor, found: PodGroupPostFilterResult) -> None:
        """Keep the victims of a group, for explanations."""
        candidates = 0 if found.preemption is None else found.preemption.candidates
        victims = tuple(victim.key for victim in found.victims)
        done = PreemptionRecord("", victims, candidates, found.status.message)
        members = [pod.metadata.uid for pod in preemptor.pods]
        self._context.decisions.put_group(preemptor.key, members, done, self._context.clock.now())

    async def _prepare(self, preemptor: Preemptor, node: str, victims: Sequence[Pod]) -> None:
        """Delete the victims, except those that are being deleted already."""
        context = self._context
        staying = [victim for victim in victims if not victim.is_terminating]
        for victim in victims:
            if victim.is_terminating:
                self._log(
                    "Victim Pod is already being deleted, skipping the API call for it",
                    preemptor,
                    node=node,
                    victim=Ref(victim.key),
                )
        if not staying:
            return
        if preemptor.kind == POD:
            context.metrics.preempted(len(victims))
        deleting = self._delete_victims(preemptor, node, staying)
        if self._asynchronous:
            gate = self._gate(preemptor)
            if gate is not None:
                gate.preemption_started(preemptor.object)
            self._log(
                "Start the preemption asynchronously",
                preemptor,
                node=node,
                numVictims=len(victims),
                numVictimsToDelete=len(staying),
            )
            context.tasks.start(deleting, "preemption")
        else:
            await deleting

    async def _delete_victims(self, preemptor: Preemptor, node: str, victims: Sequence[Pod]) -> None:
        """Delete victims; if anything goes wrong the preemptor is scheduled again."""
        context = self._context
        gate = self._gate(preemptor)
        succeeded = False
        took = 0.0
        last = victims[-1]
        has_ended = False

        def end() -> None:
            nonlocal has_ended
            if gate is not None and not has_ended:
                has_ended = True
                gate.preemption_ended(preemptor.object)

        last_in_memory = False
        nobody_tells = False

        def wait_for_last() -> None:
            nonlocal nobody_tells
            nobody_tells = self._is_gone(last)
            if gate is not None:
                gate.preemption_waits_for(preemptor.object, last)

        try:
            was_unbound = self._is_unbound(last)
            if self._activates and self._asynchronous:
                last_in_memory = await self._turn(PREEMPTING, preemptor.uid, was_unbound)
            if self._is_given_turns:
                succeeded = await self._delete_in_order(preemptor, node, victims, wait_for_last)
            else:
                had_to_wait = self._slots.locked() and context.turns is None
                async with self._slots:
                    began = context.timer()
                    if had_to_wait and not self._still_waits(preemptor):
                        return
                    succeeded = await self._delete_in_order(preemptor, node, victims, wait_for_last)
                    took = context.timer() - began
                if last_in_memory:
                    await self._binding.left(last.metadata.uid)
                elif succeeded and self._asynchronous and not was_unbound and context.turns is None:
                    await self._seen_going(last, end)
        except Exception as cause:  # noqa: BLE001 - the preemptor must not stay out of the queue for ever
            about = Ref(preemptor.key)
            context.unexpected("Preemption failed", cause, source="preemption", preemptor=about, node=node)
        finally:
            succeeded = await self._turn(PREEMPTED, preemptor.uid, succeeded)
            end()
        if self._measured:
            context.metrics.preempting.executed(preemptor.kind, _result(succeeded), took)
            if self._asynchronous:
                context.metrics.preemption_executed(_result(succeeded), took)
        else:
            context.metrics.preemption_executed(_result(True), 0.0)
        if not succeeded or last_in_memory or (nobody_tells and self._asynchronous):
            context.queue.activate(preemptor.pods)
        context.wake()

    def _is_gone(self, victim: Pod) -> bool:
        """True if the informer has seen a victim gone: its deletion no longer wakes any pod."""
        known = self._context.find(victim.key)
        return known is None or known.metadata.uid != victim.metadata.uid

    def _still_waits(self, preemptor: Preemptor) -> bool:
        """True if any pod of a preemptor still exists without a node: otherwise no victim has to go."""
        for pod in preemptor.pods:
            known = self._context.find(pod.key)
            is_there = known is not None and known.metadata.uid == pod.metadata.uid
            if known is not None and is_there and known.spec.node_name == pod.spec.node_name:
                return True
        return False

    async def _seen_going(self, victim: Pod, end: Callable[[], None]) -> None:
        """Wait until the informer has seen a victim terminating or gone, with a timeout.

        Until then the preemptor would be tried without success, and find other victims. `end` is called at
        that very moment, as the event wakes the preemptor.
        """
        context, key = self._context, victim.key
        if self._is_gone(victim) or is_going(context.find(key)):
            return
        seen = asyncio.Event()

        def tell() -> None:
            end()
            seen.set()

        context.deletions.add(key, tell)
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                await seen.wait()
        context.deletions.remove(key, tell)

    async def _delete_in_order(
        self, preemptor: Preemptor, node: str, victims: Sequence[Pod], wait_for_last: Callable[[], None]
    ) -> bool:
        """Clear lower nominations, delete all victims but the last, then the last; whether all went well."""
        cleared = await self._clear_nominations(preemptor, node)
        *others, last = victims
        succeeded = await self._preempt_in_parallel(preemptor, node, others)
        if succeeded:
            await self._turn(LAST_VICTIM, preemptor.uid, None)
            wait_for_last()
            succeeded = await self._preempt(preemptor, node, last)
        succeeded = succeeded and cleared
        if self._asynchronous:
            result = _result(succeeded)
            self._log("Async Preemption finished completely", preemptor, node=node, result=result)
        return succeeded

    async def _preempt_in_parallel(self, preemptor: Preemptor, node: str, victims: Sequence[Pod]) -> bool:
        """Preempt victims, several at a time, until one fails; whether all went well."""
        waiting = deque(victims)
        succeeded = True
        # An API server in this process answers at once: nothing else would run until the last victim.
        time_slice = self._context.slice.another()
        time_slice.begin()

        async def work() -> None:
            nonlocal succeeded
            while waiting and succeeded:
                await time_slice.pause_if_over()
                if not (waiting and succeeded):
                    break
                if not await self._preempt(preemptor, node, waiting.popleft()):
                    succeeded = False

        await asyncio.gather(*(work() for _ in range(min(self._parallelism, len(victims)))))
        return succeeded

    async def _clear_nominations(self, preemptor: Preemptor, node: str) -> bool:
        """Clear nominations of lower priority pods to the node: they find another one the sooner.

        A pod that is gone has none, though the informer may be late to tell.
        """
        context = self._context
        lower = [
            info.pod
            for info in context.queue.nominator.pods_for(node)
            if info.priority < preemptor.priority and info.uid != preemptor.uid
        ]
        succeeded = True
        for pod in lower:
            if context.dispatcher is not None:
                context.dispatcher.patch_status(pod, nominated_node="")
                continue
            try:
                await patch_status(context.client, pod, nomination_patch(pod, ""), context.rng)
            except ApiError as failure:
                if failure.is_not_found or is_replaced(failure):
                    continue
                succeeded = False
                context.logger.error(
                    "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node",
                    node=node,
                    err=failure,
                )
        return succeeded

    async def _preempt(self, preemptor: Preemptor, node: str, victim: Pod) -> bool:
        """Preempt one victim; False if that failed. One that is gone already is as good."""
        context = self._context
        who = f"{victim.metadata.uid}{FOR}{preemptor.uid}"
        stopped: bool | None = False
        if not self._is_given_turns:
            stopped = self._preempt_in_memory(preemptor, node, victim)
        stopped = await self._turn(VICTIM, who, stopped)
        if stopped is None:
            return False
        note = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node}"
        if stopped:
            if self._is_given_turns:
                self._preempt_in_memory(preemptor, node, victim)
            note += " (in kube-scheduler memory)."
        else:
            failure = await self._deletion_failure(preemptor, node, victim)
            succeeded = failure is None or failure.is_not_found or is_replaced(failure)
            if not await self._turn(DELETED, who, succeeded):
                context.logger.error(
                    "Tried to preempted pod", pod=Ref(victim.key), preemptor=Ref(preemptor.key), err=failure
                )
                return False
            if failure is not None:
                gone = Ref(victim.key)
                self._log("Victim Pod is already deleted", preemptor, victim=gone, node=node)
                return True
        context.recorder.event(
            victim,
            type=NORMAL,
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=preemptor.scheduler_name,
            related=preemptor.related,
        )
        return True

    def _is_unbound(self, victim: Pod) -> bool:
        """True if a victim waits at Permit or in PreBind: no event is sent when it releases its node."""
        uid = victim.metadata.uid
        return self._context.waiting.get(uid) is not None or uid in self._binding.pre_binding

    def _preempt_in_memory(self, preemptor: Preemptor, node: str, victim: Pod) -> bool:
        """Have a victim give up its node that is not bound to it yet."""
        context, uid = self._context, victim.metadata.uid
        waiting = context.waiting.get(uid)
        about = Ref(victim.key)
        profile = self._profile(preemptor)
        by = "" if profile is None else profile.preemption_name
        if waiting is not None:
            stopped = waiting.preempt(by, "preempted")
            if stopped:
                self._log("Preemptor preempted a waiting pod", preemptor, waitingPod=about, node=node)
            return stopped
        stopped = self._binding.pre_binding.cancel(uid, f"preempted by {by}")
        if stopped:
            self._log("Preemptor rejected a pod in preBind", preemptor, podInPreBind=about, node=node)
        return stopped

    async def _deletion_failure(self, preemptor: Preemptor, node: str, victim: Pod) -> ApiError | None:
        """Delete a victim; returns what the API server had against it."""
        try:
            await self._delete(preemptor, node, victim)
        except ApiError as failure:
            return failure
        return None

    async def _delete(self, preemptor: Preemptor, node: str, victim: Pod) -> None:
        """Mark and delete exactly this victim: not a pod that was created under its name since."""
        context = self._context
        patch = victim_patch(
            victim,
            scheduler_name=preemptor.scheduler_name,
            now=context.clock.now(),
            preemptor=preemptor.kind,
        )
        await patch_status(context.client, victim, patch, context.rng)
        exactly = DeleteOptions(uid=victim.metadata.uid)
        await context.client.delete(PODS, victim.namespace, victim.name, exactly)
        about = Ref(victim.key)
        self._log("Preemptor Pod preempted victim Pod", preemptor, victim=about, node=node)

    @property
    def _is_given_turns(self) -> bool:
        turns = self._context.turns
        return turns is not None and turns.are_given

    async def _turn(self, what: str, uid: str, value: T) -> T:
        turns = self._context.turns
        return value if turns is None else await turns.take(what, uid, value)

    def _log(self, message: str, preemptor: Preemptor, **values: object) -> None:
        if self._context.logger.enabled(2):
            self._context.logger.info(2, message, preemptor=Ref(preemptor.key), **values)

    def _profile(self, preemptor: Preemptor) -> Profile | None:
        return self._context.profiles.get(preemptor.scheduler_name)

    def _gate(self, preemptor: Preemptor) -> PreemptionPlugin | None:
        """The plugin that keeps the preemptor out of the queue while its victims are being deleted."""
        profile = self._profile(preemptor)
        return None if profile is None else profile.preemption


def _result(succeeded: bool) -> str:
    return "success" if succeeded else "error"
