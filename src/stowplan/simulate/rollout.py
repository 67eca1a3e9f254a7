"""A rolling update, step by step: new pods come, old ones go, and how evenly they are spread meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.meta import LabelSelector
from stowplan.api.pod import Pod
from stowplan.api.workloads import ReplicaSet
from stowplan.explain.report import Figure, Figures, Report, Table, Text
from stowplan.explain.report.model import BAD, GOOD
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value
from stowplan.localcluster.controllers.workloads.rollout import RolloutStrategy
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.creation.applying import (
    HASH,
    copy_of,
    going,
    kind_and_name,
    new_pods,
    ordinal_of,
    pods_of,
)
from stowplan.simulate.creation.pods import PodSource
from stowplan.simulate.creation.workloads import Workload
from stowplan.simulate.measure import Skew, skews_of
from stowplan.simulate.outcome import Outcome, Refusal

DEFAULT_SHARE: Final = "25%"
_NEW_HASH: Final = "rollout"


@dataclass(slots=True)
class Step:
    """One step: pods that came and pods that went, and how many there are then."""

    created: dict[str, str]
    pending: dict[str, str]
    removed: list[str]
    old: int
    new: int
    skew_after_surge: list[Skew] = field(default_factory=list)
    skew_after_termination: list[Skew] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return {
            "created": self.created,
            "pending": self.pending,
            "removed": self.removed,
            "old": self.old,
            "new": self.new,
            "skewAfterSurge": [one.document() for one in self.skew_after_surge],
            "skewAfterTermination": [one.document() for one in self.skew_after_termination],
        }


@dataclass(slots=True)
class Rollout:
    """A whole update. It is stuck if new pods stay pending and no more old ones may go."""

    title: str
    strategy: RolloutStrategy
    before: list[Skew]
    steps: list[Step] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def complete(self) -> bool:
        return bool(self.steps) and not self.steps[-1].old and not self.steps[-1].pending

    def document(self) -> dict[str, Any]:
        return {
            "workload": self.title,
            "complete": self.complete,
            "maxSurge": self.strategy.surge,
            "maxUnavailable": self.strategy.unavailable,
            "skewBefore": [one.document() for one in self.before],
            "steps": [one.document() for one in self.steps],
            "pending": self.outcome.pending,
            "placed": self.outcome.placed,
        }


def strategy_for(replicas: int, surge: str, unavailable: str, *, recreate: bool = False) -> RolloutStrategy:
    """The numbers that `maxSurge` and `maxUnavailable` come to."""
    if recreate:
        return RolloutStrategy(replicas, 0, replicas, recreate=True)
    more = scaled_value(_number(surge), replicas, DEFAULT_SHARE, round_up=True)
    less = scaled_value(_number(unavailable), replicas, DEFAULT_SHARE, round_up=False)
    if not more and not less:
        less = 1
    return RolloutStrategy(replicas, more, min(less, replicas))


def _number(share: str) -> int | str:
    return int(share) if share.isdecimal() else share


def rolled_out(cluster: Cluster, workload: Workload, replicas: int | None = None) -> Rollout:
    """Roll out a manifest of a workload that the cluster has. The cluster is changed."""
    count = workload.replicas if replicas is None else replicas
    old = pods_of(cluster, workload.title, workload.namespace)
    strategy = (
        RolloutStrategy.of(workload.document)
        if workload.kind == "Deployment"
        else strategy_for(count, "0", "1")
    )
    if strategy.recreate:
        strategy = strategy_for(count, "0", "0", recreate=True)
    strategy = RolloutStrategy(count, strategy.surge, strategy.unavailable, strategy.recreate)
    if workload.kind == "StatefulSet":
        return _roll(cluster, workload.title, strategy, old, [], workload)
    refused = Outcome()
    fresh = new_pods(cluster, workload, count, refused)
    found = _roll(cluster, workload.title, strategy, old, fresh)
    found.outcome.extend(refused)
    return found


def restarted(cluster: Cluster, title: str, namespace: str, strategy: RolloutStrategy) -> Rollout:
    """Replace all pods of a workload by new ones of the same template, as `kubectl rollout restart` does."""
    kind, name = kind_and_name(title)
    old = pods_of(cluster, title, namespace)
    if kind == "StatefulSet":
        return _roll(cluster, title, strategy, old, [])
    owner = _new_owner(cluster, old[-1])
    fresh = [
        _of_new_set(copy_of(cluster, old[-1], f"{name}-new-{number}"), owner) for number in range(len(old))
    ]
    return _roll(cluster, title, strategy, old, fresh)


def _new_owner(cluster: Cluster, pod: Pod) -> str:
    """The ReplicaSet of the new pods: default spreading counts the pods that it selects."""
    for owner in pod.metadata.owner_references:
        known = cluster.objects.get((ReplicaSet, f"{pod.namespace}/{owner.name}"))
        if owner.controller and isinstance(known, ReplicaSet):
            name = f"{owner.name.rpartition('-')[0] or owner.name}-{_NEW_HASH}"
            selector = known.spec.selector or LabelSelector()
            labels = {**selector.match_labels, HASH: _NEW_HASH}
            spec = replace(known.spec, selector=replace(selector, match_labels=labels))
            cluster.add(replace(known, metadata=replace(known.metadata, name=name), spec=spec))
            return name
    return ""


def _of_new_set(pod: Pod, owner: str) -> Pod:
    labels = {**pod.metadata.labels}
    if HASH in labels:
        labels[HASH] = _NEW_HASH
    owners = tuple(replace(one, name=owner or one.name) for one in pod.metadata.owner_references)
    return replace(pod, metadata=replace(pod.metadata, labels=labels, owner_references=owners))


def _roll(
    cluster: Cluster,
    title: str,
    strategy: RolloutStrategy,
    old: Sequence[Pod],
    fresh: Sequence[Pod],
    manifest: Workload | None = None,
) -> Rollout:
    found = Rollout(title, strategy, skews_of(cluster, old))
    kind = kind_and_name(title)[0]
    if kind == "StatefulSet":
        _one_by_one(cluster, title, found, old, manifest)
        return found
    left, coming = list(old), list(fresh)
    new: list[Pod] = []
    while left or coming:
        grown = min(len(coming), max(strategy.most - len(left) - len(new), 0))
        batch, coming = coming[:grown], coming[grown:]
        step = cluster.schedule([*cluster.pending_of(new), *batch])
        new += batch
        surged = skews_of(cluster, batch or new)
        available = sum(1 for pod in (*left, *new) if pod.key not in cluster.pending)
        spare = max(available - strategy.least_available, 0)
        removed = going(cluster, left, min(len(left), spare), kind)
        waiting = [pod for pod in left if pod.key in cluster.pending and pod not in removed]
        removed = [*removed, *waiting] if len(new) + len(left) > strategy.least_available else removed
        for pod in removed:
            cluster.remove_pod(pod.key)
        left = [pod for pod in left if pod not in removed]
        found.outcome.extend(step)
        skews = skews_of(cluster, new or left)
        names = [pod.key for pod in removed]
        found.steps.append(Step(step.placed, step.pending, names, len(left), len(new), surged, skews))
        if not grown and not removed and not step.placed:
            break
        if not left and not coming and not step.pending:
            break
    return found


def _one_by_one(
    cluster: Cluster, title: str, found: Rollout, old: Sequence[Pod], manifest: Workload | None
) -> None:
    """The pods of a StatefulSet are replaced from the last to the first, each under its own name."""
    order = going(cluster, old, len(old), "StatefulSet")
    for number, pod in enumerate(order):
        cluster.remove_pod(pod.key)
        fresh = cluster.replacement(pod)
        if manifest is not None:
            source = PodSource(cluster, manifest, first=max(ordinal_of(pod.name), 0))
            made = source.create(1)
            if not made:
                found.outcome.refused.append(Refusal(title, number + 1, source.refusal))
                break
            [fresh] = made
        gap = skews_of(cluster, old)
        step = cluster.schedule(fresh)
        found.outcome.extend(step)
        left = len(order) - number - 1
        found.steps.append(
            Step(step.placed, step.pending, [pod.key], left, number + 1, skews_of(cluster, [fresh]), gap)
        )
        if step.pending:
            break


def report_of(found: Rollout) -> Report:
    """A rollout for people."""
    worst = max((one.skew for step in found.steps for one in step.skew_after_surge), default=0)
    last = found.steps[-1].skew_after_termination if found.steps else []
    rows = [
        (
            number,
            len(step.created),
            len(step.removed),
            step.old,
            step.new,
            len(step.pending),
            _shown(step.skew_after_surge),
            _shown(step.skew_after_termination),
        )
        for number, step in enumerate(found.steps, start=1)
    ]
    headings = [
        "step",
        "created",
        "removed",
        "old",
        "new",
        "pending",
        "skew after surge",
        "after termination",
    ]
    end = "completes" if found.complete else "gets stuck"
    summary = f"The rollout of {found.title} {end} after {len(found.steps)} steps."
    tone = GOOD if found.complete else BAD
    parts: list[Any] = [
        Figures(
            [
                Figure("steps", len(found.steps)),
                Figure("pending at the end", len(found.outcome.pending), "", tone),
                Figure("worst skew after a surge", worst),
                Figure("skew at the end", _shown(last) or "none"),
            ]
        ),
        Table(headings, rows, range(6), title="step by step"),
    ]
    for pod, why in list(found.outcome.pending.items())[:3]:
        parts.append(Text(why, title=f"{pod} is pending"))
    return Report(f"what if: rollout {found.title}", summary, parts, found.document())


def _shown(skews: Sequence[Skew]) -> str:
    return ", ".join(f"{one.skew} by {one.key} (at most {one.max_skew})" for one in skews)
