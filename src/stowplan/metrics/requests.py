"""What is counted and timed of requests to API servers."""

from collections.abc import Callable
from typing import Final

from stowplan.metrics.families import Families


class _Codes(dict[int, str]):
    """Status codes as label values."""

    def __missing__(self, status: int) -> str:
        made = self[status] = str(status)
        return made


_CODES: Final = _Codes({0: "<error>"})


class RequestMetrics:
    """All requests of a process; `to` gives what one client reports to."""

    def __init__(self, families: Families, timer: Callable[[], float]) -> None:
        self.timer = timer
        self.sent = families.counter("rest_client_requests_total")
        self.repeated = families.counter("rest_client_request_retries_total")
        self.seconds = families.histogram("rest_client_request_duration_seconds")
        self.held = families.histogram("rest_client_rate_limiter_duration_seconds")
        self.request_sizes = families.histogram("rest_client_request_size_bytes")
        self.response_sizes = families.histogram("rest_client_response_size_bytes")

    def to(self, host: str) -> "HostRequests":
        """For the requests to a server, named as in its URL: `127.0.0.1:6443`."""
        return HostRequests(self, host)


class HostRequests:
    """Requests to one server. Two of these calls are on the way of every write, so they do little."""

    __slots__ = (
        "_held",
        "_host",
        "_repeated",
        "_request_sizes",
        "_response_sizes",
        "_seconds",
        "_sent",
        "timer",
    )

    def __init__(self, metrics: RequestMetrics, host: str) -> None:
        self._host = host
        self.timer = metrics.timer
        self._sent = metrics.sent
        self._repeated = metrics.repeated
        self._seconds = metrics.seconds
        self._held = metrics.held
        self._request_sizes = metrics.request_sizes
        self._response_sizes = metrics.response_sizes

    def answered(self, method: str, status: int, held: float, size: int, again: bool) -> None:
        """One request was answered, or lost (status 0); `again` if it had been sent before."""
        host = self._host
        code = _CODES[status]
        self._sent[code, method, host] += 1
        labels = (method, host)
        self._held[labels].observe(held)
        self._request_sizes[labels].observe(size)
        if again:
            self._repeated[code, method, host] += 1

    def ended(self, method: str, seconds: float, size: int) -> None:
        """Whoever wanted something has his answer, after this time and however many tries."""
        labels = (method, self._host)
        self._seconds[labels].observe(seconds)
        self._response_sizes[labels].observe(size)

    def streaming(self, status: int) -> None:
        """A watch was begun, refused, or lost (status 0)."""
        self._sent[_CODES[status], "GET", self._host] += 1
