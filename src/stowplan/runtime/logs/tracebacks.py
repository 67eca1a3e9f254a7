"""Tracebacks of bounded size: an error in a deep recursion has a thousand frames, each of which takes time.

Python's own formatting reads the source of every frame before it leaves any out, and follows chains of causes
to their end.
"""

import linecache
import traceback
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Final

OUTERMOST: Final = 8
INNERMOST: Final = 16
"""Frames that are shown of a traceback."""

LONGEST_CHAIN: Final = 4
"""Errors that are shown of a chain: the one that was raised, and those it was caused by."""

_LONGEST_MESSAGE: Final = 2_000

_Frame = tuple[str, int, str]
"""File, line, and the name of the function."""


def formatted(error: BaseException) -> str:
    """An error with its traceback and its causes, the first cause first, in Python's format."""
    chain: list[tuple[BaseException, str]] = []
    following: BaseException | None = error
    link = ""
    while following is not None and len(chain) < LONGEST_CHAIN:
        chain.append((following, link))
        following, link = _cause(following)
    texts = [] if following is None else ["(further causes are left out)\n\n"]
    for one, below in reversed(chain):
        texts += _lines(one)
        if below:
            texts.append(f"\n{below}\n\n")
    return "".join(texts).rstrip()


def frames(trace: TracebackType | None) -> Iterator[_Frame]:
    """The frames of a traceback, the outermost first. Nothing is looked up in their source."""
    while trace is not None:
        code = trace.tb_frame.f_code
        yield code.co_filename, trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _cause(error: BaseException) -> tuple[BaseException | None, str]:
    """The error that this one was caused by, and what Python says between the two."""
    if error.__cause__ is not None:
        return error.__cause__, "The above exception was the direct cause of the following exception:"
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0], "The above exception is the first of the following group:"
    if error.__context__ is not None and not error.__suppress_context__:
        return error.__context__, "During handling of the above exception, another exception occurred:"
    return None, ""


def _lines(error: BaseException) -> Iterator[str]:
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
    first: list[_Frame] = []
    last: deque[_Frame] = deque(maxlen=INNERMOST)
    count = 0
    for frame in frames(error.__traceback__):
        count += 1
        if count <= OUTERMOST:
            first.append(frame)
        else:
            last.append(frame)
    yield from map(_line, first)
    if count > OUTERMOST + INNERMOST:
        yield f"  [{count - OUTERMOST - INNERMOST} frames are left out]\n"
    yield from map(_line, last)
    message = "".join(traceback.format_exception_only(error))
    yield message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…\n"


def _line(frame: _Frame) -> str:
    file, number, name = frame
    source = linecache.getline(file, number).strip()
    return f'  File "{file}", line {number}, in {name}\n' + (f"    {source}\n" if source else "")
