"""How many requests may be sent: a token bucket on the given clock."""

import asyncio
from typing import Final

from stowplan.clock import Clock

DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100
_UNSET_QPS: Final = 5.0
_UNSET_BURST: Final = 10


class RateLimit:
    """`burst` requests at once, then `qps` a second, in the order they were asked for.

    As in a scheduler's configuration, 0 stands for 5 a second (and 10 at once), and a negative rate for none.
    """

    def __init__(self, clock: Clock, qps: float = DEFAULT_QPS, burst: int = DEFAULT_BURST) -> None:
        self._clock = clock
        self._qps = qps or _UNSET_QPS
        self._burst = float(burst or _UNSET_BURST)
        self._tokens = self._burst
        self._filled = clock.monotonic()

    def reserve(self) -> float:
        """Take one token; gives the seconds to wait until it is there."""
        if self._qps < 0:
            return 0.0
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
        self._filled = now
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps

    def give_back(self) -> None:
        """Return a token that was not used after all."""
        self._tokens += 1

    async def wait(self, seconds: float) -> None:
        """Wait for a reserved token; who gives up returns it."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.give_back()
            raise
