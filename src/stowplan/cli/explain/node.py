"""`stowplan node`: make simulated nodes fail and recover."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from stowplan.api.catalogue import NODES
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError
from stowplan.cli.output import say
from stowplan.cli.values import OneOf
from stowplan.client.http import AccessError, HttpClient, Server, load_kubeconfig
from stowplan.localcluster.kubelets.pretend import FAIL, FAILURES, SILENT
from stowplan.localcluster.objects.fields import annotations_of
from stowplan.runtime.clock import RealClock

_DEFAULT = Path("~/.kube/config")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _server_options(command: _Command) -> _Command:
    """The options that name the cluster, as kubectl has them."""
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Kubeconfig of the cluster [default: as kubectl].",
    )
    context = click.option("--context", default="", help="Context of the kubeconfig to use.")
    return kubeconfig(context(command))


@click.group("node")
def node_group() -> None:
    """Make simulated nodes fail and recover."""


@node_group.command("fail")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--as",
    "failure",
    type=OneOf(FAILURES),
    default=SILENT,
    show_default=True,
    help="Silent: the node stops reporting, like a machine that hangs. Others: the condition it reports.",
)
@_server_options
def fail_command(names: tuple[str, ...], failure: str, kubeconfig: Path | None, context: str) -> None:
    """Make nodes fail.

    Sets the annotation pretend.stowplan.io/fail for the simulated kubelets of `stowplan up` and `stowplan
    kubelets`. A silent node becomes NotReady when its lease has expired, and its pods are evicted when their
    tolerations expire.
    """
    _annotate(kubeconfig, context, names, failure)
    for name in names:
        say(f"node/{name} fails: {failure}")


@node_group.command("recover")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_server_options
def recover_command(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Let nodes recover that failed, or were loaded as failed."""
    _annotate(kubeconfig, context, names, None)
    for name in names:
        say(f"node/{name} recovers")


def _annotate(kubeconfig: Path | None, context: str, names: Sequence[str], failure: str | None) -> None:
    try:
        asyncio.run(_write(_server(kubeconfig, context), names, failure))
    except (AccessError, ApiError) as error:
        raise click.ClickException(str(error)) from None


def _server(kubeconfig: Path | None, context: str) -> Server:
    if kubeconfig is not None:
        return load_kubeconfig(kubeconfig, context=context)
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return load_kubeconfig(*(named or [_DEFAULT.expanduser()]), context=context)


async def _write(server: Server, names: Sequence[str], failure: str | None) -> None:
    async with HttpClient(
        server, clock=RealClock(), rng=random.Random(), user_agent="stowplan-node"
    ) as client:
        for name in names:
            value = failure
            if failure is None and FAIL not in annotations_of(await client.get(NODES, "", name)):
                value = "false"
            patch = {"metadata": {"annotations": {FAIL: value}}}
            await client.patch(NODES, "", name, patch, PatchType.MERGE)
