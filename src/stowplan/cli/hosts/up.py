"""`stowplan up`: a whole cluster in one process."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import click

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.pod_groups import GATES as GANGS
from stowplan.cli.config import echo_notes
from stowplan.cli.one_line import one_line_errors
from stowplan.cli.options import (
    gates_options,
    no_image_option,
    plugins_option,
    remote_options,
    remote_settings,
)
from stowplan.cli.output import say
from stowplan.cli.progress import elapsed
from stowplan.cli.values import AddressRange, AtLeast, OneOf, Seconds, SomeOf
from stowplan.explain.layout import safe
from stowplan.explain.web.http import PageServer
from stowplan.localcluster.apiserver import Listening
from stowplan.localcluster.apiserver.server import kubeconfig_path, write_kubeconfig
from stowplan.localcluster.controllers.nodes.nodelifecycle import LifecycleSettings
from stowplan.localcluster.durable import DataDirError, is_data_dir
from stowplan.localcluster.kubelets import (
    KubeletSettings,
    NodeShape,
    Pretend,
    PretendError,
    ShapeError,
    read_pretend,
    read_shapes,
)
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.demo import narrate
from stowplan.localcluster.up.manifests import LoadError, Manifest, read_manifests
from stowplan.localcluster.up.progress import UpProgress
from stowplan.localcluster.up.readiness import shown, until_ready
from stowplan.localcluster.up.schedulerport import scheduler_port
from stowplan.localcluster.up.schedulers import SchedulerSource
from stowplan.runtime.clock import RealClock
from stowplan.runtime.gc_tuning import calm_collector, patient_collector
from stowplan.runtime.logs import LogSettings, ProcessLogger, logger_for
from stowplan.scheduler import Settings
from stowplan.scheduler.recording import Recording
from stowplan.server.serving import ServingError
from stowplan.server.serving.settings import ServingSettings
from stowplan.simulate.questions import ForkedQuestions

_OFTEN = 0.2
"""Seconds between two looks at the progress in a terminal."""

_SELDOM = 5.0
"""Seconds between two lines without a terminal."""

_ZONES = ("a", "b", "c")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PORT = click.IntRange(0, 65535)
_UNTIL = ("ready",)


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Actions of the command besides running a cluster; `command` is run in it, and its end is the end."""

    kubeconfig_out: Path | None = None
    serving: ServingSettings | None = None
    demo: bool = False
    until_done: bool = False
    until_ready: bool = False
    timeout: float = 300.0
    command: tuple[str, ...] = ()
    page_port: int | None = None


@click.command("up")
@click.option(
    "--nodes", type=AtLeast(0), help="Number of nodes with 8 CPU and 32Gi, in three zones [default: 3]."
)
@click.option("--shapes", type=_FILE, help="YAML file of node pools: count, size, labels, taints, devices.")
@click.option("--pretend", type=_FILE, help="YAML file that defines how pods and nodes start, run and fail.")
@no_image_option
@click.option("--no-adopt", is_flag=True, help="Do not run kubelets for nodes created by other clients.")
@click.option(
    "--load",
    "files",
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    multiple=True,
    help="Manifests to load at startup: a file, a directory, or - for stdin; also a dump of another cluster "
    "by `kubectl get -o yaml`. Can be repeated.",
)
@click.option("--config", type=_FILE, help="KubeSchedulerConfiguration of the scheduler.")
@click.option(
    "--scheduler",
    "more",
    metavar="NAME=FILE",
    multiple=True,
    help="Additional scheduler: its name and KubeSchedulerConfiguration. Can be repeated.",
)
@gates_options
@click.option(
    "--gangs",
    is_flag=True,
    help="Turn on all feature gates for groups of pods: PodGroup, Workload and CompositePodGroup, topology "
    "placement, Jobs that create groups.",
)
@click.option(
    "--with",
    "add_ons",
    type=SomeOf(AddOn),
    default=(),
    help="Act on JobSets and LeaderWorkerSets as their own controllers do.",
)
@plugins_option
@click.option(
    "--annotate-results",
    is_flag=True,
    help="Annotate bound pods with the results of filters and scores, as kube-scheduler-simulator does.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Record the scheduler's watch events and decisions to this file, for `stowplan replay`.",
)
@click.option(
    "--scheduler-port", type=_PORT, help="Port for the scheduler's health, metrics and configuration."
)
@click.option(
    "-v", "verbosity", type=AtLeast(0), help="Print the scheduler's log at this level, as klog does."
)
@click.option("--port", type=_PORT, default=0, show_default="a free port", help="Port to listen on.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--page-port", type=_PORT, default=0, show_default="a free port", help="Port of the page.")
@click.option("--page/--no-page", default=True, help="Serve the page on a loopback port.")
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the kubeconfig to.",
)
@click.option("--seed", type=int, help="Seed of every random choice.")
@click.option(
    "--node-monitor-period",
    type=Seconds(),
    default="5s",
    show_default=True,
    help="Interval between checks of the nodes.",
)
@click.option(
    "--node-monitor-grace-period",
    type=Seconds(),
    default="50s",
    show_default=True,
    help="Time without a report after which a node is marked unhealthy.",
)
@click.option(
    "--usage-factor",
    type=click.FloatRange(0, 1000),
    default=0.5,
    show_default=True,
    help="Fraction of their requests that pods pretend to use, for kubectl top and autoscalers.",
)
@remote_options
@click.option("--metrics/--no-metrics", default=True, help="Serve metrics.k8s.io with pretend usage.")
@click.option(
    "--load-balancers",
    type=AddressRange(),
    default="10.96.255.0/24",
    show_default=True,
    help="Range of the addresses of pretended load balancers, or none. Nothing listens there.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Persist all objects in this directory and load them at the start.",
)
@click.option(
    "--until",
    type=OneOf(_UNTIL),
    help="Exit when all workloads and pods are ready: 0, or 1 with a list of those that are not.",
)
@click.option(
    "--timeout", type=Seconds(), default="5m", show_default=True, help="With --until: time to wait."
)
@click.option("--demo", is_flag=True, help="Apply a small workload and explain what happens to it.")
@click.option("--until-done", is_flag=True, help="With --demo: exit when it is done.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def up(
    nodes: int | None,
    shapes: Path | None,
    pretend: Path | None,
    no_image: tuple[str, ...],
    no_adopt: bool,
    files: tuple[Path, ...],
    config: Path | None,
    more: tuple[str, ...],
    gates: FeatureGates | None,
    gangs: bool,
    add_ons: tuple[str, ...],
    plugins: tuple[str, ...],
    annotate_results: bool,
    record: Path | None,
    scheduler_port: int | None,
    verbosity: int | None,
    port: int,
    bind: str,
    page_port: int,
    page: bool,
    kubeconfig_out: Path | None,
    seed: int | None,
    node_monitor_period: float,
    node_monitor_grace_period: float,
    usage_factor: float,
    services: tuple[str, ...],
    webhooks: str,
    metrics: bool,
    load_balancers: IPv4Network | IPv6Network | None,
    data_dir: Path | None,
    until: str | None,
    timeout: float,
    demo: bool,
    until_done: bool,
    command: tuple[str, ...],
) -> None:
    """Run a Kubernetes cluster in this process.

    Runs API server, scheduler, controllers and simulated kubelets until Ctrl-C. kubectl and all other clients
    can use it; pods become Running, but no container is started. Objects are in memory unless `--data-dir` is
    set. It listens on loopback unless `--bind` is set, and clients need the token in the kubeconfig.

    With a COMMAND (after `--`), the cluster runs as long as the command, with KUBECONFIG set, and exits with
    the command's exit code. With `--until ready` the command starts when everything is ready.
    """
    if nodes is not None and shapes is not None:
        raise click.UsageError("--nodes and --shapes exclude each other")
    if until_done and not demo:
        raise click.UsageError("--until-done needs --demo")
    if demo and command:
        raise click.UsageError("--demo and a command exclude each other")
    wishes = UpOptions(
        kubeconfig_out,
        None if scheduler_port is None else _serving(bind, scheduler_port),
        demo,
        until_done,
        until == "ready",
        timeout,
        command,
        page_port if page else None,
    )
    with one_line_errors():
        source = SchedulerSource(
            str(config or ""),
            plugins,
            _with_gangs(gates or DEFAULT_GATES) if gangs else gates or DEFAULT_GATES,
            annotate_results=annotate_results,
        )
        loaded_config = source.load()
        settings = source.settings(loaded_config)
        others = _other_schedulers(more, plugins, source.gates, settings)
    echo_notes(loaded_config.legacy.notes)
    stack = ExitStack()
    try:
        stack.enter_context(patient_collector())
        with elapsed("reading manifests"):
            loaded = read_manifests(files)
        kept = data_dir is not None and is_data_dir(data_dir)
        plan = ClusterPlan(
            shapes=_shapes(nodes, shapes, has_nodes=kept or any(one.kind == "Node" for one in loaded)),
            settings=settings,
            source=source,
            more_schedulers=others,
            logger=_logger(verbosity),
            kubelets=replace(
                KubeletSettings(),
                adopt=not no_adopt,
                as_found=bool(files),
                missing_images=no_image,
                pretend=Pretend() if pretend is None else read_pretend(pretend),
            ),
            listening=Listening(bind, port),
            usage=PretendUsage(usage_factor) if metrics else None,
            lifecycle=LifecycleSettings(node_monitor_period, node_monitor_grace_period),
            loaded=loaded,
            load_balancers=load_balancers,
            remote=remote_settings(services, webhooks),
            seed=seed,
            data_dir=data_dir,
            recording=None if record is None else Recording(record),
            questions=ForkedQuestions(),
            add_ons=frozenset(map(AddOn, add_ons)),
        )
        with elapsed("loading the cluster"):
            cluster = LocalCluster(plan, report=lambda text: say(text, err=True))
        _tell_loaded(cluster, loaded)
        code = asyncio.run(_run(cluster, wishes))
    except (ShapeError, PretendError, LoadError, DataDirError, ServingError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        stack.close()
    sys.exit(code)


def _with_gangs(gates: FeatureGates) -> FeatureGates:
    """Gates with those of pod groups on. Raises UsageError if the release does not have them."""
    if missing := [name for name in GANGS if name not in gates]:
        release = gates.release.name
        raise click.UsageError(f"--gangs: Kubernetes {release} does not have {', '.join(missing)}")
    return FeatureGates({**gates.changed(), **dict.fromkeys(GANGS, True)}, gates.release, gates.groups)


def _serving(bind: str, port: int) -> ServingSettings:
    return ServingSettings(bind, port, any_free_port=port == 0)


def _other_schedulers(
    given: Sequence[str], plugins: tuple[str, ...], gates: FeatureGates, first: Settings
) -> list[SchedulerSource]:
    """The additional schedulers; each is built once to validate it."""
    names = {profile.scheduler_name for profile in first.config.profiles}
    sources: list[SchedulerSource] = []
    for text in given:
        name, separator, file = text.partition("=")
        if not name or not separator:
            raise click.ClickException(f"--scheduler: expected NAME=FILE, got {text!r}")
        if name in names:
            raise click.ClickException(f"--scheduler: there are two schedulers for {name!r}")
        names.add(name)
        sources.append(SchedulerSource(file, plugins, gates, name))
        sources[-1].settings()
    return sources


def _logger(verbosity: int | None) -> ProcessLogger | None:
    if verbosity is None:
        return None
    return logger_for(LogSettings(verbosity=verbosity), now=RealClock().now)


def _shapes(nodes: int | None, path: Path | None, *, has_nodes: bool) -> Sequence[NodeShape]:
    """Shapes of the nodes; if some are loaded or kept, none by default."""
    if path is not None:
        return read_shapes(path)
    if nodes is None:
        nodes = 0 if has_nodes else 3
    return (NodeShape(count=nodes, zones=_ZONES),) if nodes else ()


def _tell_loaded(cluster: LocalCluster, loaded: Sequence[Manifest]) -> None:
    """Print the loaded and skipped objects. Raises LoadError if nothing was loaded."""
    report = cluster.load_report
    if not loaded:
        return
    if not report.loaded and not report.existing:
        reason, names = next(iter(report.skipped.items()))
        raise LoadError(f"nothing could be loaded: {names[0]}: {reason}")
    for line in report.lines():
        say(line, err=True)


async def _run(cluster: LocalCluster, wishes: UpOptions) -> int:
    """Run until it ends; the exit code."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    out = wishes.kubeconfig_out
    path = kubeconfig_path(out)
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(cluster.running())
            cluster.scheduler.debugger.on_signal(lambda line: say(line, err=True))
            write_kubeconfig(path, cluster.server.kubeconfig())
            if wishes.serving is not None:
                first = cluster.schedulers[0]
                server = scheduler_port(first, path, wishes.serving, cluster.clock, cluster.logger)
                await stack.enter_async_context(server)
            page = None
            if wishes.page_port is not None:
                page = await stack.enter_async_context(PageServer(cluster.routes, wishes.page_port))
            _greet(cluster, path, wishes, page)
            with calm_collector():
                work = asyncio.create_task(_work(cluster, wishes, path))
                stopped = asyncio.create_task(ended.wait())
                await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                if work.done():
                    return work.result()
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
            say("stopping")
    finally:
        if out is None:
            path.unlink(missing_ok=True)
    return 0


def _greet(cluster: LocalCluster, path: Path, wishes: UpOptions, page: PageServer | None) -> None:
    nodes = len(cluster.kubelets.names)
    say(f"A cluster with {nodes:,} {'node' if nodes == 1 else 'nodes'} is up at {cluster.server.url}")
    if wishes.until_ready or wishes.command:
        return
    if page is not None:
        say(f"Look at it: {page.url}")
    say("Ctrl-C ends it. In another shell:")
    say("")
    say(f"  export KUBECONFIG={path}")
    say("  kubectl get nodes")
    say("  kubectl create deployment hello --image=nginx --replicas=5 && kubectl get pods -o wide")
    say("")


async def _work(cluster: LocalCluster, wishes: UpOptions, path: Path) -> int:
    """Do the requested actions, and end with an exit code; otherwise show the progress for ever."""
    if wishes.until_ready:
        code = await _wait_until_ready(cluster, wishes.timeout)
        if code or not wishes.command:
            return code
    if wishes.command:
        return await _run_command(wishes.command, path)
    if wishes.demo:
        async for line in narrate(cluster):
            say(line)
        say("")
        if wishes.until_done:
            return 0
    await _show_progress(cluster)
    return 0


async def _wait_until_ready(cluster: LocalCluster, timeout: float) -> int:
    """0 as soon as everything is ready; 1 if it is not in time, or if something could not be loaded."""
    began = cluster.clock.monotonic()
    waiting = await until_ready(cluster.store, cluster.clock, timeout)
    skipped = sum(map(len, cluster.load_report.skipped.values()))
    if waiting:
        say(f"not ready after {timeout:g} s:", err=True)
        for line in shown(waiting):
            say(f"  {line}", err=True)
    elif skipped:
        say(f"ready, but {skipped:,} of the objects to load were skipped", err=True)
    else:
        say(f"ready after {cluster.clock.monotonic() - began:.1f} s")
    return 1 if waiting or skipped else 0


async def _run_command(command: Sequence[str], kubeconfig: Path) -> int:
    """Run a command that finds the cluster by its environment; its exit code."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}
        )
    except OSError as error:
        raise click.ClickException(f"{command[0]}: {error.strerror}") from None
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    return code if code >= 0 else 128 - code


async def _show_progress(cluster: LocalCluster) -> None:
    """One line that changes in place, or a new line now and then where that is not possible."""
    progress = UpProgress(cluster.store, cluster.clock.monotonic())
    live = sys.stdout.isatty()
    shown = ""
    try:
        while True:
            line = progress.counts(cluster.clock.monotonic()).line()
            if live:
                click.echo(f"\r\x1b[K{safe(line)}", nl=False)
            elif line != shown:
                say(line)
            shown = line
            await asyncio.sleep(_OFTEN if live else _SELDOM)
    finally:
        progress.close()
        if live:
            say("")
