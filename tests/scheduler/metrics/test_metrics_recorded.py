"""Names, types, labels, buckets and stability are those of kube-scheduler 1.36 and 1.37."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from releases import GATES_1_36, GATES_1_37, V1_36, V1_37
from scheduler.metrics.reading import Timer, made, scraped, touch_everything
from scheduler.metrics.recorded import Recorded, recorded, registry_of_1_37
from stowplan.api.gates.feature_gates import FeatureGates, gates_with
from stowplan.scheduler.metrics import ProcessMetrics
from stowplan.scheduler.metrics.catalogue import SCHEDULING
from stowplan.scheduler.metrics.options import MetricsOptions

ALL_GATES = gates_with(V1_36.gates, V1_36)

ATTEMPT = (*(f"{0.001 * 2**power:g}" for power in range(15)), "+Inf")
UNSEEN = [
    Recorded("scheduler_permit_wait_duration_seconds", "histogram", "BETA", ("result",), ATTEMPT),
    Recorded("scheduler_podgroup_schedule_attempts_total", "counter", "ALPHA", ("profile", "result"), ()),
    Recorded(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "histogram",
        "ALPHA",
        ("profile", "result"),
        ATTEMPT,
    ),
    Recorded("scheduler_podgroup_scheduling_algorithm_duration_seconds", "histogram", "ALPHA", (), ATTEMPT),
]
"""Families for which there was no occasion in the recordings."""
NEVER_COUNTED = "scheduler_volume_binder_cache_requests_total"

RECORDED = {entry.name: entry for entry in recorded()}
KNOWN = {**RECORDED, **{entry.name: entry for entry in UNSEEN}}
UNLABELLED = [name for name, entry in RECORDED.items() if entry.unlabelled]


def shown_names(text: bytes) -> list[str]:
    return re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE)


@pytest.fixture(scope="module")
def full_text() -> str:
    metrics = made(ALL_GATES)
    touch_everything(metrics)
    return metrics.text().decode()


@pytest.mark.parametrize("name", KNOWN)
def test_a_family_is_what_it_is_in_kube_scheduler(name: str, full_text: str) -> None:
    entry = KNOWN[name]
    families = {family.name: family for family in text_string_to_metric_families(full_text)}
    family = families[name.removesuffix("_total") if entry.type == "counter" else name]
    assert family.type == entry.type
    assert family.documentation.startswith(f"[{entry.stability}] ")
    assert {label for sample in family.samples for label in sample.labels} - {"le"} == set(entry.labels)
    les = list(dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels))
    assert tuple(les) == entry.buckets


def test_no_other_family_exists_but_one_that_nobody_counts_in(full_text: str) -> None:
    assert set(shown_names(full_text.encode())) == set(KNOWN)
    described = {entry.full_name for entry in SCHEDULING.all if entry.in_release(V1_36)}
    assert {name for name in described if not name.startswith("stowplan_")} == {*KNOWN, NEVER_COUNTED}


def test_families_are_in_the_order_of_their_names(full_text: str) -> None:
    names = shown_names(full_text.encode())
    assert names == sorted(names)


def test_before_anything_happens_there_are_families_without_labels_and_the_state() -> None:
    metrics = made(GATES_1_36)
    state = ["scheduler_cache_size", "scheduler_pending_pods"]
    assert shown_names(metrics.text()) == sorted([*UNLABELLED, *state])
    values = [
        sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    ]
    assert set(values) == {0.0}


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        ("SchedulerQueueingHints", {"queueing_hint_execution_duration_seconds", "inflight_events"}),
        (
            "SchedulerAsyncPreemption",
            {"preemption_goroutines_duration_seconds", "preemption_goroutines_execution_total"},
        ),
        ("DRAExtendedResource", {"resourceclaim_creates_total"}),
        (
            "DRADeviceBindingConditions",
            {"dra_bindingconditions_allocations_total", "dra_bindingconditions_wait_duration_seconds"},
        ),
        (
            "SchedulerAsyncAPICalls",
            {
                "async_api_call_execution_total",
                "async_api_call_execution_duration_seconds",
                "pending_async_api_calls",
            },
        ),
        (
            "GenericWorkload",
            {
                "podgroup_schedule_attempts_total",
                "podgroup_scheduling_attempt_duration_seconds",
                "podgroup_scheduling_algorithm_duration_seconds",
            },
        ),
    ],
)
def test_a_gate_that_is_off_hides_its_families_and_no_others(gate: str, names: set[str]) -> None:
    metrics = made(FeatureGates({**ALL_GATES, gate: False}, V1_36))
    touch_everything(metrics)
    hidden = {f"scheduler_{name}" for name in names}
    assert set(shown_names(metrics.text())) == set(KNOWN) - hidden


def test_families_of_1_37_are_those_of_its_registry() -> None:
    described = {one.full_name: one for one in (each.in_release(V1_37) for each in SCHEDULING.all) if one}
    ours = {name for name in described if not name.startswith(("stowplan_", "informer_"))}
    volumes = {NEVER_COUNTED, "scheduler_volume_scheduling_stage_error_total"}
    expected = {entry.name: entry for entry in registry_of_1_37()}
    assert ours - volumes == set(expected) - volumes
    for name, entry in expected.items():
        found = described[name]
        assert (found.stability, sorted(found.labels)) == (entry.stability, sorted(entry.labels)), name
        assert len(found.bounds) == len(entry.buckets), name
        assert [f"{bound:g}" for bound in found.bounds] == [f"{float(b):g}" for b in entry.buckets], name


def test_what_1_37_deprecated_is_hidden_unless_asked_for() -> None:
    name = "scheduler_preemption_goroutines_duration_seconds"
    scheduling = made(GATES_1_37)
    scheduling.preemption_executed("success", 0.1)
    process = ProcessMetrics(GATES_1_37, timer=Timer())
    process.show(scheduling)
    assert name not in process.text().decode()
    assert "\nhidden_metrics_total 1\n" in process.text().decode()
    process = ProcessMetrics(
        GATES_1_37, timer=Timer(), options=MetricsOptions(show_hidden_for_version="1.36")
    )
    process.show(scheduling)
    text = process.text().decode()
    assert f"# HELP {name} [ALPHA] (Deprecated since 1.37.0) " in text
    assert 'registered_metrics_total{deprecated_version="1.37.0",stability_level="ALPHA"} 1' in text


def test_1_37_counts_pods_as_entities_of_the_queue_and_claims_by_owner() -> None:
    metrics = made(GATES_1_37)
    touch_everything(metrics)
    text = metrics.text().decode()
    came = scraped(metrics, "queue_incoming_pods_total")
    assert came
    assert scraped(metrics, "queue_incoming_entities_total") == {
        (event, queue, "pod"): count for (event, queue), count in came.items()
    }
    assert 'scheduler_queued_entities{queue="active",type="pod"} 0' in text
    assert (
        "dynamic_resource_allocation_resourceclaim_creates_total"
        '{admin_access="false",owner_api_group="",owner_api_kind="Pod",status="success"} 1' in text
    )
    assert "scheduler_resourceclaim_creates_total" not in text
