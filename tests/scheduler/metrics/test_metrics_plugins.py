"""In a sample of the attempts every single plugin is timed, at every extension point where it runs."""

from typing import Any

import pytest

from scheduler.live_scheduler import World, live
from scheduler.metrics.reading import Chance, scraped
from stowplan.scheduler.framework.contract import Contract
from stowplan.scheduler.framework.interface import Plugin, Wait
from stowplan.scheduler.framework.status import Status, unschedulable

SECONDS = "plugin_execution_duration_seconds"


class Ticks:
    """A timer that advances by a second at each reading."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


class Everywhere(Plugin):
    """Takes part at every point, without reuse."""

    contract = Contract(constant_pre_filter=False)

    def pre_filter(self, cycle: Any, pod: Any) -> None: ...

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None: ...

    def pre_score(self, cycle: Any, pod: Any) -> None: ...

    def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
        return 1

    def normalize(self, cycle: Any, pod: Any, scores: Any, extremes: Any) -> Any:
        return scores

    def reserve(self, cycle: Any, pod: Any, node: str) -> None: ...

    def unreserve(self, cycle: Any, pod: Any, node: str) -> None: ...

    def permit(self, cycle: Any, pod: Any, node: str) -> None: ...

    def pre_bind_pre_flight(self, cycle: Any, pod: Any, node: str) -> None: ...

    async def pre_bind(self, cycle: Any, pod: Any, node: str) -> None: ...

    async def post_bind(self, cycle: Any, pod: Any, node: str) -> None: ...


class Hesitant(Plugin):
    """Makes a pod wait until it is allowed."""

    def permit(self, cycle: Any, pod: Any, node: str) -> Wait:
        return Wait(1)


class Unwilling(Plugin):
    """Wants no pod."""

    def reserve(self, cycle: Any, pod: Any, node: str) -> Status:
        return unschedulable("no")

    def unreserve(self, cycle: Any, pod: Any, node: str) -> None: ...


def counts(world: World, plugin: str) -> dict[tuple[str, str], float]:
    """How often a plugin was timed, by extension point and status."""
    found = scraped(world.scheduler.context.metrics, f"{SECONDS}_count")
    return {(point, status): count for (point, name, status), count in found.items() if name == plugin}


def scheduled(plugin: type[Plugin], *, drawn: float = 0.0, cpu: str = "1") -> dict[tuple[str, str], float]:
    """Timings of a plugin while one pod is tried on two nodes."""
    found: dict[tuple[str, str], float] = {}

    async def story(world: World) -> None:
        world.scheduler.context.metrics._random = Chance(drawn).random
        world.add_node("a")
        world.add_node("b")
        await world.add_pod("p", cpu=cpu)
        await world.settle(2.0)
        found.update(counts(world, plugin.__name__))

    live(story, plugins=[plugin], timer=Ticks())
    return found


def test_a_plugin_is_timed_at_every_point_it_is_asked_at() -> None:
    assert scheduled(Everywhere) == {
        ("PreFilter", "Success"): 1,
        ("Filter", "Success"): 2,
        ("PreScore", "Success"): 1,
        ("Score", "Success"): 2,
        ("ScoreExtensionNormalize", "Success"): 1,
        ("Reserve", "Success"): 1,
        ("Permit", "Success"): 1,
        ("PreBindPreFlight", "Success"): 1,
        ("PreBind", "Success"): 1,
        ("PostBind", "Success"): 1,
    }


def test_outside_the_sample_nothing_is_timed() -> None:
    assert scheduled(Everywhere, drawn=0.1) == {}


def test_waits_and_rejections_are_told_as_such() -> None:
    assert ("Permit", "Wait") in scheduled(Hesitant)
    refused = scheduled(Unwilling)
    assert refused["Reserve", "Unschedulable"] == refused["Unreserve", "Success"]


@pytest.mark.parametrize(
    ("plugin", "point", "status"),
    [
        ("NodeResourcesFit", "PreFilter", "Success"),
        ("NodeAffinity", "PreFilter", "Skip"),
        ("NodeResourcesFit", "Filter", "Success"),
        ("TaintToleration", "Filter", "Success"),
        ("NodeResourcesFit", "Score", "Success"),
        ("DefaultBinder", "Bind", "Success"),
        ("VolumeBinding", "Reserve", "Success"),
        ("VolumeBinding", "PreBindPreFlight", "Skip"),
    ],
)
def test_the_plugins_of_kube_scheduler_are_seen_where_they_were_recorded(
    plugin: str, point: str, status: str
) -> None:
    assert (point, status) in _stock()[plugin]


def test_where_answers_are_kept_only_the_rows_that_changed_are_asked_about_and_timed() -> None:
    fit = "NodeResourcesFit"
    seen: list[dict[tuple[str, str], float]] = []

    async def story(world: World) -> None:
        world.scheduler.context.metrics._random = Chance(0.0).random
        for name in ("a", "b", "c"):
            world.add_node(name)
        for name in ("p", "q"):
            await world.add_pod(name)
            seen.append(counts(world, fit))

    live(story, timer=Ticks())
    for point in ("Filter", "Score"):
        assert seen[0][point, "Success"] == 1, "all nodes at once"
        assert seen[1][point, "Success"] == 2, "the node that the first pod is on"


def test_what_is_said_after_no_node_fits_is_timed_too() -> None:
    assert ("PostFilter", "Unschedulable") in _stock(cpu="100")["DefaultPreemption"]


def _stock(cpu: str = "1") -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}

    async def story(world: World) -> None:
        world.scheduler.context.metrics._random = Chance(0.0).random
        world.add_node("a")
        world.add_node("b")
        await world.add_pod("p", cpu=cpu)
        for point, name, status in scraped(world.scheduler.context.metrics, f"{SECONDS}_count"):
            found.setdefault(name, set()).add((point, status))

    live(story, timer=Ticks())
    return found
