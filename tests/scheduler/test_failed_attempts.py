"""Handling of a pod whose attempt failed: queue, nomination, event and status."""

from typing import Any

import pytest

from releases import V1_36, V1_37
from scheduler.live_scheduler import World, configured, live, plugin
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.status import ApiError, unreachable
from stowplan.scheduler.framework.status import error, unschedulable
from stowplan.scheduler.status_writer import StatusWriter

LIMIT = 1024
"""Maximum size of an event's note in bytes."""


def _says(message: str, *, wrong: bool = False) -> Any:
    """A plugin that rejects every node with a message, or fails with it."""
    said = error(message) if wrong else unschedulable(message)
    return plugin("Says", reserve=lambda self, cycle, pod, node: said)


def test_a_note_is_cut_where_an_event_ends_and_a_condition_is_not() -> None:
    reason = "ä" * 2000

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        full = f"0/1 nodes are available: 1 {reason}."
        assert world.message("p") == full
        note = world.notes("p")[0]
        assert len(note.encode()) <= LIMIT
        assert note.endswith(" ...")
        assert full.startswith(note.removesuffix(" ..."))

    live(story, plugins=[_says(reason)])


@pytest.mark.parametrize("length", [LIMIT, LIMIT + 1])
def test_a_note_that_just_fits_is_left_alone(length: int) -> None:
    frame = 'running Reserve plugin "Says": '
    text = "x" * (length - len(frame))

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        whole = frame + text
        assert world.notes("p") == [whole if length == LIMIT else whole[: LIMIT - 4] + " ..."]

    live(story, plugins=[_says(text, wrong=True)])


def test_a_condition_that_says_the_same_is_not_written_again() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.always["POST pods/p/binding"] = ApiError(500, "InternalError", "x")
        await world.add_pod("p")
        await world.settle(30)
        assert world.wire.shorts.count("POST pods/p/binding") > 4
        assert world.wire.shorts.count("PATCH pods/p/status") == 1

    live(story)


def test_a_changed_message_keeps_the_time_since_when_it_is_so() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("p", cpu="2")
        first = world.condition("p")
        await world.settle(10)
        world.add_node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}])
        await world.settle()
        second = world.condition("p")
        assert second["message"] != first["message"]
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        assert list(world.wire.writes[-1].body["status"]["conditions"][0]) == ["message", "type"]

    live(story)


def test_a_pod_that_is_gone_is_not_put_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n")

        def vanish() -> None:
            world.delete_pod("p")

        world.wire.answer("POST pods/p/binding", vanish)
        await world.add_pod("p")
        await world.settle(5)
        assert world.place_of("p") is None
        assert len(world.queue.in_flight) == 0
        assert world.queue.nominator.node_of("p") is None
        assert world.notes("p") == ['running Bind plugin "DefaultBinder": pods "p" not found']

    live(story, latency=0.01)


def test_a_pod_that_somebody_else_bound_is_not_put_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")

        def bind() -> None:
            world.store.bind("d", "p", {"metadata": {"name": "p"}, "target": {"name": "m"}})

        world.wire.answer("POST pods/p/binding", bind)
        world.put_pod("p", nodeSelector={"kubernetes.io/hostname": "n"})
        await world.settle(5)
        assert world.node_of("p") == "m"
        assert world.place_of("p") is None
        table = world.scheduler.context.cache.table
        assert [table.name_of(info.row) for info in table.pods.values()] == ["m"]
        assert world.problems[0] == "pod d/p was assumed on node n but was bound to m"

    live(story, latency=0.01)


def test_nothing_is_said_about_a_pod_that_has_the_name_of_another() -> None:
    async def story(world: World) -> None:
        world.add_node("n")

        def again() -> None:
            world.delete_pod("p")
            world.put_pod("p", cpu="2")

        world.wire.answer("POST pods/p/binding", again)
        world.put_pod("p")
        await world.settle(5)
        assert world.wire.shorts == ["POST pods/p/binding", "POST pods/p/binding", "Scheduled p"]
        assert world.node_of("p") == "n"

    live(story, latency=0.01)


@pytest.mark.parametrize(
    ("refusals", "tries", "written"),
    [
        ([ApiError(500, "InternalError", "x")] * 2, 3, True),
        ([unreachable("refused")] * 3, 4, True),
        ([unreachable("refused")] * 9, 4, False),
        ([ApiError(403, "Forbidden", "x")], 1, False),
        ([ApiError(404, "NotFound", "x")], 1, False),
    ],
)
def test_a_status_that_cannot_be_written_is_tried_again_for_a_moment(
    refusals: list[ApiError], tries: int, written: bool
) -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        world.wire.answer("PATCH pods/p/status", *refusals)
        await world.add_pod("p", cpu="2")
        await world.settle(0.9)
        assert world.wire.shorts.count("PATCH pods/p/status") == tries
        assert (world.message("p") != "") is written
        assert world.problems == ([] if written else ["Error updating pod"])
        assert len(world.events("p")) == 1

    live(story)


def test_what_is_wanted_while_a_write_is_under_way_is_written_after_it_and_only_the_last_of_it() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        world.wire.seconds = 10.0
        world.put_pod("p", cpu="2")
        for number in range(3):
            await world.settle(1)
            world.add_node(f"tainted-{number}", taints=[{"key": "k", "effect": "NoSchedule"}])
        await world.settle(30)
        patches = [one for one in world.wire.writes if one.short == "PATCH pods/p/status"]
        assert len(patches) == 2
        assert patches[1].at >= patches[0].at + 10
        assert world.message("p").startswith("0/4 nodes are available")

    live(story)


@pytest.mark.parametrize(("last", "nominated"), [(None, "m"), ("", ""), ("k", "k")])
def test_a_nomination_is_not_lost_among_writes_that_wait(last: str | None, nominated: str) -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", schedulerName="somebody-else")
        world.wire.seconds = 10.0
        known = world.scheduler.pod("d/p")
        assert known is not None
        writer = StatusWriter(world.scheduler.context)
        for message, node in (("first", None), ("second", "m"), ("third", last)):
            writer.submit(known, "Unschedulable", message, node)
        await world.settle(30)
        assert (world.message("p"), world.nominated("p")) == ("third", nominated)
        assert len(world.wire.writes) == 2

    live(story)


def test_what_happened_is_told_also_if_the_scheduler_stops_right_after() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.seconds = 1.0
        await world.add_pod("p")
        await world.settle(1.2)
        assert world.events("p") == []

    world = live(story)
    assert world.notes("p") == ["Successfully assigned d/p to n"]


def test_a_pod_whose_own_change_may_help_it_is_tried_again() -> None:
    async def story(world: World) -> None:
        world.add_node("n", taints=[{"key": "k", "effect": "NoSchedule"}])
        await world.add_pod("p")
        tolerant = [{"key": "k", "operator": "Exists"}]
        world.patch_pod("p", {"spec": {"tolerations": tolerant}})
        await world.settle()
        assert world.node_of("p") == "n"

    live(story)


def test_the_last_decision_about_a_pod_can_be_looked_at() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        await world.add_pod("p")
        await world.add_pod("q", cpu="2")
        decisions = world.scheduler.context.decisions
        bound, waiting = decisions.by_key("d/p"), decisions.by_key("d/q")
        assert bound is not None
        assert waiting is not None
        assert (bound.outcome, bound.attempts) == ("bound", 1)
        assert bound.message == "Successfully assigned d/p to n"
        assert (waiting.outcome, waiting.message) == ("unschedulable", world.message("q"))

    live(story)


def test_a_nomination_announced_in_an_attempt_that_failed_is_taken_back_though_it_was_not_heard_of_yet() -> (
    None
):
    async def fails(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        return error("not today")

    async def story(world: World) -> None:
        world.add_node("n")
        world.put_pod("p", preemptionPolicy="Never")
        await world.settle(0.5)
        assert "PATCH pods/p/status" in world.wire.shorts
        assert world.nominated("p") == ""

    live(story, plugins=[plugin("Slow", pre_bind=fails)])


def test_a_pod_made_anew_under_the_name_is_not_told_what_became_of_the_old_one() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.seconds = 2
        world.put_pod("p", cpu="100")
        await world.settle(0.5)
        world.change_node("n", taints=[{"key": "k", "effect": "NoSchedule"}])
        await world.until(1.5)
        assert "0/1 nodes" in world.message("p")
        world.delete_pod("p")
        world.put_pod("p", schedulingGates=[{"name": "g"}])
        await world.settle(10)
        assert world.condition("p").get("reason") == "SchedulingGated"

    live(story)


@pytest.mark.parametrize(
    ("release", "other", "problem"),
    [
        (V1_36, "n", "pod {uid}(d/p) wasn't assumed so cannot be forgotten"),
        (V1_37, "n", "pod {uid}(d/p) is not assumed, so it cannot be removed or forgotten"),
        (V1_37, "m", "pod {uid}(d/p) was assumed on n but assigned to m"),
    ],
)
def test_a_pod_that_was_bound_though_its_binding_failed_cannot_be_forgotten(
    release: Release, other: str, problem: str
) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")

        def bind() -> None:
            world.store.bind("d", "p", {"metadata": {"name": "p"}, "target": {"name": other}})

        world.wire.answer("POST pods/p/binding", bind)
        made = world.put_pod("p", nodeSelector={"kubernetes.io/hostname": "n"})
        await world.settle(5)
        said = [values["err"] for _, _, message, values in world.told if message == "ForgetPod failed"]
        assert said == [problem.format(uid=made["metadata"]["uid"])]
        assert world.node_of("p") == other

    live(story, latency=0.01, config=configured(gates=FeatureGates(release=release)))
