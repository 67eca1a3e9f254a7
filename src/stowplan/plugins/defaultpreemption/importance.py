"""Which of two pods matters more: the one with the higher priority, then the one that has run longer."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo

NOT_STARTED = 2**63 - 1
"""The start of a pod that has not started yet: later than any other."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(pod: Pod) -> int:
    """When a pod started to run, in microseconds since 1970. Raises ValueError."""
    text = pod.status.start_time
    if text is None:
        return NOT_STARTED
    try:
        return _microseconds(text)
    except ValueError:
        raise ValueError(
            f"pod {pod.key}: status.startTime: expected an RFC 3339 time, got {text!r}"
        ) from None


@lru_cache(maxsize=65536)
def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError
    since = moment - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Pods, the most important first. Equals stay in the order they came to their node."""
    return sorted(pods, key=lambda info: (-info.priority, start_of(info.pod)))
