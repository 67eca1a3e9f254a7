"""The recorder: never in the way, keeps up, cuts and names what it writes."""

import asyncio
import random
import uuid

import pytest

from scheduler.events.collected_events import Desk, HandClock, Written, pod
from scheduler.events.running_recorder import MINUTE, Nothing, Office, at_work
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.events.events import truncate_note


def test_reporting_only_takes_note() -> None:
    clock = HandClock()
    desk = Desk(clock)
    recorder = EventRecorder(desk, clock, random.Random(1), "vm", pytest.fail)
    recorder.event(pod(), type="Normal", reason="r", action="a", note="n", controller="mine")
    assert (desk.written, recorder.waiting) == ([], 1)
    asyncio.run(recorder.drain())
    assert (len(desk.written), recorder.waiting, recorder.written) == (1, 0, 1)


def test_events_of_one_instant_have_different_names_in_order() -> None:
    async def main(office: Office) -> None:
        for number in range(50):
            office.fail(pod(version=str(number)))
        await office.recorder.drain()

    office = at_work(main)
    names = [each.name for each in office.written]
    assert len(set(names)) == 50
    assert sorted(names) == names
    assert names[0] == f"p.{int(office.began * 1e9):x}"


def test_a_name_that_would_be_too_long_is_left_to_chance() -> None:
    async def main(office: Office) -> None:
        office.fail(pod("x" * 240))
        await office.recorder.drain()

    assert uuid.UUID(at_work(main).written[0].name).version == 4


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("100% of %d", "100% of %d"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("ä" * 512, "ä" * 512),
        ("ä" * 513, "ä" * 510 + " ..."),
        ("x" + "ä" * 600, "x" + "ä" * 509 + " ..."),
        ("😀" * 300, "😀" * 255 + " ..."),
    ],
)
def test_a_note_is_cut_to_what_a_server_takes(note: str, shown: str) -> None:
    assert truncate_note(note) == shown
    assert len(truncate_note(note).encode()) <= 1024


def test_a_long_note_is_cut_where_it_is_written() -> None:
    async def main(office: Office) -> None:
        office.fail(note="x" * 2000)
        await office.recorder.drain()

    assert len(at_work(main).written[0].body["note"]) == 1024


def test_events_give_way_to_writes_that_wait_and_catch_up_afterwards() -> None:
    async def main(office: Office) -> None:
        office.others_wait = True
        for number in range(400):
            office.fail(pod(version=str(number)))
        await office.sleep_until(9.5)
        assert len(office.written) == 40, "four at a time, a second each"
        office.others_wait = False
        await office.sleep_until(17)
        assert len(office.written) == 400

    at_work(main, seconds=1.0)


def test_events_are_gathered_and_written_together() -> None:
    async def main(office: Office) -> None:
        await office.sleep_until(1)
        for number in range(5):
            office.fail(pod(version=str(number)))
            await asyncio.sleep(0.125)
        await office.sleep_until(3)
        for number in range(200):
            office.fail(pod("many", version=str(number)))
        await office.sleep_until(3.125)
        assert len(office.written) == 205, "so many do not wait"
        office.fail(pod("last"))
        await office.recorder.drain()
        assert len(office.written) == 206, "whoever ends does not wait"

    office = at_work(main, gather=0.5)
    assert office.times[:5] == [1.5, 1.5, 1.5, 1.5, 2.0]
    assert office.times[-1] == 3.125


def test_events_do_not_give_way_if_very_many_wait() -> None:
    async def main(office: Office) -> None:
        office.others_wait = True
        for number in range(6000):
            office.fail(pod(version=str(number)))
        await office.sleep_until(4.5)
        assert len(office.written) == 5 * 64

    at_work(main, seconds=1.0)


def test_too_many_waiting_events_are_dropped_and_counted() -> None:
    async def main(office: Office) -> None:
        await asyncio.sleep(0.1)
        for number in range(10_300):
            office.fail(pod(version=str(number)))
        assert (office.recorder.waiting, office.recorder.dropped) == (10_000, 300)
        await office.recorder.drain()
        office.fail(pod(version="last"))
        await office.recorder.drain()
        assert (len(office.written), len(office.complaints)) == (10_001, 1)
        for number in range(10_001):
            office.fail(pod("again", version=str(number)))
        assert office.recorder.dropped == 301

    first, second = at_work(main).complaints
    assert first.endswith("the first is FailedScheduling of pod d/p")
    assert second.endswith("the first is FailedScheduling of pod d/again")


def test_one_who_takes_turns_is_kept_up_with_whatever_one_turn_brings() -> None:
    async def main(office: Office) -> None:
        await asyncio.sleep(0.1)
        for turn in range(20):
            for number in range(900):
                office.fail(pod(version=f"{turn}-{number}"))
            await asyncio.sleep(0)
        await office.recorder.drain()

    office = at_work(main)
    assert (len(office.written), office.recorder.dropped) == (18_000, 0)


def test_many_writes_are_under_way_where_writing_takes_time() -> None:
    async def main(office: Office) -> None:
        await asyncio.sleep(0.1)
        for number in range(640):
            office.fail(pod(version=str(number)))
        await office.recorder.drain()
        assert (office.desk.at_once, len(office.written)) == (0, 640)
        assert office.clock.now() - office.began == pytest.approx(0.1 + 10 * 0.5, abs=0.01)

    assert at_work(main, seconds=0.5).desk.most_at_once == 64


def test_others_get_their_turn_though_every_write_leads_to_another() -> None:
    async def begin(clock: VirtualClock) -> None:
        office = Office(clock)

        class Chatty(Nothing):
            def append(self, written: Written) -> None:
                office.fail(pod(version=str(office.recorder.written)))

        office.desk.written = Chatty()
        running = asyncio.create_task(office.recorder.run())
        office.fail(pod(version="first"))
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        assert 5 < office.recorder.written < 1000

    run(begin)


def test_an_event_about_something_without_a_namespace_is_kept_in_the_default_one() -> None:
    async def main(office: Office) -> None:
        office.fail(pod(namespace=""))
        await office.recorder.drain()

    body = at_work(main).written[0].body
    assert (body["metadata"]["namespace"], body["regarding"]["namespace"]) == ("default", "")


def test_an_unknown_type_is_refused_by_name() -> None:
    async def main(office: Office) -> None:
        office.fail(type="Alarm")
        await office.recorder.drain()

    office = at_work(main)
    assert (office.written, office.recorder.failed) == ([], 1)
    assert office.complaints == ["event about pod d/p: type: expected Normal or Warning, got 'Alarm'"]


def test_what_waits_when_the_recorder_is_stopped_can_still_be_flushed() -> None:
    async def begin(clock: VirtualClock) -> None:
        office = Office(clock)
        running = asyncio.create_task(office.recorder.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        office.fail()
        office.desk.is_down = True
        office.fail(pod("other"))
        await office.recorder.drain()
        assert (len(office.written), office.recorder.failed) == (2, 2)

    run(begin)


def test_a_recorder_stopped_while_it_had_nothing_to_do_can_be_run_again() -> None:
    async def begin(clock: VirtualClock) -> None:
        office = Office(clock)
        for number in (1, 2):
            running = asyncio.create_task(office.recorder.run())
            await asyncio.sleep(1)
            office.fail(pod(version=str(number)))
            await asyncio.sleep(1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert office.recorder.written == number

    run(begin)


def test_a_recorder_can_be_stopped_in_the_middle_of_writing_and_run_again() -> None:
    async def begin(clock: VirtualClock) -> None:
        office = Office(clock, seconds=1.0)
        for number in (1, 2):
            running = asyncio.create_task(office.recorder.run())
            office.fail(pod(version=f"{number} cut off"))
            await asyncio.sleep(0.5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert (len(office.written), office.desk.at_once, office.recorder.written) == (number, 0, 0)
        running = asyncio.create_task(office.recorder.run())
        await asyncio.sleep(0.5)
        office.fail(pod(version="last"))
        await office.recorder.drain()
        assert (len(office.written), office.recorder.written) == (3, 1)
        running.cancel()

    run(begin)


def test_millions_of_events_leave_a_bounded_memory_of_them() -> None:
    async def main(office: Office) -> None:
        await asyncio.sleep(0.1)
        office.desk.written = Nothing()
        for number in range(30_000):
            office.fail(pod(version=str(number)))
            if number % 500 == 0:
                await office.recorder.drain()
        await office.recorder.drain()
        assert office.recorder.written == 30_000
        assert 10_000 <= office.recorder.remembered <= 20_000
        await office.sleep_until(13 * MINUTE)
        assert office.recorder.remembered == 0

    at_work(main)
