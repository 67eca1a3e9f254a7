"""Extenders over real sockets, as recorded: their requests, and the scheduler's writes after them."""

from collections.abc import Callable
from typing import Any

import pytest

from observed.files import recorded
from scheduler.comparable_objects import same_objects
from scheduler.comparable_writes import RECORDED, same_as, same_writes
from scheduler.extenders.servers import extender, run, serving
from scheduler.live_scheduler import World, live
from stowplan.api.catalogue import PODS
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.runtime.clock import RealClock
from stowplan.scheduler.extenders import Extender, ExtenderError
from stowplan.testing.extenders import RuleExtender, Rules
from waiting import eventually

ZONE = {"topology.kubernetes.io/zone": "z1"}
NODES = ("node-j1", "node-j2", "node-j3")
STEPS = ("bind", "refused", "filter-error", "bind-error", "fill", "preempt")


class Answers:
    """Answers of the recorded extender, by the names of pods and nodes."""

    def __init__(self, names_only: bool) -> None:
        self._names_only = names_only
        self.world: World | None = None

    def __call__(self, verb: str, body: Any) -> Any:
        answer: Callable[[Any], Any] = getattr(self, f"_{verb}")
        return answer(body)

    def _filter(self, body: Any) -> Any:
        pod = body["Pod"]["metadata"]["name"]
        if pod == "exterr":
            return {"Error": "extender says no"}
        asked = body["NodeNames"] if self._names_only else [_name(one) for one in body["Nodes"]["items"]]
        refused = {name: "refused by extender" for name in asked if pod == "refused" and name != "node-j2"}
        never = {name: "never on j2" for name in asked if name == "node-j2"}
        kept = [name for name in asked if name not in refused and name not in never]
        if self._names_only:
            return {
                "NodeNames": kept,
                "FailedNodes": refused,
                "FailedAndUnresolvableNodes": never,
                "Error": "",
            }
        items = [one for one in body["Nodes"]["items"] if _name(one) in kept]
        return {"Nodes": {"metadata": {}, "items": items}, "FailedNodes": never, "Error": ""}

    def _prioritize(self, body: Any) -> Any:
        asked = body["NodeNames"] or [_name(one) for one in body["Nodes"]["items"]]
        return [{"Host": name, "Score": 10 if name == "node-j3" else 1} for name in asked]

    def _preempt(self, body: Any) -> Any:
        if self._names_only:
            return {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}
        return {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                    "NumPDBViolations": victims["NumPDBViolations"],
                }
                for node, victims in body["NodeNameToVictims"].items()
            }
        }

    def _bind(self, body: Any) -> Any:
        if body["PodName"] == "bindfail":
            return {"Error": "extender bind refused"}
        assert self.world is not None
        binding = {"metadata": {"name": body["PodName"]}, "target": {"kind": "Node", "name": body["Node"]}}
        self.world.store.bind(body["PodNamespace"], body["PodName"], binding)
        return {"Error": ""}


def _name(obj: Any) -> str:
    return str(obj["metadata"]["name"])


def _written(world: World, count: int) -> Callable[[], bool]:
    return lambda: len(world.wire.writes) >= count and not any(one.code == 0 for one in world.wire.writes)


def _begin_to_run(world: World, name: str, time: str) -> None:
    world.patch_pod(name, {"status": {"phase": "Running", "startTime": time}}, "status")


async def _story(world: World) -> None:
    """Every step of the recording, each when what the one before caused has been written."""
    for name in NODES:
        world.add_node(name, labels=ZONE)
    world.put_pod("plain", cpu="3", priority=10)
    await eventually(_written(world, 1))
    _begin_to_run(world, "plain", "2026-01-01T00:00:00Z")
    world.put_pod("refused", metadata={"finalizers": ["example.com/keep"]})
    await eventually(_written(world, 4))
    world.delete_pod("refused", now=False)
    await eventually(_written(world, 5))
    world.patch_pod("refused", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/keep"]}})
    world.put_pod("exterr")
    await eventually(_written(world, 7))
    world.delete_pod("exterr")
    world.put_pod("bindfail")
    await eventually(_written(world, 9))
    world.delete_pod("bindfail")
    world.put_pod("fill", cpu="3", priority=10)
    await eventually(_written(world, 10))
    _begin_to_run(world, "fill", "2026-01-01T00:00:05Z")
    world.put_pod("high", cpu="3", priority=1000)
    await eventually(_written(world, 15))
    world.delete_pod("fill")
    await eventually(_written(world, 16))


@pytest.mark.parametrize("kind", ["names", "full"])
def test_an_extender_takes_part_in_everything(kind: str) -> None:
    async def main() -> None:
        answers = Answers(kind == "names")
        async with (
            serving(answers) as server,
            extender(server.url, node_cache_capable=kind == "names", weight=2) as asked,
        ):
            world = answers.world = World(RealClock(), extenders=[asked], latency=0.01, config=RECORDED)
            world.namespace = f"obs-j-{kind}"
            async with world.scheduler.running():
                await _story(world)
            same_writes(world.wire.writes, *(f"j-{kind}-{step}" for step in STEPS))
            same_objects(world, f"j-extender-{kind}")
            refusals = [one.at for one in world.wire.writes if one.short == "FailedScheduling refused"]
            assert refusals[1] - refusals[0] < 0.5, "a condition of its own wakes a pod that was refused"
            assert [_asked(one.verb, one.body) for one in server.heard] == _recorded_questions(kind)

    run(main())


def _recorded_questions(kind: str) -> list[Any]:
    return [
        _asked(one["path"].rpartition("/")[2], one["request"])
        for one in recorded("wire/extender")["requests"]
        if one["scenario"].startswith(f"j-{kind}-")
    ]


def _asked(verb: str, body: Any) -> Any:
    """Pod and nodes of a request, in any order."""
    if verb == "bind":
        return verb, body["PodName"], [body["Node"]]
    nodes = body.get("NodeNames") or body.get("NodeNameToVictims") or body.get("NodeNameToMetaVictims")
    if not nodes:
        nodes = [_name(one) for one in body["Nodes"]["items"]]
    return verb, body["Pod"]["metadata"]["name"], sorted(nodes)


def test_an_extender_that_cannot_be_reached_is_an_error_unless_it_may_be_ignored() -> None:
    async def main() -> None:
        for ignorable in (False, True):
            async with extender("http://127.0.0.1:1/sched", bind_verb="", ignorable=ignorable) as asked:
                world = World(RealClock(), extenders=[asked], latency=0.01, config=RECORDED)
                world.namespace = "obs-j-ignorable" if ignorable else "obs-j-unreachable"
                world.add_node("node-j1", labels=ZONE)
                async with world.scheduler.running():
                    world.put_pod("p")
                    await eventually(_written(world, 2))
                written = recorded("wire/writes")["j-ignorable" if ignorable else "j-unreachable"]
                same_as(world.wire.writes, written[:2])
                if ignorable:
                    same_objects(world, "j-extender-ignorable")

    run(main())


class Unreachable(RuleExtender):
    """An unreachable extender, without sockets."""

    def __init__(self) -> None:
        super().__init__(ExtenderConfig(url_prefix="http://127.0.0.1:1/sched", filter_verb="filter"), Rules())

    async def filter(self, pod: Any, nodes: Any) -> Any:
        raise ExtenderError(
            'Post "http://127.0.0.1:1/sched/filter": dial tcp 127.0.0.1:1: connect: connection refused'
        )


def test_an_extender_that_stays_away_makes_a_series_of_events() -> None:
    async def story(world: World) -> None:
        world.namespace = "obs-j-unreachable"
        world.add_node("node-j1", labels=ZONE)
        await world.until(0.85)
        world.put_pod("p")
        await world.until(6)
        same_writes(world.wire.writes, "j-unreachable")
        same_objects(world, "j-extender-unreachable")
        assert world.store.count(PODS) == 1

    asked: list[Extender] = [Unreachable()]
    live(story, latency=0.006, extenders=asked, config=RECORDED)
