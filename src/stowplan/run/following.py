"""Following configuration files: they are read again when they change, and when somebody asks for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from stowplan.client.http.certfiles import FileStamps

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the files."""


async def follow(
    files: Callable[[], Sequence[str]], asked: asyncio.Event, read_again: Callable[[], Awaitable[None]]
) -> None:
    """Have files read again for ever: when one of them has changed, and when `asked` is set.

    Which files there are may be different after every reading.
    """
    followed = files()
    stamps = FileStamps(followed)
    while True:
        try:
            async with asyncio.timeout(LOOK_EVERY):
                await asked.wait()
        except TimeoutError:
            if not stamps.changed():
                continue
            await _until_calm(stamps)
        asked.clear()
        stamps.changed()
        await read_again()
        if files() != followed:
            followed = files()
            stamps = FileStamps(followed)


async def _until_calm(stamps: FileStamps) -> None:
    """Whoever writes a file may not be done with it."""
    await asyncio.sleep(LOOK_EVERY / 10)
    while stamps.changed():
        await asyncio.sleep(LOOK_EVERY / 10)
