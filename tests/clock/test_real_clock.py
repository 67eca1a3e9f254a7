"""The clock on the wall, whatever somebody does to it."""

from stowplan.clock import RealClock


class Hands:
    """A wall clock and a steady one that the test moves."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.steady = 50.0

    def clock(self) -> RealClock:
        return RealClock(wall=lambda: self.wall, steady=lambda: self.steady)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_it_shows_the_time_of_the_wall_clock() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_time(7.5)
    assert clock.now() == 1_700_000_007.5


def test_a_wall_clock_set_back_does_not_turn_time_back() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall -= 3600
    hands.pass_time(2)
    assert clock.now() == 1_700_000_002


def test_a_wall_clock_that_jumped_ahead_is_followed() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall += 3600
    assert clock.now() == 1_700_003_600
    hands.pass_time(1)
    assert clock.now() == 1_700_003_601


def test_the_real_one_never_goes_backwards() -> None:
    clock = RealClock()
    times = [clock.now() for _ in range(1000)]
    assert times == sorted(times)
