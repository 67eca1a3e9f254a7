"""`stowplan explain`, also `kubectl why`, and `stowplan pending`: why pods are where they are."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import yaml

from stowplan.api.decode import DecodeError, convert
from stowplan.api.pod import Pod
from stowplan.cli.config import feature_gates_option, one_line_errors, plugins_option
from stowplan.client.http import AccessError, HttpClient, default_kubeconfigs, load_kubeconfig
from stowplan.clock import RealClock
from stowplan.config import default_config
from stowplan.config.featuregates import parse_feature_gates
from stowplan.config.legacy import load_any_file
from stowplan.explain import pending as pending_causes
from stowplan.explain.explainer import PodExplanation
from stowplan.explain.terminal import render
from stowplan.framework.registry import installed_plugins, load_plugin
from stowplan.scheduler.settings import Settings
from stowplan.snapshot import Engine, Snapshot, SnapshotError, read_cluster, read_files
from stowplan.snapshot.sources import documents

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NAMES: Final = {
    "Pod": "po pod pods",
    "Deployment": "deploy deployment deployments deployment.apps deployments.apps",
    "ReplicaSet": "rs replicaset replicasets replicaset.apps replicasets.apps",
    "StatefulSet": "sts statefulset statefulsets statefulset.apps statefulsets.apps",
    "DaemonSet": "ds daemonset daemonsets daemonset.apps daemonsets.apps",
    "Job": "job jobs job.batch jobs.batch",
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""How kubectl calls the kinds whose pods can be explained."""

Options = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Where:
    """Where the cluster comes from and which scheduler is asked."""

    kubeconfig: Path | None
    context: str
    files: tuple[Path, ...]
    settings: Settings


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster to look at, and with which configuration."""
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
            click.option("--config", type=_FILE, help="KubeSchedulerConfiguration to decide with."),
            feature_gates_option,
            plugins_option,
            click.option(
                "-o",
                "--output",
                type=click.Choice(["text", "json", "yaml"]),
                default="text",
                show_default=True,
                help="Output format.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("explain")
@click.argument("targets", nargs=-1, metavar="[TYPE/NAME | NAME]…")
@click.option("-n", "--namespace", default="", help="Namespace of the pods [default: that of the context].")
@click.option("-l", "--selector", default="", help="Label selector of pods.")
@click.option(
    "-f", "--filename", type=_FILE, multiple=True, help="Manifest of something that does not exist yet."
)
@click.option("--all-nodes", is_flag=True, help="Show every near miss.")
@cluster_options
def explain(
    targets: tuple[str, ...],
    namespace: str,
    selector: str,
    filename: tuple[Path, ...],
    all_nodes: bool,
    kubeconfig: Path | None,
    context: str,
    files: tuple[Path, ...],
    config: Path | None,
    feature_gates: tuple[str, ...],
    plugins: tuple[str, ...],
    output: str,
) -> None:
    """Explain why a pod is pending, or why it is on its node.

    The cluster can be scheduled by anybody: it is only read, and decisions are made here, by the default
    profile or that of --config. A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job stands for its pods.

    \b
      stowplan explain pod/web-7 -n shop
      stowplan explain deployment/web
      stowplan explain -f new-job.yaml
      kubectl get nodes,pods -A -o yaml | stowplan explain --from - pod/web-7
    """
    where = Where(kubeconfig, context, files, scheduler_settings(config, feature_gates, plugins))
    engine, own_namespace = _engine(where)
    space = namespace or own_namespace
    pods = _from_manifests(filename, space) if filename else _chosen(engine, targets, space, selector)
    if not pods:
        raise click.ClickException(f"no pods found in namespace {space}")
    found = [engine.explainer_for(pod).explain(engine.info(pod)) for pod in _one_of_each(engine, pods)]
    _show(found, output, all_nodes)
    for note in engine.snapshot.notes:
        click.echo(f"note: {note}", err=True)


@click.command("pending")
@click.option("-n", "--namespace", default="", help="Only pods of this namespace [default: all].")
@cluster_options
def pending(
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    files: tuple[Path, ...],
    config: Path | None,
    feature_gates: tuple[str, ...],
    plugins: tuple[str, ...],
    output: str,
) -> None:
    """Group waiting pods by cause.

    Every cause comes with the changes that would place its pods, each tried on this state of the cluster.
    """
    engine, _ = _engine(Where(kubeconfig, context, files, scheduler_settings(config, feature_gates, plugins)))
    waiting = [pod for pod in engine.waiting if not namespace or pod.namespace == namespace]
    found = pending_causes.causes(
        waiting, engine.info, lambda info: engine.explainer_for(info.pod).explain(info)
    )
    if output == "text":
        click.echo(pending_causes.render(found), nl=False)
    else:
        _dump({"pods": len(waiting), "causes": [cause.document() for cause in found]}, output)
    for note in engine.snapshot.notes:
        click.echo(f"note: {note}", err=True)


def kubectl_why() -> None:
    """The console script `kubectl-why`, which kubectl runs as `kubectl why`."""
    explain.main(prog_name="kubectl why")


# The cluster


def scheduler_settings(config: Path | None, gates: Sequence[str], plugins: Sequence[str]) -> Settings:
    """The settings that options stand for; mistakes are reported in one line."""
    with one_line_errors():
        given = parse_feature_gates(gates)
        loaded = default_config(given) if config is None else load_any_file(config, given)
        return Settings.of(loaded, [*installed_plugins(), *map(load_plugin, plugins)])


def _engine(where: Where) -> tuple[Engine, str]:
    """The engine over the cluster, and the namespace that is meant when none is named."""
    try:
        if where.files:
            return Engine(read_files(where.files), where.settings), "default"
        snapshot, namespace = asyncio.run(_read(where))
        return Engine(snapshot, where.settings), namespace
    except SnapshotError as error:
        raise click.ClickException(str(error)) from None


async def _read(where: Where) -> tuple[Snapshot, str]:
    async with connect(where.kubeconfig, where.context, "stowplan-explain") as (client, address, namespace):
        return await read_cluster(client, f"the API server at {address}"), namespace


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
        raise click.ClickException(str(error)) from None
    async with client:
        yield client, f"{server.address.host}:{server.address.port}", server.namespace


# The pods


def _chosen(engine: Engine, targets: Sequence[str], namespace: str, selector: str) -> list[Pod]:
    from stowplan.api.labels import SelectorError, parse_selector

    if selector:
        try:
            wanted = parse_selector(selector)
        except SelectorError as error:
            raise click.ClickException(f"--selector: {error}") from None
        return [
            pod
            for pod in engine.pods.values()
            if pod.namespace == namespace and wanted.matches(pod.metadata.labels)
        ]
    if not targets:
        raise click.UsageError("expected a pod, --selector or --filename")
    found: list[Pod] = []
    for target in _pairs(targets):
        found += _pods_of(engine, *target, namespace)
    return found


def _pairs(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Kinds and names: `pod/web`, `web`, or kubectl's `deployment web db`."""
    if len(targets) > 1 and targets[0].lower() in _KINDS and "/" not in targets[0]:
        return [(targets[0], name) for name in targets[1:]]
    return [
        (kind, name) if name else ("pod", kind) for kind, _, name in (one.partition("/") for one in targets)
    ]


def _pods_of(engine: Engine, kind: str, name: str, namespace: str) -> list[Pod]:
    known = _KINDS.get(kind.lower())
    if known is None:
        expected = "pod, deployment, replicaset, statefulset, daemonset or job"
        raise click.ClickException(f"{kind}/{name}: expected a {expected}")
    if known == "Pod":
        pod = engine.pods.get(f"{namespace}/{name}")
        if pod is None:
            raise click.ClickException(f'pods "{name}" not found in namespace {namespace}')
        return [pod]
    owners = {name} if known != "Deployment" else engine.replica_sets_of(namespace, name)
    owner_kind = "ReplicaSet" if known == "Deployment" else known
    found = [
        pod
        for pod in engine.pods.values()
        if pod.namespace == namespace
        and any(one.kind == owner_kind and one.name in owners for one in pod.metadata.owner_references)
    ]
    if not found:
        raise click.ClickException(f"{kind}/{name}: no pods found in namespace {namespace}")
    return found


def _from_manifests(paths: Sequence[Path], namespace: str) -> list[Pod]:
    """Pods as manifests would make them: pods themselves, and the templates of those that make pods."""
    found = []
    for path in paths:
        for place, document in documents(path):
            pod = _pod_of(document, namespace)
            if pod is None:
                continue
            try:
                found.append(convert(pod, Pod))
            except DecodeError as error:
                raise click.ClickException(f"{place}: {error}") from None
    if not found:
        raise click.ClickException(f"{paths[0]}: expected a pod or something that makes pods")
    return found


def _pod_of(document: dict[str, Any], namespace: str) -> dict[str, Any] | None:
    metadata = document.get("metadata") or {}
    spec = document.get("spec") or {}
    if document["kind"] == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = document if document["kind"] == "Pod" else spec.get("template")
    if not isinstance(template, dict):
        return None
    own = template.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "new"
    space = metadata.get("namespace") or namespace
    return {
        **template,
        "kind": "Pod",
        "metadata": {**own, "name": name, "namespace": space, "uid": f"new-{name}"},
    }


def _one_of_each(engine: Engine, pods: Sequence[Pod]) -> list[Pod]:
    """Of waiting pods that are alike one is enough."""
    alike: dict[Any, Pod] = {}
    for pod in pods:
        info = engine.info(pod)
        alike.setdefault(pod.key if info.row >= 0 else info.template, pod)
    return list(alike.values())


# Output


def _show(found: Sequence[PodExplanation], output: str, all_nodes: bool) -> None:
    if output == "text":
        click.echo("\n".join(render(one, all_nodes=all_nodes) for one in found), nl=False)
        return
    shown = [one.document() for one in found]
    _dump(shown[0] if len(shown) == 1 else {"items": shown}, output)


def _dump(document: Any, output: str) -> None:
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
    else:
        plain = msgspec.json.decode(msgspec.json.encode(document))
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)
