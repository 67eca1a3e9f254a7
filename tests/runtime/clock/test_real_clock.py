"""The wall clock and the time that passes, despite changes of the machine's date."""

import pytest

from stowplan.runtime.clock import RealClock, as_date

START = 1_700_000_000.0
YEAR = 365 * 86400.0


class Machine:
    """A wall clock and a monotonic one that the test moves."""

    def __init__(self) -> None:
        self.wall = START
        self.steady = 50.0

    def clock(self) -> RealClock:
        return RealClock(wall=lambda: self.wall, steady=lambda: self.steady)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_both_read_like_the_date_of_the_start() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_time(7.5)
    assert (clock.now(), clock.monotonic()) == (START + 7.5, START + 7.5)


@pytest.mark.parametrize("jump", [YEAR, 3600.0, -3600.0, -YEAR])
def test_a_jump_of_the_wall_clock_is_followed_both_ways_and_moves_no_monotonic_time(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    machine.pass_time(1)
    assert (clock.now(), clock.monotonic()) == (START + jump + 1, START + 1)
    machine.wall -= jump
    machine.pass_time(1)
    assert (clock.now(), clock.monotonic()) == (START + 2, START + 2)


def test_a_moment_is_shown_as_a_date_of_the_wall_clock_as_it_stands() -> None:
    machine = Machine()
    clock = machine.clock()
    moment = clock.monotonic() + 10
    machine.wall += YEAR
    machine.pass_time(4)
    assert as_date(clock, moment) == START + YEAR + 10


def test_the_real_monotonic_time_never_goes_backwards() -> None:
    clock = RealClock()
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)
    assert abs(clock.now() - times[-1]) < 60
