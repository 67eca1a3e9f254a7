"""Eligibility of preemptors, and of nodes."""

import pytest

from releases import V1_36
from scheduler.plugins.defaultpreemption.preempting import (
    by_node,
    framework_of,
    high,
    leaving,
    low,
    plugin_of,
    preempt,
    small,
    with_status,
)
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodSchedulingGroup
from stowplan.scheduler.framework.extension_points import run_to_end
from stowplan.scheduler.framework.interface import Handle, PostFilterResult
from stowplan.scheduler.framework.status import unresolvable, unschedulable
from stowplan.scheduler.plugins.defaultpreemption import DefaultPreemption
from stowplan.scheduler.plugins.defaultpreemption.plugin import DefaultPreemptionArgs
from stowplan.testing import PodBuilder, cluster

TERMINATING = PostFilterResult(
    unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")
)


def test_a_pod_whose_policy_is_never_makes_nobody_go_and_keeps_its_nomination() -> None:
    world = cluster(nodes=[small("n")], pods=[low("victim", "n", cpu=4)])
    result = preempt(world, high().spec(preemption_policy="Never"))
    assert result == PostFilterResult(
        unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
    )
    assert result.nominated_node is None


@pytest.mark.parametrize("policy", [None, "PreemptLowerPriority"])
def test_any_other_policy_lets_a_pod_preempt(policy: str | None) -> None:
    world = cluster(nodes=[small("n")], pods=[low("victim", "n", cpu=4)])
    assert preempt(world, high().spec(preemption_policy=policy)).nominated_node == "n"


def test_while_a_victim_is_leaving_the_nominated_node_no_more_are_made_to_go() -> None:
    world = cluster(
        nodes=[small("n"), small("m")], pods=[leaving(low("v", "n", cpu=4)), low("w", "m", cpu=4)]
    )
    assert preempt(world, high().nominated("n")) == TERMINATING


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(low("v", "n", cpu=4), id="not being deleted"),
        pytest.param(low("v", "n", cpu=4).terminating(), id="being deleted for no stated reason"),
        pytest.param(leaving(low("v", "n", cpu=4), reason="EvictionByEvictionAPI"), id="evicted"),
        pytest.param(leaving(low("v", "n", cpu=4), status="False"), id="condition does not hold"),
        pytest.param(leaving(low("v", "n", cpu=4, priority=10)), id="as important as the pod"),
    ],
)
def test_other_pods_on_the_nominated_node_do_not_hold_preemption_up(there: PodBuilder) -> None:
    world = cluster(nodes=[small("n"), small("m")], pods=[there, low("w", "m", cpu=4, priority=-5)])
    assert preempt(world, high().nominated("n")).nominated_node == "m"


def test_a_pod_whose_nominated_node_became_hopeless_preempts_again() -> None:
    world = cluster(
        nodes=[small("n").unschedulable(), small("m")],
        pods=[leaving(low("v", "n", cpu=4)), low("w", "m", cpu=4)],
    )
    assert preempt(world, high().nominated("n")).nominated_node == "m"


def test_a_pod_whose_nominated_node_is_gone_preempts_again() -> None:
    world = cluster(nodes=[small("m")], pods=[low("w", "m", cpu=4)])
    assert preempt(world, high().nominated("gone")).nominated_node == "m"


def test_with_workload_aware_preemption_pods_of_a_group_are_left_to_it() -> None:
    world = cluster(nodes=[small("n")], pods=[low("victim", "n", cpu=4)], release="1.36")
    group = high().spec(scheduling_group=PodSchedulingGroup(pod_group_name="g"))
    assert preempt(world, group).nominated_node == "n"
    gates = FeatureGates({"WorkloadAwarePreemption": True, "GenericWorkload": True}, V1_36)
    handle = Handle(world.table, gates)
    plugin = DefaultPreemption(DefaultPreemptionArgs(), handle)
    info = world.table.info(group.obj())
    cycle = framework_of(world).evaluate(info).cycle
    assert run_to_end(plugin.post_filter(cycle, info)) == PostFilterResult(
        unschedulable("preemption: not eligible due to workload aware preemption enabled")
    )


def test_only_nodes_rejected_as_unschedulable_are_tried() -> None:
    world = cluster(
        nodes=[
            small("full"),
            small("cordoned").unschedulable(),
            small("tiny", cpu=1),
            small("tainted").taint("t"),
        ],
        pods=[low(f"on-{name}", name) for name in ("full", "cordoned", "tiny", "tainted")],
    )
    world.add(low("more", "full", cpu=3))
    assert by_node(preempt(world, high(cpu=2))) == {"full": (["more"], 0)}


def test_pods_whose_victims_are_being_got_rid_of_stay_out_of_the_queue() -> None:
    world = cluster(nodes=[small("n")])
    plugin, info = plugin_of(framework_of(world)), world.table.info(high().obj())
    assert plugin.pre_enqueue(info) is None
    plugin.under_way[info.uid] = None
    waiting = unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(info) == waiting


def test_a_start_time_that_is_none_is_named_in_one_line() -> None:
    world = cluster(nodes=[small("n")], pods=[with_status(low("odd", "n", cpu=4), start_time="yesterday")])
    with pytest.raises(
        ValueError, match=r"^pod default/odd: status.startTime: expected an RFC 3339 time, got"
    ):
        preempt(world, high())
