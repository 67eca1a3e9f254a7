"""Writes that are sent again when the API server is not well, a few times within half a second."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from stowplan.api.status import ApiError

INITIAL_BACKOFF: Final = 0.01
BACKOFF_FACTOR: Final = 5.0
BACKOFF_JITTER: Final = 0.1
TRIES: Final = 4

_UNWELL: Final = {"InternalError": 500, "ServiceUnavailable": 503}
_NAMELESS: Final = ("", "Unknown")


async def retried(
    call: Callable[[], Awaitable[object]],
    is_retriable: Callable[[ApiError], bool],
    random: Callable[[], float],
    tries: int = TRIES,
) -> None:
    """Make a call, and make it again after errors that may pass. Raises the last ApiError.

    `random` gives numbers from 0 to 1, by which pauses differ.
    """
    delay = INITIAL_BACKOFF
    for attempt in range(1, tries + 1):
        try:
            await call()
        except ApiError as error:
            if attempt == tries or not is_retriable(error):
                raise
        else:
            return
        await asyncio.sleep(delay * (1 + BACKOFF_JITTER * random()))
        delay *= BACKOFF_FACTOR


def is_unwell(error: ApiError) -> bool:
    """True if the server reports that it cannot answer now."""
    return error.reason in _UNWELL or (error.reason in _NAMELESS and error.code in _UNWELL.values())


def had_no_effect(error: ApiError) -> bool:
    """True if a write can be sent again without a check of its effect: it was refused or never arrived."""
    return is_unwell(error) or (error.is_unreachable and "refused" in error.message.lower())
