"""`stowplan kubelets`: pretend kubelets against a server somewhere."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from stowplan.cli.connecting import connected, kubeconfig_options, run_until_stopped, server_of
from stowplan.cli.values import AtLeast
from stowplan.client.http import Server
from stowplan.clock import RealClock
from stowplan.embedded.kubelets import Kubelets, KubeletSettings, Shape, ShapeError, read_shapes

_ZONES = ("a", "b", "c")


@click.command("kubelets")
@kubeconfig_options
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
    server = server_of(kubeconfig, context)
    try:
        wanted = _shapes(nodes, shapes, adopt=adopt)
    except ShapeError as error:
        raise click.ClickException(str(error)) from None
    settings = replace(KubeletSettings(), adopt=adopt)
    run_until_stopped(_run(server, wanted, settings, random.Random(seed)))


def _shapes(nodes: int | None, path: Path | None, *, adopt: bool) -> Sequence[Shape]:
    """The nodes there shall be; who adopts others needs none of their own."""
    if path is not None:
        return read_shapes(path)
    if nodes is None:
        nodes = 0 if adopt else 3
    return (Shape(count=nodes, zones=_ZONES),) if nodes else ()


async def _run(
    server: Server, shapes: Sequence[Shape], settings: KubeletSettings, rng: random.Random
) -> None:
    clock = RealClock()
    async with connected(server, clock, random.Random(rng.getrandbits(64)), "stowplan-kubelets") as client:
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
