"""Servers that are away or refuse: what may work is tried again, what is lost is counted."""

import asyncio

import pytest

from scheduler.events.collected_events import pod
from scheduler.events.running_recorder import MINUTE, Office, at_work
from stowplan.api import catalogue as c
from stowplan.api.status import ApiError, already_exists, unreachable
from stowplan.runtime.clock import VirtualClock, run


def test_a_server_out_of_reach_is_tried_twelve_times_in_two_minutes() -> None:
    async def main(office: Office) -> None:
        await office.sleep_until(1)
        office.desk.is_down = True
        office.fail()
        await office.recorder.drain()
        assert len(office.written) == 1
        await office.sleep_until(10 * MINUTE)

    office = at_work(main)
    assert len(office.written) == 12
    gaps = [after - before for before, after in zip(office.times, office.times[1:], strict=False)]
    assert all(10 <= gap <= 12.5 + 1e-5 for gap in gaps)
    assert len(set(gaps)) == 11
    assert (office.recorder.failed, office.recorder.written) == (1, 0)
    (complaint,) = office.complaints
    assert "FailedScheduling of pod d/p" in complaint
    assert "tried 12 times" in complaint


def test_an_event_gets_through_once_the_server_is_back() -> None:
    async def main(office: Office) -> None:
        office.fail()
        await office.sleep_until(MINUTE)

    office = at_work(main, unreachable("no route"), unreachable("no route"), None)
    assert len(office.written) == 3
    assert len({each.name for each in office.written}) == 1
    assert (office.recorder.failed, office.recorder.written, office.complaints) == (0, 1, [])


@pytest.mark.parametrize("code", [400, 403, 429, 500, 503])
def test_what_a_server_refuses_is_given_up_at_once(code: int) -> None:
    async def main(office: Office) -> None:
        office.fail()
        await office.sleep_until(5 * MINUTE)

    office = at_work(main, ApiError(code, "X", "namespace is being terminated"))
    assert (len(office.written), office.recorder.failed) == (1, 1)
    assert office.complaints[0].endswith("was not written: namespace is being terminated")


def test_an_event_that_is_there_already_is_as_good_as_written() -> None:
    async def main(office: Office) -> None:
        office.fail()
        await office.sleep_until(MINUTE)

    office = at_work(main, already_exists(c.EVENTS, "x"))
    assert (len(office.written), office.recorder.failed, office.complaints) == (1, 0, [])


def test_an_outage_does_not_hold_up_what_comes_after_it() -> None:
    async def main(office: Office) -> None:
        office.desk.is_down = True
        for number in range(500):
            office.fail(pod(version=str(number)))
        await office.sleep_until(1)
        office.desk.is_down = False
        office.fail(pod("late"))
        await office.sleep_until(2)
        assert office.written[-1].name.startswith("late.")
        await office.sleep_until(14)
        assert (office.recorder.written, office.recorder.failed) == (501, 0)

    at_work(main)


def test_an_outage_after_the_other_loses_nothing() -> None:
    async def main(office: Office) -> None:
        for outage in range(3):
            office.desk.is_down = True
            for number in range(900):
                office.fail(pod(version=f"{outage}-{number}"))
            await office.sleep_until(100 * outage + 1)
            office.desk.is_down = False
            await office.sleep_until(100 * outage + 50)
        assert (office.recorder.written, office.recorder.failed) == (2700, 0)

    at_work(main)


def test_a_long_outage_keeps_a_bounded_number_of_events_for_later() -> None:
    async def main(office: Office) -> None:
        office.desk.is_down = True
        for number in range(15):
            for each in range(100):
                office.fail(pod(version=f"{number}-{each}"))
            await asyncio.sleep(0.1)
        assert office.recorder.failed == 500

    at_work(main)


def test_a_broken_client_stops_the_recorder_instead_of_going_unnoticed() -> None:
    async def begin(clock: VirtualClock) -> None:
        office = Office(clock)
        office.desk.answers.append(ZeroDivisionError())  # type: ignore[arg-type]
        office.fail()
        with pytest.raises(ExceptionGroup) as raised:
            await office.recorder.run()
        assert raised.group_contains(ZeroDivisionError)

    run(begin)
