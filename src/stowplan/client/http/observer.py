"""Who wants to know of every request that is sent, as metrics do."""

from collections.abc import Callable
from typing import Protocol

LOST = 0
"""The status of an answer that did not come."""


class Observer(Protocol):
    """Is told of requests to one server. This is on the way of every write, so it has to be cheap."""

    @property
    def timer(self) -> Callable[[], float]:
        """Seconds that pass."""
        ...

    def answered(self, method: str, status: int, held: float, size: int, again: bool) -> None:
        """A request with a body of so many bytes, held back for so long, was answered or `LOST`.

        `again`: it had been sent before.
        """
        ...

    def ended(self, method: str, seconds: float, size: int) -> None:
        """Whoever wanted something has his last answer, of so many bytes, however many tries it took."""
        ...

    def streaming(self, status: int) -> None:
        """A watch was begun, refused or `LOST`."""
        ...
