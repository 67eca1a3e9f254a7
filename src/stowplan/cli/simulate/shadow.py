"""`stowplan shadow`: read-only, next to the scheduler of a cluster."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.explain.explain import connect
from stowplan.cli.explain.offline import scheduler_settings
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import say
from stowplan.cli.progress import Progress, elapsed
from stowplan.cli.values import Seconds
from stowplan.client import Client
from stowplan.explain.layout import Palette, cleaned, plural
from stowplan.explain.report.page import render as render_page
from stowplan.explain.report.terminal import render
from stowplan.runtime.clock import Clock, RealClock
from stowplan.scheduler import Scheduler, Settings
from stowplan.simulate.shadow import Judgement, Sampling, Shadow, Tally
from stowplan.simulate.shadow.metrics import MetricsServer, ShadowMetrics
from stowplan.simulate.shadow.report import page_of, written

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_PORT: Final = click.IntRange(0, 65535)
_EVERY: Final = 1.0
"""Seconds between two looks at what is still open."""


def watching_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that follow a cluster beside its scheduler."""
    for option in (
        plugins_option,
        gates_options,
        click.option("--config", type=_FILE, help="KubeSchedulerConfiguration to compare with."),
        click.option("--context", default="", help="Context of the kubeconfig to use."),
        click.option("--kubeconfig", type=_FILE, help="Kubeconfig of the cluster [default: as kubectl]."),
    ):
        command = option(command)
    return command


@click.command("shadow")
@watching_options
@click.option("--duration", type=Seconds(), help="Time to watch [default: until Ctrl-C].")
@click.option("--bindings", type=click.IntRange(1), help="Stop after this many bindings.")
@click.option("--quiet", is_flag=True, help="Do not print disagreements as they happen.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the report to this HTML file.",
)
@click.option(
    "--percentage-of-nodes-to-score",
    "percentage",
    type=click.IntRange(0, 100),
    help="Setting of the cluster's scheduler; 0: adaptive [default: as in --config, else adaptive].",
)
@click.option(
    "--metrics-port", type=_PORT, help="Serve Prometheus metrics on this loopback port; 0: a free one."
)
def shadow(
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    gates: FeatureGates | None,
    plugins: tuple[str, ...],
    duration: float | None,
    bindings: int | None,
    quiet: bool,
    output: str,
    as_json: bool,
    page: Path | None,
    percentage: int | None,
    metrics_port: int | None,
) -> None:
    """Judge every binding of a cluster's scheduler.

    Reads only. For each pod that gets a node it checks whether stowplan would have chosen that node at that
    moment. With --config and --plugin it judges by another configuration.
    """
    settings = scheduler_settings(config, gates, plugins)
    if percentage is None and config is None:
        percentage = 0
    watching = _Watching(duration, bindings, quiet, percentage, metrics_port)
    tally = asyncio.run(_shadow(kubeconfig, context, settings, watching))
    against = "" if config is None else config.name
    if as_json or output == "json":
        click.echo(written(tally, against).json())
    else:
        palette = Palette.of(sys.stdout, os.environ)
        lines = render(written(tally, against), palette=palette)
        say("\n".join(lines), color=palette.enabled)
    if page is not None:
        page.write_text(render_page(page_of(tally, against)), encoding="utf-8")
        say(f"report: {page}", err=True)


@dataclass(frozen=True, slots=True)
class _Watching:
    """How to watch, and until when: a number of seconds or of bindings."""

    duration: float | None
    bindings: int | None
    quiet: bool
    percentage: int | None
    """percentageOfNodesToScore of the cluster's scheduler, None: that of our configuration."""
    metrics_port: int | None


async def _shadow(
    kubeconfig: Path | None,
    context: str,
    settings: Settings,
    watching: _Watching,
) -> Tally:
    tally = Tally()
    enough = asyncio.Event()
    progress = Progress("watching", watching.bindings, "bindings")

    def judged(judgement: Judgement) -> None:
        tally.add(judgement)
        progress.reach(tally.bindings, f"{tally.disagree} disagree")
        if not watching.quiet and not judgement.agrees:
            progress.clear()
            where = f"{judgement.pod} → {judgement.node}"
            say(cleaned(f"{where}: {judgement.verdict}: {judgement.reason}"), err=True)
        if watching.bindings is not None and tally.bindings >= watching.bindings:
            enough.set()

    async with AsyncExitStack() as stack:
        client, *_ = await stack.enter_async_context(connect(kubeconfig, context, "stowplan-shadow"))
        scheduler, follower = await stack.enter_async_context(
            following(client, settings, RealClock(), judged, watching.percentage)
        )
        tally.nodes = scheduler.context.cache.table.node_count
        if watching.metrics_port is not None:
            metrics = ShadowMetrics(tally, lambda: follower.waiting)
            server = await _serving(stack, MetricsServer(metrics, watching.metrics_port))
            say(f"metrics: {server.url}", err=True)
        say(f"watching {plural(tally.nodes, 'node')}; Ctrl-C ends with a report", err=True)

        def look() -> None:
            follower.settle()
            progress.tick(f"{tally.disagree} disagree")

        with progress:
            await until_ended(enough, watching.duration, look)
        follower.settle(all_of_them=True)
    return tally


async def _serving(stack: AsyncExitStack, server: MetricsServer) -> MetricsServer:
    try:
        return await stack.enter_async_context(server)
    except OSError as error:
        raise click.ClickException(f"--metrics-port: {error.strerror or error}") from None


@asynccontextmanager
async def following(
    client: Client,
    settings: Settings,
    clock: Clock,
    judged: Callable[[Judgement], None],
    percentage: int | None = None,
) -> AsyncIterator[tuple[Scheduler, Shadow]]:
    """A scheduler that keeps its caches and schedules nothing, and the judge that looks over them.

    `percentage` is the percentageOfNodesToScore of the cluster's scheduler, None: that of the settings.
    """
    scheduler = Scheduler(client, settings, clock=clock, rng=random.Random(0), timer=perf_counter)
    profiles = scheduler.context.profiles
    first = next(iter(profiles.values()))
    follower = Shadow(
        lambda pod: profiles.get(pod.spec.scheduler_name, first).framework,
        scheduler.context.cache.table,
        clock,
        judged,
        Sampling(scheduler.context.cache.sampler, percentage),
    )
    scheduler.install(follower)
    async with scheduler.watching():
        with elapsed("reading the cluster"):
            await scheduler.synced()
        follower.synced = True
        yield scheduler, follower


async def until_ended(enough: asyncio.Event, duration: float | None, settle: Callable[[], None]) -> None:
    """Wait for the end: Ctrl-C, enough seen, or the time is over."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    end = None if duration is None else loop.time() + duration
    while not enough.is_set() and (end is None or loop.time() < end):
        settle()
        left = _EVERY if end is None else max(min(_EVERY, end - loop.time()), 0)
        try:
            await asyncio.wait_for(enough.wait(), left)
        except TimeoutError:
            continue
