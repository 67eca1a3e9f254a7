"""The same seed gives the same run, to the last byte."""

from scheduler.busy_day import busy_day
from scheduler.recording_client import Write


def test_the_same_seed_gives_the_same_run_to_the_last_byte() -> None:
    first = busy_day(3)
    assert len(first) > 300
    assert busy_day(3) == first


def test_another_seed_gives_another_run() -> None:
    def nodes(writes: list[Write]) -> list[str]:
        return [one.body["target"]["name"] for one in writes if one.path.endswith("/binding")]

    assert nodes(busy_day(3)) != nodes(busy_day(4))
