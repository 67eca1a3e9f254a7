"""A CPU profile by looking, a hundred times a second, at where all threads are.

The looking is done by a thread of its own, so it also sees what holds up the event loop. It costs little:
a profile may be taken of a scheduler at work.
"""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Final

INTERVAL: Final = 0.01
"""Seconds between two looks."""

_IDLE: Final = frozenset({("select", "selectors.py"), ("wait", "threading.py"), ("_worker", "thread.py")})
"""Where a thread is that has nothing to do."""


def sampled_stacks(seconds: float, stop: threading.Event) -> str:
    """Stacks with how often each was seen, one a line, outermost first: `main;schedule;bind 42`.

    This is what flame graphs are drawn from. Ends early when `stop` is set; to be run in a thread.
    """
    seen: Counter[str] = Counter()
    own = threading.get_ident()
    for _ in range(max(1, round(seconds / INTERVAL))):
        for ident, frame in sys._current_frames().items():
            if ident != own and not _is_idle(frame):
                seen[";".join(reversed(list(_names(frame))))] += 1
        if stop.wait(INTERVAL):
            break
    return "".join(f"{stack} {count}\n" for stack, count in seen.most_common())


def _is_idle(frame: FrameType) -> bool:
    code = frame.f_code
    return (code.co_name, code.co_filename.rpartition("/")[2]) in _IDLE


def _names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        code = frame.f_code
        yield f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}"
        frame = frame.f_back
