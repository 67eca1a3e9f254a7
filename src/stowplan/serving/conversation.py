"""HTTP on one connection."""

import asyncio
import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

SERVER: Final = "stowplan"

_HANDLED_WITHIN: Final = 0.5
"""Seconds after which a request whose head is complete is certainly being handled."""


class Conversation(web.RequestHandler):
    """aiohttp's side of a connection, with two rules of our own.

    Somebody who sends more than `most_unread` bytes that do not come to a whole head of a request is cut off
    (aiohttp limits single headers, and lets many large ones add up). And no more than needed is said about
    requests that cannot be read.
    """

    __slots__ = ("_answering", "_cut_off", "_most_unread", "_unread")

    def __init__(self, manager: web.Server, *, most_unread: int, **options: Any) -> None:
        super().__init__(manager, **options)
        self._most_unread = most_unread
        self._unread = 0
        self._answering = False
        self._cut_off: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, what arrives belongs to a request that has been read."""
        self._answering = True
        self._forget_unread()
        try:
            yield
        finally:
            self._answering = False
            self._forget_unread()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering:
            return
        self._unread += len(data)
        if self._unread > self._most_unread and self._cut_off is None:
            loop = asyncio.get_running_loop()
            self._cut_off = loop.call_later(_HANDLED_WITHIN, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_unread()
        super().connection_lost(exc)

    def _forget_unread(self) -> None:
        self._unread = 0
        if self._cut_off is not None:
            self._cut_off.cancel()
            self._cut_off = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("something has been answered already")
        text = f"{status} {HTTPStatus(status).phrase}"
        answer = web.Response(status=status, text=text, headers={"Server": SERVER})
        answer.force_close()
        return answer
