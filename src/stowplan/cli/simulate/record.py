"""`stowplan record`: watch events of a cluster as a file that can be replayed and asked questions of."""

import asyncio
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from stowplan.api.quantity import QuantityError, value_of
from stowplan.cli.explain.explain import connect
from stowplan.cli.output import say
from stowplan.cli.progress import Progress
from stowplan.cli.values import Seconds

_AGENT = "stowplan-record"
_EVERY = 0.5


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes as a quantity, `500M` or `1Gi`."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = value_of(str(value))
        except QuantityError:
            size = 0
        if size <= 0:
            option = param.opts[0] if param is not None else "value"
            raise click.ClickException(f"{option}: expected a size such as 500M or 1Gi, got {value!r}")
        return size


@click.command("record")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster [default: as kubectl].",
)
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write. Older parts get .1, .2 and so on after its name.",
)
@click.option(
    "--max-size",
    type=Size(),
    default="1Gi",
    show_default=True,
    help="Maximum size of all files together; the oldest is deleted first.",
)
@click.option("--duration", type=Seconds(), help="Time to record [default: until Ctrl-C].")
def record(
    kubeconfig: Path | None, context: str, output: Path, max_size: int, duration: float | None
) -> None:
    """Record what happens in a cluster.

    Reads only: it records the watch events of nodes, pods and everything else that decisions depend on,
    including bindings, whichever scheduler makes them. `stowplan replay` then shows what another
    configuration would have decided. To replay decisions bit for bit, record with stowplan's own scheduler:
    `stowplan run --record`.
    """
    from stowplan.scheduler.recording.segments import Recording

    asyncio.run(_record(kubeconfig, context, Recording(output, size=max_size), duration))


async def _record(kubeconfig: Path | None, context: str, recording: Any, duration: float | None) -> None:
    from stowplan.runtime.clock import RealClock
    from stowplan.scheduler.recording.watching import ClusterRecorder

    async with connect(kubeconfig, context, _AGENT) as (client, address, _):
        recorder = ClusterRecorder(
            recording,
            client,
            clock=RealClock(),
            source=address,
            report=partial(say, err=True),
        )
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        recording_task = asyncio.create_task(recorder.run())
        ending = asyncio.create_task(ended.wait())
        with Progress("recording", unit="events") as progress:
            began = asyncio.get_running_loop().time()
            while not ending.done() and not recording_task.done():
                progress.reach(recorder.events, f"{recorder.bindings} bindings")
                left = None if duration is None else began + duration - asyncio.get_running_loop().time()
                if left is not None and left <= 0:
                    break
                pause = _EVERY if left is None else min(_EVERY, left)
                await asyncio.wait(
                    {ending, recording_task}, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                )
        ending.cancel()
        recording_task.cancel()
        with suppress(asyncio.CancelledError):
            await recording_task
    say(f"{recording.path}: {recorder.events:,} events, {recorder.bindings:,} bindings")
