"""Long walks through the objects of a cluster that let the scheduler go on in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

AT_ONCE: Final = 4000
"""How many objects are looked at before everybody else gets a turn: some milliseconds."""


async def in_turns(objects: Sequence[T], at_once: int = AT_ONCE) -> AsyncIterator[Sequence[T]]:
    """The objects by the thousand, with a pause after each."""
    for start in range(0, len(objects), at_once):
        if start:
            await asyncio.sleep(0)
        yield objects[start : start + at_once]
