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

from stowplan.cli.options import no_image_option
from stowplan.cli.output import say
from stowplan.cli.values import AtLeast
from stowplan.client.http import AccessError, HttpClient, Server, load_kubeconfig
from stowplan.localcluster.controllers.manager import ControllerSettings, controller_manager
from stowplan.localcluster.controllers.serviceaccount import AccountSettings
from stowplan.localcluster.kubelets import (
    Kubelets,
    KubeletSettings,
    NodeShape,
    Pretend,
    PretendError,
    ShapeError,
    read_pretend,
    read_shapes,
)
from stowplan.runtime.clock import Clock, RealClock

_ZONES = ("a", "b", "c")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _kubeconfig_options(command: _Command) -> _Command:
    """The options that name the API server."""
    kubeconfig = click.option(
        "--kubeconfig",
        required=True,
        type=click.Path(path_type=Path),
        help="Kubeconfig of the API server.",
    )
    context = click.option("--context", default="", help="Context of the kubeconfig to use.")
    return kubeconfig(context(command))


@click.command("controllers")
@_kubeconfig_options
@click.option("--seed", type=int, help="Seed of every random choice.")
def controllers(kubeconfig: Path, context: str, seed: int | None) -> None:
    """Run controllers against an API server.

    Runs the control loops of kube-controller-manager (Deployments, Jobs, volumes and so on) until Ctrl-C. Use
    it with `stowplan apiserver`: other controllers in the cluster would interfere.
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
        say("stopping")


async def _run_controllers(server: Server, rng: random.Random) -> None:
    clock = RealClock()
    async with _connected(
        server, clock, random.Random(rng.getrandbits(64)), "stowplan-controllers"
    ) as client:
        working = controller_manager(
            client,
            ControllerSettings(accounts=AccountSettings(root_ca=lambda: _authority(server))),
            clock=clock,
            rng=rng,
            report=lambda text: say(text, err=True),
        )
        async with working.running():
            count = len(working.controllers)
            say(f"{count} control loops run on {server.address}. Ctrl-C ends them.")
            await asyncio.Event().wait()


def _authority(server: Server) -> str:
    """The CA in the kubeconfig, which pods of the cluster are to trust as well."""
    authority = server.trust.authority
    data = Path(authority.file).read_bytes() if authority.file else authority.data
    return data.decode()


@click.command("kubelets")
@_kubeconfig_options
@click.option(
    "--nodes", type=AtLeast(0), help="Number of nodes with 8 CPU and 32Gi, in three zones [default: 3]."
)
@click.option(
    "--shapes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of node pools: count, size, labels, taints, devices.",
)
@click.option(
    "--pretend",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file that defines how pods and nodes start, run and fail.",
)
@no_image_option
@click.option("--adopt", is_flag=True, help="Also act as kubelet of existing nodes.")
@click.option("--seed", type=int, help="Seed of every random choice.")
def kubelets(
    kubeconfig: Path,
    context: str,
    nodes: int | None,
    shapes: Path | None,
    pretend: Path | None,
    no_image: tuple[str, ...],
    adopt: bool,
    seed: int | None,
) -> None:
    """Run simulated kubelets against an API server.

    The kubelets register nodes, renew node leases and report pod statuses until Ctrl-C. No container is
    started. When the command ends, the nodes remain without a kubelet.
    """
    if nodes is not None and shapes is not None:
        raise click.UsageError("--nodes and --shapes exclude each other")
    server = _server_of(kubeconfig, context)
    try:
        wanted = _shapes(nodes, shapes, adopt=adopt)
        rules = Pretend() if pretend is None else read_pretend(pretend)
    except (ShapeError, PretendError) as error:
        raise click.ClickException(str(error)) from None
    settings = replace(KubeletSettings(), adopt=adopt, pretend=rules, missing_images=no_image)
    _run_until_stopped(_run_kubelets(server, wanted, settings, random.Random(seed)))


def _shapes(nodes: int | None, path: Path | None, *, adopt: bool) -> Sequence[NodeShape]:
    """Shapes of the nodes; with `adopt` there are none by default."""
    if path is not None:
        return read_shapes(path)
    if nodes is None:
        nodes = 0 if adopt else 3
    return (NodeShape(count=nodes, zones=_ZONES),) if nodes else ()


async def _run_kubelets(
    server: Server, shapes: Sequence[NodeShape], settings: KubeletSettings, rng: random.Random
) -> None:
    clock = RealClock()
    async with _connected(server, clock, random.Random(rng.getrandbits(64)), "stowplan-kubelets") as client:
        pretended = Kubelets(
            client,
            shapes,
            settings,
            clock=clock,
            rng=rng,
            report=lambda text: say(text, err=True),
        )
        async with pretended.running():
            say(f"kubelets of {len(pretended.names):,} nodes run on {server.address}. Ctrl-C ends them.")
            await asyncio.Event().wait()
