"""A machine whose date can be set and which can be suspended, in virtual time."""

import asyncio

from stowplan.runtime.clock import VirtualClock

YEAR = 365 * 86400.0


class JumpingClock:
    """Virtual time. `ahead` moves the date, `asleep` is how long the machine has been suspended."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.ahead = 0.0
        self.asleep = 0.0

    def now(self) -> float:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.asleep

    async def jump_for_a_second(self, seconds: float) -> None:
        self.ahead = seconds
        await asyncio.sleep(1)
        self.ahead = 0.0
