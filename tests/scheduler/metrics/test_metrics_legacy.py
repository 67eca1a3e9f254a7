"""The names of 1.9 to 1.18: there if asked for, with the labels and buckets of their time, fed by today's."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from scheduler.live_scheduler import World, live
from scheduler.metrics.reading import ALL_GATES, Chance, Timer, scraped, touch_everything
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics.exposition import delimited
from stowplan.scheduler.metrics.legacy import MAX_AGE, Quantiles

PROFILE = "default-scheduler"
SECONDS = [0.001 * 2**place for place in range(15)]
MICROSECONDS = [1000.0 * 2**place for place in range(15)]
VICTIMS = [5.0 * place for place in range(1, 11)]


def made(timer: Timer | None = None, *, legacy: bool = True) -> SchedulerMetrics:
    return SchedulerMetrics(timer or Timer(), ALL_GATES, Chance(0.0), legacy=legacy)


def families(metrics: SchedulerMetrics) -> dict[str, str]:
    """Types by name."""
    return {family.name: family.type for family in text_string_to_metric_families(metrics.text().decode())}


HISTOGRAMS = [
    ("e2e_scheduling_duration_seconds", SECONDS),
    ("e2e_scheduling_latency_microseconds", MICROSECONDS),
    ("scheduling_algorithm_duration_seconds", SECONDS),
    ("scheduling_algorithm_latency_microseconds", MICROSECONDS),
    ("scheduling_algorithm_predicate_evaluation_seconds", SECONDS),
    ("scheduling_algorithm_predicate_evaluation", MICROSECONDS),
    ("scheduling_algorithm_priority_evaluation_seconds", SECONDS),
    ("scheduling_algorithm_priority_evaluation", MICROSECONDS),
    ("scheduling_algorithm_preemption_evaluation_seconds", SECONDS),
    ("scheduling_algorithm_preemption_evaluation", MICROSECONDS),
    ("binding_duration_seconds", SECONDS),
    ("binding_latency_microseconds", MICROSECONDS),
    ("pod_preemption_victims", VICTIMS),
    ("pod_scheduling_duration_seconds", SECONDS),
]


@pytest.mark.parametrize(("name", "bounds"), HISTOGRAMS)
def test_a_histogram_is_there_from_the_beginning_with_the_buckets_of_its_time(
    name: str, bounds: list[float]
) -> None:
    metrics = made()
    assert families(metrics)[f"scheduler_{name}"] == "histogram"
    shown = [float(bound) for (bound,) in scraped(metrics, f"{name}_bucket")]
    assert shown == [*map(pytest.approx, bounds), float("inf")]


def test_without_being_asked_for_they_are_not_there() -> None:
    metrics, asked = made(legacy=False), made()
    for one in (metrics, asked):
        touch_everything(one)
    assert families(metrics).items() < families(asked).items()
    assert len(metrics.shown) + 19 == len(asked.shown)
    assert "scheduler_e2e_scheduling_duration_seconds" not in families(metrics)


Tell = Callable[[SchedulerMetrics], None]


@pytest.mark.parametrize(
    ("tell", "counted"),
    [
        (
            lambda it: it.bound(PROFILE, 0.25, 3, 2.5, False),
            {
                "e2e_scheduling_duration_seconds": 0.25,
                "e2e_scheduling_latency_microseconds": 250_000,
                "pod_scheduling_duration_seconds": 2.5,
            },
        ),
        (lambda it: it.attempt("unschedulable", PROFILE, 0.25), {}),
        (lambda it: it.algorithm(0.5), {"scheduling_algorithm_latency_microseconds": 500_000}),
        (
            lambda it: it.point("Filter", "Success", PROFILE, 0.0000019),
            {
                "scheduling_algorithm_predicate_evaluation_seconds": 0.0000019,
                "scheduling_algorithm_predicate_evaluation": 1,
                "scheduling_duration_seconds/predicate_evaluation": 0.0000019,
                "scheduling_latency_seconds/predicate_evaluation": 0.0000019,
            },
        ),
        (
            lambda it: it.point("Score", "Success", PROFILE, 0.5),
            {
                "scheduling_algorithm_priority_evaluation_seconds": 0.5,
                "scheduling_algorithm_priority_evaluation": 500_000,
                "scheduling_duration_seconds/priority_evaluation": 0.5,
                "scheduling_latency_seconds/priority_evaluation": 0.5,
            },
        ),
        (
            lambda it: it.point("PostFilter", "Unschedulable", PROFILE, 0.5),
            {
                "scheduling_algorithm_preemption_evaluation_seconds": 0.5,
                "scheduling_algorithm_preemption_evaluation": 500_000,
                "scheduling_duration_seconds/preemption_evaluation": 0.5,
                "scheduling_latency_seconds/preemption_evaluation": 0.5,
            },
        ),
        (
            lambda it: it.point("Bind", "Error", PROFILE, 0.5),
            {
                "binding_duration_seconds": 0.5,
                "binding_latency_microseconds": 500_000,
                "scheduling_duration_seconds/binding": 0.5,
                "scheduling_latency_seconds/binding": 0.5,
            },
        ),
        (lambda it: it.point("PreBind", "Success", PROFILE, 0.5), {}),
        (lambda it: it.preempted(7), {"pod_preemption_victims": 7}),
        (
            lambda it: it.plugin("VolumeBinding", "Reserve", "Success", 0.5),
            {"volume_scheduling_duration_seconds/assume": 0.5},
        ),
        (
            lambda it: it.plugin("VolumeBinding", "PreBind", "Error", 0.5),
            {"volume_scheduling_duration_seconds/bind": 0.5},
        ),
        (
            lambda it: it.plugin("VolumeBinding", "Filter", "Success", 0.5),
            {"volume_scheduling_duration_seconds/predicate": 0.5},
        ),
        (lambda it: it.plugin("NodeName", "Filter", "Success", 0.5), {}),
    ],
)
def test_what_is_told_once_is_counted_under_the_old_names_too(tell: Tell, counted: dict[str, float]) -> None:
    metrics = made()
    plain = made(legacy=False)
    tell(metrics)
    tell(plain)
    assert old_sums(metrics) == counted
    shown, without = metrics.text().decode().splitlines(), plain.text().decode().splitlines()
    assert [line for line in shown if line in set(without)] == without


def old_sums(metrics: SchedulerMetrics) -> dict[str, float]:
    """Sums of old families in which anything was counted, `name/operation` where there is one."""
    names = [name for name, _ in HISTOGRAMS if name != "scheduling_algorithm_duration_seconds"]
    names += [
        "scheduling_duration_seconds",
        "scheduling_latency_seconds",
        "volume_scheduling_duration_seconds",
    ]
    return {
        "/".join([name, *labels]): scraped(metrics, f"{name}_sum")[labels]
        for name in names
        for labels, count in scraped(metrics, f"{name}_count").items()
        if count
    }


def test_counts_and_gauges_are_those_of_today() -> None:
    metrics = made()
    metrics.preemption_attempted()
    metrics.goroutines("binding", 2)
    metrics.watch_cache(lambda: {"nodes": 3, "pods": 4})
    assert "\nscheduler_total_preemption_attempts 1\n" in metrics.text().decode()
    assert scraped(metrics, "scheduler_goroutines") == {("binding",): 2}
    assert scraped(metrics, "scheduler_cache_size") == {("nodes",): 3, ("pods",): 4}


def test_many_values_are_passed_on_in_bundles_and_none_is_lost() -> None:
    metrics = made()
    series = metrics.points["Filter", "Success", PROFILE]
    for _ in range(2000):
        series.observe(0.5)
    metrics.reset()
    for _ in range(3):
        metrics.points["Filter", "Success", PROFILE].observe(0.5)
    assert scraped(metrics, "scheduling_algorithm_predicate_evaluation_seconds_count") == {(): 2003}
    assert scraped(metrics, "scheduling_duration_seconds_count") == {("predicate_evaluation",): 3}


def test_a_summary_shows_quantiles_of_the_last_five_hours() -> None:
    timer = Timer()
    metrics = made(timer)
    metrics.point("Bind", "Success", PROFILE, 100.0)
    metrics.text()
    timer.seconds = MAX_AGE + 1
    for hundredth in range(1, 101):
        metrics.point("Bind", "Success", PROFILE, hundredth / 100)
    shown = scraped(metrics, "scheduling_duration_seconds")
    assert shown == {
        ("binding", "0.5"): pytest.approx(0.5, rel=0.01),
        ("binding", "0.9"): pytest.approx(0.9, rel=0.01),
        ("binding", "0.99"): pytest.approx(0.99, rel=0.01),
    }
    assert scraped(metrics, "scheduling_duration_seconds_sum") == {("binding",): pytest.approx(150.5)}
    assert families(metrics)["scheduler_scheduling_duration_seconds"] == "summary"
    timer.seconds *= 3
    assert all(value != value for value in scraped(metrics, "scheduling_duration_seconds").values())


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=300))
def test_a_quantile_is_a_value_that_was_observed_or_close_to_it(values: list[float]) -> None:
    quantiles = Quantiles(Timer())
    quantiles.take(values)
    ordered = sorted(values)
    for share, value in quantiles.shown():
        place = max(-(-len(values) * round(share * 100) // 100) - 1, 0)
        assert value == pytest.approx(ordered[place], rel=0.011)


def test_a_summary_can_be_had_as_a_message_too() -> None:
    metrics = made()
    metrics.point("Bind", "Success", PROFILE, 1.0)
    message = delimited([metrics.registry])
    name = b"scheduler_scheduling_duration_seconds"
    start = message.index(b"\x0a" + bytes([len(name)]) + name)
    family = message[start : start + 300]
    assert b"\x18\x02" in family
    assert b"operation" in family
    assert b"quantile" not in family


def test_a_scheduler_at_work_feeds_them() -> None:
    """Two pods are placed; a third has to be made room for by one of them."""

    async def story(world: World) -> None:
        world.add_node("a", cpu="2")
        world.add_node("b", cpu="1")
        for name in ("p", "q"):
            await world.add_pod(name, cpu="1")
        await world.add_pod("important", cpu="2", priority=10)
        await world.settle(5)

    metrics = live(story, legacy_metrics=True, verbosity=0).scheduler.context.metrics

    def count(name: str) -> float:
        return sum(scraped(metrics, f"{name}_count").values())

    bound = scraped(metrics, "schedule_attempts_total")[PROFILE, "scheduled"]
    attempts = sum(scraped(metrics, "schedule_attempts_total").values())
    assert attempts > bound >= 2
    assert count("e2e_scheduling_duration_seconds") == count("binding_latency_microseconds") == bound
    assert count("scheduling_algorithm_latency_microseconds") == attempts
    assert count("scheduling_algorithm_predicate_evaluation_seconds") == attempts
    assert count("scheduling_algorithm_preemption_evaluation_seconds") == attempts - bound
    assert count("pod_preemption_victims") == 1
    assert scraped(metrics, "scheduling_duration_seconds_count").keys() >= {
        ("binding",),
        ("predicate_evaluation",),
        ("preemption_evaluation",),
        ("priority_evaluation",),
    }
