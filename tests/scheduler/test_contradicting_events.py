"""News that contradict, vanish or cannot be read."""

import pytest
from msgspec.structs import replace

from scheduler.live_scheduler import World, live, node, pod
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.status import ApiError
from stowplan.scheduler import CacheCorruptedError


def test_a_pod_that_changes_its_node_ends_everything() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        world.patch_pod("p", {"spec": {"nodeName": "m"}})
        await world.settle(1)
        raise AssertionError("the scheduler went on")

    with pytest.raises(CacheCorruptedError, match=r"^pod d/p was on node 'n' and is said to be on 'm'$"):
        live(story)


def test_a_pod_that_is_said_to_have_left_another_node_ends_everything() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        known = world.scheduler.context.cache.table.pods[world.pod("p")["metadata"]["uid"]].pod
        world.scheduler.context.cache.remove_pod(replace(known, spec=replace(known.spec, node_name="m")))

    with pytest.raises(CacheCorruptedError, match=r"^pod d/p was on node 'n' and is said to have left 'm'$"):
        live(story)


def test_a_run_without_a_story_ends_the_same_way() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")

    async def both(world: World) -> None:
        await story(world)
        world.patch_pod("p", {"spec": {"nodeName": "m"}})
        await world.scheduler.context.recorder.drain()
        await world.settle(100)

    with pytest.raises(CacheCorruptedError):
        live(both)


def test_a_failure_of_the_story_is_what_comes_out() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        raise LookupError("the story's own")

    with pytest.raises(LookupError, match="the story's own"):
        live(story)


def test_pods_of_a_node_that_vanished_are_counted_when_it_comes_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        await world.add_pod("p")
        world.remove_node("n")
        await world.settle()
        await world.add_pod("q", cpu="2")
        assert world.message("q") == "no nodes available to schedule pods"
        world.add_node("n", cpu="2")
        await world.settle(3)
        assert "Insufficient cpu" in world.message("q")
        world.delete_pod("p")
        await world.settle(1)
        assert world.node_of("q") == "n"
        assert world.problems == []

    live(story)


def test_a_node_that_vanishes_while_a_pod_is_on_its_way_there() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.seconds = 1.0
        await world.add_pod("p")
        world.remove_node("n")
        await world.settle(5)
        assert world.problems == []
        table = world.scheduler.context.cache.table
        assert (table.node_count, len(world.scheduler.context.cache.assumed)) == (0, 0)
        world.wire.seconds = 0.0
        world.add_node("m")
        await world.add_pod("q")
        await world.settle(3)
        assert world.node_of("q") == "m"

    live(story)


def test_a_pod_that_is_deleted_on_its_way_to_a_node_leaves_its_room_at_once() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        world.wire.seconds = 30.0
        await world.add_pod("p")
        await world.add_pod("q")
        assert "POST pods/q/binding" not in world.wire.shorts
        world.delete_pod("p")
        await world.settle()
        assert "POST pods/q/binding" in world.wire.shorts
        await world.settle(60)
        assert world.node_of("q") == "n"
        assert len(world.scheduler.context.cache.table.pods) == 1

    live(story)


def test_objects_that_cannot_be_read_are_left_out_and_counted() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="2")
        world.store.create(NODES, node("odd", cpu="many"))
        world.store.create(PODS, pod("q", cpu="lots", nodeName="n"))
        await world.settle()
        await world.add_pod("p")
        assert world.node_of("p") == "n"
        assert world.scheduler.context.cache.skipped == 2
        assert sorted(one.partition(":")[0] for one in world.problems) == ["node odd", "pod d/q"]
        assert all(one.endswith("; the object is left out") for one in world.problems)

    live(story)


def test_a_pod_whose_requests_cannot_be_read_does_not_hold_up_others() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("bad", cpu="lots")
        await world.add_pod("good")
        assert (world.node_of("bad"), world.node_of("good")) == ("", "n")
        assert len(world.problems) >= 1
        world.delete_pod("bad")
        await world.settle()
        await world.add_pod("too")
        assert world.node_of("too") == "n"

    live(story)


def test_a_pod_of_another_shape_than_a_pod_is_reported_and_passed_over() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.store.create(PODS, {"metadata": {"name": "odd", "namespace": "d"}, "spec": {"containers": 7}})
        await world.settle()
        await world.add_pod("p")
        assert world.node_of("p") == "n"
        unreadable = [
            about for *_, message, about in world.told if message.startswith("Object cannot be read")
        ]
        assert [str(about["object"]) for about in unreadable] == ["d/odd"]

    live(story)


def test_a_finished_pod_gives_its_room_back() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("p")
        await world.add_pod("q")
        assert world.node_of("q") == ""
        world.patch_pod("p", {"status": {"phase": "Succeeded"}}, "status")
        await world.settle()
        assert world.node_of("q") == "n"

    live(story)


def test_what_was_there_before_the_scheduler_is_known_when_it_begins() -> None:
    async def before(world: World) -> None:
        world.add_node("n", cpu="2")
        world.put_pod("old", cpu="2", nodeName="n")
        world.put_pod("new", cpu="1")

    async def story(world: World) -> None:
        await world.settle()
        assert "Insufficient cpu" in world.message("new")

    live(story, before=before)


def _refusal() -> ApiError:
    """An error after which a binding is not sent again, in any release."""
    return ApiError(403, "Forbidden", "x")


def test_a_pod_that_becomes_unreadable_while_it_is_tried_is_kept_as_it_was() -> None:
    async def story(world: World) -> None:
        def spoil() -> None:
            containers = [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]
            world.patch_pod("p", {"spec": {"containers": containers}})
            raise _refusal()

        world.add_node("n")
        world.wire.answer("POST pods/p/binding", spoil)
        await world.add_pod("p")
        await world.settle(0.1)
        assert world.place_of("p") == "backoff"
        assert world.scheduler.context.cache.skipped >= 1
        await world.settle(3)
        assert world.node_of("p") == "n"

    live(story, latency=0.01)
