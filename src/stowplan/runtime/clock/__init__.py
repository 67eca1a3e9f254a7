"""Time as an argument: the clock everything reads, and an asyncio loop whose time is virtual.

Nothing but the process's entry point picks a clock. The same coroutines run on the real loop with
`RealClock`, or under `run` where an hour passes as fast as its work can be done, every time in the same way.
"""

from stowplan.runtime.clock.clocks import Clock, RealClock, as_date
from stowplan.runtime.clock.virtual import DEFAULT_START, VirtualClock, VirtualTimeError, VirtualTimeLoop, run
from stowplan.runtime.clock.watchdog import Hold, LoopWatchdog

__all__ = [
    "DEFAULT_START",
    "Clock",
    "Hold",
    "LoopWatchdog",
    "RealClock",
    "VirtualClock",
    "VirtualTimeError",
    "VirtualTimeLoop",
    "as_date",
    "run",
]
