"""`stowplan explain`, also `kubectl why`, and `stowplan pending`: why pods are where they are.

If a stowplan runs, it answers, and this module is all that is loaded. Everything with an engine in it is in
`offline`, which is imported only where decisions are made here: it takes three times as long to start.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec
import yaml

from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.cli.explain.running import RunningScheduler
from stowplan.cli.explain.targets import (
    GROUPS,
    WORKLOADS,
    NoSuchWorkloadError,
    chosen,
    of_kinds,
    single_pods,
    some_pods,
)
from stowplan.cli.options import INTERVAL_SETTINGS, gates_options, plugins_option
from stowplan.cli.output import say
from stowplan.client.http import AccessError, HttpClient, default_kubeconfigs, load_kubeconfig
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.schema import Explained, Explanations
from stowplan.explain.document.workload import WorkloadDocument
from stowplan.explain.layers.reads import ClientReads
from stowplan.explain.layout import Palette
from stowplan.explain.terminal.group import render_group
from stowplan.explain.terminal.pending import only_of, render_pending
from stowplan.explain.terminal.pod import render
from stowplan.explain.terminal.workload import render_workload
from stowplan.runtime.clock import RealClock
from stowplan.runtime.gc_tuning import collect_rarely

if TYPE_CHECKING:
    from stowplan.api.gates.feature_gates import FeatureGates

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_AGENT: Final = "stowplan-explain"
_RUNNING: Final = "the running scheduler"
_INCOMPLETE: Final = 3
"""Exit code of --strict for an answer that is incomplete."""
_NO_CLUSTER: Final = " (name a cluster with --kubeconfig or KUBECONFIG, or start one: stowplan up)"


class Configuration(NamedTuple):
    """The options that say what decides where there is no running scheduler to ask."""

    config: Path | None
    gates: "FeatureGates | None"
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """Source of the cluster, and the scheduler that answers."""

    kubeconfig: Path | None
    context: str
    files: tuple[Path, ...]
    configuration: Configuration
    asks_running: bool
    """True if the cluster's scheduler answers, provided it is a stowplan."""

    @classmethod
    def of(
        cls,
        kubeconfig: Path | None,
        context: str,
        files: tuple[Path, ...],
        offline: bool,
        config: Path | None,
        gates: "FeatureGates | None",
        plugins: tuple[str, ...],
    ) -> "ClusterSource":
        """Source chosen by the options. A user who names a configuration wants the decisions of that one."""
        own = offline or config is not None or gates is not None or bool(plugins)
        return cls(kubeconfig, context, files, Configuration(config, gates, plugins), not own)


@dataclass(frozen=True, slots=True)
class Targets:
    """The pods that are asked for."""

    targets: tuple[str, ...]
    namespace: str
    selector: str
    manifests: tuple[Path, ...]


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster to look at and with which configuration (one argument, `where`), and
    the form of the answer (`output`)."""

    @wraps(command)
    def with_where(
        kubeconfig: Path | None,
        context: str,
        files: tuple[Path, ...],
        offline: bool,
        config: Path | None,
        gates: "FeatureGates | None",
        plugins: tuple[str, ...],
        output: str,
        as_json: bool,
        **others: Any,
    ) -> Any:
        where = ClusterSource.of(kubeconfig, context, files, offline, config, gates, plugins)
        return command(where=where, output="json" if as_json else output, **others)

    decorated: Callable[..., Any] = with_where
    for option in reversed(
        (
            click.option("--kubeconfig", type=_FILE, help="Kubeconfig of the cluster [default: as kubectl]."),
            click.option("--context", default="", help="Context of the kubeconfig to use."),
            click.option(
                "--from",
                "files",
                type=click.Path(path_type=Path),
                multiple=True,
                help="File or directory written by `kubectl get … -o yaml`, instead of a cluster; or -.",
            ),
            click.option(
                "--offline", is_flag=True, help="Evaluate locally, even if the cluster runs stowplan."
            ),
            click.option("--config", type=_FILE, help="KubeSchedulerConfiguration to evaluate with."),
            gates_options,
            plugins_option,
            click.option(
                "-o",
                "--output",
                type=click.Choice(["text", "json", "yaml"]),
                default="text",
                show_default=True,
                help="Output format.",
            ),
            click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        )
    ):
        decorated = option(decorated)
    return decorated


strict_option = click.option(
    "--strict",
    is_flag=True,
    help=f"Exit with code {_INCOMPLETE} if something that matters was not read or evaluated.",
)


@click.command("explain")
@click.argument("targets", nargs=-1, metavar="[TYPE/NAME | NAME]…")
@click.option("-n", "--namespace", default="", help="Namespace of the pods [default: that of the context].")
@click.option("-l", "--selector", default="", help="Label selector of pods.")
@click.option(
    "-f", "--filename", type=_FILE, multiple=True, help="Manifest of something that does not exist yet."
)
@click.option("--all-nodes", is_flag=True, help="Show every near miss.")
@strict_option
@cluster_options
def explain(
    targets: tuple[str, ...],
    namespace: str,
    selector: str,
    filename: tuple[Path, ...],
    all_nodes: bool,
    strict: bool,
    where: ClusterSource,
    output: str,
) -> None:
    """Explain why a pod, workload or group waits, or a pod on its node.

    If the cluster runs stowplan and serves its API, the answer is what really happened. Any other cluster is
    only read, and the pod is evaluated locally with the default profile, or that of --config. A Deployment,
    ReplicaSet, StatefulSet, DaemonSet, Job or CronJob is explained with its pods by cause, a PodGroup as a
    whole.

    \b
      stowplan explain pod/web-7 -n shop
      stowplan explain deployment/web
      stowplan explain podgroup/training
      stowplan explain -f new-job.yaml
      kubectl get nodes,pods -A -o yaml | stowplan explain --from - pod/web-7
    """
    if not (targets or selector or filename):
        raise click.UsageError("expected a pod, such as pod/web-7, --selector or --filename")
    wanted = Targets(targets, namespace, selector, filename)
    found, notes = asyncio.run(_explanations(where, wanted))
    _show(found, output, all_nodes)
    missing = [line for one in found for line in one.incomplete]
    _tell([note for note in notes if note not in missing])
    _end(strict, missing)


@click.command("pending", context_settings=INTERVAL_SETTINGS)
@click.option("-n", "--namespace", default="", help="Only pods of this namespace [default: all].")
@click.option("-w", "--watch", is_flag=True, help="Print the causes again whenever they change.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates with --watch.",
)
@strict_option
@cluster_options
def pending(
    namespace: str,
    watch: bool,
    interval: float,
    strict: bool,
    where: ClusterSource,
    output: str,
) -> None:
    """Group pending pods by cause.

    Each cause is listed with the changes that would place its pods; each change is tried on a copy of the
    cluster. Pods that another scheduler decides, or nobody, and pods that have a node and do not run are
    listed separately.
    """
    if watch and where.files:
        raise click.UsageError("--watch follows a live cluster and cannot be used with --from")
    if watch and strict:
        raise click.UsageError("--strict is about one answer and cannot be used with --watch")
    if not watch:
        document, notes = asyncio.run(_pending_once(where, namespace))
        _show_pending(document, output)
        _tell([note for note in notes if note not in document.incomplete])
        _end(strict, document.incomplete)
        return
    with suppress(KeyboardInterrupt):
        asyncio.run(_follow_pending(where, namespace, interval, output))


def kubectl_why() -> None:
    """The console script `kubectl-why`, which kubectl runs as `kubectl why`."""
    collect_rarely()
    explain.main(prog_name="kubectl why")


# The cluster


class NoServerError(click.ClickException):
    """There is no kubeconfig, or it names no API server that could be asked."""


@asynccontextmanager
async def connect(
    kubeconfig: Path | None, context: str, agent: str
) -> AsyncIterator[tuple[HttpClient, str, str]]:
    """A client of the cluster that kubectl would use, the address of its API server, and the namespace."""
    paths = [kubeconfig] if kubeconfig else default_kubeconfigs(os.environ, Path.home())
    try:
        server = load_kubeconfig(*paths, context=context)
        client = HttpClient(server, clock=RealClock(), rng=random.Random(), qps=-1, user_agent=agent)
    except AccessError as error:
        hint = "" if kubeconfig or any(path.exists() for path in paths) else _NO_CLUSTER
        raise NoServerError(f"{error}{hint}") from None
    async with client:
        yield client, f"{server.address.host}:{server.address.port}", server.namespace


# Explanations


async def _explanations(where: ClusterSource, wanted: "Targets") -> tuple[Sequence[Explained], list[str]]:
    """The explanations that are asked for, and what is to be noted about them."""
    if where.files:
        from stowplan.cli.explain import offline

        return await offline.explained_files(where.files, where.configuration, wanted)
    async with connect(where.kubeconfig, where.context, _AGENT) as (client, address, own_namespace):
        namespace = wanted.namespace or own_namespace
        if where.asks_running and not wanted.manifests:
            running = await RunningScheduler.find(client)
            told = None if running is None else await _told(running, client, wanted, namespace)
            if told is not None:
                return told, []
        from stowplan.cli.explain import offline

        return await offline.explained(client, address, where.configuration, wanted, namespace)


async def _told(
    running: RunningScheduler, client: HttpClient, wanted: "Targets", namespace: str
) -> Sequence[Explained] | None:
    """Answer of the running scheduler; None if it does not know all of the pods and groups."""
    groups, rest = of_kinds(GROUPS, wanted.targets)
    workloads, rest = of_kinds(WORKLOADS, rest)
    found: list[Explained | None] = [await running.group(kind, namespace, name) for kind, name in groups]
    found += [await _workload(running, client, kind, namespace, name) for kind, name in workloads]
    if rest or wanted.selector:
        found += await _pods(running, client, rest, namespace, wanted.selector)
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


async def _pods(
    running: RunningScheduler, client: HttpClient, targets: Sequence[str], namespace: str, selector: str
) -> Sequence[PodDocument | None]:
    names = single_pods(targets, selector)
    if names is not None:
        return await running.pods([f"{namespace}/{name}" for name in names])
    from stowplan.cli.explain.offline import one_of_each

    pods = {pod.key: pod for pod in (await client.list(PODS, Pod, namespace=namespace)).items}
    meant = some_pods(chosen(pods, targets, namespace, selector), namespace)
    return await running.pods([pod.key for pod in one_of_each(meant)])


async def _workload(
    running: RunningScheduler, client: HttpClient, kind: str, namespace: str, name: str
) -> WorkloadDocument | None:
    """A workload, read with the rights of the caller, with its pods as the running scheduler explains them.

    None if the scheduler does not explain one of the pods. Raises ClickException if there is no
    such workload.
    """
    from stowplan.explain.explainers.workload import explain_workload

    unknown: list[str] = []

    async def explained(pod: Pod) -> PodDocument | None:
        found = await running.pod(pod.namespace, pod.name)
        if found is None:
            unknown.append(pod.key)
        return found

    pods = (await client.list(PODS, Pod, namespace=namespace)).items
    found = await explain_workload(
        kind, namespace, name, pods, ClientReads(client), explained, _RUNNING, time.time()
    )
    if found is None:
        raise NoSuchWorkloadError(kind, namespace, name)
    return None if unknown else found


# Causes


async def _pending_once(where: ClusterSource, namespace: str) -> tuple[PendingDocument, list[str]]:
    if where.files:
        from stowplan.cli.explain import offline

        return await offline.causes_of_files(where.files, where.configuration, namespace)
    async with connect(where.kubeconfig, where.context, _AGENT) as (client, address, own):
        return await pending_document(where, client, address, namespace, own)


async def pending_document(
    where: ClusterSource, client: HttpClient, address: str, namespace: str, own: str = ""
) -> tuple[PendingDocument, list[str]]:
    """The causes that pods of a cluster wait for, and notes; from the running scheduler if there is one.

    `own` is the namespace of the context: it is read if more is forbidden.
    """
    if where.asks_running:
        running = await RunningScheduler.find(client)
        document = None if running is None else await running.pending()
        if document is not None:
            return only_of(document, namespace), []
    from stowplan.cli.explain import offline

    return await offline.causes_of_cluster(client, address, where.configuration, namespace, own)


async def _follow_pending(where: ClusterSource, namespace: str, interval: float, output: str) -> None:
    """Show causes whenever they change, until interrupted."""
    shown = None
    async with connect(where.kubeconfig, where.context, _AGENT) as (client, address, own):
        while True:
            document, _ = await pending_document(where, client, address, namespace, own)
            lists = (document.causes, document.elsewhere, document.not_started, document.not_created)
            lines = [[(cause.name, cause.count, cause.reason) for cause in causes] for causes in lists]
            if lines != shown:
                if shown is not None and output == "text":
                    say(f"\n{datetime.now().astimezone():%H:%M:%S}")
                _show_pending(document, output)
                shown = lines
            await asyncio.sleep(interval)


# Output


def _show(found: Sequence[Explained], output: str, all_nodes: bool) -> None:
    if output == "text":
        palette = Palette.of(sys.stdout, os.environ)
        texts = []
        for one in found:
            if isinstance(one, GroupDocument):
                texts.append(render_group(one, all_nodes=all_nodes, palette=palette))
            elif isinstance(one, WorkloadDocument):
                texts.append(render_workload(one, all_nodes=all_nodes, palette=palette))
            else:
                texts.append(render(one, all_nodes=all_nodes, palette=palette))
        say("\n".join(texts), nl=False, color=palette.enabled)
        return
    dump(found[0] if len(found) == 1 else Explanations(tuple(found)), output)


def _show_pending(document: PendingDocument, output: str) -> None:
    if output == "text":
        palette = Palette.of(sys.stdout, os.environ)
        say(render_pending(document, palette), nl=False, color=palette.enabled)
    else:
        dump(document, output)
    sys.stdout.flush()


def _end(strict: bool, incomplete: Sequence[str]) -> None:
    """Exit as --strict asks for."""
    if strict and incomplete:
        sys.exit(_INCOMPLETE)


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"note: {note}", err=True)


def dump(document: Any, output: str) -> None:
    """Write plain data as JSON or YAML."""
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
    else:
        plain = msgspec.json.decode(msgspec.json.encode(document))
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)
