"""Unexpected errors: one pod, one object or one binding fails, and the scheduler continues."""

from typing import Any

import pytest

from scheduler.live_scheduler import World, live, plugin
from stowplan.api.pod import Pod
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.runtime.logs import ERROR
from stowplan.scheduler import status_writer
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.cycle import scheduling_cycle
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.preemption import Preemption
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing.extenders import RuleExtender, Rules


def failing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, once: bool = True) -> None:
    """Have a method raise an unexpected exception: once, or for ever."""
    real = getattr(owner, name)
    left = [1]

    def method(*args: Any, **about: Any) -> Any:
        if not once or left[0]:
            left[0] -= 1
            raise IndexError("on purpose")
        return real(*args, **about)

    monkeypatch.setattr(owner, name, method)


def counted(world: World, source: str) -> bool:
    text = world.scheduler.context.metrics.text().decode()
    return f'stowplan_unexpected_errors_total{{source="{source}"}} 1' in text


def traceback_of(world: World, message: str) -> str:
    [values] = [about for _, level, said, about in world.told if level == ERROR and said == message]
    assert values["err"] == "IndexError: on purpose"
    return str(values["traceback"])


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (scheduling_cycle, "choose_node"),
        (ClusterTable, "assume"),
        (Lifecycle, "run_reserve_and_permit"),
        (Lifecycle, "pre_flight"),
    ],
)
def test_a_scheduling_cycle_that_fails_is_its_pods_error_alone(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        world.add_node("m")
        failing(monkeypatch, owner, name)
        await world.add_pod("p")
        assert (world.node_of("p"), world.condition("p")["reason"]) == ("", "SchedulerError")
        assert world.message("p") == "IndexError: on purpose"
        assert world.scheduler.context.cache.assumed == {}
        await world.add_pod("q")
        assert world.node_of("q")
        await world.settle(5)
        assert world.node_of("p")

    world = live(story)
    assert "in _" in traceback_of(world, "Scheduling cycle failed")
    assert counted(world, "scheduling_cycle")


@pytest.mark.parametrize("prepares", [False, True])
def test_a_binding_cycle_that_fails_is_its_pods_error_alone(
    prepares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pre_bind(*_: object) -> None:
        """Something to wait for."""

    async def story(world: World) -> None:
        world.add_node("n")
        failing(monkeypatch, Lifecycle, "bind")
        await world.add_pod("p")
        assert (world.node_of("p"), world.scheduler.context.cache.assumed) == ("", {})
        await world.add_pod("q")
        assert world.node_of("q") == "n"
        await world.settle(5)
        assert world.node_of("p") == "n"

    world = live(story, plugins=[plugin("Preparing", pre_bind=pre_bind)] if prepares else ())
    assert traceback_of(world, "Binding cycle failed")
    assert counted(world, "binding_cycle")


def test_a_cycle_that_fails_while_it_waits_for_an_extender_is_its_pods_error_alone() -> None:
    class Broken(RuleExtender):
        async def filter(self, pod: Any, nodes: Any) -> Any:
            if pod.name == "p":
                raise IndexError("on purpose")
            return await super().filter(pod, nodes)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert (world.node_of("p"), world.message("p")) == ("", "IndexError: on purpose")
        await world.add_pod("q")
        assert world.node_of("q") == "n"

    world = live(
        story, extenders=[Broken(ExtenderConfig(url_prefix="http://x", filter_verb="filter"), Rules())]
    )
    assert traceback_of(world, "Scheduling cycle failed")


def test_pods_that_cannot_be_added_together_are_added_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first list of pods is handled as a whole; an error there must not lose any of them."""
    failing(monkeypatch, ClusterTable, "add_pods")

    async def before(world: World) -> None:
        world.add_node("n", cpu="4")
        for number in range(40):
            world.put_pod(f"old-{number}", "100m", nodeName="n")

    async def story(world: World) -> None:
        await world.add_pod("p", "1")
        assert len(world.scheduler.context.cache.table.pods) == 40
        assert "Insufficient cpu" in world.message("p")

    live(story, before=before)


@pytest.mark.parametrize(("owner", "name"), [(ClusterTable, "put_node"), (SchedulingQueue, "move_all")])
def test_an_object_that_breaks_its_event_handler_is_skipped(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.settle()
        failing(monkeypatch, owner, name)
        world.change_node("n", unschedulable=False, labels={"a": "b"})
        await world.settle()
        world.add_node("m")
        await world.add_pod("p", nodeSelector={"kubernetes.io/hostname": "m"})
        assert world.node_of("p") == "m"

    world = live(story)
    assert traceback_of(world, "Event handler failed; the event is skipped")
    assert counted(world, "event_handler")


def test_a_contradiction_of_the_cache_still_ends_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def contradict(*_: object) -> None:
        raise CacheCorruptedError("on purpose")

    async def story(world: World) -> None:
        world.add_node("n")
        await world.settle()
        monkeypatch.setattr(ClusterTable, "put_pod", contradict)
        world.put_pod("p", nodeName="n")
        await world.settle(5)

    with pytest.raises(CacheCorruptedError, match="on purpose"):
        live(story)


def test_a_pre_enqueue_plugin_that_fails_is_logged_and_counted() -> None:
    def pre_enqueue(self: object, pod: Pod) -> Status:
        return error("the door is stuck")

    async def story(world: World) -> None:
        await world.add_pod("p")
        assert world.place_of("p") == "gated"

    world = live(story, plugins=[plugin("Doorman", pre_enqueue=pre_enqueue)])
    assert world.problems == ['running PreEnqueue plugin "Doorman"']
    assert counted(world, "queue")


def test_a_status_that_cannot_be_written_does_not_end_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        failing(monkeypatch, status_writer, "failure_patch")
        world.add_node("n")
        await world.add_pod("p", cpu="100")
        world.add_node("m", cpu="200")
        await world.settle(5)
        assert world.node_of("p") == "m"

    world = live(story)
    assert traceback_of(world, "Writing a pod's status failed")


def test_a_preemption_that_fails_leaves_its_preemptor_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low")
        failing(monkeypatch, Preemption, "_clear_nominations")
        await world.add_pod("high", priority=10)
        await world.settle(60)
        assert world.pod("low")["metadata"]["deletionTimestamp"]
        world.delete_pod("low")
        await world.settle(5)
        assert world.node_of("high") == "n"

    world = live(story)
    assert traceback_of(world, "Preemption failed")
