"""Whether a resource is to be had at all, who is told if not, and how long to wait before asking again."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from stowplan.api.status import ApiError

_NOT_TO_BE_HAD: Final = (403, 404, 405)
"""Answers that say that a resource is forbidden or not there, not that the server is in trouble."""


class Standing:
    """How one resource stands with the server: not known yet, there, or refused.

    `without` says what suffers while it is refused: that is told once, with the reason. Empty means that
    nothing goes without it; then every failure is told.
    """

    def __init__(
        self, name: str, without: str, report: Callable[[str], None], inform: Callable[[str], None]
    ) -> None:
        self._name = name
        self._without = without
        self._report = report
        self._inform = inform
        self._settled = asyncio.Event()
        self._hurry = asyncio.Event()
        self.refusal = ""

    def failed(self, error: ApiError) -> None:
        """A request failed: tell of it, unless it has been told."""
        if error.code not in _NOT_TO_BE_HAD:
            self._report(f"{self._name}: {error.message}")
            return
        if not (self._without and self.refusal):
            told = f"cannot watch {self._name}: {error.message}"
            self._report(f"{told}; {self._without}" if self._without else told)
        self.refusal = error.message or str(error.code)
        self._settled.set()

    def granted(self) -> None:
        """The server gives it."""
        if self.refusal:
            self.refusal = ""
            self._inform(f"{self._name} can be watched now")
        self._settled.set()

    def ask_again(self) -> None:
        """If it was refused, ask now: perhaps that was too early. `settled` waits for the answer."""
        if self.refusal:
            self._settled.clear()
            self._hurry.set()

    async def settled(self) -> None:
        """Wait until it is there or refused."""
        await self._settled.wait()

    async def pause(self, seconds: float) -> None:
        """Wait before the next request; less long if somebody asks for it."""
        if not self.refusal:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()
