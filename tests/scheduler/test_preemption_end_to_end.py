"""Preemption end to end: victims go, the pod gets its node, and what may come between."""

from itertools import count
from typing import Any

import pytest

from releases import GATES_1_37, V1_36, V1_37
from scheduler.live_scheduler import World, configured, live
from scheduler.metrics.reading import scraped
from stowplan.api.catalogue import POD_DISRUPTION_BUDGETS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.status import ApiError
from stowplan.scheduler.preemption import AT_A_TIME

MARKED = "default-scheduler: preempting to accommodate a higher priority pod"


async def _full(world: World, *names: str, cpu: str = "2", **about: Any) -> None:
    """A node full of unimportant pods."""
    world.add_node("n", cpu="4")
    for name in names:
        await world.add_pod(name, cpu=cpu, **about)


def test_victims_are_marked_deleted_and_told_and_the_pod_comes_when_they_are_gone() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        made = await world.add_pod("high", cpu="4", priority=10)
        for name in ("a", "b"):
            mark = world.condition(name, "DisruptionTarget")
            assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
            assert mark["message"] == MARKED
            assert "deletionTimestamp" in world.pod(name)["metadata"]
            event = world.events(name, "Preempted")[0]
            assert event["note"] == f"Preempted by pod {made['metadata']['uid']} on node n"
            assert (event["type"], event["action"], event.get("related")) == ("Normal", "Preempting", None)
        assert world.nominated("high") == "n"
        found = "found a potential placement for pod on node n, preempting 2 victims"
        assert world.message("high") == f"0/1 nodes are available: 1 Insufficient cpu. preemption: {found}"
        world.delete_pod("a")
        await world.settle(0.5)
        assert world.node_of("high") == ""
        assert "not eligible due to a terminating pod on the nominated node" in world.message("high")
        world.delete_pod("b")
        await world.settle(0.5)
        assert (world.node_of("high"), world.nominated("high")) == ("n", "")
        assert len(world.queue.nominator) == 0
        assert world.problems == []

    live(story, config=configured(gates=GATES_1_37))


def test_victims_that_are_going_already_are_not_told_again() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        world.delete_pod("a", now=False)
        await world.settle()
        await world.add_pod("high", cpu="4", priority=10)
        assert [one for one in world.wire.shorts if one.startswith("DELETE")] == ["DELETE pods/b"]
        assert world.condition("a", "DisruptionTarget") == {}

    live(story)


def test_while_victims_are_being_told_the_pod_stays_out_of_the_queue() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b", "c", "e", cpu="1")
        world.wire.seconds = 4.0
        await world.add_pod("high", cpu="4", priority=10)
        gate: Any = world.scheduler.context.profiles["default-scheduler"].framework.plugins[
            "DefaultPreemption"
        ]
        assert list(gate.under_way.values()) == [None]
        await world.settle(1)
        world.add_node("m")
        await world.settle(1)
        assert world.place_of("high") == "gated"
        world.wire.seconds = 0.0
        await world.settle(30)
        assert gate.under_way == {}
        for name in ("a", "b", "c", "e"):
            world.delete_pod(name)
        await world.settle()
        assert world.node_of("high") == "n"

    live(story)


def test_an_error_of_the_server_lets_the_pod_try_again_at_once() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        world.wire.answer("DELETE pods/a", ApiError(403, "Forbidden", "no"))
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(1)
        assert world.problems[0] == "Tried to preempted pod"
        deleted = [one for one in world.wire.shorts if one.startswith("DELETE")]
        assert (deleted[0], sorted(deleted[1:])) == ("DELETE pods/a", ["DELETE pods/a", "DELETE pods/b"])
        for name in ("a", "b"):
            world.delete_pod(name)
        await world.settle(1)
        assert world.node_of("high") == "n"

    live(story)


def test_a_victim_that_is_gone_already_is_as_good() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", cpu="3")
        world.wire.answer("PATCH pods/a/status", lambda: world.delete_pod("a"))
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(1)
        assert world.node_of("high") == "n"
        assert world.notes("a", "Preempted") == []
        assert world.problems == []

    live(story)


def test_a_nomination_holds_before_the_server_has_heard_of_it() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("a", cpu="2")
        world.wire.seconds = 5.0
        await world.add_pod("high", cpu="3", priority=10)
        await world.add_pod("less", cpu="2", priority=5)
        assert world.nominated("high") == ""
        assert "POST pods/less/binding" not in world.wire.shorts

    live(story)


def test_a_nomination_ends_when_the_pod_is_on_its_way() -> None:
    """Else its room would be counted twice until the server tells that it is bound."""

    async def story(world: World) -> None:
        await _full(world, "a", cpu="3")
        await world.add_pod("high", cpu="2", priority=10)
        world.wire.seconds = 5.0
        world.delete_pod("a")
        await world.settle()
        assert world.wire.shorts[-1] == "POST pods/high/binding"
        await world.add_pod("less", cpu="2")
        assert world.wire.shorts[-1] == "POST pods/less/binding"

    live(story)


def test_pods_of_the_same_importance_keep_their_nominations() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        await world.add_pod("one", cpu="2", priority=10)
        await world.add_pod("two", cpu="2", priority=10)
        await world.settle(0.1)
        assert (world.nominated("one"), world.nominated("two")) == ("n", "n")
        patches = [one.body["status"] for one in world.wire.writes if one.method == "PATCH"]
        assert None not in [patch.get("nominatedNodeName", "") for patch in patches]

    live(story)


def test_a_last_victim_that_is_gone_before_the_server_answers_lets_the_pod_in() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", cpu="3", terminationGracePeriodSeconds=0)
        world.wire.seconds = 4.0
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(7)
        deletion = next(one for one in world.wire.writes if one.short == "DELETE pods/a")
        binding = next(one for one in world.wire.writes if one.short == "POST pods/high/binding")
        assert 2 <= binding.at - deletion.at < 3

    live(story)


@pytest.mark.parametrize("other", ["a", "b"])
def test_a_pod_is_tried_again_though_somebody_else_deleted_a_victim_before_its_turn(other: str) -> None:
    """The last victim may be the one that is gone: no deletion is left that could wake the pod."""

    async def story(world: World) -> None:
        await _full(world, "a", "b", cpu="2", terminationGracePeriodSeconds=0)
        world.wire.seconds = 2.0
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(0.5)
        world.delete_pod(other)
        await world.settle(1)
        assert world.place_of("high") == "gated"
        world.wire.seconds = 0.0
        await world.settle(10)
        assert world.node_of("high") == "n"
        assert world.problems == []

    live(story)


def test_a_gated_pod_is_let_in_by_the_deletion_of_its_last_victim_before_the_server_answers() -> None:
    """Another deletion gates it first: the one it waits for must still be noticed."""

    async def story(world: World) -> None:
        await _full(world, "a", cpu="4")
        world.add_node("m", cpu="100m")
        world.put_pod("other", cpu="100m", nodeName="m")
        world.wire.seconds = 30.0
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(40)
        world.delete_pod("other")
        await world.settle(1)
        assert world.place_of("high") == "gated"
        world.delete_pod("a")
        await world.settle(1)
        assert "POST pods/high/binding" in world.wire.shorts

    live(story)


@pytest.mark.parametrize(("late", "attempts"), [(0.3, 2), (0.8, 3)])
def test_a_preemptor_is_not_tried_before_its_victims_are_seen_going(late: float, attempts: int) -> None:
    """The deletion of another pod is seen just before. More than a second is not waited for."""

    async def story(world: World) -> None:
        await _full(world, "a", "b", terminationGracePeriodSeconds=0)
        world.add_node("m", cpu="100m")
        world.put_pod("other", cpu="100m", nodeName="m")
        await world.settle(1)
        world.wire.late = late
        world.put_pod("high", cpu="4", priority=10)
        world.delete_pod("other")
        await world.settle(30)
        assert world.node_of("high") == "n"
        assert len(world.attempts("high")) == attempts

    live(story, verbosity=3)


def test_victims_of_the_first_preemptors_are_all_gone_before_those_of_others_are_touched() -> None:
    async def story(world: World) -> None:
        many = 2 * AT_A_TIME
        for number in range(many):
            world.add_node(f"n{number}", cpu="2")
            for letter in "ab":
                about = {"nodeName": f"n{number}", "terminationGracePeriodSeconds": 0}
                world.put_pod(f"{letter}{number}", cpu="1", **about)
        await world.settle(1)
        world.wire.seconds = 1.0
        for number in range(many):
            world.put_pod(f"high{number}", cpu="2", priority=10)
        await world.settle(60)
        deleted = [one.at for one in world.wire.writes if one.method == "DELETE"]
        assert len(deleted) == 2 * many
        bound = sorted(one.at for one in world.wire.writes if one.path.endswith("/binding"))
        assert len(bound) == many
        assert bound[0] < deleted[len(deleted) // 2], "half of the victims are still there"

    live(story)


def test_nobody_goes_for_a_preemptor_that_is_deleted_before_its_turn() -> None:
    async def story(world: World) -> None:
        many = AT_A_TIME + 3
        for number in range(many):
            world.add_node(f"n{number}", cpu="2")
            world.put_pod(f"a{number}", cpu="2", nodeName=f"n{number}", terminationGracePeriodSeconds=0)
        await world.settle(1)
        world.wire.seconds = 4.0
        for number in range(many):
            world.put_pod(f"high{number}", cpu="2", priority=10)
            await world.settle(0.01)
        for number in range(AT_A_TIME, many):
            world.delete_pod(f"high{number}")
        await world.settle(60)
        deleted = [one for one in world.wire.shorts if one.startswith("DELETE")]
        assert len(deleted) == AT_A_TIME
        assert all(world.node_of(f"high{number}") for number in range(AT_A_TIME))

    live(story)


def test_a_nomination_is_taken_back_when_victims_of_the_node_have_to_go_for_another() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("a", cpu="2", priority=0)
        await world.add_pod("b", cpu="2", priority=7)
        await world.add_pod("middle", cpu="2", priority=5)
        assert (world.nominated("middle"), "deletionTimestamp" in world.pod("a")["metadata"]) == ("n", True)
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(0.1)
        assert (world.nominated("high"), world.nominated("middle")) == ("n", "")
        assert "deletionTimestamp" in world.pod("b")["metadata"]
        for name in ("a", "b"):
            world.delete_pod(name)
        await world.settle(1)
        assert (world.node_of("high"), world.node_of("middle")) == ("n", "")

    live(story)


@pytest.mark.parametrize(("code", "reason", "told"), [(403, "Forbidden", True), (404, "NotFound", False)])
def test_a_nomination_that_cannot_be_taken_back_is_logged_unless_its_pod_is_gone(
    code: int, reason: str, told: bool
) -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("a", cpu="2", priority=0)
        await world.add_pod("b", cpu="2", priority=7)
        await world.add_pod("middle", cpu="2", priority=5)
        world.wire.answer("PATCH pods/middle/status", ApiError(code, reason, "not now"))
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(0.1)
        text = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
        assert (text in world.problems) == told

    live(story)


def test_a_pod_that_may_not_preempt_waits() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        await world.add_pod("polite", cpu="4", priority=10, preemptionPolicy="Never")
        assert world.message("polite").endswith("preemption: not eligible due to preemptionPolicy=Never.")
        assert world.condition("a", "DisruptionTarget") == {}
        assert world.nominated("polite") == ""

    live(story)


def test_a_budget_that_is_used_up_protects_as_long_as_there_is_another_node() -> None:
    async def story(world: World) -> None:
        budget = {
            "metadata": {"name": "b", "namespace": "d"},
            "spec": {"selector": {"matchLabels": {"app": "kept"}}},
            "status": {"disruptionsAllowed": 0},
        }
        world.store.create(POD_DISRUPTION_BUDGETS, budget)
        for node, app in (("n", "kept"), ("m", "free")):
            world.add_node(node)
            on = {"kubernetes.io/hostname": node}
            await world.add_pod(app, cpu="4", metadata={"labels": {"app": app}}, nodeSelector=on)
        await world.add_pod("high", cpu="4", priority=10)
        assert world.nominated("high") == "m"
        assert "deletionTimestamp" not in world.pod("kept")["metadata"]

    live(story)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_with_or_without_a_task_of_its_own_the_same_comes_of_it(asynchronous: bool) -> None:
    config = configured(gates={"SchedulerAsyncPreemption": asynchronous})

    async def story(world: World) -> None:
        await _full(world, "a", "b")
        await world.add_pod("high", cpu="4", priority=10)
        assert world.nominated("high") == "n"
        for name in ("a", "b"):
            world.delete_pod(name)
        await world.settle(1)
        assert world.node_of("high") == "n"

    live(story, config=config)


def test_a_pod_whose_nominated_node_is_gone_finds_another() -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        await world.add_pod("high", cpu="4", priority=10)
        world.remove_node("n")
        world.add_node("m")
        await world.settle(1)
        assert world.node_of("high") == "m"

    live(story)


def test_a_pod_that_took_the_name_of_a_victim_is_left_alone() -> None:
    """Between the decision and the deletion the victim is replaced by another pod of its name."""

    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("a", cpu="4")
        old = world.pod("a")["metadata"]["uid"]

        def replace() -> None:
            world.delete_pod("a")
            world.put_pod("a", cpu="100m", metadata={"labels": {"new": "yes"}})

        world.wire.answer("PATCH pods/a/status", replace)
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(5)
        new = world.pod("a")["metadata"]
        assert new["uid"] != old
        assert "deletionTimestamp" not in new
        assert world.condition("a", "DisruptionTarget") == {}
        assert world.node_of("high") == "n"

    live(story)


def test_a_victim_that_was_replaced_after_it_was_marked_is_not_deleted_by_name() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        await world.add_pod("a", cpu="4")

        def replace() -> None:
            world.delete_pod("a")
            world.put_pod("a", cpu="100m")

        world.wire.answer("DELETE pods/a", replace)
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(5)
        assert "deletionTimestamp" not in world.pod("a")["metadata"]
        assert world.node_of("high") == "n"

    live(story)


@pytest.mark.parametrize(("release", "result"), [(V1_36, "success"), (V1_37, "error")])
def test_metrics_have_the_real_result_of_a_preemption_since_1_37(release: Release, result: str) -> None:
    async def story(world: World) -> None:
        await _full(world, "a", "b")
        world.wire.always["DELETE pods/a"] = ApiError(403, "Forbidden", "no")
        await world.add_pod("high", cpu="4", priority=10)
        metrics = world.scheduler.context.metrics
        (executed,) = scraped(metrics, "preemption_goroutines_execution_total")
        assert executed == (result,)
        took = scraped(metrics, "preemption_goroutines_duration_seconds_sum")
        assert (took[executed] > 0) is (release is V1_37)

    ticks = count()
    gates = FeatureGates(release=release)
    live(story, config=configured(gates=gates), timer=lambda: next(ticks) * 0.001)


@pytest.mark.parametrize("parallelism", [1, 2, 16])
def test_so_many_victims_are_deleted_at_the_same_time_as_parallelism_says(parallelism: int) -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="5")
        for name in "abcde":
            await world.add_pod(name)
        world.wire.seconds = 1.0
        await world.add_pod("high", cpu="5", priority=10)
        await world.settle(30)
        victims = {f"PATCH pods/{name}/status" for name in "abcde"}
        marked = [one.at for one in world.wire.writes if one.short in victims]
        first = sum(at == marked[0] for at in marked)
        assert (len(marked), first) == (5, min(parallelism, 4)), "the last victim goes alone"

    live(story, config=configured(parallelism=parallelism))


def test_no_more_victims_are_deleted_once_one_could_not_be() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="4")
        for name in "abcd":
            await world.add_pod(name)
        for name in "abcd":
            world.wire.always[f"DELETE pods/{name}"] = ApiError(403, "Forbidden", "no")
        world.wire.seconds = 1.0
        await world.add_pod("high", cpu="4", priority=10)
        await world.settle(0.5)
        world.delete_pod("high")
        await world.settle(20)
        assert sum(one.startswith("DELETE") for one in world.wire.shorts) == 1

    live(story, config=configured(parallelism=1))
