"""Which events are the same again."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.scheduler.events.events import SERIES_TIMEOUT, Event, EventCorrelator, EventKey, EventSeries


def event(time: float = 0.0, **fields: Any) -> Event:
    known = {
        "uid": "u",
        "resource_version": "1",
        "pod_name": "p",
        "pod_namespace": "d",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "type": "Warning",
        "controller": "mine",
    }
    name, note = fields.pop("name", f"p.{time}"), fields.pop("note", "no")
    key = EventKey(**{**known, **fields})
    return Event(key, namespace="d", name=name, note=note, instance="mine-vm", time=time, observed=time)


def count(written: Event | EventSeries | None) -> int | None:
    return 1 if isinstance(written, Event) else None if written is None else written.count


def test_the_second_makes_a_series_of_the_first_and_further_ones_are_counted() -> None:
    aggregation = EventCorrelator()
    seen = [aggregation.observe(event(time, note=f"note {time}")) for time in (1.0, 2.0, 3.0, 4.0)]
    assert list(map(count, seen)) == [1, 2, None, None]
    assert seen[1] == EventSeries(event(1.0, note="note 1.0"), 2, 2.0, 2.0)
    assert aggregation.series == [EventSeries(event(1.0, note="note 1.0"), 4, 4.0, 4.0)]


def test_everything_but_the_note_and_the_time_makes_an_event_another_one() -> None:
    aggregation = EventCorrelator()
    others = [
        event(0.0, **{field: "other"})
        for field in (
            "pod_namespace",
            "pod_name",
            "uid",
            "resource_version",
            "type",
            "reason",
            "action",
            "controller",
        )
    ]
    assert [count(aggregation.observe(each)) for each in (event(), *others)] == [1] * 9
    assert count(aggregation.observe(event(5.0, note="other", name="other"))) == 2


def test_many_events_of_one_reason_push_out_each_other_but_nothing_else() -> None:
    aggregation = EventCorrelator(kept=10)
    aggregation.observe(event(uid="pending"))
    for number in range(1000):
        aggregation.observe(event(uid=str(number), reason="Scheduled"))
        assert len(aggregation) <= 11
    assert count(aggregation.observe(event(uid="pending"))) == 2
    for recent in range(995, 1000):
        assert count(aggregation.observe(event(uid=str(recent), reason="Scheduled"))) == 2
    assert count(aggregation.observe(event(uid="0", reason="Scheduled"))) == 1


def test_at_least_half_of_what_may_be_kept_is_kept() -> None:
    aggregation = EventCorrelator(kept=10)
    for number in range(26):
        aggregation.observe(event(uid=str(number)))
    assert [count(aggregation.observe(event(uid=str(number)))) for number in range(20, 26)] == [2] * 6


def test_of_too_many_series_the_one_that_was_quiet_longest_is_forgotten() -> None:
    aggregation = EventCorrelator(kept=10)
    for number in range(10):
        aggregation.observe(event(uid=str(number)))
        aggregation.observe(event(uid=str(number)))
    aggregation.observe(event(uid="0"))
    aggregation.observe(event(uid="new"))
    aggregation.observe(event(uid="new"))
    assert [series.event.key.uid for series in aggregation.series] == [*"23456789", "0", "new"]


def test_a_series_whose_end_could_not_be_written_goes_on() -> None:
    aggregation = EventCorrelator()
    for time in (1.0, 2.0):
        aggregation.observe(event(time))
    (over,) = aggregation.finish_series(2.1 + SERIES_TIMEOUT)
    aggregation.resume(over)
    assert aggregation.observe(event(500.0)) is None
    assert aggregation.series[0].count == 3


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(0, 250, allow_nan=False), st.booleans()), max_size=30
)


@settings(max_examples=examples(80))
@given(steps)
def test_it_says_what_a_plain_list_of_events_says(steps: list[tuple[str, float, bool]]) -> None:
    aggregation = EventCorrelator()
    now = 0.0
    known: dict[str, list[float]] = {}
    for uid, gap, check in steps:
        now += gap
        if check:
            over = {key: times for key, times in known.items() if times[-1] < now - SERIES_TIMEOUT}
            known = {key: times for key, times in known.items() if key not in over}
            ended = {series.event.key.uid: series for series in aggregation.finish_series(now)}
            assert {key: (len(times), times[-1]) for key, times in over.items() if len(times) > 1} == {
                key: (series.count, series.last) for key, series in ended.items()
            }
        times = known.setdefault(uid, [])
        times.append(now)
        written = aggregation.observe(event(now, uid=uid))
        assert count(written) == (len(times) if len(times) < 3 else None)
        assert len(aggregation) == len(known)
        if isinstance(written, EventSeries):
            written.count = 99  # Whoever writes it may keep and change it.
            assert msgspec.structs.asdict(aggregation.series[-1])["count"] == 2
