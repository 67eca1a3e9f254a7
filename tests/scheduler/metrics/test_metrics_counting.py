"""Metrics after events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram

from scheduler.metrics.reading import made, scraped, touch_everything
from stowplan.scheduler.metrics.descriptions import exponential
from stowplan.scheduler.metrics.exposition import number_text
from stowplan.scheduler.metrics.families import Distribution

PROFILE = "default-scheduler"
BOUNDS = exponential(0.00001, 1.5, 20)


def test_an_attempt_is_counted_and_timed_by_result_and_profile() -> None:
    metrics = made()
    metrics.bound(PROFILE, 0.25, 1, None, False)
    metrics.bound(PROFILE, 0.5, 1, None, False)
    metrics.attempt("error", "other", 1.0)
    assert scraped(metrics, "schedule_attempts_total") == {(PROFILE, "scheduled"): 2, ("other", "error"): 1}
    seconds = scraped(metrics, "scheduling_attempt_duration_seconds_sum")
    assert seconds == {(PROFILE, "scheduled"): 0.75, ("other", "error"): 1.0}


@pytest.mark.parametrize(
    ("attempts", "label"), [(1, "1"), (2, "2"), (14, "14"), (15, "15+"), (16, "15+"), (400, "15+")]
)
def test_a_bound_pod_is_timed_by_its_attempts_up_to_a_limit(attempts: int, label: str) -> None:
    metrics = made()
    metrics.bound(PROFILE, 0.5, attempts, 7.0, False)
    assert scraped(metrics, "pod_scheduling_sli_duration_seconds_sum") == {(label,): 7.0}
    assert scraped(metrics, "pod_scheduling_attempts_sum") == {(): attempts}
    assert scraped(metrics, "pod_scheduled_after_flush_total") == {(): 0}


def test_a_bound_pod_of_which_it_is_not_known_when_it_came_is_not_timed() -> None:
    metrics = made()
    metrics.bound(PROFILE, 0.5, 3, None, True)
    assert scraped(metrics, "pod_scheduling_sli_duration_seconds_count") == {}
    assert scraped(metrics, "pod_scheduling_attempts_count") == {(): 1}
    assert scraped(metrics, "pod_scheduled_after_flush_total") == {(): 1}


def test_a_pod_that_is_bound_at_once_is_timed() -> None:
    metrics = made()
    metrics.bound(PROFILE, 0.5, 1, 0.0, False)
    assert scraped(metrics, "pod_scheduling_sli_duration_seconds_count") == {("1",): 1}


def test_victims_are_a_distribution_and_attempts_to_preempt_a_count() -> None:
    metrics = made()
    metrics.preemption_attempted()
    metrics.preemption_attempted()
    metrics.preempted(3)
    metrics.preemption_executed("success", 0.0)
    assert scraped(metrics, "preemption_attempts_total") == {(): 2}
    assert scraped(metrics, "preemption_victims_bucket") == {
        ("1",): 0,
        ("2",): 0,
        **{(le,): 1 for le in ("4", "8", "16", "32", "64", "+Inf")},
    }
    assert scraped(metrics, "preemption_goroutines_execution_total") == {("success",): 1}


def test_plugins_of_a_group_are_shown_from_the_beginning_and_counted_together() -> None:
    metrics = made()
    counter = metrics.evaluations(PROFILE, [("NodeName", "Filter"), ("NodePorts", "Filter")])
    assert set(scraped(metrics, "plugin_evaluation_total").values()) == {0}
    counter.add()
    counter.add(99)
    metrics.evaluated("NodeName", "Filter", PROFILE)
    expected = {("Filter", "NodeName", PROFILE): 101, ("Filter", "NodePorts", PROFILE): 100}
    assert scraped(metrics, "plugin_evaluation_total") == expected
    assert scraped(metrics, "plugin_evaluation_total") == expected


def test_the_same_bundle_has_one_counter_per_profile() -> None:
    metrics = made()
    pairs = [("NodeName", "Filter")]
    assert metrics.evaluations(PROFILE, pairs) is metrics.evaluations(PROFILE, tuple(pairs))
    metrics.evaluations("other", pairs).add(5)
    assert scraped(metrics, "plugin_evaluation_total")["Filter", "NodeName", PROFILE] == 0


def test_a_plugin_in_two_bundles_is_counted_for_both() -> None:
    metrics = made()
    metrics.evaluations(PROFILE, [("A", "Score"), ("B", "Score")]).add(2)
    metrics.evaluations(PROFILE, [("B", "Score")]).add(3)
    assert scraped(metrics, "plugin_evaluation_total") == {
        ("Score", "A", PROFILE): 2,
        ("Score", "B", PROFILE): 5,
    }


def test_gauges_of_the_state_are_read_when_somebody_looks() -> None:
    metrics = made()
    counts = {"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4}
    metrics.watch_queue(lambda: counts, lambda: {(queue, "pod"): count for queue, count in counts.items()})
    metrics.watch_cache(lambda: {"nodes": 5, "pods": 50, "assumed_pods": 7})
    counts["active"] = 10
    assert scraped(metrics, "pending_pods") == {
        ("active",): 10,
        ("backoff",): 2,
        ("unschedulable",): 3,
        ("gated",): 4,
        ("incomplete",): 0,
        ("pending",): 0,
    }
    assert scraped(metrics, "cache_size") == {("nodes",): 5, ("pods",): 50, ("assumed_pods",): 7}


def test_what_is_gone_is_shown_as_zero() -> None:
    metrics = made()
    metrics.goroutines("binding", 1)
    metrics.goroutines("binding", -1)
    assert scraped(metrics, "goroutines") == {("binding",): 0}


def test_after_a_reset_only_figures_without_labels_and_gauges_are_left() -> None:
    metrics = made()
    touch_everything(metrics)
    counter = metrics.evaluations(PROFILE, [("NodeName", "Filter")])
    counter.add(4)
    metrics.reset()
    assert scraped(metrics, "schedule_attempts_total") == {}
    assert scraped(metrics, "framework_extension_point_duration_seconds_count") == {}
    assert scraped(metrics, "plugin_evaluation_total") == {("Filter", "NodeName", PROFILE): 0}
    assert scraped(metrics, "preemption_attempts_total") == {(): 1}
    assert scraped(metrics, "scheduling_algorithm_duration_seconds_count") == {(): 1}
    assert scraped(metrics, "goroutines") == {("binding",): 1}


def test_after_a_reset_everything_goes_on_being_counted() -> None:
    metrics = made()
    counter = metrics.evaluations(PROFILE, [("NodeName", "Filter")])
    metrics.point("Bind", "Success", PROFILE, 1.0)
    metrics.reset()
    metrics.point("Bind", "Error", PROFILE, 2.0)
    metrics.attempt("error", PROFILE, 2.0)
    counter.add(2)
    points = scraped(metrics, "framework_extension_point_duration_seconds_sum")
    assert points == {("Bind", PROFILE, "Error"): 2.0}
    assert scraped(metrics, "schedule_attempts_total") == {(PROFILE, "error"): 1}
    assert scraped(metrics, "plugin_evaluation_total") == {("Filter", "NodeName", PROFILE): 2}


def test_series_are_in_the_order_of_their_label_values() -> None:
    metrics = made()
    for result, profile in (("scheduled", "b"), ("error", "b"), ("unschedulable", "a")):
        metrics.attempt(result, profile, 0.1)
    series = list(scraped(metrics, "schedule_attempts_total"))
    assert series == [("a", "unschedulable"), ("b", "error"), ("b", "scheduled")]


def test_others_can_add_collectors_but_not_take_a_name() -> None:
    metrics = made()
    Gauge("leader_election_master_status", "whether this one leads", registry=metrics.registry).set(1)
    assert metrics.text().startswith(b"# HELP leader_election_master_status ")
    with pytest.raises(ValueError, match="scheduler_pending_pods"):
        Gauge("scheduler_pending_pods", "pods", registry=metrics.registry)


@given(st.lists(st.one_of(st.sampled_from(BOUNDS), st.floats(0, 0.05))))
def test_values_fall_into_the_buckets_prometheus_client_puts_them_in(values: list[float]) -> None:
    registry = CollectorRegistry()
    theirs = Histogram("h", "values", registry=registry, buckets=BOUNDS)
    ours = Distribution(BOUNDS)
    for value in values:
        theirs.observe(value)
        ours.observe(value)
    samples = [sample for family in registry.collect() for sample in family.samples]
    cumulated = [sample.value for sample in samples if sample.name == "h_bucket"]
    assert [sum(ours.counts[: place + 1]) for place in range(len(ours.counts))] == cumulated
    assert ours.total == next(sample.value for sample in samples if sample.name == "h_sum")


@pytest.mark.parametrize("value", [*BOUNDS, 1.0])
def test_a_value_can_be_repeated(value: float) -> None:
    repeated, one_by_one = Distribution(BOUNDS), Distribution(BOUNDS)
    repeated.observe(0.5)
    repeated.repeat(value, 3)
    for each in (0.5, value, value, value):
        one_by_one.observe(each)
    assert repeated.counts == one_by_one.counts
    assert repeated.total == pytest.approx(one_by_one.total)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bucket_holds_its_upper_bound(bound: float) -> None:
    found = Distribution(BOUNDS)
    found.observe(bound)
    assert found.counts.index(1) == BOUNDS.index(bound)


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0, "0"),
        (1, "1"),
        (16.0, "16"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (9.999999999999999e-06, "9.999999999999999e-06"),
        (5242.88, "5242.88"),
        (999999, "999999"),
        (1048576, "1.048576e+06"),
        (1794771678.84, "1.79477167884e+09"),
        (1e21, "1e+21"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(bound: float, text: str) -> None:
    assert number_text(bound) == text
