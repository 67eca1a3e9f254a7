"""Preemption for groups: who goes, who is reprieved, what is said; some of it for any small cluster."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from scheduler.plugins.defaultpreemption.group_clusters import GroupWorld, gang, names
from scheduler.plugins.defaultpreemption.preempting import budget, leaving, low, small, with_status
from stowplan.api.meta import Object
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    PodGroupPostFilterResult,
    ProposedAssignment,
    finish,
)
from stowplan.scheduler.framework.simulation import SimulatedRows
from stowplan.scheduler.plugins.defaultpreemption.importance import violations_of
from stowplan.scheduler.plugins.defaultpreemption.units import Units
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import NodeBuilder, PodBuilder, pod
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.groups import composite_pod_group, pod_group

PREFIX = "pod group preemption: "
HIGH = "podgroup/default/high"


def members(count: int, cpu: int = 2, group: str = "high", priority: int = 10) -> list[PodBuilder]:
    """Pods of a group that wants in."""
    return [
        pod(f"{group}-{number}").priority(priority).requests(cpu=cpu).group(group) for number in range(count)
    ]


def preempt(
    pods: Sequence[PodBuilder],
    objects: Sequence[Object] = (),
    wanting: Sequence[PodBuilder] | None = None,
    nodes: Sequence[NodeBuilder] = (),
    gates: Sequence[str] = (),
) -> PodGroupPostFilterResult:
    """Two nodes of 4 CPU, and a gang of two pods that want 2 CPU each."""
    wanting = members(2) if wanting is None else wanting
    groups = {obj.name for obj in objects if obj.kind == "PodGroup"}
    own = [] if "high" in groups else [gang(count=len(wanting))]
    world = GroupWorld(nodes or [small("n1"), small("n2")], pods, [*own, *objects], *gates)
    return world.preempt(world.info(HIGH, {"high": wanting}))


def of(group: str, name: str, on: str, priority: int = 0, cpu: int = 1, **more: Any) -> PodBuilder:
    return low(name, on, priority, cpu, **more).group(group)


FULL = [low("a", "n1", 1, 4), low("b", "n2", 2, 4)]

GOING = [
    pytest.param(FULL, [], ["b", "a"], id="members get nodes as if nobody were in the way"),
    pytest.param(
        [low(f"p{n}", "n1", n, 1) for n in range(4)] + [low("wall", "n2", 10, 4)],
        [],
        ["p3", "p2", "p1", "p0"],
        id="all pods that are in the way go, the most important is named first",
    ),
    pytest.param(
        [low("a", "n1", 1, 2), low("b", "n1", 2, 2), low("c", "n2", 3, 2), low("d", "n2", 4, 2)],
        [],
        ["c", "a"],
        id="on the nodes of members the more important pods stay",
    ),
    pytest.param(
        [of("g", "g1", "n1", cpu=4), of("g", "g2", "n2", cpu=4)],
        [pod_group("g", disrupted_together=True)],
        ["g1", "g2"],
        id="a group that goes together goes as a whole",
    ),
    pytest.param(
        [of("g", "g1", "n1", cpu=4), of("g", "g2", "n2", cpu=2)],
        [pod_group("g")],
        ["g1"],
        id="another goes pod by pod",
    ),
    pytest.param(
        [of("g", "g1", "n1", 0, 2), low("p", "n1", 0, 2), low("wall", "n2", 10, 1)],
        [pod_group("g", disrupted_together=True)],
        ["p"],
        id="a group is reprieved before a pod of its priority",
    ),
    pytest.param(
        [of("g", "g1", "n1", 0, 4), low("p", "n2", 3, 4)],
        [pod_group("g", priority=20)],
        ["p"],
        id="members of a group of high priority are not touched",
    ),
    pytest.param(
        [low("a", "n1", 1, 2).labels(team="red"), low("b", "n1", 2, 2), low("wall", "n2", 10, 1)],
        [budget("none", {"team": "red"}, allowed=0)],
        ["b"],
        id="a pod under a budget is reprieved first",
    ),
]


@pytest.mark.parametrize(("pods", "objects", "gone"), GOING)
def test_who_goes(pods: Sequence[PodBuilder], objects: Sequence[Object], gone: Sequence[str]) -> None:
    result = preempt(pods, objects)
    assert names(result) == gone
    text = f"{PREFIX}found a placement for podgroup, preempting {len(gone)} victims"
    assert (result.status.code.label, result.status.message) == ("Success", text)


def test_members_are_nominated_to_their_nodes() -> None:
    result = preempt([low("a", "n1", 1, 4), low("wall", "n2", 10, 2)], [gang(count=3)], members(3))
    assert sorted(result.nominations.values()) == ["n1", "n1", "n2"]


NOT_HELPFUL = [
    pytest.param([low("wall", "n1", 10, 4), low("too", "n2", 10, 4)], None, "UnschedulableAndUnresolvable",
                 "No preemption victims found for incoming preemptor", id="nobody of lower priority"),
    pytest.param(FULL, members(3, cpu=4), "Unschedulable",
                 "deallocation and deletion of ResourceClaims completed, pod group preemption: "
                 "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining", id="not even without them"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "wanting", "code", "text"), NOT_HELPFUL)
def test_why_nobody_goes(
    pods: Sequence[PodBuilder], wanting: Sequence[PodBuilder] | None, code: str, text: str
) -> None:
    result = preempt(pods, wanting=wanting)
    assert not result.victims
    assert not result.nominations
    said = result.status.message
    assert (result.status.code.label, said.removeprefix(PREFIX)) == (code, text)


@pytest.mark.parametrize(
    ("gates", "of_group", "of_pods", "preempts"),
    [
        ((), None, None, True),
        ((), None, "Never", False),
        ((), "Never", None, True),
        (("PodGroupPreemptionPolicy",), "Never", "Never", False),
        (("PodGroupPreemptionPolicy",), None, "Never", True),
        (("PodGroupPreemptionPolicy",), "PreemptLowerPriority", None, True),
    ],
)
def test_the_policy_of_the_pods_or_of_the_group(
    gates: Sequence[str], of_group: str | None, of_pods: str | None, preempts: bool
) -> None:
    wanting = [builder.spec(preemption_policy=of_pods) for builder in members(2)]
    result = preempt(FULL, [gang(preemption_policy=of_group)], wanting, gates=gates)
    assert bool(result.victims) is preempts
    if not preempts:
        assert result.status.message.endswith(f"{PREFIX}not eligible due to preemptionPolicy=Never.")


def test_a_group_waits_for_victims_that_are_going() -> None:
    wanting = members(2)
    wanting[1] = with_status(wanting[1], nominated_node_name="n1")
    going = [leaving(low("a", "n1", 1, 4)), low("b", "n2", 2, 4)]
    result = preempt(going, wanting=wanting)
    assert result.status.message == f"{PREFIX}ongoing preemption on nominated nodes"
    assert result.status.is_success
    assert not result.victims
    assert sorted(result.nominations.values()) == ["", "n1"]


def test_a_victim_that_is_going_already_is_a_victim() -> None:
    assert names(preempt([leaving(low("a", "n1", 1, 4)), low("wall", "n2", 10, 4)])) == ["a"]


def test_budgets_and_groups_are_counted() -> None:
    objects = [pod_group("g", disrupted_together=True), budget("none", {"team": "red"}, allowed=1)]
    pods = [of("g", f"g{n}", "n1", cpu=2).labels(team="red") for n in range(2)]
    found = preempt([*pods, low("wall", "n2", 10, 4)], objects).preemption
    assert found is not None
    assert (found.candidates, found.victim_units, found.violations, found.disruptions) == (1, 1, 1, 1)
    [victim] = found.victims
    assert (victim.unit, victim.pods, victim.violations) == ("podgroup/default/g", 2, 1)
    assert victim.problem == "default/high-0 would not fit on n1: Insufficient cpu"


def test_a_composite_group_preempts_for_all_its_parts() -> None:
    objects = [
        composite_pod_group("top", min_group_count=2, priority=10),
        gang("x", 1, parent="top"),
        gang("y", 1, parent="top"),
    ]
    gates = ("TopologyAwareWorkloadScheduling", "CompositePodGroup")
    world = GroupWorld([small("n1"), small("n2")], FULL, objects, *gates)
    parts = {name: members(1, 4, name) for name in ("x", "y")}
    result = world.preempt(world.info("compositepodgroup/default/top", parts))
    assert names(result) == ["b", "a"]
    assert len(result.nominations) == 2


def test_placements_count_in_the_trial() -> None:
    nodes = [small("n1").labels(rack="r1"), small("n2").labels(rack="r2"), small("n3").labels(rack="r2")]
    pods = [low("a", "n1", 1, 4), low("b", "n2", 2, 4), low("c", "n3", 3, 4)]
    gates = ("TopologyAwareWorkloadScheduling",)
    result = preempt(pods, [gang(topology="rack", count=2)], members(2, cpu=3), nodes, gates)
    assert names(result) == ["c", "b"]


def test_a_pod_that_keeps_its_distance_is_in_the_way_from_afar() -> None:
    """A victim in the same zone, not on the same node."""
    nodes = [small("n1").zone("z"), small("n2").zone("z")]
    pods = [low("wall", "n1", 10, 2), low("hermit", "n2", 1, 1)]
    wanting = [b.anti_affinity(ZONE, {"app": "hermit"}).node_selector({HOSTNAME: "n1"}) for b in members(1)]
    assert names(preempt(pods, [gang(count=1)], wanting, nodes)) == ["hermit"]


# Any small cluster


@st.composite
def running(draw: st.DrawFn, name: str, on: str, groups: Sequence[str]) -> PodBuilder:
    made = pod(name).priority(draw(st.integers(-1, 4))).on(on).requests(cpu=draw(st.integers(1, 2)))
    made = made.labels(app=draw(st.sampled_from("abc")))
    if not draw(st.integers(0, 2)):
        group: str = draw(st.sampled_from(groups))
        made = made.group(group)
    if not draw(st.integers(0, 4)):
        made = made.anti_affinity(draw(st.sampled_from([HOSTNAME, ZONE])), {"app": "a"})
    hour = draw(st.integers(0, 3))
    return with_status(made, start_time=f"2025-01-01T0{hour}:00:00Z") if hour else made


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[NodeBuilder], list[PodBuilder], list[Object], list[PodBuilder]]:
    nodes = [
        small(f"n{n}", draw(st.integers(2, 4))).zone(f"z{n % 2}") for n in range(draw(st.integers(2, 3)))
    ]
    groups = ["g", "h", "missing"]
    objects: list[Object] = [
        pod_group("g", priority=draw(st.integers(0, 5)), disrupted_together=True),
        pod_group("h", priority=draw(st.integers(0, 5)), disrupted_together=draw(st.booleans())),
        budget("b", {"app": draw(st.sampled_from("abc"))}, draw(st.integers(0, 2))),
    ]
    pods = [
        draw(running(f"r{place}-{number}", f"n{place}", groups))
        for place in range(len(nodes))
        for number in range(draw(st.integers(2, 4)))
    ]
    count = draw(st.integers(1, 3))
    wish = draw(st.integers(0, 3))
    wanting = []
    for builder in members(count, draw(st.integers(1, 3)), priority=4):
        made = builder.labels(app=draw(st.sampled_from("abc")))
        if wish == 0:
            made = made.anti_affinity(ZONE, {"app": draw(st.sampled_from("abc"))})
        elif wish == 1:
            made = made.spread(ZONE, {"app": "a"})
        wanting.append(made)
    objects.append(gang(count=draw(st.integers(1, count)), priority=4))
    return nodes, pods, objects, wanting


@settings(max_examples=examples(60))
@given(worlds())
def test_what_holds_for_every_group_preemption(world: Any) -> None:
    nodes, pods, objects, wanting = world
    made = GroupWorld(nodes, pods, objects)
    group = made.info(HIGH, {"high": wanting})
    if finish(made.try_again(group)).status.is_success:
        return
    found = made.preempt(group)
    if not found.status.is_success:
        assert not found.victims
        return
    table = made.table
    units = finish(Units(table).below(table.pods.values(), 99))
    going = {victim.metadata.uid for victim in found.victims}
    for unit in units:
        gone = {info.uid for info in unit.pods} & going
        assert not gone or (len(gone) == len(unit.pods) and unit.priority < 4)
    assert going == slow_victims(made, group, wanting)


@pytest.mark.parametrize(
    ("on", "together", "told"),
    [
        (("n1", "gone"), True, '"gone" from snapshot: nodeinfo not found for node name "gone"'),
        (("n1", "gone"), False, ""),
        (("gone", "gone"), True, ""),
    ],
)
@pytest.mark.parametrize("more", [{}, {"preemption_policy": "Never"}])
def test_preemption_fails_while_a_group_that_only_goes_as_a_whole_has_lost_a_node(
    on: tuple[str, str], together: bool, told: str, more: dict[str, Any]
) -> None:
    """At any priority and for any preemptor, as in kube-scheduler."""
    lost = [of("g", f"lost-{number}", node) for number, node in enumerate(on)]
    groups = [gang(count=2, **more), pod_group("g", priority=30, disrupted_together=together)]
    found = preempt([*lost, *FULL], groups, members(2, cpu=4), gates=["PodGroupPreemptionPolicy"])
    failed = f"{PREFIX}failed to create domain: failed to get node info for node {told}"
    assert failed in found.status.message if told else PREFIX + "failed" not in found.status.message


def test_a_search_that_is_given_up_at_any_step_leaves_the_table_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others run between its steps, and the scheduler may stop there."""
    monkeypatch.setattr("stowplan.scheduler.plugins.defaultpreemption.units.STEP", 1)
    monkeypatch.setattr("stowplan.scheduler.plugins.defaultpreemption.group.STEP", 1)
    monkeypatch.setattr("stowplan.scheduler.plugins.defaultpreemption.units.SORTED_AT_ONCE", 2)
    running = [pod(f"low-{number}").requests(cpu=1).on(f"n{number % 2}") for number in range(8)]
    made = GroupWorld([small("n0", 4), small("n1", 4)], running, [gang(count=2, priority=4)])
    group = made.info(HIGH, {"high": members(2, 2, priority=4)})
    whole, before = made.preempt(group), made.picture()
    assert whole.status.is_success
    for stop in range(1, 1000):
        cycle = GroupCycle(made.table, group)
        assert not finish(made.algorithm.run(group, cycle)).status.is_success
        steps = made.algorithm.points.post_filter_steps(cycle, group, lambda: made.try_again(group))
        taken = sum(1 for _ in islice(steps, stop))
        steps.close()
        if taken < stop:
            break
        assert made.picture() == before
    assert stop > 3 * len(running), "pods are looked at, removed and put back in steps"


def slow_victims(made: GroupWorld, group: Any, wanting: Sequence[PodBuilder]) -> set[str]:
    """The victims by a plain way: after every unit that is put back, each member is evaluated again, in
    order, on the node it got, with all the members before it there."""
    table = made.table
    units = [unit for unit in finish(Units(table).below(table.pods.values(), 4)) if unit.pods[0].row >= 0]
    exceeding = violations_of([unit.pods for unit in units], table.budgets)
    with SimulatedRows(table) as rows:
        for unit in units:
            for info in unit.pods:
                rows.remove_pod(info)
        made.algorithm._rng.seed(0)
        trial = finish(made.try_again(group))
        assert trial.status.is_success
        victims: set[str] = set()
        for protected in (True, False):
            for unit, count in zip(units, exceeding, strict=True):
                if bool(count) is not protected:
                    continue
                for info in unit.pods:
                    rows.restore_pod(info)
                if not all_fit(made, trial.assignments):
                    for info in unit.pods:
                        rows.remove_pod(info)
                    victims |= {info.uid for info in unit.pods}
    return victims


def all_fit(made: GroupWorld, assignments: Sequence[ProposedAssignment]) -> bool:
    table, placed = made.table, []
    try:
        for one in assignments:
            info = table.info(one.pod.pod)
            assert one.cycle is not None
            evaluation = made.framework.evaluate(info)
            ignored = one.cycle.skipped
            statuses = [evaluation.status(one.row)]
            if not statuses[0].is_success and statuses[0].plugin not in ignored:
                return False
            standing = PodInfo(info.pod, info.template)
            table.put_on(standing, one.row)
            placed.append(standing)
        return True
    finally:
        for standing in reversed(placed):
            table.take_off(standing)
