"""Small full clusters, pods that want in, and what preemption makes of it, by either way of trying nodes."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from stowplan.api.meta import LabelSelector, ObjectMeta
from stowplan.api.pod import PodCondition
from stowplan.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from stowplan.scheduler.framework.extension_points import run_to_end
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.defaultpreemption import DefaultPreemption
from stowplan.testing import Cluster, NodeBuilder, PodBuilder, node, pod

Nominated = Mapping[str, Sequence[PodBuilder]]


def small(name: str, cpu: int = 4) -> NodeBuilder:
    return node(name).capacity(cpu=cpu)


def low(name: str, on: str, priority: int = 0, cpu: int = 1, hour: int | None = 0) -> PodBuilder:
    """A running pod that started at an hour of a certain day; with None it has not started yet."""
    made = pod(name).priority(priority).requests(cpu=cpu).labels(app=name).on(on)
    return started(made, None if hour is None else f"2025-01-01T{hour:02}:00:00Z")


def started(builder: PodBuilder, at: str | None) -> PodBuilder:
    return with_status(builder, start_time=at)


def with_status(builder: PodBuilder, **changes: Any) -> PodBuilder:
    return PodBuilder(replace(builder.pod, status=replace(builder.pod.status, **changes)))


def leaving(builder: PodBuilder, reason: str = "PreemptionByScheduler", status: str = "True") -> PodBuilder:
    """The pod is being deleted, for a reason its conditions give."""
    condition = PodCondition(type="DisruptionTarget", status=status, reason=reason)
    return with_status(builder.terminating(), conditions=(PodCondition(type="Ready"), condition))


def high(cpu: int = 1, priority: int = 10) -> PodBuilder:
    """The pod that wants in."""
    return pod("high").priority(priority).requests(cpu=cpu)


def budget(
    name: str,
    labels: Mapping[str, str] | None,
    allowed: int = 0,
    disrupted: Sequence[str] = (),
    namespace: str = "default",
) -> PodDisruptionBudget:
    """A budget over pods with some labels; None: without a selector."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(
            selector=None if labels is None else LabelSelector(match_labels=dict(labels))
        ),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2025-01-01T00:00:00Z")
        ),
    )


def framework_of(world: Cluster) -> Framework:
    return world.frameworks["default-scheduler"]


def plugin_of(framework: Framework) -> DefaultPreemption:
    plugin = framework.plugins["DefaultPreemption"]
    assert isinstance(plugin, DefaultPreemption)
    return plugin


def preempt(world: Cluster, wanting: PodBuilder, nominated: Nominated | None = None) -> PostFilterResult:
    """Result of DefaultPreemption, the same for nodes tried together or one by one."""
    result = preempt_in_one_way(world, wanting, nominated)
    again = preempt_in_one_way(world, wanting, nominated, one_by_one=True)
    assert told(result) == told(again)
    return result


def preempt_in_one_way(
    world: Cluster, wanting: PodBuilder, nominated: Nominated | None = None, *, one_by_one: bool = False
) -> PostFilterResult:
    """Result of DefaultPreemption. Nodes tried together are not touched: their kept results stay."""
    framework, table = framework_of(world), world.table
    nominations = {}
    for name, pods in (nominated or {}).items():
        row = table.row_of(name)
        assert row is not None
        nominations[row] = [table.info(builder.obj()) for builder in pods]
    info = table.info(wanting.obj())
    own = info.pod.status.nominated_node_name
    evaluation = framework.evaluate(info, nominations, table.row_of(own) if own else None)
    assert not evaluation.feasible_count, "the pod fits without preemption"
    plugin = plugin_of(framework)
    plugin.one_by_one = one_by_one
    plugin.handle.rng.seed(7)
    return run_to_end(plugin.post_filter(evaluation.cycle, info))


def told(result: PostFilterResult) -> PostFilterResult:
    """A result whose parts compare by value."""
    return result._replace(candidates=dict(result.candidates))


def victims(result: PostFilterResult) -> list[str]:
    return [victim.name for victim in result.victims]


def by_node(result: PostFilterResult) -> dict[str, tuple[list[str], int]]:
    """Victims and violated budgets of every candidate."""
    return {
        name: ([victim.name for victim in found.pods], found.violations)
        for name, found in result.candidates.items()
    }


def fresh_chance(framework: Framework, seed: int) -> Random:
    rng = plugin_of(framework).handle.rng
    rng.seed(seed)
    return rng
