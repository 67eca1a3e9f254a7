"""`stowplan plan`: lists of steps that improve a cluster, and carrying them out one by one."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.cli.explain.explain import connect
from stowplan.cli.output import say
from stowplan.cli.progress import elapsed
from stowplan.cli.simulate.simulation import Simulation, simulation_options
from stowplan.cli.values import AtLeast, OneOf, Seconds
from stowplan.client.http import HttpClient

if TYPE_CHECKING:
    from stowplan.simulate.rebalance import Move, Plan

_AIMS: Final = ("free-nodes", "even", "spread", "gpus")
_AGENT: Final = "stowplan-plan"
_EVERY: Final = 0.5


@click.group("plan")
def plan() -> None:
    """Plan steps that improve a cluster."""


@plan.command("rebalance")
@click.option("--aim", type=OneOf(_AIMS), default="even", show_default=True, help="Property to improve.")
@click.option("--moves", type=AtLeast(1), default=50, show_default=True, help="Maximum number of evictions.")
@click.option("--resource", default="", help="Resource to even out, or to defragment [default: cpu, GPUs].")
@click.option("--execute", is_flag=True, help="Carry the plan out, step by step.")
@click.option(
    "--timeout",
    type=Seconds(),
    default="2m",
    show_default=True,
    help="Time that --execute waits for a moved pod to be ready.",
)
@simulation_options
def rebalance_command(
    aim: str, moves: int, resource: str, execute: bool, timeout: float, simulation: Simulation
) -> None:
    """Plan moves that rebalance a cluster.

    A move evicts a pod; the plan shows where the scheduler places its replacement, and the gain. When its
    turn comes, every move is allowed by PodDisruptionBudgets. Nothing is written without --execute, which
    does one step at a time and stops at the first that does not go as planned.

    \b
    free-nodes  empty whole nodes; they stay cordoned
    even        even out a resource between nodes
    spread      repair topology spread constraints
    gpus        free nodes with all of their GPUs
    """
    from stowplan.simulate.rebalance import rebalance, report_of

    if execute and not simulation.is_live:
        raise click.UsageError("--execute changes a cluster: expected a kubeconfig, not --from files")
    cluster = simulation.cluster()
    try:
        with elapsed("planning"):
            found = rebalance(cluster, aim, most=moves, resource=resource)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    simulation.show(report_of(found))
    if execute and found.steps:
        uids = {pod.key: pod.metadata.uid for pod in cluster.pods}
        done = asyncio.run(_execute(simulation, found, uids, timeout))
        say(f"{done} of {len(found.steps)} steps done", err=True)
        if done < len(found.steps):
            raise SystemExit(1)


async def _execute(simulation: Simulation, found: "Plan", uids: dict[str, str], timeout: float) -> int:
    async with connect(simulation.kubeconfig, simulation.context, _AGENT) as (client, _, _):
        executor = Executor(client, uids, timeout)
        for number, step in enumerate(found.steps):
            problem = await executor.do(step)
            if problem:
                say(f"stopped at step {number + 1}: {problem}", err=True)
                return number
        return len(found.steps)


@dataclass(slots=True)
class Executor:
    """Does steps of a plan; `uids` are those of the pods when it was made."""

    client: HttpClient
    uids: dict[str, str]
    timeout: float

    async def do(self, step: "Move") -> str:
        """Do one step; what was not as planned, "" if all was."""
        try:
            if step.pod:
                return await self._move(step)
            change = {"spec": {"unschedulable": True if step.action == "cordon" else None}}
            await self.client.patch(NODES, "", step.node, change)
        except ApiError as error:
            return f"{step.action} {step.pod or step.node}: {error.message}"
        return ""

    async def _move(self, step: "Move") -> str:
        namespace, _, name = step.pod.partition("/")
        pods = await self._pods(namespace)
        pod = next((one for one in pods if one.name == name), None)
        if pod is None or pod.metadata.uid != self.uids.get(step.pod):
            return f"{step.pod} is not the pod that it was"
        if pod.spec.node_name != step.node:
            return f"{step.pod} is on {pod.spec.node_name or 'no node'} instead of {step.node}"
        known = {one.metadata.uid for one in pods}
        await self.client.evict(namespace, name)
        return await self._replaced(pod, known, step)

    async def _replaced(self, pod: Pod, known: set[str], step: "Move") -> str:
        """Wait until the replacement is ready on the node of the plan."""
        owner = next((one.uid for one in pod.metadata.owner_references if one.controller), "")
        waited = 0.0
        state = "was not created"
        while waited < self.timeout:
            for one in await self._pods(pod.namespace):
                owners = [ref.uid for ref in one.metadata.owner_references if ref.controller]
                if one.metadata.uid in known or owner not in owners:
                    continue
                state = "found no node"
                if one.spec.node_name:
                    if one.spec.node_name != step.to:
                        return f"{step.pod} is replaced on {one.spec.node_name} instead of {step.to}"
                    state = "did not become ready"
                    if any(each.type == "Ready" and each.status == "True" for each in one.status.conditions):
                        say(f"{step.pod} moved from {step.node} to {step.to}", err=True)
                        return ""
            await asyncio.sleep(_EVERY)
            waited += _EVERY
        return f"the replacement of {step.pod} {state} within {self.timeout:g} s"

    async def _pods(self, namespace: str) -> list[Pod]:
        return list((await self.client.list(PODS, Pod, namespace=namespace)).items)
