"""The secure ports of real processes answer whom they should, with what was recorded of kube-scheduler's."""

import json
import re

import pytest

from observed.files import recorded
from scheduler.metrics.test_metrics_families import BY_STANDBY, DIFFERENT, OURS, SEEN
from server.process.process_lives import CODES, INSPECTION, Answer, Ended, Lives

ADMIN = "system:masters"
RETRY = "no request had to be sent again"
ELSEWHERE = "counts what happens in other scenarios only"
NOT_YET = {
    "rest_client_request_retries_total": RETRY,
    "scheduler_dra_bindingconditions_allocations_total": ELSEWHERE,
    "scheduler_dra_bindingconditions_wait_duration_seconds": ELSEWHERE,
    "scheduler_resourceclaim_creates_total": ELSEWHERE,
    "scheduler_volume_scheduling_stage_error_total": ELSEWHERE,
}
"""Families that kube-scheduler showed after all scenarios, and that a leader does not show after a to d."""
WITH_PODS = {"scheduler_framework_extension_point_duration_seconds", "scheduler_queue_incoming_pods_total"}
"""Families of a standby that knows of waiting pods; the recorded one knew of none."""

UNELECTED = {
    "no-leader-election": "open",
    "no-authentication-kubeconfig": "lonely",
    "always-allow-metrics-and-profiling-off": "open",
    "not-ready-pods-cannot-be-listed": "blind",
}
"""Life of a scheduler without election for each recorded case."""


def types_of(metrics: Answer) -> dict[str, str]:
    lines = (line.split() for line in metrics.text.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in lines}


def labels_of(name: str, metrics: Answer) -> set[str]:
    samples = re.findall(rf"^{name}(?:_bucket|_sum|_count)?\{{(.*)\}} ", metrics.text, re.MULTILINE)
    return {label for sample in samples for label in re.findall(r'(\w+)="', sample)} - {"le"}


@pytest.mark.parametrize("path", CODES)
def test_every_caller_gets_the_recorded_answer_from_a_leader(path: str, lives: Lives) -> None:
    assert {caller: lives.leader.answers[caller, path].code for caller in CODES[path]} == CODES[path]


@pytest.mark.parametrize("path", CODES)
def test_a_standby_answers_as_its_leader_does(path: str, lives: Lives) -> None:
    assert lives.standby.answers[ADMIN, path].code == CODES[path][ADMIN]


def test_a_certificate_of_the_clusters_authority_opens_doors(lives: Lives) -> None:
    assert lives.leader.answers["client-certificate", "/metrics"].code == 200


@pytest.mark.parametrize("case", ["leader", "standby"])
@pytest.mark.parametrize("page", ["/healthz?verbose", "/livez?verbose", "/readyz?verbose"])
def test_the_checks_of_leader_and_standby_are_the_recorded_ones(case: str, page: str, lives: Lives) -> None:
    ended: Ended = getattr(lives, case)
    (body,) = {one["body"] for one in recorded("ports/pages") if (one["case"], one["path"]) == (case, page)}
    assert ended.answers[ADMIN, page].text == body


def test_the_configuration_is_shown_as_recorded(lives: Lives) -> None:
    (body,) = [
        json.loads(one["body"])["componentconfig"]
        for one in recorded("ports/pages")
        if (one["case"], one["path"]) == ("standby", "/configz")
    ]
    own = json.loads(lives.leader.answers[ADMIN, "/configz"].text)["componentconfig"]
    own["clientConnection"]["kubeconfig"] = body["clientConnection"]["kubeconfig"]
    assert own == body


def test_the_flags_and_the_status_are_shown(lives: Lives) -> None:
    flags = lives.leader.answers[ADMIN, "/flagz"].text
    assert "\nleader-elect=true\n" in flags
    assert "\nv=2\n" in flags
    assert re.search(
        r"^Started: .*^Up: .*^Binary version: 1\.37\..*^Emulation version: 1\.36",
        lives.leader.answers[ADMIN, "/statusz"].text,
        re.M | re.S,
    )


def test_only_the_leader_tells_of_pods(lives: Lives) -> None:
    told = lives.leader.answers[ADMIN, "/metrics/resources"].text
    assert re.search(
        r'kube_pod_resource_request\{namespace="obs-d",node="node-d1",pod="high",.*unit="cores"\} 3', told
    )
    assert lives.standby.answers[ADMIN, "/metrics/resources"].text == ""


def _families(ended: Ended) -> set[str]:
    """Families that a process shows, without ours that depend on the load or on the objects."""
    shown = set(types_of(ended.answers[ADMIN, "/metrics"]))
    varying = ("stowplan_event_loop_", "stowplan_costly_owner_", "stowplan_unreadable_objects")
    return {name for name in shown if not name.startswith(varying)}


SAMPLED = {"scheduler_plugin_execution_duration_seconds"}
"""Observed in one attempt of ten: after a handful of attempts it may not be there yet."""


def test_a_leader_shows_the_recorded_families(lives: Lives) -> None:
    shown = _families(lives.leader)
    assert shown | SAMPLED == (set(SEEN) - set(DIFFERENT) - set(NOT_YET)) | set(OURS)


def test_a_standby_shows_the_recorded_families(lives: Lives) -> None:
    shown = _families(lives.standby)
    expected = (BY_STANDBY - set(DIFFERENT)) | set(OURS) | WITH_PODS
    assert shown - SAMPLED == expected - SAMPLED


@pytest.mark.parametrize("case", ["leader", "standby"])
def test_families_have_the_recorded_types_and_labels(case: str, lives: Lives) -> None:
    metrics = getattr(lives, case).answers[ADMIN, "/metrics"]
    for name, kind in types_of(metrics).items():
        if name in SEEN:
            assert (name, kind) == (name, SEEN[name].type)
            assert (name, labels_of(name, metrics)) == (name, set(SEEN[name].labels))


def test_only_one_of_them_is_the_master(lives: Lives) -> None:
    line = 'leader_election_master_status{name="kube-scheduler"} '
    assert f"{line}1\n" in lives.leader.answers[ADMIN, "/metrics"].text
    assert f"{line}0\n" in lives.standby.answers[ADMIN, "/metrics"].text


@pytest.mark.parametrize("case", UNELECTED)
def test_special_cases_answer_as_recorded(case: str, unelected: dict[str, Ended]) -> None:
    own = unelected[UNELECTED[case]].answers
    expected = {(who, path): code for who, path, code, _ in recorded("ports/special-cases")[case]}
    assert {asked: own[asked].code for asked in expected} == expected
    for who, path, _, body in recorded("ports/special-cases")[case]:
        if body is not None:
            assert own[who, path].text == body


@pytest.mark.parametrize("path", INSPECTION)
def test_nothing_about_the_cluster_is_told_to_strangers(path: str, lives: Lives) -> None:
    assert lives.leader.answers["anonymous", path].code == 403


def test_the_api_of_stowplan_is_served_and_its_page_only_on_request(lives: Lives) -> None:
    overview = json.loads(lives.leader.answers[ADMIN, "/stowplan/v1"].text)
    assert overview["scheduler"]["leader"] is True
    nodes = json.loads(lives.leader.answers[ADMIN, "/stowplan/v1/nodes"].text)
    assert len(nodes["names"]) == overview["nodes"] > 0
    assert json.loads(lives.leader.answers[ADMIN, "/stowplan/v1/pods"].text)["total"] > 0
    assert lives.leader.answers[ADMIN, "/stowplan/"].code == 404
