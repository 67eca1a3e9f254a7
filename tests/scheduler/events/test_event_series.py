"""The same event again and again: when the recorder writes how often."""

import asyncio
import random

import pytest

from runtime.clock.jumping import YEAR, JumpingClock
from scheduler.events.collected_events import counts, missing, pod
from scheduler.events.running_recorder import MINUTE, Office, at_work
from stowplan.api import catalogue as c
from stowplan.api.meta import seconds_of
from stowplan.api.status import already_exists
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.events import EventRecorder


def test_a_series_is_written_when_it_begins_and_when_it_has_been_quiet() -> None:
    async def main(office: Office) -> None:
        for second in range(5):
            await office.sleep_until(second)
            office.fail(note=f"note {second}")
        await office.sleep_until(20 * MINUTE)
        assert office.recorder.remembered == 0
        office.fail()
        await office.recorder.drain()

    office = at_work(main)
    assert office.desk.verbs == ["POST", "PATCH", "PATCH", "POST"]
    assert counts(office.written) == [1, 2, 5, 1]
    assert office.times == [0, 1, 12 * MINUTE, 20 * MINUTE]
    assert {each.name for each in office.written[:3]} == {office.written[0].name}


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 600.0, -600.0])
def test_a_series_goes_on_through_a_jump_of_the_date_and_is_dated_by_it(jump: float) -> None:
    async def main(clock: VirtualClock) -> Office:
        jumping = JumpingClock(clock)
        office = Office(clock, dated_by=jumping)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(office.recorder.run())
            for number in range(4):
                jumping.ahead = jump if number % 2 else 0.0
                office.fail()
                await asyncio.sleep(300)
            jumping.ahead = 0.0
            await asyncio.sleep(20 * MINUTE)
            running.cancel()
        return office

    office = run(main)
    assert counts(office.written) == [1, 2, 4]
    last = [seconds_of(each.body["series"]["lastObservedTime"]) for each in office.written[1:]]
    assert last == [office.began + jump + 300, office.began + jump + 900]
    assert office.recorder.remembered == 0


def test_a_series_in_progress_is_refreshed_every_half_hour() -> None:
    async def main(office: Office) -> None:
        for minute in range(0, 70, 2):
            await office.sleep_until(minute * MINUTE + 1)
            office.fail()
        await office.sleep_until(90 * MINUTE)

    office = at_work(main)
    assert counts(office.written) == [1, 2, 15, 30, 35]
    assert office.times[2:] == [30 * MINUTE, 60 * MINUTE, 78 * MINUTE]


def test_a_series_the_server_has_forgotten_is_written_anew() -> None:
    async def main(office: Office) -> None:
        office.fail(note="first")
        office.fail(note="second")
        await office.recorder.drain()

    office = at_work(main, None, missing(c.EVENTS))
    assert office.desk.verbs == ["POST", "PATCH", "POST"]
    again, first = office.written[2].body, office.written[0].body
    assert again == {**first, "series": office.written[1].body["series"]}
    assert again["note"] == "first"


def test_a_series_that_appears_between_two_requests_is_tried_again() -> None:
    async def main(office: Office) -> None:
        office.fail()
        office.fail()
        await office.sleep_until(MINUTE)

    office = at_work(main, None, missing(c.EVENTS), already_exists(c.EVENTS, "x"), None)
    assert office.desk.verbs == ["POST", "PATCH", "POST", "PATCH"]
    assert office.times[3] >= 10


def test_the_end_of_a_series_is_written_at_a_later_check_if_the_server_is_away() -> None:
    async def main(office: Office) -> None:
        for _ in range(3):
            office.fail()
        await office.sleep_until(11 * MINUTE)
        office.desk.is_down = True
        await office.sleep_until(13 * MINUTE)
        office.desk.is_down = False
        await office.sleep_until(30 * MINUTE - 1)
        assert office.recorder.remembered == 0

    office = at_work(main)
    assert counts(office.written) == [1, 2, 3, 3]
    assert office.times[2:] == [12 * MINUTE, 18 * MINUTE]


def test_a_store_in_this_process_gets_events_series_and_their_end() -> None:
    async def begin(clock: VirtualClock) -> None:
        store = Store(clock, random.Random(1))
        recorder = EventRecorder(InProcessClient(store), clock, random.Random(1), "vm", pytest.fail)
        running = asyncio.create_task(recorder.run())
        for _ in range(7):
            recorder.event(pod(), type="Warning", reason="r", action="a", note="n", controller="mine")
            await recorder.drain()
        assert stored(store) == [2]
        await asyncio.sleep(13 * MINUTE)
        assert stored(store) == [7]
        running.cancel()

    run(begin)


def stored(store: Store) -> list[int]:
    return [event["series"]["count"] for event in store.list(c.EVENTS).items]
