"""DefaultBinder: the Binding it writes, refusals, and answers that are lost."""

import pytest
from msgspec import to_builtins

from releases import GATES_1_36, GATES_1_37
from scheduler.live_scheduler import World, configured, live
from stowplan.api.status import ApiError, unreachable


def test_a_binding_names_the_pod_by_its_uid() -> None:
    """So a pod that was deleted and created again is not bound to the node of the former one."""

    async def story(world: World) -> None:
        world.add_node("n")
        made = await world.add_pod("p")
        [binding] = [one for one in world.wire.writes if one.path.endswith("/pods/p/binding")]
        body = to_builtins(binding.body)
        assert body["metadata"]["uid"] == made["metadata"]["uid"]
        assert (body["metadata"]["namespace"], body["metadata"]["name"]) == ("d", "p")
        assert (body["target"]["kind"], body["target"]["name"]) == ("Node", "n")

    live(story)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ApiError(404, "NotFound", 'pods "p" not found'), 'pods "p" not found'),
        (ApiError(409, "Conflict", "somebody was faster"), "somebody was faster"),
        (ApiError(500, "InternalError", "Internal error occurred: x"), "Internal error occurred: x"),
        (unreachable("connection refused"), "connection refused"),
    ],
)
def test_a_binding_that_fails_is_tried_again_after_a_while(failure: ApiError, message: str) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.answer("POST pods/p/binding", failure)
        await world.add_pod("p")
        assert world.message("p") == f'running Bind plugin "DefaultBinder": {message}'
        assert world.condition("p")["reason"] == "SchedulerError"
        assert world.place_of("p") == "backoff"
        assert world.scheduler.context.cache.assumed == {}
        await world.settle(2.1)
        assert world.node_of("p") == "n"
        assert len(world.events("p", "Scheduled")) == 1

    live(story, config=configured(gates=GATES_1_36))


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        (ApiError(500, "InternalError", "Internal error occurred: x"), 4),
        (ApiError(503, "ServiceUnavailable", "not now"), 4),
        (unreachable("connection refused"), 4),
        (unreachable("connection reset by peer"), 1),
        (ApiError(409, "Conflict", "somebody was faster"), 1),
    ],
)
def test_since_1_37_a_binding_that_had_no_effect_is_sent_again_at_once(failure: ApiError, tries: int) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.answer("POST pods/p/binding", *[failure] * tries)
        world.put_pod("p")
        await world.settle(0.5)
        sent = [one for one in world.wire.shorts if one == "POST pods/p/binding"]
        assert len(sent) == tries
        assert world.place_of("p") == "backoff"

    async def recovering(world: World) -> None:
        world.add_node("n")
        world.wire.answer("POST pods/p/binding", *[failure] * (tries - 1))
        world.put_pod("p")
        await world.settle(0.5)
        assert world.node_of("p") == "n"
        assert not world.events("p", "FailedScheduling")

    live(story, config=configured(gates=GATES_1_37))
    live(recovering, config=configured(gates=GATES_1_37))


def test_a_binding_whose_answer_got_lost_did_bind() -> None:
    async def story(world: World) -> None:
        world.add_node("n")

        def bind_and_lose_the_answer() -> None:
            world.store.bind("d", "p", {"metadata": {"name": "p"}, "target": {"name": "n"}})
            raise unreachable("connection reset by peer")

        world.wire.answer("POST pods/p/binding", bind_and_lose_the_answer)
        await world.add_pod("p")
        await world.settle(5)
        assert world.node_of("p") == "n"
        assert [one for one in world.wire.shorts if one.endswith("binding")] == ["POST pods/p/binding"]
        assert world.place_of("p") is None
        table = world.scheduler.context.cache.table
        assert [info.name for info in table.pods.values()] == ["p"]
        assert len(world.queue.in_flight) == 0
        await world.add_pod("q", cpu="4")
        await world.settle(0.1)
        assert world.message("q").startswith("0/1 nodes are available: 1 Insufficient cpu.")

    live(story, latency=0.01)


def test_a_binding_that_fails_makes_room_for_others() -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        world.wire.seconds = 1.0
        world.wire.answer("POST pods/p/binding", ApiError(403, "Forbidden", "x"))
        await world.add_pod("p")
        await world.add_pod("q")
        await world.settle(0.6)
        assert "Insufficient cpu" in world.message("q")
        world.wire.seconds = 0.0
        await world.settle(1)
        assert world.node_of("q") == "n"

    live(story)
