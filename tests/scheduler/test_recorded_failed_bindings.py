"""Bindings that fail, as recorded: the server's error, the pod's message, and the next attempt."""

from collections.abc import Callable

import pytest

from scheduler.comparable_objects import same_objects
from scheduler.comparable_writes import RECORDED, same_writes
from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import PODS
from stowplan.api.status import ApiError

LATENCY = 0.006
ZONE = {"topology.kubernetes.io/zone": "z1"}


def _binding_fails(
    scenario: str, objects: str, name: str, node: str, story: Callable[[World], None]
) -> World:
    """Let a pod go to a node, and `story` happen when its binding arrives at the server."""

    async def begin(world: World) -> None:
        world.namespace = "obs-k"
        world.add_node(node, labels=ZONE)
        story(world)
        await world.settle(3)
        same_writes(world.wire.writes, scenario)
        same_objects(world, objects, name)

    return live(begin, latency=LATENCY, config=RECORDED)


def test_the_pod_is_gone() -> None:
    def story(world: World) -> None:
        world.put_pod("deleted")
        world.wire.answer("POST pods/deleted/binding", lambda: world.delete_pod("deleted"))

    _binding_fails("k-bind-pod-deleted", "k-bind-fails.1-pod-deleted", "deleted", "node-k1", story)


def test_the_pod_is_on_its_way_out() -> None:
    def story(world: World) -> None:
        world.put_pod("terminating", metadata={"finalizers": ["example.com/keep"]})
        world.wire.answer("POST pods/terminating/binding", lambda: world.delete_pod("terminating", now=False))

    _binding_fails(
        "k-bind-pod-terminating", "k-bind-fails.2-pod-terminating", "terminating", "node-k1", story
    )


def test_another_has_bound_the_pod() -> None:
    def story(world: World) -> None:
        world.add_node("node-k2", labels=ZONE)
        world.put_pod("taken", nodeSelector={"kubernetes.io/hostname": "node-k1"})
        elsewhere = {"metadata": {"name": "taken"}, "target": {"kind": "Node", "name": "node-k2"}}
        world.wire.answer("POST pods/taken/binding", lambda: world.store.bind("obs-k", "taken", elsewhere))

    _binding_fails("k-bind-already-bound", "k-bind-fails.3-already-bound", "taken", "node-k1", story)


def test_another_pod_has_its_name() -> None:
    def story(world: World) -> None:
        def again() -> None:
            world.delete_pod("reborn")
            world.put_pod("reborn")

        world.put_pod("reborn")
        world.wire.answer("POST pods/reborn/binding", again)

    _binding_fails("k-bind-recreated", "k-bind-fails.4-recreated-other-uid", "reborn", "node-k1", story)


DENIED = 'admission webhook "x.example.com" denied the request: injected'


@pytest.mark.parametrize(
    ("scenario", "objects", "name", "node", "error"),
    [
        (
            "k-bind-500-once",
            "k-bind-fails.5-error-500-once",
            "err500",
            "node-k1",
            ApiError(500, "InternalError", "Internal error occurred: injected"),
        ),
        (
            "k-bind-403-once",
            "k-bind-fails.6-error-403-once",
            "err403",
            "node-k2",
            ApiError(403, "Forbidden", DENIED),
        ),
    ],
)
def test_the_server_refuses_once(scenario: str, objects: str, name: str, node: str, error: ApiError) -> None:
    def story(world: World) -> None:
        world.put_pod(name)
        world.wire.answer(f"POST pods/{name}/binding", error)

    world = _binding_fails(scenario, objects, name, node, story)
    first, second = [write.at for write in world.wire.writes if write.path.endswith("/binding")]
    assert 1 < second - first <= 2.1


def test_a_binding_that_takes_a_second_is_no_failure() -> None:
    """A client retries a 429 by itself: the scheduler sees a slow answer."""

    async def story(world: World) -> None:
        world.namespace = "obs-k"
        world.add_node("node-k1", labels=ZONE)
        world.put_pod("err429")
        world.wire.seconds = 1.0
        await world.settle(3)
        world.wire.writes.insert(0, world.wire.writes[0]._replace(code=429))
        same_writes(world.wire.writes, "k-bind-429-retry-after")
        same_objects(world, "k-bind-fails.7-error-429-retry-after", "err429")

    live(story, config=RECORDED)


def test_the_pod_of_an_ended_scenario_is_told_that_it_is_gone_from_what_was_known_of_it() -> None:
    """Room comes back while a rejected pod is being removed: its status is patched by what changes."""

    async def story(world: World) -> None:
        world.namespace = "obs-d"
        world.add_node("node-d1", labels=ZONE)
        await world.add_pod("high", cpu="3", priority=1000)
        await world.settle(0.2)
        world.put_pod("never", cpu="3", priority=1000, preemptionPolicy="Never")
        await world.settle(0.2)
        world.wire.writes.clear()
        world.wire.answer("POST pods/never/binding", lambda: world.store.delete(PODS, "obs-d", "never"))
        world.delete_pod("high")
        await world.settle(0.2)
        same_writes(world.wire.writes, "d-cleanup")

    live(story, latency=LATENCY, config=RECORDED)
