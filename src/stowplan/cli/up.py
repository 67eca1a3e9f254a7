"""`stowplan up`: a whole cluster in one process."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from stowplan.cli.config import echo_notes, feature_gates_option, one_line_errors, plugins_option
from stowplan.cli.values import AtLeast, Seconds
from stowplan.config import default_config
from stowplan.config.featuregates import parse_feature_gates
from stowplan.config.legacy import load_any_file
from stowplan.embedded.apiserver import Listening
from stowplan.embedded.apiserver.server import kubeconfig_path, write_kubeconfig
from stowplan.embedded.controllers.nodelifecycle import LifecycleSettings
from stowplan.embedded.durable import DataDirError, is_data_dir
from stowplan.embedded.kubelets import KubeletSettings, Shape, ShapeError, read_shapes
from stowplan.embedded.usage import PretendUsage
from stowplan.framework.registry import installed_plugins, load_plugin
from stowplan.scheduler import Settings
from stowplan.scheduler.gc_tuning import calm_collector
from stowplan.up import LocalCluster, Plan
from stowplan.up.demo import narrate
from stowplan.up.manifests import LoadError, read_manifests
from stowplan.up.progress import Progress

_OFTEN = 0.2
"""Seconds between two looks at the progress in a terminal."""

_SELDOM = 5.0
"""Seconds between two lines where nobody watches."""

_ZONES = ("a", "b", "c")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("up")
@click.option(
    "--nodes", type=AtLeast(0), help="Number of nodes with 8 CPU and 32Gi, in three zones [default: 3]."
)
@click.option("--shapes", type=_FILE, help="YAML file of node pools: count, size, labels, taints, devices.")
@click.option(
    "--load", "files", type=_FILE, multiple=True, help="Manifest to load at the start. Can be repeated."
)
@click.option("--config", type=_FILE, help="KubeSchedulerConfiguration of the scheduler.")
@feature_gates_option
@plugins_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="a free port", help="Port to listen on."
)
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--kubeconfig-out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the kubeconfig."
)
@click.option("--seed", type=int, help="Seed of every random choice.")
@click.option(
    "--node-monitor-period",
    type=Seconds(),
    default="5s",
    show_default=True,
    help="How often nodes are checked.",
)
@click.option(
    "--node-monitor-grace-period",
    type=Seconds(),
    default="50s",
    show_default=True,
    help="How long a node may be silent before it is marked unhealthy.",
)
@click.option(
    "--usage-factor",
    type=click.FloatRange(0, 1000),
    default=0.5,
    show_default=True,
    help="Part of their requests that pods pretend to use, for kubectl top and autoscalers.",
)
@click.option("--metrics/--no-metrics", default=True, help="Serve metrics.k8s.io with pretend usage.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Persist all objects in this directory and load them at the start.",
)
@click.option("--demo", is_flag=True, help="Apply a small workload and explain what happens to it.")
@click.option("--until-done", is_flag=True, help="With --demo: exit when it is done.")
def up(
    nodes: int | None,
    shapes: Path | None,
    files: tuple[Path, ...],
    config: Path | None,
    feature_gates: tuple[str, ...],
    plugins: tuple[str, ...],
    port: int,
    bind: str,
    kubeconfig_out: Path | None,
    seed: int | None,
    node_monitor_period: float,
    node_monitor_grace_period: float,
    usage_factor: float,
    metrics: bool,
    data_dir: Path | None,
    demo: bool,
    until_done: bool,
) -> None:
    """Run a Kubernetes cluster in this process.

    API server, scheduler, controllers and simulated kubelets, until Ctrl-C. kubectl and every other client
    can use it; pods become Running, but no container is started. Objects are in memory unless `--data-dir` is
    set. It listens on loopback unless `--bind` is set, and clients need the token in the kubeconfig.
    """
    if nodes is not None and shapes is not None:
        raise click.UsageError("--nodes and --shapes exclude each other")
    if until_done and not demo:
        raise click.UsageError("--until-done needs --demo")
    with one_line_errors():
        gates = parse_feature_gates(feature_gates)
        loaded = default_config(gates) if config is None else load_any_file(str(config), gates)
        settings = Settings.of(loaded, [*installed_plugins(), *map(load_plugin, plugins)])
    echo_notes(loaded.legacy.notes)
    furnished = bool(files) or (data_dir is not None and is_data_dir(data_dir))
    try:
        plan = Plan(
            shapes=_shapes(nodes, shapes, loading=furnished),
            settings=settings,
            kubelets=replace(KubeletSettings(), adopt=furnished),
            listening=Listening(bind, port),
            usage=PretendUsage(usage_factor) if metrics else None,
            lifecycle=LifecycleSettings(node_monitor_period, node_monitor_grace_period),
            loaded=read_manifests(files),
            seed=seed,
            data_dir=data_dir,
        )
        cluster = LocalCluster(plan, report=lambda text: click.echo(text, err=True))
        asyncio.run(_run(cluster, kubeconfig_out, demo=demo, until_done=until_done))
    except (ShapeError, LoadError, DataDirError) as error:
        raise click.ClickException(str(error)) from None


def _shapes(nodes: int | None, path: Path | None, *, loading: bool) -> Sequence[Shape]:
    """The nodes there shall be; what is loaded or kept brings its own unless more are asked for."""
    if path is not None:
        return read_shapes(path)
    if nodes is None:
        nodes = 0 if loading else 3
    return (Shape(count=nodes, zones=_ZONES),) if nodes else ()


async def _run(cluster: LocalCluster, out: Path | None, *, demo: bool, until_done: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with cluster.running():
        cluster.scheduler.debugger.on_signal(lambda line: click.echo(line, err=True))
        path = kubeconfig_path(out)
        write_kubeconfig(path, cluster.server.kubeconfig())
        _greet(cluster, path)
        with calm_collector():
            output = asyncio.create_task(
                _print_output(cluster, demo=demo, ended=ended if until_done else None)
            )
            await ended.wait()
            output.cancel()
            with suppress(asyncio.CancelledError):
                await output
        click.echo("stopping")
    if out is None:
        path.unlink(missing_ok=True)


def _greet(cluster: LocalCluster, path: Path) -> None:
    nodes = len(cluster.kubelets.names)
    click.echo(f"A cluster with {nodes:,} nodes is up at {cluster.server.url}")
    click.echo("Ctrl-C ends it. In another shell:")
    click.echo("")
    click.echo(f"  export KUBECONFIG={path}")
    click.echo("  kubectl get nodes")
    click.echo("  kubectl create deployment hello --image=nginx --replicas=5 && kubectl get pods -o wide")
    click.echo("")


async def _print_output(cluster: LocalCluster, *, demo: bool, ended: asyncio.Event | None) -> None:
    if demo:
        async for line in narrate(cluster):
            click.echo(line)
        click.echo("")
        if ended is not None:
            ended.set()
            return
    await _show_progress(cluster)


async def _show_progress(cluster: LocalCluster) -> None:
    """One line that changes in place, or a new line now and then where that is not possible."""
    progress = Progress(cluster.store, cluster.clock.monotonic())
    live = sys.stdout.isatty()
    shown = ""
    try:
        while True:
            line = progress.counts(cluster.clock.monotonic()).line()
            if live:
                click.echo(f"\r\x1b[K{line}", nl=False)
            elif line != shown:
                click.echo(line)
            shown = line
            await asyncio.sleep(_OFTEN if live else _SELDOM)
    finally:
        progress.close()
        if live:
            click.echo("")
