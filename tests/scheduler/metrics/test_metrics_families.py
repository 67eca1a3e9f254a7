"""Everything a process shows, compared with what kube-scheduler showed as leader and as standby."""

import re
from random import Random

import pytest

from observed.files import recorded
from releases import GATES_1_36
from scheduler.metrics.reading import Timer
from scheduler.metrics.recorded import Recorded
from stowplan.scheduler.metrics import ProcessMetrics, SchedulerMetrics

NO_AUDIT = "the secure port has no audit log"
NO_STORAGE = "a scheduler stores nothing, so nothing is encrypted"
NO_ADMISSION = "a scheduler validates no objects of others and calls no webhooks"
NO_DISCOVERY = "a scheduler serves no APIs"
NO_WORKQUEUE = "certificates and authorities are re-read by one task, without a queue"
NO_TRANSPORT_CACHE = "every client has its own connections; there is no cache of transports"
NOT_FED = "certificates of exec plugins are renewed where nobody counts them"

DIFFERENT = {
    "aggregator_discovery_aggregation_count_total": NO_DISCOVERY,
    "aggregator_discovery_nopeer_requests_total": NO_DISCOVERY,
    "aggregator_discovery_peer_aggregated_cache_hits_total": NO_DISCOVERY,
    "aggregator_discovery_peer_aggregated_cache_misses_total": NO_DISCOVERY,
    "apiserver_audit_event_total": NO_AUDIT,
    "apiserver_audit_requests_rejected_total": NO_AUDIT,
    "apiserver_envelope_encryption_dek_cache_fill_percent": NO_STORAGE,
    "apiserver_storage_data_key_generation_duration_seconds": NO_STORAGE,
    "apiserver_storage_data_key_generation_failures_total": NO_STORAGE,
    "apiserver_storage_envelope_transformation_cache_misses_total": NO_STORAGE,
    "apiserver_validation_declarative_validation_mismatch_total": NO_ADMISSION,
    "apiserver_validation_declarative_validation_panic_total": NO_ADMISSION,
    "apiserver_validation_duplicate_validation_error_total": NO_ADMISSION,
    "apiserver_webhooks_x509_insecure_sha1_total": NO_ADMISSION,
    "apiserver_webhooks_x509_missing_san_total": NO_ADMISSION,
    "rest_client_exec_plugin_certificate_rotation_age": NOT_FED,
    "rest_client_exec_plugin_ttl_seconds": NOT_FED,
    "rest_client_transport_cache_entries": NO_TRANSPORT_CACHE,
    "rest_client_transport_cert_rotation_gc_calls_total": NO_TRANSPORT_CACHE,
    "rest_client_transport_create_calls_total": NO_TRANSPORT_CACHE,
    "workqueue_adds_total": NO_WORKQUEUE,
    "workqueue_depth": NO_WORKQUEUE,
    "workqueue_longest_running_processor_seconds": NO_WORKQUEUE,
    "workqueue_queue_duration_seconds": NO_WORKQUEUE,
    "workqueue_retries_total": NO_WORKQUEUE,
    "workqueue_unfinished_work_seconds": NO_WORKQUEUE,
    "workqueue_work_duration_seconds": NO_WORKQUEUE,
}
"""Families of kube-scheduler's that are missing here on purpose, and why; Go's own (`go_*`) besides."""

OURS = {
    "leader_election_slowpath_total": "kube-scheduler has it, too; there was no occasion to see it",
    "python_gc_collections_total": "the garbage collector, instead of go_gc_*",
    "python_gc_objects_collected_total": "the garbage collector, instead of go_gc_*",
    "python_gc_objects_uncollectable_total": "the garbage collector, instead of go_gc_*",
    "python_info": "the language, instead of go_info",
    "stowplan_apiserver_reachable": "whether the API server is there is found out once for all clients",
    "stowplan_config_last_reload_successful": "configuration is reloaded, which kube-scheduler does not do",
}
"""Families that are only here, and why."""

SEEN = {
    entry["name"]: Recorded(
        entry["name"],
        entry["type"],
        entry["stability"],
        tuple(entry["labels"]),
        tuple(entry.get("buckets", ())),
    )
    for entry in recorded("ports/families")
}
BY_STANDBY = {entry["name"] for entry in recorded("ports/families") if "standby" in entry["seen_in"]}
COMMON = sorted(name for name in SEEN if not name.startswith("scheduler_") and name not in DIFFERENT)
UNPROMISED = {name for name in COMMON if name.startswith("process_")}
"""prometheus_client's own promise nothing about stability, and neither do those of Go."""


def process(*, leads: bool) -> ProcessMetrics:
    metrics = ProcessMetrics(GATES_1_36, timer=Timer())
    metrics.show(SchedulerMetrics(Timer(), GATES_1_36, Random(0)))
    metrics.watch_election("kube-scheduler", lambda: leads, lambda: 0)
    metrics.watch_servers(lambda: {"https://127.0.0.1:6443": leads})
    metrics.watch_reloads(lambda: True)
    touch_requests(metrics)
    touch_access(metrics)
    return metrics


def touch_requests(metrics: ProcessMetrics) -> None:
    host = metrics.requests.to("127.0.0.1:6443")
    host.answered("POST", 429, 0.0, 10, False)
    host.answered("POST", 201, 0.0, 10, True)
    host.ended("POST", 0.1, 10)


def touch_access(metrics: ProcessMetrics) -> None:
    access = metrics.access
    access.authenticated("success", 0.1, "alice")
    access.authorized("allowed", 0.1)
    access.looked_up(False, 0.1)
    access.fetching("in_flight", 1)
    access.fetched(True)
    access.fetching("in_flight", -1)
    access.token_reviewed("201", 0.1)
    access.access_reviewed("201", 0.1)
    access.certificate_shown(86400.0)


def types_of(metrics: ProcessMetrics) -> dict[str, str]:
    lines = (line.split() for line in metrics.text().decode().splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in lines}


@pytest.fixture(scope="module")
def text() -> str:
    return process(leads=True).text().decode()


@pytest.mark.parametrize("name", COMMON)
def test_a_family_is_what_it_is_in_kube_scheduler(name: str, text: str) -> None:
    entry = SEEN[name]
    lines = text.splitlines()
    assert f"# TYPE {name} {entry.type}" in lines
    told = next(line for line in lines if line.startswith(f"# HELP {name} "))
    if name not in UNPROMISED:
        assert told.startswith(f"# HELP {name} [{entry.stability}] ")
    samples = [line for line in lines if re.match(rf"{name}(_bucket|_sum|_count)?[{{ ]", line)]
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in samples]
    assert set().union(*labels) - {"le"} == set(entry.labels)
    assert tuple(dict.fromkeys(found["le"] for found in labels if "le" in found)) == entry.buckets


def test_the_same_families_are_there_but_for_those_that_differ_on_purpose() -> None:
    shown = {name for name in types_of(process(leads=True)) if not name.startswith("scheduler_")}
    assert shown == {*COMMON, *OURS}
    assert set(DIFFERENT) <= set(SEEN)


def test_a_standby_shows_what_a_standby_of_kube_scheduler_shows() -> None:
    metrics = process(leads=False)
    scheduling = SchedulerMetrics(Timer(), GATES_1_36, Random(0))
    scheduling.event_handled("NodeAdd", 0.001)
    scheduling.evaluations("default-scheduler", [("NodeName", "Filter")])
    metrics.show(scheduling)
    expected = {name for name in BY_STANDBY if name not in DIFFERENT}
    shown = set(types_of(metrics))
    assert expected <= shown
    assert {name for name in shown if name.startswith("scheduler_")} <= BY_STANDBY
    assert 'leader_election_master_status{name="kube-scheduler"} 0' in metrics.text().decode()


def test_registered_families_are_counted_by_stability() -> None:
    lines = process(leads=True).text().decode().splitlines()
    counted = {
        line.split('"')[3]: int(line.split()[-1])
        for line in lines
        if line.startswith("registered_metrics_total{")
    }
    assert set(counted) == {"ALPHA", "BETA", "STABLE"}
    assert counted["STABLE"] == sum(
        entry.stability == "STABLE" for entry in SEEN.values() if entry.name.startswith("scheduler_")
    )


def test_features_are_shown_with_their_stage() -> None:
    lines = process(leads=True).text().decode().splitlines()
    for series in (
        '{name="SchedulerQueueingHints",stage=""} 1',
        '{name="OpportunisticBatching",stage="BETA"} 1',
        '{name="GangScheduling",stage="ALPHA"} 0',
    ):
        assert f"kubernetes_feature_enabled{series}" in lines


def test_after_a_reload_the_new_scheduler_s_figures_are_shown() -> None:
    metrics = process(leads=True)
    newer = SchedulerMetrics(Timer(), GATES_1_36, Random(0))
    newer.attempt("scheduled", "renamed", 0.1)
    metrics.show(newer)
    assert (
        'scheduler_schedule_attempts_total{profile="renamed",result="scheduled"} 1' in metrics.text().decode()
    )
