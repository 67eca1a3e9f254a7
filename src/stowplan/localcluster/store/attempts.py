"""Writes that need answers from elsewhere, such as admission and conversion webhooks.

The store is synchronous: a write reads, admits and commits without anything in between. A write that needs an
answer it does not have raises `UnansweredError`, before it has changed anything. Its caller waits for the
answers and attempts the write anew, from the request on: it then sees the current objects, as a retried
compare-and-swap does. An answer about an object that has been replaced meanwhile is asked for again. Writes
that need no answers are attempted once and never wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from stowplan.api import status
from stowplan.api.requests import Json
from stowplan.localcluster.store.writer import WriteContext

T = TypeVar("T")

LIMIT: Final = 34.0
"""Seconds that all calls of one request may take, as with kube-apiserver."""


class Question(NamedTuple):
    """A call that a write needs the answer of.

    `key` names it within its request; the answer holds for `about`, the object that the write replaces.
    `call` gets the number of seconds that are left, and raises nothing but `ApiError`.
    """

    key: Hashable
    about: Json | None
    call: Callable[[float], Awaitable[Any]]


class UnansweredError(Exception):
    """A write cannot go on without answers. Nothing has been changed."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__("answers are missing")
        self.questions = questions


class WriteAttempts:
    """State of a request across the attempts to carry it out.

    `warnings` are for the client and `annotations` for an audit log; both are those of the last attempt.
    `created` is the metadata that the server gave a new object: each attempt is to create the same one.
    """

    __slots__ = ("_answers", "annotations", "created", "warnings")

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        self.created: Json | None = None
        self._answers: dict[Hashable, tuple[Json | None, Any]] = {}

    def answers(self, questions: Sequence[Question]) -> list[Any]:
        """The answers to questions that are asked at the same time. Raises `UnansweredError`."""
        missing = [one for one in questions if not self._knows(one)]
        if missing:
            raise UnansweredError(missing)
        return [self._answers[one.key][1] for one in questions]

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        self.annotations.setdefault(key, value)

    def keep_created(self, metadata: Json) -> None:
        """Have the next attempt create the same object."""
        given = ("name", "uid", "creationTimestamp")
        self.created = {field: metadata[field] for field in given}

    def _knows(self, question: Question) -> bool:
        found = self._answers.get(question.key)
        return found is not None and found[0] is question.about

    async def ask(self, questions: Sequence[Question], seconds: float) -> None:
        """Wait for the answers to questions, all at once, before the next attempt."""
        found = await asyncio.gather(*(one.call(seconds) for one in questions))
        for question, answer in zip(questions, found, strict=True):
            self._answers[question.key] = (question.about, answer)
        self.warnings.clear()
        self.annotations.clear()


class FirstAttempt(WriteAttempts):
    """State of writes whose caller can wait but does not expect that it has to. Keeps nothing."""

    __slots__ = ()

    def answers(self, questions: Sequence[Question]) -> list[Any]:
        if questions:
            raise UnansweredError(questions)
        return []

    def warn(self, text: str) -> None:
        pass

    def annotate(self, key: str, value: str) -> None:
        pass

    def keep_created(self, metadata: Json) -> None:
        pass


FIRST_ATTEMPT: Final = FirstAttempt()


async def carried_out(write: Callable[[WriteContext], T], by: WriteContext) -> T:
    """The result of a write, attempted until all answers that it needs are there.

    Raises the exceptions of the write, and `ApiError` 504 if the answers take too long.
    """
    attempts = by.attempts
    if attempts is None:
        attempts = WriteAttempts()
        by = by._replace(attempts=attempts)
    deadline = 0.0
    while True:
        try:
            return write(by)
        except UnansweredError as missing:
            now = asyncio.get_running_loop().time()
            deadline = deadline or now + LIMIT
            if now >= deadline:
                raise timed_out() from None
            await attempts.ask(missing.questions, deadline - now)
        except status.ApiError as error:
            error.warnings += attempts.warnings
            raise


def timed_out() -> status.ApiError:
    """The error of a request whose calls took too long."""
    text = "Timeout: request did not complete within requested timeout"
    return status.ApiError(504, "Timeout", text, {})
