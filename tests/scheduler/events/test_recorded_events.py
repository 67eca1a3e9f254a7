"""Events of a real kube-scheduler, written again by ours."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from observed.files import recorded
from scheduler.events.collected_events import Desk, ExactClock, HandClock, pod
from stowplan.api.meta import seconds_of
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.events import EventRecorder, reference

WRITES: dict[str, list[Json]] = recorded("wire/writes")
GROUPS = ["a-", "b-", "c-", "d-", "e-", "f-", "h-", "i-", "j-names", "j-full", "j-unreachable", "k-"]


def is_event_write(write: Json) -> bool:
    return bool(write["url"].startswith("/apis/events.k8s.io/v1/"))


def regarded(body: Json) -> Pod:
    return msgspec.convert({"metadata": body["regarding"]}, Pod)


def without_name(body: Json) -> Json:
    return {**body, "metadata": {"namespace": body["metadata"]["namespace"]}}


def report_again(recorder: EventRecorder, body: Json) -> None:
    recorder.event(
        regarded(body),
        type=body["type"],
        reason=body["reason"],
        action=body["action"],
        note=body["note"],
        controller=body["reportingController"],
    )


def check_rewritten(writes: list[Json]) -> None:
    """Report each recorded event at its time: the same requests have to come out."""
    clock = HandClock()
    desk = Desk(clock)
    recorder = EventRecorder(desk, clock, random.Random(1), "vm", pytest.fail)
    bodies: dict[str, Json] = {}
    for write in writes:
        if write["method"] == "POST":
            body = write["request"]
            bodies[body["metadata"]["name"]] = body
            clock.time = seconds_of(body["eventTime"])
        else:
            body = bodies[write["url"].rsplit("/", 1)[1]]
            clock.time = seconds_of(write["request"]["series"]["lastObservedTime"])
        report_again(recorder, body)
        asyncio.run(recorder.drain())
    assert [each.verb for each in desk.written] == [write["method"] for write in writes]
    for ours, write in zip(desk.written, writes, strict=True):
        if write["method"] == "POST":
            assert without_name(ours.body) == without_name(write["request"])
            check_name(ours.name, write["request"]["metadata"]["name"])
        else:
            assert ours.body == write["request"]
            check_name(ours.name, write["url"].rsplit("/", 1)[1])


def check_name(ours: str, theirs: str) -> None:
    """Theirs comes from a clock read again, a little later."""
    (name, at), (their_name, their_at) = ours.rsplit(".", 1), theirs.rsplit(".", 1)
    assert name == their_name
    assert 0 <= int(their_at, 16) - int(at, 16) < 10_000_000


@pytest.mark.parametrize("group", GROUPS)
def test_the_events_of_a_scenario_are_written_as_recorded(group: str) -> None:
    writes = [
        write
        for scenario, all_writes in WRITES.items()
        if scenario.startswith(group)
        for write in all_writes
        if is_event_write(write)
    ]
    assert writes
    check_rewritten(writes)


def test_the_json_on_the_wire_has_the_same_keys() -> None:
    check_rewritten(
        [write for write in recorded("wire/json-content-type")["in_order"] if is_event_write(write)]
    )


def test_a_pod_is_referred_to_as_recorded() -> None:
    regarding = WRITES["a-plain-bind"][1]["request"]["regarding"]
    assert reference(msgspec.convert({"metadata": regarding}, Pod)) == regarding
    assert reference(pod("x"))["kind"] == "Pod"


def test_the_recorded_series_runs_from_its_first_event_to_its_end_as_recorded() -> None:
    history = [write for write in recorded("timing/event-series")["in_order"] if is_event_write(write)]
    first, second, began, ended = history
    two, six = began["request"]["series"], ended["request"]["series"]
    # The recorder had run for 1.19 s when the first failure came; the failures in between are not recorded.
    between = (1.5, 3.0, 4.5)
    times = [
        seconds_of(first["request"]["eventTime"]),
        seconds_of(second["request"]["eventTime"]),
        seconds_of(two["lastObservedTime"]),
        *(seconds_of(two["lastObservedTime"]) + gap for gap in between),
        seconds_of(six["lastObservedTime"]),
    ]
    start = times[0] - 1.19

    async def main(clock: VirtualClock) -> list[Any]:
        desk = Desk(clock)
        exact = ExactClock(clock)
        recorder = EventRecorder(desk, exact, random.Random(1), "vm", pytest.fail)
        running = asyncio.create_task(recorder.run())
        for number, time in enumerate(times):
            await asyncio.sleep(time - clock.now())
            exact.time = time
            report_again(recorder, first["request"] if number == 0 else second["request"])
            exact.time = None
        await asyncio.sleep(3600)
        running.cancel()
        assert recorder.remembered == 0
        return list(desk.written)

    written = run(main, start=start)
    assert [each.verb for each in written] == ["POST", "POST", "PATCH", "PATCH"]
    for ours, theirs in zip(written, history, strict=True):
        is_post = theirs["method"] == "POST"
        assert (without_name(ours.body) if is_post else ours.body) == (
            without_name(theirs["request"]) if is_post else theirs["request"]
        )
        assert ours.at - written[0].at == pytest.approx(theirs["t"] - first["t"], abs=0.05)
