"""Groups that preempt in a running scheduler: messages of victims and members, and interfering events."""

from collections.abc import Awaitable, Generator
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, enabling, live, plugin
from scheduler.metrics.reading import scraped
from scheduler.pod_groups.group_stories import add_composite, add_group, put_members, told_of, with_gates
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.web.evictions import explain_gone, with_evictions
from stowplan.framework import Code, Status, Wait, unschedulable
from stowplan.framework.advanced import PodGroupPostFilterResult

FOUND = "pod group preemption: found a placement for podgroup, preempting {} victims"


async def full(world: World, **about: Any) -> None:
    """Two nodes full of unimportant pods."""
    for name in ("n1", "n2"):
        world.add_node(name, cpu="4")
        await world.add_pod(f"low-{name}", cpu="4", **about)


def gate_of(world: World) -> Any:
    return world.scheduler.context.profiles["default-scheduler"].framework.plugins["DefaultPreemption"]


def test_victims_go_and_the_group_comes() -> None:
    async def story(world: World) -> None:
        await full(world)
        made = add_group(world, "g", 2, priority=10)
        names = put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        uid = made["metadata"]["uid"]
        for victim in ("low-n1", "low-n2"):
            mark = world.condition(victim, "DisruptionTarget")
            text = "default-scheduler: preempting to accommodate a higher priority podgroup"
            assert (mark["reason"], mark["message"]) == ("PreemptionByScheduler", text)
            assert "deletionTimestamp" in world.pod(victim)["metadata"]
            [event] = world.events(victim, "Preempted")
            assert event["note"] == f"Preempted by podgroup {uid} on node cluster"
            related = event["related"]
            assert (related["kind"], related["apiVersion"], related["name"], related["uid"]) == (
                "PodGroup",
                "scheduling.k8s.io/v1beta1",
                "g",
                uid,
            )
        assert sorted(world.nominated(name) for name in names) == ["n1", "n2"]
        assert told_of(world, "g").endswith(FOUND.format(2))
        for victim in ("low-n1", "low-n2"):
            world.delete_pod(victim)
        await world.settle(30)
        assert sorted(world.node_of(name) for name in names) == ["n1", "n2"]
        assert told_of(world, "g") == ""
        assert set(world.problems) <= {"Error scheduling pod; retrying"}

    live(story, config=with_gates())


def test_who_went_for_a_group_is_remembered() -> None:
    async def story(world: World) -> None:
        await full(world)
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        nothing = PodDocument(pod="", state="placed", source="")
        evicted = with_evictions(nothing, world.scheduler, _pod(world, "low-n1")).evicted
        assert evicted is not None
        assert evicted.by == ("group d/g",)
        assert sorted(evicted.victims) == ["d/low-n1", "d/low-n2"]
        made = with_evictions(nothing, world.scheduler, _pod(world, "g-0")).evictions
        assert made is not None
        assert made.preemption is not None
        assert made.preemption.message == FOUND.format(2)
        world.delete_pod("low-n1")
        await world.settle()
        gone = explain_gone(world.scheduler, "d/low-n1")
        assert gone is not None
        assert gone.message.startswith("evicted for group d/g, ")

    live(story, config=with_gates())


def _pod(world: World, name: str) -> Pod:
    found = world.scheduler.context.find(f"d/{name}")
    assert found is not None
    return found


def test_a_group_of_groups_is_named_as_what_it_is() -> None:
    async def story(world: World) -> None:
        await full(world)
        top = add_composite(world, "top", 2, priority=10)
        for part in ("x", "y"):
            add_group(world, part, 1, priority=10, parentCompositePodGroupName="top")
            put_members(world, part, 1, "3", priority=10)
        await world.settle(0.5)
        [event] = world.events("low-n1", "Preempted")
        assert event["note"] == f"Preempted by compositepodgroup {top['metadata']['uid']} on node cluster"
        assert event["related"]["apiVersion"] == "scheduling.k8s.io/v1alpha3"
        text = "default-scheduler: preempting to accommodate a higher priority compositepodgroup"
        assert world.condition("low-n1", "DisruptionTarget")["message"] == text

    live(story, config=with_gates("TopologyAwareWorkloadScheduling", "CompositePodGroup"))


def test_a_group_that_goes_together_is_evicted_from_all_its_nodes() -> None:
    async def story(world: World) -> None:
        add_group(world, "low", 2, disruptionMode={"all": {}})
        for name in ("n1", "n2"):
            world.add_node(name, cpu="4")
        victims = put_members(world, "low", 2, "3")
        await world.settle(0.5)
        assert all(world.node_of(name) for name in victims)
        await world.add_pod("single", cpu="3", priority=10)
        assert all("deletionTimestamp" in world.pod(name)["metadata"] for name in victims)

    live(story, config=with_gates())


@pytest.mark.parametrize("others", [("low-n1",), ("low-n2",), ("low-n1", "low-n2")])
def test_a_group_is_tried_again_though_somebody_else_deleted_victims_before_their_turn(
    others: tuple[str, ...],
) -> None:
    async def story(world: World) -> None:
        await full(world, terminationGracePeriodSeconds=0)
        add_group(world, "g", 2, priority=10)
        await world.settle()
        names = put_members(world, "g", 2, "3", priority=10)
        world.wire.seconds = 4.0
        await world.settle(0.5)
        for victim in others:
            world.delete_pod(victim)
        await world.settle(2)
        assert world.place_of(names[0]) == "gated"
        world.wire.seconds = 0.0
        await world.settle(30)
        assert sorted(world.node_of(name) for name in names) == ["n1", "n2"]

    live(story, config=with_gates())


def test_while_victims_are_being_told_the_group_stays_out_of_the_queue() -> None:
    async def story(world: World) -> None:
        await full(world)
        made = add_group(world, "g", 2, priority=10)
        await world.settle()
        put_members(world, "g", 2, "3", priority=10)
        world.wire.seconds = 4.0
        await world.settle(5)
        gate = gate_of(world)
        assert list(gate.under_way) == [made["metadata"]["uid"]]
        await world.settle(4)
        info = world.scheduler.context.cache.table.info(world.queue.get("d/g-0").pod.pod)
        said = gate.pre_enqueue(info)
        assert said.message == "waiting for the preemption for this pod group to be finished"
        world.wire.seconds = 0.0
        await world.settle(60)
        assert gate.under_way == {}
        for victim in ("low-n1", "low-n2"):
            if world.has_pod(victim):
                world.delete_pod(victim)
        await world.settle(60)
        assert all(world.node_of(name) for name in ("g-0", "g-1"))

    live(story, config=with_gates())


@pytest.mark.parametrize("asynchronous", [True, False])
def test_an_error_of_the_server_lets_the_group_try_again(asynchronous: bool) -> None:
    async def story(world: World) -> None:
        await full(world)
        world.wire.answer("DELETE pods/low-n1", ApiError(403, "Forbidden", "no"))
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(10)
        assert "Tried to preempted pod" in world.problems
        deleted = {one for one in world.wire.shorts if one.startswith("DELETE")}
        assert deleted == {"DELETE pods/low-n1", "DELETE pods/low-n2"}
        assert gate_of(world).under_way == {}

    live(story, config=with_gates(SchedulerAsyncPreemption=asynchronous))


def test_victims_that_are_going_already_are_not_told_again() -> None:
    async def story(world: World) -> None:
        await full(world)
        for victim in ("low-n1", "low-n2"):
            world.delete_pod(victim, now=False)
        await world.settle()
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        assert told_of(world, "g").endswith(FOUND.format(2))
        assert not [one for one in world.wire.shorts if one.startswith("DELETE")]
        assert gate_of(world).under_way == {}

    live(story, config=with_gates())


def test_a_victim_that_has_no_node_yet_is_stopped_in_memory() -> None:
    holding = plugin("Holding", permit=lambda self, cycle, pod, node: Wait(600) if pod.priority < 5 else None)

    async def story(world: World) -> None:
        world.add_node("n1", cpu="4")
        await world.add_pod("waits", cpu="3")
        assert world.node_of("waits") == ""
        made = add_group(world, "g", 1, priority=10)
        put_members(world, "g", 1, "3", priority=10)
        await world.settle(5)
        uid = made["metadata"]["uid"]
        note = f"Preempted by podgroup {uid} on node cluster (in kube-scheduler memory)."
        assert world.notes("waits", "Preempted") == [note]
        assert not [one for one in world.wire.shorts if one.startswith("DELETE")]
        assert world.node_of("g-0") == "n1"

    config = configured(enabling(holding), gates=with_gates().gates)
    live(story, config=config, plugins=[holding])


def test_victims_of_a_plugin_from_outside_go_too() -> None:
    def choose(self: Any, cycle: Any, group: Any, schedule: Any) -> PodGroupPostFilterResult:
        victims = tuple(info.pod for info in cycle.table.pods.values() if info.priority < 5)
        return PodGroupPostFilterResult(Status(Code.SUCCESS), victims=victims)

    own = plugin("Own", pod_group_post_filter=choose)

    async def story(world: World) -> None:
        await full(world)
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        assert all("deletionTimestamp" in world.pod(name)["metadata"] for name in ("low-n1", "low-n2"))

    points = {"podGroupPostFilter": {"enabled": [{"name": "Own"}], "disabled": [{"name": "*"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": points}
    live(story, config=configured(profile, gates=with_gates().gates), plugins=[own])


def test_a_plugin_is_told_when_what_it_waits_for_fails() -> None:
    async def fail() -> None:
        raise ValueError("gone")

    def wait(
        self: Any, cycle: Any, group: Any, schedule: Any
    ) -> Generator[Awaitable[None], None, PodGroupPostFilterResult]:
        try:
            yield fail()
        except ValueError as failure:
            return PodGroupPostFilterResult(unschedulable(f"what it waited for is {failure}"))
        return PodGroupPostFilterResult(unschedulable("it did not fail"))

    own = plugin("Own", pod_group_post_filter=wait)

    async def story(world: World) -> None:
        await full(world)
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        assert told_of(world, "g").endswith("what it waited for is gone")

    points = {"podGroupPostFilter": {"enabled": [{"name": "Own"}], "disabled": [{"name": "*"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": points}
    live(story, config=configured(profile, gates=with_gates().gates), plugins=[own])


def test_preemption_by_groups_is_counted() -> None:
    async def story(world: World) -> None:
        await full(world)
        add_group(world, "g", 2, priority=10)
        put_members(world, "g", 2, "3", priority=10)
        await world.settle(0.5)
        metrics = world.scheduler.context.metrics
        assert scraped(metrics, "workload_preemption_attempts_total") == {("Success",): 1}
        assert scraped(metrics, "workload_preemption_victims_sum") == {(): 2}
        durations = "preemption_{}_duration_seconds_count"
        assert scraped(metrics, durations.format("evaluation")) == {("podgroup", "Success"): 1}
        assert scraped(metrics, durations.format("execution")) == {("podgroup", "success"): 1}
        assert scraped(metrics, "preemption_victims_sum") in ({}, {(): 0})

    live(story, config=with_gates())


SPREAD = {
    "maxSkew": 5,
    "topologyKey": "rack",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "g"}},
}


@pytest.mark.parametrize("constraints", [[], [SPREAD]], ids=["estimated", "tried one by one"])
def test_room_in_a_placement_other_than_the_first_requeues_the_group(constraints: list[Any]) -> None:
    """The first placement, whose status is reported, is rejected by taints alone: no pod matters to it."""

    async def story(world: World) -> None:
        taint = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}
        world.add_node("n1", cpu="4", labels={"rack": "a"}, taints=[taint])
        world.add_node("n2", cpu="4", labels={"rack": "b"})
        await world.add_pod("low", cpu="4", terminationGracePeriodSeconds=20)
        add_group(world, "g", 1, priority=10, schedulingConstraints={"topology": [{"key": "rack"}]})
        [name] = put_members(world, "g", 1, "3", priority=10, topologySpreadConstraints=constraints)
        await world.settle(15)
        assert "untolerated taint" in world.message(name)
        assert world.nominated(name) == "n2"
        world.delete_pod("low")
        await world.settle(15)
        assert world.node_of(name) == "n2"

    live(story, config=with_gates("TopologyAwareWorkloadScheduling"))
