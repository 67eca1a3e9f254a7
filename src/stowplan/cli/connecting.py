"""Commands that work on a server somewhere: how they find it, and how they end."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from stowplan.client.http import AccessError, HttpClient, Server, load_kubeconfig
from stowplan.clock import Clock

_Command = TypeVar("_Command", bound=Callable[..., Any])


def kubeconfig_options(command: _Command) -> _Command:
    """The options that say which server is meant."""
    kubeconfig = click.option(
        "--kubeconfig",
        required=True,
        type=click.Path(path_type=Path),
        help="Where the server is and how to get in.",
    )
    context = click.option("--context", default="", help="A context of it; its current one if not given.")
    return kubeconfig(context(command))


def server_of(kubeconfig: Path, context: str) -> Server:
    """The server that is meant; what is wrong with the file is told in one line."""
    try:
        return load_kubeconfig(kubeconfig, context=context)
    except AccessError as error:
        raise click.ClickException(str(error)) from None


@asynccontextmanager
async def connected(
    server: Server, clock: Clock, rng: random.Random, agent: str
) -> AsyncIterator[HttpClient]:
    """A client of the server that may send as much as it wants."""
    try:
        client = HttpClient(server, clock=clock, rng=rng, qps=-1, user_agent=agent)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    async with client:
        yield client


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
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
