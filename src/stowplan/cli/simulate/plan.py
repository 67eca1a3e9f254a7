"""`stowplan plan`: lists of steps that improve a cluster, and carrying them out one by one."""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from stowplan.cli.explain.explain import connect
from stowplan.cli.output import say
from stowplan.cli.progress import elapsed
from stowplan.cli.simulate.execution import ElsewhereError, Execution, StoppedError, carried_out
from stowplan.cli.simulate.simulation import Simulation, simulation_options
from stowplan.cli.values import AtLeast, OneOf, Seconds
from stowplan.explain.layout import plural

if TYPE_CHECKING:
    from stowplan.simulate import Cluster
    from stowplan.simulate.rebalance import Plan

_AIMS: Final = ("free-nodes", "even", "spread", "gpus")
_AGENT: Final = "stowplan-plan"


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
    does one step at a time. It plans again if a replacement goes to another node, and stops at any other
    difference; nodes that it has cordoned and not emptied are uncordoned when it stops or is interrupted.

    \b
    free-nodes  empty whole nodes; they stay cordoned
    even        even out a resource between nodes
    spread      repair topology spread constraints
    gpus        free nodes with all of their GPUs
    """
    from stowplan.simulate.rebalance import report_of

    if execute and not simulation.is_live:
        raise click.UsageError("--execute changes a cluster: expected a kubeconfig, not --from files")
    cluster = simulation.cluster()
    wanted = Wanted(aim, moves, resource)
    with elapsed("planning"):
        found = wanted.plan(cluster)
    simulation.show(report_of(found))
    if execute and found.steps and not asyncio.run(_execute(simulation, wanted, cluster, found, timeout)):
        raise SystemExit(1)


class Wanted(NamedTuple):
    """Measure to be improved, and the number of evictions allowed."""

    aim: str
    moves: int
    resource: str

    def plan(self, cluster: "Cluster") -> "Plan":
        from stowplan.simulate.rebalance import rebalance

        try:
            return rebalance(cluster, self.aim, most=self.moves, resource=self.resource)
        except ValueError as error:
            raise click.ClickException(str(error)) from None


async def _execute(
    simulation: Simulation, wanted: Wanted, cluster: "Cluster", found: "Plan", timeout: float
) -> bool:
    """Carry a plan out; False if it stopped. It plans again if a replacement goes elsewhere.

    Nodes that were cordoned and are not empty are uncordoned in any case, also if it is interrupted.
    """
    async with connect(simulation.kubeconfig, simulation.context, _AGENT) as (client, address, _):
        execution = Execution(client, timeout, lambda line: say(line, err=True))
        try:
            while True:
                try:
                    await carried_out(execution, found, {pod.key: pod.metadata.uid for pod in cluster.pods})
                    break
                except ElsewhereError as different:
                    left = wanted._replace(moves=wanted.moves - execution.moved)
                    say(f"{different}: planning again, {plural(left.moves, 'move')} left", err=True)
                    if not left.moves:
                        break
                    cluster = await simulation.read_again(client, address)
                    found = left.plan(cluster)
                    if not found.steps:
                        say("no move improves it further", err=True)
                        break
        except StoppedError as problem:
            say(f"stopped: {problem}", err=True)
            return False
        finally:
            say(execution.summary, err=True)
        return True
