"""Explanations that are made here: of the lists of an API server, or of files."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates, gates_with
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GATES
from stowplan.cli.explain.targets import (
    GROUPS,
    WORKLOADS,
    NoSuchPodError,
    NoSuchWorkloadError,
    chosen,
    of_kinds,
    some_pods,
)
from stowplan.cli.one_line import one_line_errors
from stowplan.cli.progress import Progress, elapsed, ticking
from stowplan.client.http import HttpClient
from stowplan.config import default_config, load
from stowplan.config.legacy import load_any_file
from stowplan.explain.commands import with_commands
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.preemption import Eviction
from stowplan.explain.document.schema import Explained
from stowplan.explain.document.workload import WorkloadDocument
from stowplan.explain.explainers.causes import NEAREST, causes_of_documents, pending_document
from stowplan.explain.explainers.notcreated import workloads_without_pods
from stowplan.explain.explainers.workload import explain_workload
from stowplan.explain.layers.owners import owner_of
from stowplan.explain.layers.reads import ClientReads
from stowplan.explain.layers.starting import may_be_stopped
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import GONE
from stowplan.scheduler.framework.registry import installed_plugins, load_plugin
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.table import ClusterTable
from stowplan.simulate import Cluster
from stowplan.simulate.creation.groups import groups_in_use
from stowplan.simulate.explaining import Evaluation, pods_of_manifests
from stowplan.simulate.snapshot import Snapshot, read_cluster, read_files
from stowplan.simulate.snapshot.preemptions import last_preemption

if TYPE_CHECKING:
    from stowplan.cli.explain.explain import Configuration, Targets
    from stowplan.simulate.creation.manifests import Manifests

# The cluster


def scheduler_settings(
    config: Path | None,
    gates: FeatureGates | None,
    plugins: Sequence[str],
    *,
    default: str = "",
    lenient: bool = False,
) -> Settings:
    """The settings that options stand for; mistakes are reported in one line.

    `default` is the text of the configuration if none is given, "" for that of kube-scheduler. With `lenient`
    plugins that are not installed are left out: `without_plugins` has their names.
    """
    given = DEFAULT_GATES if gates is None else gates
    with one_line_errors("" if config is None else f"{config}: "):
        if config is not None:
            loaded = load_any_file(config, given)
        else:
            loaded = load(default, given) if default else default_config(given)
    with one_line_errors():
        return Settings.of(loaded, [*installed_plugins(), *map(load_plugin, plugins)], lenient=lenient)


_WITH_COSCHEDULING: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint: {enabled: [{name: Coscheduling}]}
      queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
"""


def settings_with_groups(
    configuration: "Configuration",
    objects: Iterable[Object],
    manifests: "Manifests | None" = None,
    *,
    lenient: bool = False,
) -> tuple[Settings, list[str]]:
    """The settings of a scheduler that honours the pod groups of a cluster and of manifests, and notes.

    A cluster that has groups has a scheduler that knows them: what decides it (feature gates, the plugin
    Coscheduling) is taken to be on, unless options say otherwise.
    """
    groups, notes = groups_in_use(objects, manifests), []
    gates = configuration.gates
    if groups.built_in and gates is None:
        gates = gates_with(GATES)
        notes.append("there are PodGroups: evaluated with the feature gates of pod groups")
    elif groups.built_in and gates is not None and not gates.built_in_pod_groups:
        notes.append("the feature gate GenericWorkload is off: PodGroups are ignored")
    if groups.coscheduling and configuration.config is None:
        notes.append("there are PodGroups of scheduler-plugins: evaluated with the plugin Coscheduling")
    settings = scheduler_settings(
        configuration.config,
        gates,
        configuration.plugins,
        default=_WITH_COSCHEDULING if groups.coscheduling else "",
        lenient=lenient,
    )
    if groups.coscheduling and not settings.gates.coscheduling:
        notes.append(
            f"{configuration.config} has no plugin Coscheduling: PodGroups of scheduler-plugins are ignored"
        )
    return settings, notes


def read_dump(files: Sequence[Path]) -> Snapshot:
    """The cluster of files, with a line that says how far they are read."""
    with ticking(Progress("reading", unit="objects")) as progress:
        return read_files(files, lambda file, count: progress.advance(count, file))


async def read_lists(client: HttpClient, address: str, within: str = "") -> Snapshot:
    """The lists of a cluster, with a line that says how far they are.

    What is forbidden for the whole cluster is read in the namespace `within`, if one is given.
    """
    with ticking(Progress("reading the cluster", unit="objects")) as progress:
        return await read_cluster(
            client,
            f"the API server at {address}",
            lambda resource, count: progress.advance(count, resource),
            within=within,
        )


def engine_of_files(
    files: Sequence[Path], configuration: "Configuration", manifests: "Manifests | None" = None
) -> Cluster:
    """The engine of a configuration over the cluster of files."""
    scheduler_settings(*configuration, lenient=True)
    snapshot = read_dump(files)
    if not snapshot.objects:
        raise click.ClickException(
            f"{snapshot.source}: no objects: expected what `kubectl get nodes,pods,… -A -o yaml` writes"
        )
    return _engine(snapshot, configuration, manifests)


async def engine_of_cluster(
    client: HttpClient,
    address: str,
    configuration: "Configuration",
    namespace: str,
    manifests: "Manifests | None" = None,
) -> Cluster:
    """The engine of a configuration over the lists of a cluster, or of `namespace` as far as more is
    forbidden."""
    scheduler_settings(*configuration, lenient=True)
    snapshot = await read_lists(client, address, namespace)
    return _engine(snapshot, configuration, manifests)


def _engine(
    snapshot: Snapshot, configuration: "Configuration", manifests: "Manifests | None" = None
) -> Cluster:
    """The engine of a configuration over a snapshot."""
    settings, notes = settings_with_groups(configuration, snapshot.objects, manifests, lenient=True)
    snapshot.notes += notes
    with elapsed("building the table"):
        return Cluster.load(snapshot, settings=settings)


# Explanations


async def explained(
    client: HttpClient, address: str, configuration: "Configuration", wanted: "Targets", namespace: str
) -> tuple[Sequence[Explained], list[str]]:
    """The explanations of pods of a cluster, and notes."""
    manifests = manifests_of(wanted, namespace)
    engine = await engine_of_cluster(client, address, configuration, namespace, manifests)
    evaluation = Evaluation(engine, ClientReads(client), time.time())
    try:
        found = await evaluated(evaluation, wanted, namespace, manifests)
    except NoSuchPodError as error:
        gone = await _gone(client, engine, error.namespace, error.name)
        if gone is None:
            raise
        return [gone], engine.notes
    return [await _with_evictors(client, engine, one) for one in found], engine.notes


async def explained_files(
    files: Sequence[Path], configuration: "Configuration", wanted: "Targets"
) -> tuple[Sequence[Explained], list[str]]:
    """The explanations of pods of a dump, and notes."""
    namespace = wanted.namespace or "default"
    manifests = manifests_of(wanted, namespace)
    engine = engine_of_files(files, configuration, manifests)
    found = await evaluated(Evaluation.of_dump(engine), wanted, namespace, manifests)
    return found, engine.notes


async def evaluated(
    evaluation: Evaluation, wanted: "Targets", namespace: str, manifests: "Manifests | None" = None
) -> Sequence[Explained]:
    """The explanations by an engine of our own."""
    engine = evaluation.engine
    groups, targets = of_kinds(GROUPS, wanted.targets)
    workloads, targets = of_kinds(WORKLOADS, targets)
    found: list[Explained] = [_group(engine, kind, namespace, name) for kind, name in groups]
    found += [await _workload(evaluation, kind, namespace, name) for kind, name in workloads]
    if manifests is not None:
        pods = pods_of_manifests(engine, manifests, str(wanted.manifests[0]))
    elif found and not targets and not wanted.selector:
        return found
    else:
        pods = chosen(engine.all_pods, targets, namespace, wanted.selector)
    distinct = one_of_each(some_pods(pods, namespace), engine.table)
    with Progress("explaining", len(distinct), "pods") as progress:
        for pod in distinct:
            progress.tick(pod.key)
            found.append(await (evaluation.member(pod) if manifests is None else evaluation.new(pod)))
            progress.advance()
    return found


async def _workload(evaluation: Evaluation, kind: str, namespace: str, name: str) -> WorkloadDocument:
    engine = evaluation.engine
    pods = [pod for pod in engine.all_pods.values() if pod.namespace == namespace]
    with Progress("explaining", unit="pods") as progress:

        async def explained(pod: Pod) -> PodDocument:
            progress.tick(pod.key)
            document = await evaluation.member(pod)
            progress.advance()
            return document

        found = await explain_workload(
            kind, namespace, name, pods, evaluation.reads, explained, engine.source, evaluation.now
        )
    if found is None:
        raise NoSuchWorkloadError(kind, namespace, name)
    return found


def _group(engine: Cluster, kind: str, namespace: str, name: str) -> GroupDocument:
    found = engine.explain_group(f"{kind.lower()}/{namespace}/{name}")
    if found is None:
        if not engine.table.groups.enabled:
            raise click.ClickException(
                f"{kind.lower()}/{name}: groups need --feature-gates GenericWorkload=true or a profile with "
                "Coscheduling"
            )
        raise click.ClickException(f'{kind.lower()}s "{name}" not found in namespace {namespace}')
    return found


async def _gone(client: HttpClient, engine: Cluster, namespace: str, name: str) -> PodDocument | None:
    """Document of a pod that is gone: that it was evicted, and for whom."""
    event = await last_preemption(client, namespace, name)
    if event is None:
        return None
    by = _key_of(engine, event.by)
    nodes = engine.table.node_count
    return told_pod(
        PodDocument(
            pod=f"{namespace}/{name}",
            state=GONE,
            source=engine.source,
            message=f"evicted from {event.node} for {by}, {event.time}",
            nodes=nodes,
            feasible=nodes,
            evicted=Eviction(by=(by,), node=event.node),
        )
    )


async def _with_evictors(client: HttpClient, engine: Cluster, found: Explained) -> Explained:
    """The document with for whom a victim goes, where the cluster's events tell."""
    if not isinstance(found, PodDocument) or found.evicted is None or found.evicted.by:
        return found
    namespace, _, name = found.pod.partition("/")
    event = await last_preemption(client, namespace, name)
    if event is None:
        return found
    return told_pod(replace(found, evicted=replace(found.evicted, by=(_key_of(engine, event.by),))))


def _key_of(engine: Cluster, uid: str) -> str:
    known = (pod.key for pod in engine.all_pods.values() if pod.metadata.uid == uid)
    return next(known, f"a pod that is gone (uid {uid})")


# Causes


async def causes_of_files(
    files: Sequence[Path], configuration: "Configuration", namespace: str
) -> tuple[PendingDocument, list[str]]:
    """The causes that pods of a dump wait for, and notes."""
    return await _causes_of(Evaluation.of_dump(engine_of_files(files, configuration)), namespace)


async def causes_of_cluster(
    client: HttpClient, address: str, configuration: "Configuration", namespace: str, own: str = ""
) -> tuple[PendingDocument, list[str]]:
    """The causes that pods of a cluster wait for, and notes. `own` is the namespace of the context."""
    engine = await engine_of_cluster(client, address, configuration, namespace or own)
    return await _causes_of(Evaluation(engine, ClientReads(client), time.time()), namespace)


async def _causes_of(evaluation: Evaluation, namespace: str) -> tuple[PendingDocument, list[str]]:
    engine = evaluation.engine
    pods = [pod for pod in engine.all_pods.values() if not namespace or pod.namespace == namespace]
    waiting = [pod for pod in pods if pod.key in engine.pending]
    with Progress("explaining", unit="templates") as progress:
        elsewhere, not_started = [], []
        for pod in pods:
            if pod.key in engine.pending:
                if not evaluation.is_ours(pod):
                    elsewhere.append(await evaluation.document(pod))
            elif may_be_stopped(pod):
                document = await evaluation.on_its_node(pod)
                if document.stopped is not None:
                    not_started.append(document)

        groups: dict[str, GroupDocument | None] = {}

        def group_of(pod: Pod) -> GroupDocument | None:
            key = engine.table.groups.whole_of(pod)
            if key is not None and key not in groups:
                groups[key] = engine.explain_group(key)
            return None if key is None else groups[key]

        ours = [pod for pod in waiting if evaluation.is_ours(pod)]
        explained: dict[Any, PodDocument] = {}
        for pod in ours:
            template, group = engine.info(pod).template, group_of(pod)
            told = pod.spec.scheduling_gates or (group is not None and group.is_waiting)
            if not told and template not in explained:
                progress.tick(pod.key)
                found = await evaluation.ours(pod, NEAREST)
                if found.changes:
                    found = with_commands(found, await owner_of(pod, evaluation.reads))
                explained[template] = found
                progress.advance()
        others = PendingDocument(
            elsewhere=causes_of_documents(elsewhere),
            not_started=causes_of_documents(not_started),
            not_created=await workloads_without_pods(
                [namespace] if namespace else (), engine.all_pods.values(), evaluation.reads
            ),
            incomplete=(
                *(engine.unread[plural] for plural in ("pods", "nodes") if plural in engine.unread),
                *(line for one in elsewhere if _is_unknown(one) for line in one.incomplete),
                *(f"pods that cannot be created: {line}" for line in evaluation.unread_events),
            ),
        )
        answer = pending_document(
            ours, engine.info, lambda info: explained[info.template], group_of, engine.source, others
        )
    return answer, engine.notes


def _is_unknown(found: PodDocument) -> bool:
    return found.decider is not None and found.decider.kind == "unknown"


# Pods that do not exist yet, and identical pods


def manifests_of(wanted: "Targets", namespace: str) -> "Manifests | None":
    """The objects of the manifests that are to be explained; None if there are none."""
    if not wanted.manifests:
        return None
    from stowplan.simulate.creation.manifests import read_manifests

    return read_manifests(wanted.manifests, namespace)


def one_of_each(pods: Iterable[Pod], table: ClusterTable | None = None) -> list[Pod]:
    """One of each set of identical pending pods."""
    table = ClusterTable() if table is None else table
    distinct: dict[Any, Pod] = {}
    for pod in pods:
        distinct.setdefault(pod.key if pod.spec.node_name else table.info(pod).template, pod)
    return list(distinct.values())
