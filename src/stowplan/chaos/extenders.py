"""Extenders of a run, in this process: they follow a simple rule, unless the weather is bad."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.chaos.bindings import Bindings
from stowplan.chaos.plan import ExtenderPlan
from stowplan.chaos.server import Reception
from stowplan.chaos.world import World
from stowplan.extenders import ExtenderError
from stowplan.extenders.interface import Filtered, FindPod
from stowplan.framework.postfilter import Victims
from stowplan.testing.extenders import letters

SLOWEST = 3.0
REASON = "the rule says no"


def accepts(plan: ExtenderPlan, pod: str, node: str) -> bool:
    """The rule by which an extender keeps nodes."""
    return not plan.filters or (letters(node) + letters(pod) + plan.salt) % 5 != 0


class ChaosExtender:
    """One extender of one scheduler."""

    def __init__(
        self, plan: ExtenderPlan, world: World, bindings: Bindings, scheduler: int, rng: Random
    ) -> None:
        self.plan = plan
        self._world = world
        self._bindings = bindings
        self._scheduler = scheduler
        self._rng = rng
        self._api = Reception(world, bindings)
        self.name = plan.name
        self.weight = 1
        self.is_ignorable = plan.ignorable
        self.is_filter = plan.filters
        self.is_prioritizer = True
        self.is_binder = plan.binds
        self.supports_preemption = plan.preempts

    def is_interested(self, pod: Pod) -> bool:
        return letters(pod.name) % 4 != 0

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        await self._risk()
        kept = [node.name for node in nodes if accepts(self.plan, pod.name, node.name)]
        failed = {node.name: REASON for node in nodes if node.name not in kept}
        return Filtered(kept, failed)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        await self._risk()
        return {node.name: (letters(node.name) + self.plan.salt) % 11 for node in nodes}

    async def bind(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        self._bindings.begin(uid, node, self._scheduler)
        acknowledged = False
        try:
            await self._risk()
            metadata = ObjectMeta(namespace=pod.namespace, name=pod.name, uid=uid)
            await self._api.bind(Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node)))
            await self._risk()
            acknowledged = True
        except ApiError as failure:
            raise ExtenderError(failure.message) from None
        finally:
            self._bindings.end(uid, acknowledged=acknowledged)

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        await self._risk()
        kept = {node: found for node, found in victims.items() if accepts(self.plan, pod.name, node)}
        for node, found in kept.items():
            for victim in found.pods:
                find(node, victim.metadata.uid)
        return kept

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _risk(self) -> None:
        likely = self._world.weather.extenders
        if likely <= 0:
            return
        if self._rng.random() < likely:
            await asyncio.sleep(self._rng.random() * SLOWEST)
        if self._rng.random() < likely * 0.5:
            self._world.counts["extender failures"] += 1
            raise ExtenderError("the extender is in a bad mood")
