"""Where threads and tasks are right now, as text."""

import asyncio
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from types import FrameType

Task = asyncio.Task[object]


def all_stacks() -> str:
    """The stacks of all threads, then of all tasks of the running loop."""
    return "\n".join([*_threads(), *_tasks()])


def waiting_places() -> str:
    """How many tasks wait at which place: what a profile of contention is where nothing holds a lock."""
    places = Counter(_place(task) for task in asyncio.all_tasks())
    return "".join(f"{count} {place}\n" for place, count in places.most_common())


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        yield f"thread {ident} [{names.get(ident, 'unknown')}]:\n{stack}"


def _tasks() -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        frames = _frames(task)
        stack = "".join(line for frame in frames for line in traceback.format_stack(frame, limit=1))
        yield f"task [{task.get_name()}]:\n{stack}"


def _frames(task: Task) -> list[FrameType]:
    """The coroutines a task is in, the innermost last."""
    frames: list[FrameType] = []
    awaited: object = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is None:
            break
        frames.append(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return frames


def _place(task: Task) -> str:
    frames = _frames(task)
    if not frames:
        return "(done)"
    code = frames[-1].f_code
    return f"{code.co_filename}:{frames[-1].f_lineno} {code.co_qualname}"
