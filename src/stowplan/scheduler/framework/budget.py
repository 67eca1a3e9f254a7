"""The budget of one scheduling attempt: the total time of its searches, and the time until it yields.

A search that may become long (devices, groups, victims of preemption, explanations) counts its steps in the
innermost loop with `spend`. When time is up that raises `BudgetExceededError`, and the attempt fails as
kube-scheduler's does at a timeout. A search that can be interrupted is a generator: it yields every `STRETCH`
steps or so, and the code that runs it decides how long other tasks wait (scheduler/driver.py, TimeSlice).

Filters are not generators. A filter with long work raises `LongSearchError` with a generator of the remaining
work if `pauses` says that the stretch is over. The scheduler runs that in slices and then filters again; by
then the plugin has the answers.
"""

from collections.abc import Callable, Generator
from math import inf
from typing import Final, TypeVar

ATTEMPT: Final = 10.0
"""Seconds that the searches of one attempt may take: the default of kube-scheduler's filterTimeout."""

EXPLAINING: Final = 5.0
"""Seconds that filtering may take for an explanation, in slices of the event loop."""

AT_ONCE: Final = 0.5
"""Seconds that it may take where an answer about the live cluster is worked out without any interruption."""

STEP: Final = 1e-6
"""Seconds that a step counts at least. It takes longer than that on any machine, so where time passes the
clock decides. Where it stands still during a computation (simulations, tests, replays) the number of steps
does, and a run repeats itself."""

STRETCH: Final = 64
"""Steps after which a search looks at its budget and may be interrupted: less than a millisecond."""

Step = Callable[[], None] | None
"""A step of a search: None, or a computation that must be done before it continues. The computation may run
in another thread, since it reads immutable data and writes nothing but its result."""


class Request:
    """A request that work in steps has to wait for: an answer of an extender, a write to the API server.

    The driver of the work performs it and sends the answer back (scheduler/driver.py).
    """

    __slots__ = ()


Work = Generator[Step, None, None]
"""Something that takes long, in steps: at each `yield` others may run."""

T = TypeVar("T")


def standing_still() -> float:
    """The timer where answers are only worked out, as in a what-if: budgets are counted in steps."""
    return 0.0


class BudgetExceededError(Exception):
    """An attempt has taken longer than it may."""


class LongSearchError(Exception):
    """A filter cannot answer yet: `work` has to be run to its end first. Then it is to be asked again."""

    def __init__(self, work: Work) -> None:
        super().__init__("a search takes longer than a slice of the event loop")
        self.work = work


class Budget:
    """The time of one attempt, by `timer`: `seconds` from `began` on, None: any time.

    `pauses` says whether the attempt has run long enough at a stretch; None if it cannot be interrupted.
    """

    __slots__ = ("_began", "_limited", "_most", "_timer", "ended_at", "pauses", "seconds", "steps", "worked")

    def __init__(
        self,
        timer: Callable[[], float],
        seconds: float | None = ATTEMPT,
        *,
        began: float | None = None,
        pauses: Callable[[], bool] | None = None,
    ) -> None:
        self._timer = timer
        self._began = timer() if began is None else began
        self._most = inf if seconds is None else seconds / STEP
        self._limited: Budget | None = None
        self.seconds = seconds
        self.pauses = pauses
        self.steps = 0
        """Number of steps counted so far."""
        self.worked = 0.0
        """Seconds of an attempt that was put aside, in its earlier cycle and in the background."""
        self.ended_at: str | None = None
        """The node at which a recorded attempt ran out of time, for one that repeats it; "" for any."""

    def limited(self, seconds: float | None) -> "Budget":
        """The budget of a part of the attempt that has its own limit, as a plugin's arguments set it.

        It begins when the attempt began, and is the same whenever the attempt asks for it again. No part may
        take longer than the whole.
        """
        if seconds is None or (self.seconds is not None and self.seconds <= seconds):
            return self
        if self._limited is None or self._limited.seconds != seconds:
            self._limited = Budget(self._timer, seconds, began=self._began, pauses=self.pauses)
            self._limited.ended_at = self.ended_at
        return self._limited

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises BudgetExceededError when time is up."""
        self.steps += steps
        if self.is_over:
            raise BudgetExceededError

    @property
    def is_over(self) -> bool:
        if self.ended_at is not None:
            return True
        if self.seconds is None:
            return False
        return self.steps > self._most or self._timer() - self._began > self.seconds

    @property
    def is_stretch_over(self) -> bool:
        """True if the attempt has to let others run; never if it cannot be interrupted."""
        return self.pauses is not None and self.pauses()

    def end(self, node: str = "") -> None:
        """Allow no further steps, regardless of the time."""
        self.ended_at = node
        if self._limited is not None:
            self._limited.ended_at = node

    def put_off(self, seconds: float) -> None:
        """The attempt had to wait for its turn, which does not count."""
        self._began += seconds
        if self._limited is not None:
            self._limited._began += seconds


def run_at_once(work: Generator[Step, None, T]) -> T:
    """The result of a search that is run without any interruption."""
    while True:
        try:
            step = next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        if step is not None:
            step()
