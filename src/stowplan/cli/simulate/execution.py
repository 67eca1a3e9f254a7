"""Carrying out the steps of a plan on a cluster, one after the other, so that they can be taken back.

A pod that was evicted is gone; a node that was cordoned is uncordoned again when the execution stops, unless
the plan has emptied it by then.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.explain.layout import plural

if TYPE_CHECKING:
    from stowplan.simulate.rebalance import Move, Plan

_EVERY: Final = 0.5
CORDON: Final = "cordon"


class StoppedError(Exception):
    """A step was not as planned; the message says how."""


class ElsewhereError(StoppedError):
    """A replacement went to another node than planned: the rest of the plan is for another cluster."""


@dataclass(slots=True)
class Execution:
    """Steps done on a cluster. `timeout`: seconds until a pod is ready; `say` gets a line for each move."""

    client: HttpClient
    timeout: float
    say: Callable[[str], None]
    moved: int = 0
    emptied: list[str] = field(default_factory=list)
    """Nodes that plans have emptied; they stay cordoned."""
    _cordoned: dict[str, None] = field(default_factory=dict)
    """Nodes that were cordoned here and are to be uncordoned again."""

    async def carry_out(self, plan: "Plan", uids: Mapping[str, str]) -> None:
        """Do all steps. `uids` are those of the pods when the plan was made. Raises StoppedError."""
        left = Counter(step.node for step in plan.evictions)
        meanwhile = {step.node for step in plan.steps if not step.pod and step.action != CORDON}
        for step in plan.steps:
            try:
                if step.pod:
                    await self._move(step, uids)
                    self.moved += 1
                    left[step.node] -= 1
                else:
                    await self._set(step.node, cordoned=step.action == CORDON)
            except ApiError as error:
                about = step.pod or step.node
                raise StoppedError(f"{step.action} {about}: {error.message}") from None
            done = step.pod and not left[step.node] and step.node not in meanwhile
            if done and step.node in self._cordoned:
                del self._cordoned[step.node]
                self.emptied.append(step.node)

    async def take_back(self) -> None:
        """Uncordon what was cordoned and is not empty."""
        for name in list(self._cordoned):
            try:
                await self._set(name, cordoned=False)
            except ApiError as error:
                self.say(f"{name} stays cordoned: {error.message}")
            else:
                self.say(f"{name} is uncordoned again")

    @property
    def summary(self) -> str:
        """The moves that were made, and what is left of them."""
        kept = [*self.emptied, *self._cordoned]
        left = f"; {', '.join(kept)} {'stays' if len(kept) == 1 else 'stay'} cordoned" if kept else ""
        return f"{plural(self.moved, 'move')} done{left}"

    async def _set(self, name: str, *, cordoned: bool) -> None:
        """Cordon or uncordon a node. A node cordoned by another user stays cordoned."""
        node = await self.client.get(NODES, "", name)
        if cordoned and (node.get("spec") or {}).get("unschedulable"):
            return
        if cordoned:
            self._cordoned[name] = None
        await self.client.patch(NODES, "", name, {"spec": {"unschedulable": True if cordoned else None}})
        if not cordoned:
            self._cordoned.pop(name, None)
            if name in self.emptied:
                self.emptied.remove(name)

    async def _move(self, step: "Move", uids: Mapping[str, str]) -> None:
        namespace, _, name = step.pod.partition("/")
        pods = await self._pods(namespace)
        pod = next((one for one in pods if one.name == name), None)
        if pod is None or pod.metadata.uid != uids.get(step.pod):
            raise StoppedError(f"{step.pod} is not the pod that it was")
        if pod.spec.node_name != step.node:
            raise StoppedError(f"{step.pod} is on {pod.spec.node_name or 'no node'} instead of {step.node}")
        known = {one.metadata.uid for one in pods}
        await self.client.evict(namespace, name)
        await self._replaced(pod, known, step)

    async def _replaced(self, pod: Pod, known: set[str], step: "Move") -> None:
        """Wait until the replacement is ready. Raises ElsewhereError then if it is on another node."""
        owner = next((one.uid for one in pod.metadata.owner_references if one.controller), "")
        waited = 0.0
        state = "was not created"
        while waited < self.timeout:
            for one in await self._pods(pod.namespace):
                owners = [ref.uid for ref in one.metadata.owner_references if ref.controller]
                if one.metadata.uid in known or owner not in owners:
                    continue
                state = "found no node"
                node = one.spec.node_name
                if node:
                    state = "did not become ready"
                if any(each.type == "Ready" and each.status == "True" for each in one.status.conditions):
                    self.say(f"{step.pod} moved from {step.node} to {node}")
                    if node != step.to:
                        self.moved += 1
                        raise ElsewhereError(f"{step.pod} is replaced on {node} instead of {step.to}")
                    return
            await asyncio.sleep(_EVERY)
            waited += _EVERY
        raise StoppedError(f"the replacement of {step.pod} {state} within {self.timeout:g} s")

    async def _pods(self, namespace: str) -> list[Pod]:
        return list((await self.client.list(PODS, Pod, namespace=namespace)).items)


async def carried_out(execution: Execution, plan: "Plan", uids: Mapping[str, str]) -> None:
    """Do all steps of a plan, and take back what is unfinished if that fails or is interrupted.

    Raises StoppedError.
    """
    try:
        await execution.carry_out(plan, uids)
    finally:
        await execution.take_back()
