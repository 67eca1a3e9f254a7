"""Groups as entities of the queue: where members wait, when a group is tried, and when again."""

import pytest
from msgspec.structs import replace

from scheduler.pod_groups.group_queue import TREES, GroupRig, names, single
from stowplan.api.pod_groups import GangPolicy, SchedulingPolicy
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE, ClusterEvent
from stowplan.scheduler.queue.instrument import QueueInstrument
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError, Backoff
from stowplan.testing import PodBuilder, node, pod
from stowplan.testing.groups import composite_pod_group, pod_group


def members(*names: str, group: str = "g") -> list[PodBuilder]:
    return [pod(name).group(group) for name in names]


def test_members_wait_for_their_group_and_are_popped_together() -> None:
    rig = GroupRig()
    rig.add(*members("b", "a"))
    assert (rig.place("a"), rig.queue.pop()) == ("incomplete", None)
    rig.add(pod_group("g"))
    assert rig.place("a") == "active"
    group = rig.pop()
    assert (names(group), group.key, group.attempts) == (["a", "b"], "podgroup/default/g", 1)
    assert all(member.attempts == 1 and member.uid in rig.queue.in_flight for member in group.pods())
    assert rig.queue.cycle == 1


def test_a_gang_is_held_back_until_enough_members_are_there() -> None:
    rig = GroupRig()
    rig.add(pod_group("g", min_count=3), *members("a", "b"))
    assert rig.place("a") == rig.place("b") == "gated"
    waiting = rig.queue.get("default/b")
    assert waiting is not None
    assert waiting.gate is not None
    assert waiting.gate.message == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert rig.queue.pop() is None
    rig.add(*members("c"))
    assert rig.pop_names() == ["a", "b", "c"]


def test_a_pod_that_runs_counts_for_the_gang() -> None:
    rig = GroupRig()
    rig.add(node("n"), pod_group("g", min_count=2), *members("a"))
    assert rig.place("a") == "gated"
    rig.add(pod("b").group("g").on("n"))
    assert rig.pop_names() == ["a"]


def test_one_pod_with_a_gate_holds_its_group() -> None:
    rig = GroupRig()
    held = pod("b").group("g").gates("later")
    rig.add(pod_group("g"), *members("a"), held)
    assert (rig.place("a"), rig.place("b")) == ("gated", "gated")
    gone = held.gates().obj()
    gone = replace(gone, metadata=replace(gone.metadata, resource_version="2"))
    rig.handlers.update_pod(held.obj(), gone)
    assert rig.pop_names() == ["a", "b"]


def test_lowering_the_minimum_opens_the_gate_and_raising_it_closes_it_at_the_next_chance() -> None:
    rig = GroupRig()
    high, low = pod_group("g", min_count=3), pod_group("g", min_count=2)
    low = replace(low, metadata=replace(low.metadata, resource_version="2"))
    rig.add(high, *members("a", "b"))
    rig.handlers.update_group(high, low)
    assert rig.place("a") == "active"
    higher = replace(
        low,
        metadata=replace(low.metadata, resource_version="3"),
        spec=replace(low.spec, scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=9))),
    )
    rig.handlers.update_group(low, higher)
    assert rig.place("a") == "active"
    rig.add(*members("c"))
    assert rig.place("a") == "gated"


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        ([pod("b"), pod("a")], ["a", "b"]),
        ([pod("low").priority(1), pod("high").priority(5)], ["high", "low"]),
    ],
)
def test_order_of_members(pods: list[PodBuilder], order: list[str]) -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *[one.group("g") for one in pods])
    assert rig.pop_names() == order


def test_members_tried_more_often_come_first() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("z"))
    group = rig.pop()
    rig.add(*members("a"))
    assert rig.place("a") == "pending"
    rig.fail(group)
    rig.wait(3)
    assert rig.pop_names() == ["z", "a"]


def test_groups_are_sorted_by_their_own_priority() -> None:
    rig = GroupRig()
    rig.add(pod_group("g", priority=10), *members("a"))
    rig.add(pod("single").priority(11), pod("low").priority(9))
    assert single(rig.queue.pop()) == "single"
    assert rig.pop_names() == ["a"]
    assert single(rig.queue.pop()) == "low"


def test_backoff_grows_with_the_size_of_the_group() -> None:
    second = 1_000_000_000
    backoff = Backoff(window=1)
    assert backoff.duration(5, 1) == 10 * second
    assert backoff.duration(5, 2) == int(10 * second * 2**0.5)
    assert backoff.duration(5, 4) == 16 * second
    assert [backoff.duration(failures, 16) // second for failures in range(1, 8)] == [1, 2, 4, 8, 16, 32, 40]


def test_a_failed_group_backs_off_and_no_event_wakes_it() -> None:
    rig = GroupRig()
    rig.add(node("n"), pod_group("g"), *members("a", "b"))
    rig.fail(rig.pop(), "rejected", "NodeResourcesFit")
    assert rig.place("a") == "backoff"
    gone = pod("other").requests(cpu="1").on("n").obj()
    rig.happens(ASSIGNED_POD_DELETE, gone)
    assert rig.queue.pop() is None
    rig.wait(1.5)
    assert rig.queue.pop() is None
    rig.wait(1)
    group = rig.pop()
    assert (group.attempts, group.unschedulable_count) == (2, 1)


@pytest.mark.parametrize(("rejector", "helps"), [("NodeResourcesFit", True), ("NodeAffinity", False)])
def test_on_request_events_wake_a_failed_group_as_they_do_pods(rejector: str, helps: bool) -> None:
    rig = GroupRig(wake_failed_groups=True)
    rig.add(node("n"), pod_group("g"), pod("a").group("g").requests(cpu="1"), *members("b"))
    for _ in range(6):
        rig.fail(rig.pop(), "rejected", rejector)
        rig.wait(20)
    rig.fail(rig.pop(), "rejected", rejector)
    rig.happens(ASSIGNED_POD_DELETE, pod("gone").requests(cpu="1").on("n").obj())
    assert (rig.queue.pop() is not None) == helps


def test_an_event_that_helps_during_the_cycle_is_not_lost() -> None:
    rig = GroupRig(wake_failed_groups=True)
    rig.add(node("n"), pod_group("g"), pod("a").group("g").requests(cpu="1"))
    group = rig.pop()
    rig.happens(ASSIGNED_POD_DELETE, pod("other").requests(cpu="1").on("n").obj())
    rig.fail(group, "rejected", "NodeResourcesFit")
    assert rig.pop_names() == ["a"]


def test_a_woken_group_waits_out_its_backoff_while_others_are_ready() -> None:
    rig = GroupRig(wake_failed_groups=True)
    rig.add(node("n"), pod_group("g", priority=5), pod("a").group("g").priority(5).requests(cpu="1"))
    rig.add(pod("other"))
    rig.fail(rig.pop(), "rejected", "NodeResourcesFit")
    rig.happens(ASSIGNED_POD_DELETE, pod("gone").requests(cpu="1").on("n").obj())
    assert rig.place("a") == "backoff"
    assert single(rig.queue.pop()) == "other"


def test_after_an_error_a_group_backs_off_by_its_errors() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    rig.fail(rig.pop(), "error")
    rig.wait(2)
    group = rig.pop()
    assert (group.consecutive_errors, group.unschedulable_count) == (1, 0)


def test_members_left_over_after_a_success_are_tried_at_once_with_the_old_timestamp() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a", "b"))
    group = rig.pop()
    since = group.timestamp
    rig.clock.time += 5
    first, second = group.pods()
    rig.queue.done(first.uid)
    rig.queue.add_unschedulable_if_not_present(second, ("NodeResourcesFit",))
    rig.queue.add_attempted_group(group, "success")
    again = rig.pop()
    assert (names(again), again.timestamp, again.attempts) == (["b"], since, 2)


def test_members_that_came_meanwhile_are_tried_at_once_as_of_now() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    group = rig.pop()
    rig.clock.time += 5
    rig.add(*members("b"))
    rig.queue.done(next(group.pods()).uid)
    rig.queue.add_attempted_group(group, "success")
    again = rig.pop()
    assert (names(again), again.timestamp) == (["b"], rig.clock.time)


def test_a_group_without_members_left_does_not_come_back() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    group = rig.pop()
    rig.queue.done(next(group.pods()).uid)
    rig.queue.add_attempted_group(group, "success")
    assert (len(rig.queue), rig.queue.pop()) == (0, None)


def test_a_group_cannot_come_back_twice() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    group = rig.pop()
    rig.fail(group)
    with pytest.raises(
        AlreadyQueuedError, match=r"^pod group default/g is already present in the backoff queue$"
    ):
        rig.queue.add_attempted_group(group, "rejected")


def test_a_member_that_fails_to_bind_makes_a_new_entity_without_backoff() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    group = rig.pop()
    rig.queue.add_attempted_group(group, "success")
    rig.queue.add_unschedulable_if_not_present(next(group.pods()))
    again = rig.pop()
    assert (again.attempts, again.unschedulable_count, next(again.pods()).attempts) == (1, 0, 2)


def test_deleting_members_and_groups() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a", "b"))
    rig.delete(pod("a").group("g"))
    assert (rig.place("a"), rig.place("b")) == (None, "active")
    rig.delete(pod_group("g"))
    assert rig.place("b") == "incomplete"
    rig.add(pod_group("g", min_count=2))
    assert rig.place("b") == "gated"
    rig.delete(pod("b").group("g"))
    assert (len(rig.queue), list(rig.queue)) == (0, [])


def test_deleting_a_group_in_its_cycle() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    group = rig.pop()
    rig.add(*members("b"))
    rig.delete(pod_group("g"))
    assert rig.place("b") == "incomplete"
    rig.queue.add_unschedulable_if_not_present(next(group.pods()))
    assert rig.place("a") == "incomplete"
    rig.queue.add_attempted_group(group, "error")
    rig.add(pod_group("g"))
    assert rig.pop_names() == ["a", "b"]


def test_activating_a_member_activates_its_group() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a", "b"))
    rig.fail(rig.pop())
    rig.queue.activate([pod("a").group("g").obj()])
    assert rig.pop_names() == ["a", "b"]


def test_a_member_already_in_flight_is_left_out() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a", "b"))
    assert rig.queue.in_flight.begin(pod("a").group("g").obj().metadata.uid)
    assert rig.pop_names() == ["b"]


def test_held_groups_are_tried_again_after_five_minutes() -> None:
    rig = GroupRig()
    rig.add(pod_group("g", min_count=2), *members("a"))
    rig.clock.time += 299
    rig.queue.flush_unschedulable()
    rig.clock.time += 2
    assert rig.queue.next_deadline() is not None
    rig.queue.flush_unschedulable()
    assert rig.place("a") == "gated"


def test_trees_of_groups() -> None:
    rig = GroupRig(*TREES)
    rig.add(pod("x1").group("x"), pod("y1").group("y"))
    rig.add(pod_group("x", parent="top"), pod_group("y", parent="top", min_count=2))
    assert rig.place("x1") == "incomplete"
    rig.add(composite_pod_group("top", min_group_count=2))
    assert rig.place("x1") == "gated"
    queued = rig.queue.get("default/x1")
    assert queued is not None
    assert queued.gate is not None
    assert queued.gate.message == 'waiting for composite pod group "top" tree to meet quorum'
    rig.add(pod("y2").group("y"))
    group = rig.pop()
    assert (group.root, group.key) == ("compositepodgroup/default/top", "podgroup/default/top")
    assert {leaf: [one.pod.name for one in found] for leaf, found in group.members.items()} == {
        "podgroup/default/x": ["x1"],
        "podgroup/default/y": ["y1", "y2"],
    }
    rig.fail(group)
    rig.delete(composite_pod_group("top", min_group_count=2))
    assert [rig.place(name) for name in ("x1", "y1", "y2")] == ["incomplete"] * 3


def test_counts_by_pods_and_by_entities() -> None:
    rig = GroupRig()
    rig.add(pod("single"), pod_group("g"), *members("a", "b"))
    rig.add(pod_group("gated", min_count=5), *members("c", "d", group="gated"))
    rig.add(*members("e", group="unknown"))
    assert rig.queue.counts() == {
        "active": 3,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 2,
        "incomplete": 1,
        "pending": 0,
    }
    assert len(rig.queue) == 6
    assert {labels: count for labels, count in rig.queue.entity_counts().items() if count} == {
        ("active", "pod"): 1,
        ("active", "podgroup"): 1,
        ("gated", "podgroup"): 1,
    }
    assert rig.queue.summary() == (
        "activeQ:3; backoffQ:0; unschedulableEntities:2; pendingPodGroupMemberPods:0; "
        "incompletePodGroupPods:1"
    )
    assert sorted(queued.pod.name for queued in rig.queue) == ["a", "b", "c", "d", "e", "single"]


def test_a_new_pod_is_only_asked_about_for_its_own_group() -> None:
    """So what a new pod costs does not grow with the gangs that wait for their members."""
    asked: list[str] = []

    class Listener(QueueInstrument):
        def before_hint(self, plugin: str, event: ClusterEvent) -> None:
            asked.append(plugin)

    rig = GroupRig(instrument=Listener())
    for number in range(20):
        rig.add(pod_group(f"g{number}", min_count=3), *members(f"a{number}", group=f"g{number}"))
    asked.clear()
    rig.add(pod("single"), *members("b", group="g7"))
    assert len(asked) <= 2


def test_a_group_whose_members_find_a_place_and_never_get_it_backs_off() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    rig.fail(rig.pop(), "success")
    assert rig.place("a") == "backoff"


def test_a_member_that_fails_to_bind_again_and_again_backs_off() -> None:
    rig = GroupRig()
    rig.add(pod_group("g"), *members("a"))
    for place in ("active", "backoff"):
        group = rig.pop()
        rig.queue.add_attempted_group(group, "success")
        rig.queue.add_unschedulable_if_not_present(next(group.pods()))
        assert rig.place("a") == place
