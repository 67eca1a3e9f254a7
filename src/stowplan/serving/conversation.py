"""HTTP on one connection."""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

SERVER: Final = "stowplan"


class Conversation(web.RequestHandler):
    """aiohttp's side of a connection, with two rules of our own.

    Somebody who sends more than `most_unread` bytes that do not come to a whole head of a request is cut off
    (aiohttp limits single headers, and lets many large ones add up). And no more than needed is said about
    requests that cannot be read.
    """

    __slots__ = ("_answering", "_begun", "_most_unread", "_unread")

    def __init__(self, manager: web.Server, *, most_unread: int, **options: Any) -> None:
        super().__init__(manager, **options)
        self._most_unread = most_unread
        self._unread = 0
        self._begun = 0
        self._answering = False

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, what arrives belongs to a request that has been read."""
        self._begun += 1
        self._answering = True
        try:
            yield
        finally:
            self._answering = False
            self._unread = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering or self._request_count != self._begun:
            self._unread = 0
            return
        self._unread += len(data)
        if self._unread > self._most_unread:
            self.force_close()

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
