"""Duration of backoff after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.queue.sub_queues import SECOND, Backoff

durations = st.integers(1, 1000).map(lambda milliseconds: milliseconds * SECOND // 100)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (99, 10)])
def test_each_failure_doubles_the_wait_up_to_the_maximum(failures: int, seconds: int) -> None:
    assert Backoff().duration(failures) == seconds * SECOND


def test_a_backoff_ends_at_a_whole_second() -> None:
    assert Backoff().expiration(100 * SECOND + 700_000_000, unschedulable=2) == 102 * SECOND


def test_errors_in_a_row_count_instead_of_earlier_failures() -> None:
    assert Backoff().expiration(0, unschedulable=4, errors=1) == SECOND


@pytest.mark.parametrize("backoff", [Backoff(maximum=0), Backoff()])
def test_without_failures_or_with_a_maximum_of_zero_there_is_no_backoff(backoff: Backoff) -> None:
    assert backoff.expiration(5, unschedulable=0 if backoff.maximum else 3) is None


@given(durations, durations, st.integers(0, 80))
def test_a_wait_never_shrinks_with_failures_and_never_passes_the_maximum(
    initial: int, maximum: int, failures: int
) -> None:
    backoff = Backoff(initial, maximum)
    assert backoff.duration(failures) <= backoff.duration(failures + 1) <= maximum
