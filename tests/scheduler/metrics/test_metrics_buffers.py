"""Buffered values counted by the hundred give the same result as counting each value."""

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.live_scheduler import World, live
from scheduler.metrics.reading import ALL_GATES, Chance, Timer, scraped
from stowplan.scheduler.framework.contract import Contract
from stowplan.scheduler.framework.instrument import Probe
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import SKIP, Status
from stowplan.scheduler.instruments.metrics import MetricsInstrument
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics.buffers import BUFFER_SIZE

PROFILES = ("default-scheduler", "other")
POINTS = (("Filter", "Success"), ("Bind", "Success"), ("Bind", "Error"))
POINT_SECONDS = "framework_extension_point_duration_seconds"

exact = st.integers(0, 1 << 22).map(lambda number: number / (1 << 20))
"""Seconds whose sums floats hold exactly, added in any order."""

points = st.tuples(st.just("point"), st.sampled_from(POINTS), st.sampled_from(PROFILES), exact)
bindings = st.tuples(
    st.just("bound"),
    st.sampled_from(PROFILES),
    exact,
    st.integers(1, 20),
    st.one_of(st.none(), exact),
    st.booleans(),
)
resets = st.just(("reset",))


def made() -> SchedulerMetrics:
    return SchedulerMetrics(Timer(), ALL_GATES, Chance(0.0), legacy=True)


@given(st.lists(st.one_of(points, bindings, resets), max_size=30), st.integers(1, 7))
def test_it_makes_no_difference_how_many_are_counted_at_once(steps: list[Any], every: int) -> None:
    at_once, one_by_one = made(), made()
    for number, (what, *about) in enumerate(steps):
        for metrics in (at_once, one_by_one):
            if what == "reset":
                metrics.reset()
            elif what == "bound":
                metrics.bound(*about)
            elif metrics is at_once:
                (point, status), profile, seconds = about
                metrics.taker(point, status, profile)(seconds)
            else:
                (point, status), profile, seconds = about
                metrics.point(point, status, profile, seconds)
        if number % every == 0:
            at_once.flush()
        one_by_one.text()
    assert at_once.text() == one_by_one.text()


def test_a_taker_goes_on_after_a_reset_and_its_series_comes_back_with_the_next_value() -> None:
    metrics = made()
    take = metrics.taker("Filter", "Success", PROFILES[0])
    assert scraped(metrics, f"{POINT_SECONDS}_count") == {}
    take(1.0)
    metrics.reset()
    assert scraped(metrics, f"{POINT_SECONDS}_count") == {}
    take(2.0)
    assert scraped(metrics, f"{POINT_SECONDS}_sum") == {("Filter", PROFILES[0], "Success"): 2.0}


def test_what_is_put_aside_is_counted_every_so_many_attempts_though_nobody_looks() -> None:
    metrics = made()
    probe = Probe([MetricsInstrument(metrics)], PROFILES[0], Timer())
    for _ in range(BUFFER_SIZE - 1):
        probe.begins()
        probe.took["Filter", "Success"](1.0)
    assert not metrics.points
    probe.begins()
    assert metrics.points["Filter", "Success", PROFILES[0]].total == BUFFER_SIZE - 1


def test_bound_pods_are_counted_every_so_many_though_nobody_looks() -> None:
    metrics = made()
    counter = metrics._attempts
    for _ in range(BUFFER_SIZE - 1):
        metrics.bound(PROFILES[0], 1.0, 1, None, False)
    assert not counter
    metrics.bound(PROFILES[0], 1.0, 1, None, False)
    assert counter == {("scheduled", PROFILES[0]): BUFFER_SIZE}


class Porter(Plugin):
    """Carries volumes, and has nothing to do for pods without."""

    contract = Contract(idle_for_plain_pods=True)
    asked: ClassVar[list[str]] = []

    def reserve(self, cycle: Any, pod: Any, node: str) -> None:
        self.asked.append(f"reserve {pod.name}")

    def pre_bind_pre_flight(self, cycle: Any, pod: Any, node: str) -> Status:
        self.asked.append(f"pre-flight {pod.name}")
        return SKIP

    def pre_bind(self, cycle: Any, pod: Any, node: str) -> None: ...


@pytest.mark.parametrize(
    ("sampled", "asked"),
    [
        (False, ["reserve with", "pre-flight with"]),
        (True, ["reserve with", "pre-flight with", "reserve without", "pre-flight without"]),
    ],
)
def test_who_is_idle_for_plain_pods_is_asked_about_such_pods_only_to_be_timed(
    monkeypatch: pytest.MonkeyPatch, sampled: bool, asked: list[str]
) -> None:
    log: list[str] = []
    monkeypatch.setattr(Porter, "asked", log)

    async def story(world: World) -> None:
        metrics = world.scheduler.context.metrics
        metrics._random = Chance(0.0 if sampled else 1.0).random
        world.add_node("n")
        volume = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
        await world.add_pod("with", volumes=[volume])
        await world.add_pod("without")
        assert log == asked
        counted = scraped(metrics, f"{POINT_SECONDS}_count")
        for point, status in (("Reserve", "Success"), ("Permit", "Success"), ("PreBindPreFlight", "Skip")):
            assert counted[point, PROFILES[0], status] == 2

    live(story, plugins=[Porter])
