"""Preemption for a waiting group, as data and in words."""

from collections.abc import Sequence

import pytest

from scheduler.plugins.defaultpreemption.group_clusters import GroupWorld, gang
from scheduler.plugins.defaultpreemption.preempting import budget, low, small
from stowplan.api.meta import Object
from stowplan.explain.explainers.group import GroupExplainer
from stowplan.explain.terminal.group import render_group
from stowplan.testing import PodBuilder, pod
from stowplan.testing.groups import pod_group

HIGH = "podgroup/default/high"
WALLS = [low("a", "n1", 10, 4), low("b", "n2", 10, 4)]
LOW = [low("a", "n1", 1, 4), low("b", "n2", 1, 4)]


def explained(
    pods: Sequence[PodBuilder], objects: Sequence[Object] = (), count: int = 2, never: bool = False
) -> str:
    """The text about a gang of pods that want 3 CPU each, on two nodes of 4."""
    world = GroupWorld([small("n1"), small("n2")], pods, [gang(count=count), *objects])
    members = [pod(f"high-{n}").priority(10).requests(cpu=3).group("high") for n in range(count)]
    if never:
        members = [builder.spec(preemption_policy="Never") for builder in members]
    world.info(HIGH, {"high": members})
    before = {uid: info.row for uid, info in world.table.pods.items()}
    found = GroupExplainer(world.framework, "a test", placements=False).explain(HIGH)
    assert found is not None
    assert {uid: info.row for uid, info in world.table.pods.items()} == before
    return render_group(found)


def test_who_would_go_and_who_stays() -> None:
    objects = [pod_group("g", disrupted_together=True), budget("b", {"app": "g1"}, 0)]
    pods = [
        low("g1", "n1", 0, 3).group("g"),
        low("g2", "n2", 0, 1).group("g"),
        low("p", "n2", 5, 2),
        low("q", "n1", 1, 1),
    ]
    text = explained(pods, objects)
    assert "Preemption would make room: 3 pods would go\n" in text
    assert "  pod default/p: default/high-" in text
    assert "  group default/g (2 pods): default/high-" in text
    assert ": Insufficient cpu\n" in text
    assert "  1 pod of them against a PodDisruptionBudget\n" in text
    assert "  the only other one of lower priority (pod default/q) stays: there is room for it\n" in text


@pytest.mark.parametrize(
    ("pods", "count", "never", "text"),
    [
        (WALLS, 2, False, "no pod or group of lower priority than 10"),
        (LOW, 3, False, "even without the 2 pods and groups of lower priority than 10: minCount (3) cannot"),
        (LOW, 2, True, "not eligible due to preemptionPolicy=Never"),
    ],
)
def test_why_it_does_not_help(pods: Sequence[PodBuilder], count: int, never: bool, text: str) -> None:
    shown = " ".join(explained(pods, count=count, never=never).split())
    assert f"Preemption does not help: {text}" in shown
