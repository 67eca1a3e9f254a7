"""Carrying a decision out: PreBind, Bind, PostBind, and what becomes of the pod when they fail."""

import asyncio
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, enabling, live, plugin
from stowplan.api.status import ApiError
from stowplan.framework import Contract
from stowplan.scheduler.framework.status import SKIP, SUCCESS, error, unschedulable

PARALLEL = Contract(parallel_pre_bind=True)


def _pre_binding(name: str, log: list[str], seconds: float = 0.0, answer: Any = None, **about: Any) -> Any:
    async def pre_bind(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        log.append(f"{name} begins")
        await asyncio.sleep(seconds)
        log.append(f"{name} ends")
        return answer

    return plugin(name, pre_bind=pre_bind, **about)


def test_pre_bind_runs_in_order_and_the_node_is_announced_before() -> None:
    log: list[str] = []

    async def story(world: World) -> None:
        world.add_node("n")
        world.put_pod("p")
        await world.settle(0.5)
        assert (world.nominated("p"), world.node_of("p")) == ("n", "")
        written = world.wire.writes[0].body
        assert written["status"] == {"nominatedNodeName": "n"}
        assert written["metadata"] == {"uid": world.pod("p")["metadata"]["uid"]}
        await world.settle(2)
        assert log == ["A begins", "A ends", "B begins", "B ends"]
        assert world.wire.shorts == ["PATCH pods/p/status", "POST pods/p/binding", "Scheduled p"]
        assert (world.nominated("p"), world.node_of("p")) == ("", "n")

    live(story, plugins=[_pre_binding("A", log, 1), _pre_binding("B", log, 1)])


def test_neighbours_that_allow_it_run_side_by_side() -> None:
    log: list[str] = []
    plugins = [
        _pre_binding("A", log, 2, contract=PARALLEL),
        _pre_binding("B", log, 1, contract=PARALLEL),
        _pre_binding("C", log, 1),
    ]

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(3.1)
        assert log == ["A begins", "B begins", "B ends", "A ends", "C begins", "C ends"]
        assert world.node_of("p") == "n"

    live(story, plugins=plugins)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("no disk"), 'running PreBind plugin "B": no disk'),
        ("nonsense", 'running PreBind plugin "B": expected a Status or None, got str'),
    ],
)
def test_a_failing_pre_bind_ends_it_and_takes_the_nomination_back(answer: Any, message: str) -> None:
    log: list[str] = []
    back: list[str] = []
    shelf = plugin(
        "Shelf",
        reserve=lambda self, cycle, pod, node: None,
        unreserve=lambda self, cycle, pod, node: back.append(node),
    )

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(1.5)
        assert log == ["A begins", "A ends", "B begins", "B ends"]
        assert (world.message("p"), world.condition("p")["reason"]) == (message, "SchedulerError")
        assert world.nominated("p") == ""
        assert world.wire.writes[-1].body["status"]["nominatedNodeName"] is None
        assert (world.place_of("p"), back) == ("backoff", ["n"])
        assert world.scheduler.context.cache.assumed == {}

    live(story, plugins=[shelf, _pre_binding("A", log, 0.5), _pre_binding("B", log, 0.5, answer)])


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_rejection_that_comes_so_late_is_tried_again_like_an_error(point: str) -> None:
    late = plugin("Late", **{point: lambda self, cycle, pod, node: unschedulable("too late")})
    bind_list = {"enabled": [{"name": "Late"}], "disabled": [{"name": "*"}]}
    points = {"bind": bind_list} if point == "bind" else {"preBind": {"enabled": [{"name": "Late"}]}}

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert (world.message("p"), world.condition("p")["reason"]) == ("too late", "Unschedulable")
        assert world.place_of("p") == "backoff"
        await world.settle(10.5)
        assert world.attempts("p") == pytest.approx([0, 2, 5, 10], abs=0.01)

    live(story, config=configured({"plugins": points}), plugins=[late], verbosity=3)


def test_the_first_failure_ends_those_beside_it() -> None:
    log: list[str] = []
    plugins = [
        _pre_binding("A", log, 5, contract=PARALLEL),
        _pre_binding("B", log, 0.5, error("no"), contract=PARALLEL),
    ]

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(0.9)
        assert log == ["A begins", "B begins", "B ends"]
        assert world.message("p") == 'running PreBind plugin "B": no'
        await world.settle(6)
        assert "A ends" not in log

    live(story, plugins=plugins)


@pytest.mark.parametrize("answer", [SKIP, SUCCESS, None])
def test_a_plugin_that_has_nothing_to_prepare_says_so_before(answer: Any) -> None:
    log: list[str] = []
    idle = _pre_binding("Idle", log, pre_bind_pre_flight=lambda self, cycle, pod, node: answer)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        busy = answer is not SKIP
        assert log == (["Idle begins", "Idle ends"] if busy else [])
        assert ("PATCH pods/p/status" in world.wire.shorts) is busy
        assert world.node_of("p") == "n"

    live(story, plugins=[idle])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("no"), 'running PreBindPreFlight "Idle": no'),
        (
            unschedulable("no"),
            'PreBindPreFlight Idle returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
        ),
    ],
)
def test_pre_flights_cannot_reject(answer: Any, message: str) -> None:
    log: list[str] = []
    idle = _pre_binding("Idle", log, pre_bind_pre_flight=lambda self, cycle, pod, node: answer)

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert (world.message("p"), world.condition("p")["reason"], log) == (message, "SchedulerError", [])

    live(story, plugins=[idle])


def test_without_the_feature_gate_nothing_is_announced() -> None:
    log: list[str] = []
    slow = _pre_binding("Slow", log, 1)
    config = configured(enabling(slow), gates={"NominatedNodeNameForExpectation": False})

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.settle(1.1)
        assert world.wire.shorts == ["POST pods/p/binding", "Scheduled p"]

    live(story, config=config, plugins=[slow])


def test_an_announcement_that_fails_is_no_obstacle() -> None:
    log: list[str] = []

    async def story(world: World) -> None:
        world.add_node("n")
        world.wire.answer("PATCH pods/p/status", ApiError(403, "Forbidden", "no"))
        await world.add_pod("p")
        assert world.node_of("p") == "n"
        assert world.problems == ["Failed to update the nominated node name in the binding cycle"]

    live(story, plugins=[_pre_binding("A", log)])


def test_a_pod_in_pre_bind_gives_way_to_a_more_important_one_without_being_deleted() -> None:
    log: list[str] = []
    slow = _pre_binding(
        "Slow",
        log,
        60,
        pre_bind_pre_flight=lambda self, cycle, pod, node: SKIP if pod.name == "high" else None,
    )

    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low")
        await world.add_pod("high", priority=10)
        await world.settle(0.1)
        assert world.node_of("high") == "n"
        assert (world.has_pod("low"), log) == (True, ["Slow begins"])
        why = 'running PreBind plugin "Slow": preempted by DefaultPreemption'
        assert why in world.notes("low", "FailedScheduling")
        assert world.notes("low", "Preempted")[0].endswith("on node n (in kube-scheduler memory).")

    live(story, plugins=[slow])


def test_a_pre_bind_that_will_not_be_stopped_is_stopped_before_the_binding() -> None:
    async def pre_bind(self: Any, cycle: Any, pod: Any, node: str) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    stubborn = plugin(
        "Stubborn",
        pre_bind=pre_bind,
        pre_bind_pre_flight=lambda self, cycle, pod, node: SKIP if pod.name == "high" else None,
    )

    async def story(world: World) -> None:
        world.add_node("n", cpu="1")
        await world.add_pod("low")
        await world.add_pod("high", priority=10)
        await world.settle(1.5)
        assert world.node_of("high") == "n"
        assert "preempted by DefaultPreemption" in world.notes("low", "FailedScheduling")
        assert "POST pods/low/binding" not in world.wire.shorts

    live(story, plugins=[stubborn])


def test_a_binder_that_is_not_interested_leaves_it_to_the_next() -> None:
    asked: list[str] = []

    def bind(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        asked.append(pod.name)
        return SKIP if pod.name == "p" else SUCCESS

    mine = plugin("Mine", bind=bind)
    binders = [{"name": "Mine"}, {"name": "DefaultBinder"}]
    bind_list = {"disabled": [{"name": "*"}], "enabled": binders}
    config = configured({"plugins": {"bind": bind_list}})

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        await world.add_pod("q")
        assert asked == ["p", "q"]
        assert world.wire.shorts == ["POST pods/p/binding", "Scheduled p", "Scheduled q"]

    live(story, config=config, plugins=[mine])


def test_without_anybody_to_bind_it_a_pod_is_not_bound() -> None:
    mine = plugin("Mine", bind=lambda self, cycle, pod, node: SKIP)
    config = configured({"plugins": {"bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Mine"}]}}})

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert world.events("p", "Scheduled") == []
        assert world.condition("p")["reason"] == "SchedulerError"

    live(story, config=config, plugins=[mine])


def test_a_post_bind_that_raises_changes_nothing_any_more() -> None:
    def post_bind(self: Any, cycle: Any, pod: Any, node: str) -> None:
        raise RuntimeError("too late")

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert world.node_of("p") == "n"
        assert world.notes("p") == ["Successfully assigned d/p to n"]
        [problem] = world.problems
        assert problem.startswith(
            'running PostBind plugin "Late": RuntimeError: too late (test_prebind_and_bind.py:'
        )

    live(story, plugins=[plugin("Late", post_bind=post_bind)])


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "post_bind"])
def test_a_plugin_has_other_pods_tried_again(point: str) -> None:
    def wake(self: Any, cycle: Any, pod: Any, node: str) -> None:
        if pod.name == "p":
            cycle.pods_to_activate.append(self.handle.scheduler.pod("d/q"))

    def filter_node(self: Any, cycle: Any, pod: Any, node: Any) -> Any:
        tried.append(pod.name)
        return unschedulable("shy") if pod.name == "q" else None

    tried: list[str] = []
    waker = plugin("Requeuer", filter_node=filter_node, events=lambda self: (), **{point: wake})

    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("q")
        assert (tried, world.place_of("q")) == (["q"], "unschedulable")
        await world.add_pod("p")
        assert tried == ["q", "p", "q"]

    live(story, plugins=[waker])
