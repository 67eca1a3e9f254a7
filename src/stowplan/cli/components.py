"""`stowplan controllers` and `stowplan kubelets`: components of a cluster against an API server somewhere."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from stowplan.cli.values import AtLeast
from stowplan.client.http import AccessError, HttpClient, Server, load_kubeconfig
from stowplan.clock import Clock, RealClock
from stowplan.embedded.controllers.manager import controller_manager
from stowplan.embedded.kubelets import Kubelets, KubeletSettings, Shape, ShapeError, read_shapes

_ZONES = ("a", "b", "c")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _kubeconfig_options(command: _Command) -> _Command:
    """The options that name the API server."""
    kubeconfig = click.option(
        "--kubeconfig",
        required=True,
        type=click.Path(path_type=Path),
        help="Where the server is and how to get in.",
    )
    context = click.option("--context", default="", help="A context of it; its current one if not given.")
    return kubeconfig(context(command))


@click.command("controllers")
@_kubeconfig_options
@click.option("--seed", type=int, help="The same seed makes the same choices.")
def controllers(kubeconfig: Path, context: str, seed: int | None) -> None:
    """Deployments, jobs, volumes and whatever else needs a control loop, on any API server, until Ctrl-C.

    Meant for a server that has none, such as `stowplan apiserver`: two of them would work against each other.
    """
    _run_until_stopped(_run_controllers(_server_of(kubeconfig, context), random.Random(seed)))


def _server_of(kubeconfig: Path, context: str) -> Server:
    """The server of a kubeconfig; errors in the file are reported in one line."""
    try:
        return load_kubeconfig(kubeconfig, context=context)
    except AccessError as error:
        raise click.ClickException(str(error)) from None


@asynccontextmanager
async def _connected(
    server: Server, clock: Clock, rng: random.Random, agent: str
) -> AsyncIterator[HttpClient]:
    """A client of the server that may send as much as it wants."""
    try:
        client = HttpClient(server, clock=clock, rng=rng, qps=-1, user_agent=agent)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    async with client:
        yield client


def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until Ctrl-C, or until it ends by itself."""
    asyncio.run(_until_stopped(work))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        click.echo("stopping")


async def _run_controllers(server: Server, rng: random.Random) -> None:
    clock = RealClock()
    async with _connected(
        server, clock, random.Random(rng.getrandbits(64)), "stowplan-controllers"
    ) as client:
        working = controller_manager(
            client, clock=clock, rng=rng, report=lambda text: click.echo(text, err=True)
        )
        async with working.running():
            count = len(working.controllers)
            click.echo(f"{count} control loops run on {server.address}. Ctrl-C ends them.")
            await asyncio.Event().wait()


@click.command("kubelets")
@_kubeconfig_options
@click.option("--nodes", type=AtLeast(0), help="So many nodes of 8 CPU and 32Gi in three zones [default: 3].")
@click.option(
    "--shapes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Nodes as a file says: counts, sizes, labels, taints, devices.",
)
@click.option("--adopt", is_flag=True, help="Also be the kubelet of nodes that others created.")
@click.option("--seed", type=int, help="The same seed makes the same choices.")
def kubelets(
    kubeconfig: Path, context: str, nodes: int | None, shapes: Path | None, adopt: bool, seed: int | None
) -> None:
    """Nodes that pretend to run pods, on any API server, until Ctrl-C.

    They register, renew their leases and report what becomes of their pods, but nothing is started anywhere.
    When it ends the nodes stay and fall silent.
    """
    if nodes is not None and shapes is not None:
        raise click.UsageError("--nodes and --shapes both say which nodes there are: give one of them")
    server = _server_of(kubeconfig, context)
    try:
        wanted = _shapes(nodes, shapes, adopt=adopt)
    except ShapeError as error:
        raise click.ClickException(str(error)) from None
    settings = replace(KubeletSettings(), adopt=adopt)
    _run_until_stopped(_run_kubelets(server, wanted, settings, random.Random(seed)))


def _shapes(nodes: int | None, path: Path | None, *, adopt: bool) -> Sequence[Shape]:
    """The nodes there shall be; who adopts others needs none of their own."""
    if path is not None:
        return read_shapes(path)
    if nodes is None:
        nodes = 0 if adopt else 3
    return (Shape(count=nodes, zones=_ZONES),) if nodes else ()


async def _run_kubelets(
    server: Server, shapes: Sequence[Shape], settings: KubeletSettings, rng: random.Random
) -> None:
    clock = RealClock()
    async with _connected(server, clock, random.Random(rng.getrandbits(64)), "stowplan-kubelets") as client:
        pretended = Kubelets(
            client,
            shapes,
            settings,
            clock=clock,
            rng=rng,
            report=lambda text: click.echo(text, err=True),
        )
        async with pretended.running():
            click.echo(
                f"kubelets of {len(pretended.names):,} nodes run on {server.address}. Ctrl-C ends them."
            )
            await asyncio.Event().wait()
