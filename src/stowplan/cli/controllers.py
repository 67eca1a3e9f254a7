"""`stowplan controllers`: the control loops of a cluster against a server somewhere."""

import asyncio
import random
from pathlib import Path

import click

from stowplan.cli.connecting import connected, kubeconfig_options, run_until_stopped, server_of
from stowplan.client.http import Server
from stowplan.clock import RealClock
from stowplan.embedded.controllers.manager import controller_manager


@click.command("controllers")
@kubeconfig_options
@click.option("--seed", type=int, help="The same seed makes the same choices.")
def controllers(kubeconfig: Path, context: str, seed: int | None) -> None:
    """Deployments, jobs, volumes and whatever else needs a control loop, on any API server, until Ctrl-C.

    Meant for a server that has none, such as `stowplan apiserver`: two of them would work against each other.
    """
    run_until_stopped(_run(server_of(kubeconfig, context), random.Random(seed)))


async def _run(server: Server, rng: random.Random) -> None:
    clock = RealClock()
    async with connected(server, clock, random.Random(rng.getrandbits(64)), "stowplan-controllers") as client:
        working = controller_manager(
            client, clock=clock, rng=rng, report=lambda text: click.echo(text, err=True)
        )
        async with working.running():
            count = len(working.controllers)
            click.echo(f"{count} control loops run on {server.address}. Ctrl-C ends them.")
            await asyncio.Event().wait()
