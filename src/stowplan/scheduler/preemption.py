"""Making room: having victims go, in the background, while the pod they go for stays out of the queue."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.cluster.podinfo import PodInfo
from stowplan.extenders import Extender, ExtenderError
from stowplan.extenders.rounds import preempt_round
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.postfilter import PostFilterResult, PostFilterRound, ask_post_filter
from stowplan.framework.status import error
from stowplan.logs import Ref
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.defaultpreemption.plugin import PREFIX
from stowplan.reporting import NORMAL, nomination_patch, patch_status, victim_patch
from stowplan.scheduler.context import Context

PLUGIN: Final = DefaultPreemption.name


async def post_filter_with_extenders(
    plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo, extenders: Sequence[Extender]
) -> PostFilterResult:
    """Ask PostFilter plugins in order, extenders having their say about whom preemption makes go.

    Raises PluginError.
    """
    asked = PostFilterRound()
    for plugin in plugins:
        answer = ask_post_filter(plugin, cycle, pod)
        if isinstance(plugin, DefaultPreemption) and answer.candidates:
            answer = await _after_extenders(plugin, extenders, cycle, pod, answer)
        result = asked.take(plugin, answer)
        if result is not None:
            return result
    return asked.end()


async def _after_extenders(
    plugin: DefaultPreemption,
    extenders: Sequence[Extender],
    cycle: Cycle,
    pod: PodInfo,
    result: PostFilterResult,
) -> PostFilterResult:
    """Let extenders take candidates out, and choose among the rest."""
    table = cycle.table

    def victim_on(node: str, uid: str) -> Pod | None:
        row = table.row_of(node)
        if row is None:
            raise LookupError(node)
        info = table.pods_on[row].get(uid)
        return None if info is None else info.pod

    concerned = [one for one in extenders if one.supports_preemption and one.is_interested(pod.pod)]
    if not concerned:
        return result
    try:
        left = await preempt_round(concerned, pod.pod, dict(result.candidates), victim_on)
    except ExtenderError as failure:
        return PostFilterResult(error(f"{PREFIX}{failure}"))
    return plugin.among_candidates(left.candidates)


class Preemption:
    """Carries out what the preemption plugins of all profiles decide.

    Per victim: it is marked as a target of disruption, deleted, and an event tells of it. A victim that is
    not bound yet just does not get its node. All but the last victim go at the same time; the last one
    follows, and its going is what lets the preemptor try again.
    """

    def __init__(self, context: Context, *, asynchronous: bool = True) -> None:
        self._context = context
        self._asynchronous = asynchronous

    async def make_room(self, preemptor: Pod, node: str, victims: Sequence[Pod]) -> None:
        """Have the victims go. Those already going need no telling."""
        context = self._context
        staying = [victim for victim in victims if not victim.is_terminating]
        for victim in victims:
            if victim.is_terminating:
                self._tell(
                    "Victim Pod is already being deleted, skipping the API call for it",
                    preemptor,
                    node=node,
                    victim=Ref(victim.key),
                )
        if not staying:
            return
        context.metrics.preempted(len(victims))
        evicting = self._evict(preemptor, node, staying)
        if self._asynchronous:
            gate = self._gate(preemptor)
            if gate is not None:
                gate.under_way[preemptor.metadata.uid] = None
            self._tell(
                "Start the preemption asynchronously",
                preemptor,
                node=node,
                numVictims=len(victims),
                numVictimsToDelete=len(staying),
            )
            context.tasks.start(evicting, "preemption")
        else:
            await evicting

    async def _evict(self, preemptor: Pod, node: str, victims: Sequence[Pod]) -> None:
        context, uid = self._context, preemptor.metadata.uid
        gate = self._gate(preemptor)
        cleared = await self._clear_nominations(preemptor, node)
        *others, last = victims
        gone = await asyncio.gather(*(self._preempt(preemptor, node, victim) for victim in others))
        succeeded = all(gone)
        if succeeded:
            if gate is not None and uid in gate.under_way:
                gate.under_way[uid] = last
            succeeded = await self._preempt(preemptor, node, last)
        if gate is not None:
            gate.under_way.pop(uid, None)
        context.metrics.preemption_executed("success", 0.0)
        if self._asynchronous:
            result = "success" if succeeded else "error"
            self._tell("Async Preemption finished completely", preemptor, node=node, result=result)
        if not (succeeded and cleared):
            context.queue.activate((preemptor,))
        context.stir()

    async def _clear_nominations(self, preemptor: Pod, node: str) -> bool:
        """Take back promises of the node to less important pods: they find another one the sooner."""
        context = self._context
        lower = [
            info.pod
            for info in context.queue.nominator.pods_for(node)
            if info.priority < preemptor.priority and info.uid != preemptor.metadata.uid
        ]
        succeeded = True
        for pod in lower:
            try:
                await patch_status(context.client, pod, nomination_patch(pod, ""), context.rng)
            except ApiError as failure:
                succeeded = False
                context.journal.problem(
                    "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node",
                    node=node,
                    err=failure,
                )
        return succeeded

    async def _preempt(self, preemptor: Pod, node: str, victim: Pod) -> bool:
        """Have one victim go; False if that failed. One that is gone already is as good."""
        context = self._context
        note = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
        if self._stop_in_memory(preemptor, node, victim):
            note += " (in kube-scheduler memory)."
        else:
            try:
                await self._delete(preemptor, node, victim)
            except ApiError as failure:
                if failure.is_not_found:
                    gone = Ref(victim.key)
                    self._tell("Victim Pod is already deleted", preemptor, victim=gone, node=node)
                    return True
                context.journal.problem(
                    "Tried to preempted pod", pod=Ref(victim.key), preemptor=Ref(preemptor.key), err=failure
                )
                return False
        context.recorder.event(
            victim,
            type=NORMAL,
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=preemptor.spec.scheduler_name,
        )
        return True

    def _stop_in_memory(self, preemptor: Pod, node: str, victim: Pod) -> bool:
        """Have a victim give up its place that is not bound to it yet."""
        context, uid = self._context, victim.metadata.uid
        waiting = context.waiting.get(uid)
        about = Ref(victim.key)
        if waiting is not None:
            stopped = waiting.preempt(PLUGIN, "preempted")
            if stopped:
                self._tell("Preemptor preempted a waiting pod", preemptor, waitingPod=about, node=node)
            return stopped
        stopped = context.pre_binding.cancel(uid, f"preempted by {PLUGIN}")
        if stopped:
            self._tell("Preemptor rejected a pod in preBind", preemptor, podInPreBind=about, node=node)
        return stopped

    async def _delete(self, preemptor: Pod, node: str, victim: Pod) -> None:
        context = self._context
        patch = victim_patch(victim, scheduler_name=preemptor.spec.scheduler_name, now=context.clock.now())
        await patch_status(context.client, victim, patch, context.rng)
        await context.client.delete(PODS, victim.namespace, victim.name)
        about = Ref(victim.key)
        self._tell("Preemptor Pod preempted victim Pod", preemptor, victim=about, node=node)

    def _tell(self, message: str, preemptor: Pod, **values: object) -> None:
        if self._context.journal.shows(2):
            self._context.journal.info(2, message, preemptor=Ref(preemptor.key), **values)

    def _gate(self, preemptor: Pod) -> DefaultPreemption | None:
        """The plugin that keeps the pod out of the queue while its victims are being told to go."""
        profile = self._context.profiles.get(preemptor.spec.scheduler_name)
        plugin = None if profile is None else profile.framework.plugins.get(PLUGIN)
        return plugin if isinstance(plugin, DefaultPreemption) else None
