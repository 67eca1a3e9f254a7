"""Patches of a pod's status: those recorded from kube-scheduler, and the rules behind them."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from observed.files import recorded
from scheduler.events.collected_events import Desk, HandClock
from scheduler.events.collected_events import pod as bare_pod
from stowplan.api import catalogue as c
from stowplan.api.meta import seconds_of, timestamp
from stowplan.api.pod import Pod, PodCondition, PodStatus
from stowplan.api.requests import Json
from stowplan.api.status import ApiError, already_exists, conflict, not_found, unreachable
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.events import failure_patch, nomination_patch, patch_status, victim_patch

PATCHES: list[Json] = recorded("wire/status-patches")
LATER = seconds_of("2026-11-15T23:00:00Z")
EARLIER = "2026-11-15T22:00:00Z"


def pod_with(*conditions: PodCondition, nominated: str = "", generation: int = 1) -> Pod:
    status = PodStatus(conditions=conditions, nominated_node_name=nominated)
    return msgspec.structs.replace(bare_pod(generation=generation), status=status)


def scheduled(status: str = "False", **fields: Any) -> PodCondition:
    known = {
        "reason": "Unschedulable",
        "message": "no",
        "last_transition_time": EARLIER,
        "observed_generation": 1,
    }
    return PodCondition(type="PodScheduled", status=status, **{**known, **fields})


def failed(
    pod: Pod, reason: str = "Unschedulable", message: str = "no", node: str | None = None
) -> Json | None:
    return failure_patch(pod, reason=reason, message=message, now=LATER, nominated_node=node)


def patch_of(recording: Json) -> Json | None:
    """The patch we would write where a real scheduler wrote a recorded one."""
    raw = {"metadata": {"name": recording["pod"], "generation": recording["generation"]}}
    pod = msgspec.convert({**raw, "status": recording["before"]}, Pod)
    said = recording["request"]["status"].get("conditions", [{}])[0].get("lastTransitionTime")
    now = seconds_of(said) if said else LATER
    call = dict(recording["call"])
    match call.pop("what"):
        case "failure":
            return failure_patch(pod, now=now, **call)
        case "victim":
            return victim_patch(pod, now=now, **call)
        case _:
            return nomination_patch(pod, **call)


@pytest.mark.parametrize("recording", PATCHES, ids=lambda each: f"{each['scenario']} {each['seq']}")
def test_a_recorded_patch_is_ours_to_the_letter(recording: Json) -> None:
    assert patch_of(recording) == recording["request"]


def test_the_recording_holds_every_patch_of_a_pod_status_but_those_of_claims() -> None:
    writes = [
        write["request"]
        for scenario in recorded("wire/writes").values()
        for write in scenario
        if write["method"] == "PATCH" and "/pods/" in write["url"]
    ]
    ours = [request for request in writes if "extendedResourceClaimStatus" not in request["status"]]
    assert sorted(map(str, ours)) == sorted(str(each["request"]) for each in PATCHES)


def test_nothing_is_written_where_nothing_changes() -> None:
    assert failed(pod_with(scheduled())) is None
    assert failed(pod_with(scheduled()), node="") is None
    assert failed(pod_with(scheduled(), nominated="n"), node="n") is None
    assert nomination_patch(pod_with(nominated="n"), "n") is None
    assert nomination_patch(pod_with(), "") is None


def test_another_generation_alone_is_not_written_but_goes_along() -> None:
    pod = pod_with(scheduled(), generation=2)
    assert failed(pod) is None
    assert failed(pod, node="n") == {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"type": "PodScheduled", "observedGeneration": 2}],
            "nominatedNodeName": "n",
        }
    }


def test_a_nomination_alone_is_taken_back_without_touching_the_condition() -> None:
    assert failed(pod_with(scheduled(), nominated="n"), node="") == {"status": {"nominatedNodeName": None}}


def test_a_nomination_is_left_alone_unless_something_is_said_about_it() -> None:
    patch = failed(pod_with(nominated="n"))
    assert patch is not None
    assert "nominatedNodeName" not in patch["status"]


def test_only_a_changed_status_is_a_transition() -> None:
    patch = failed(pod_with(scheduled("True", reason="", message="")))
    assert patch is not None
    assert patch["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no",
            "lastTransitionTime": timestamp(LATER),
        }
    ]


def test_what_a_condition_no_longer_says_becomes_null() -> None:
    patch = failed(pod_with(scheduled(last_probe_time=EARLIER)), message="")
    assert patch is not None
    assert patch["status"]["conditions"] == [{"type": "PodScheduled", "message": None, "lastProbeTime": None}]


def test_a_probe_time_alone_is_reason_enough_to_write() -> None:
    patch = failed(pod_with(scheduled(last_probe_time=EARLIER)))
    assert patch is not None
    assert patch["status"]["conditions"] == [{"type": "PodScheduled", "lastProbeTime": None}]


def test_the_order_of_conditions_is_kept_and_a_new_one_comes_last() -> None:
    pod = pod_with(PodCondition(type="B"), PodCondition(type="A"))
    patch = victim_patch(pod, scheduler_name="mine", now=LATER)
    assert patch is not None
    assert patch["status"]["$setElementOrder/conditions"] == [
        {"type": "B"},
        {"type": "A"},
        {"type": "DisruptionTarget"},
    ]
    assert (
        patch["status"]["conditions"][0]["message"] == "mine: preempting to accommodate a higher priority pod"
    )


def test_a_victim_is_marked_once() -> None:
    pod = pod_with()
    patch = victim_patch(pod, scheduler_name="mine", now=LATER)
    assert patch is not None
    marked = msgspec.convert(patch["status"]["conditions"][0], PodCondition)
    assert victim_patch(pod_with(marked), scheduler_name="mine", now=LATER + 9) is None


texts = st.sampled_from(["", "a", "b"])
conditions = st.builds(
    PodCondition,
    type=st.just("PodScheduled"),
    status=st.sampled_from(["True", "False"]),
    reason=texts,
    message=texts,
    last_transition_time=st.sampled_from([None, EARLIER]),
    last_probe_time=st.sampled_from([None, EARLIER]),
    observed_generation=st.sampled_from([None, 1, 2]),
)


@settings(max_examples=examples(80))
@given(
    st.none() | conditions,
    st.booleans(),
    st.sampled_from(["", "n"]),
    st.sampled_from([None, "", "n", "m"]),
    texts,
    texts,
)
def test_a_patched_status_says_what_was_wanted_and_needs_no_second_patch(
    existing: PodCondition | None, has_other: bool, held: str, node: str | None, reason: str, message: str
) -> None:
    store = Store(HandClock(LATER), random.Random(1))
    others = [PodCondition(type="Other", status="True", message="m")] if has_other else []
    status = PodStatus(
        conditions=(*others, *([existing] if existing else [])), nominated_node_name=held, phase="Pending"
    )
    raw = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [{"name": "c"}]}}
    created = store.create(c.PODS, raw)
    body = {**created, "status": msgspec.to_builtins(status)}
    before = msgspec.convert(store.update(c.PODS, body, subresource="status"), Pod)
    patch = failed(before, reason, message, node)
    if patch is not None:
        store.patch(c.PODS, "d", "p", patch, subresource="status")
    after = msgspec.convert(without_nulls(store.get(c.PODS, "d", "p")), Pod)
    wanted = next(each for each in after.status.conditions if each.type == "PodScheduled")
    assert (wanted.status, wanted.reason, wanted.message, wanted.last_probe_time) == (
        "False",
        reason,
        message,
        None,
    )
    assert after.status.nominated_node_name == (held if node is None else node)
    assert [each for each in after.status.conditions if each.type == "Other"] == others
    assert failed(after, reason, message, node) is None


def without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(value) for value in data] if isinstance(data, list | tuple) else data


def internal() -> ApiError:
    return ApiError(500, "InternalError", "Internal error occurred: x")


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (internal(), 4),
        (ApiError(503, "ServiceUnavailable", "x"), 4),
        (ApiError(503, "", "x"), 4),
        (conflict(c.PODS, "p", "x"), 4),
        (unreachable("connection refused"), 4),
        (not_found(c.PODS, "p"), 1),
        (already_exists(c.PODS, "p"), 1),
        (ApiError(403, "Forbidden", "x"), 1),
        (ApiError(429, "TooManyRequests", "x"), 1),
        (ApiError(504, "Timeout", "x"), 1),
    ],
    ids=lambda value: value.reason or str(value.code) if isinstance(value, ApiError) else "",
)
def test_a_patch_is_tried_again_where_that_may_help(error: ApiError, tries: int) -> None:
    async def main(clock: VirtualClock) -> list[float]:
        desk = Desk(clock, *[error] * 9)
        with pytest.raises(ApiError) as raised:
            await patch_status(desk, bare_pod(), {"status": {}}, random.Random(1))
        assert raised.value is error
        return [each.at - desk.written[0].at for each in desk.written]

    times = run(main)
    assert len(times) == tries
    for time, least in zip(times, (0, 0.01, 0.06, 0.31), strict=False):
        assert least <= time <= 1.1 * least + 1e-5


def test_a_patch_that_gets_through_in_the_end_is_no_error() -> None:
    async def main(clock: VirtualClock) -> None:
        desk = Desk(clock, internal(), internal(), internal(), None)
        await patch_status(desk, bare_pod(), {"status": {"x": 1}}, random.Random(1))
        assert [(each.verb, each.name, each.subresource) for each in desk.written] == [
            ("PATCH", "p", "status")
        ] * 4
        await patch_status(desk, bare_pod(), None, random.Random(1))
        assert len(desk.written) == 4

    run(main)
