"""Which pods a command line means: by name, by selector, by who made them, or out of a manifest."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import click

from stowplan.api.labels import SelectorError, parse_selector
from stowplan.api.pod import Pod

_NAMES: Final = {
    "Pod": "po pod pods",
    "Deployment": "deploy deployment deployments deployment.apps deployments.apps",
    "ReplicaSet": "rs replicaset replicasets replicaset.apps replicasets.apps",
    "StatefulSet": "sts statefulset statefulsets statefulset.apps statefulsets.apps",
    "DaemonSet": "ds daemonset daemonsets daemonset.apps daemonsets.apps",
    "Job": "job jobs job.batch jobs.batch",
    "CronJob": "cj cronjob cronjobs cronjob.batch cronjobs.batch",
    "PodGroup": "pg pgs podgroup podgroups podgroup.scheduling.k8s.io podgroups.scheduling.k8s.io "
    "podgroup.scheduling.x-k8s.io podgroups.scheduling.x-k8s.io",
    "CompositePodGroup": "compositepodgroup compositepodgroups compositepodgroup.scheduling.k8s.io "
    "compositepodgroups.scheduling.k8s.io",
}
GROUPS: Final = ("PodGroup", "CompositePodGroup")
WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""How kubectl calls the kinds whose pods can be explained."""


class NoSuchPodError(click.ClickException):
    """There is no pod of a name."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(f'pods "{name}" not found in namespace {namespace}')
        self.namespace = namespace
        self.name = name


class NoSuchWorkloadError(click.ClickException):
    """There is no workload of a name."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(f'{kind.lower()}s "{name}" not found in namespace {namespace}')


def of_kinds(kinds: Collection[str], targets: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The targets of some kinds (kind and name), and all others."""
    found: list[tuple[str, str]] = []
    rest: list[str] = []
    for kind, name in _pairs(targets):
        known = _KINDS.get(kind.lower(), "")
        if known in kinds:
            found.append((known, name))
        else:
            rest.append(f"{kind}/{name}")
    return found, rest


def single_pods(targets: Sequence[str], selector: str) -> list[str] | None:
    """The names of pods, if the targets are pods only."""
    if selector or not targets:
        return None
    pairs = _pairs(targets)
    return (
        [name for _, name in pairs] if all(_KINDS.get(kind.lower()) == "Pod" for kind, _ in pairs) else None
    )


def chosen(pods: Mapping[str, Pod], targets: Sequence[str], namespace: str, selector: str) -> list[Pod]:
    """The pods that are meant. Raises ClickException."""
    if selector:
        try:
            wanted = parse_selector(selector)
        except SelectorError as error:
            raise click.ClickException(f"--selector: {error}") from None
        return [
            pod for pod in pods.values() if pod.namespace == namespace and wanted.matches(pod.metadata.labels)
        ]
    if not targets:
        raise click.UsageError("expected a pod, --selector or --filename")
    return [_pod_of(pods, kind, name, namespace) for kind, name in _pairs(targets)]


def _pairs(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Kinds and names: `pod/web`, `web`, or kubectl's `deployment web db`."""
    if len(targets) > 1 and targets[0].lower() in _KINDS and "/" not in targets[0]:
        return [(targets[0], name) for name in targets[1:]]
    return [
        (kind, name) if name else ("pod", kind) for kind, _, name in (one.partition("/") for one in targets)
    ]


def _pod_of(pods: Mapping[str, Pod], kind: str, name: str, namespace: str) -> Pod:
    if _KINDS.get(kind.lower()) != "Pod":
        expected = "pod, podgroup, deployment, replicaset, statefulset, daemonset, job or cronjob"
        raise click.ClickException(f"{kind}/{name}: expected a {expected}")
    pod = pods.get(f"{namespace}/{name}")
    if pod is None:
        raise NoSuchPodError(namespace, name)
    return pod


def some_pods(pods: Sequence[Pod], namespace: str) -> Sequence[Pod]:
    """The pods, of which there must be at least one. Raises ClickException."""
    if not pods:
        raise click.ClickException(f"no pods found in namespace {namespace}")
    return pods
