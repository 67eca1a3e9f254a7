"""How long a lease holds and how often it is renewed."""

from dataclasses import dataclass
from typing import Final

from stowplan.config.types import LeaderElection
from stowplan.gocompat.durations import SECOND, Duration

JITTER: Final = 1.2
"""A candidate waits for up to so many retry periods more, by chance."""


class ElectionError(ValueError):
    """Settings with which nobody can be elected; one line."""


@dataclass(frozen=True)
class Timing:
    """The three lengths of time of an election. Raises `ElectionError` if they do not fit together.

    Others may take the lease over when it has not been renewed for `lease_duration`; a leader gives up when
    it could not renew it for `renew_deadline`; everybody tries every `retry_period`.
    """

    lease_duration: Duration
    renew_deadline: Duration
    retry_period: Duration

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ElectionError(f"couldn't create leader elector: {problem}")

    @classmethod
    def of(cls, config: LeaderElection) -> "Timing":
        """As configured; a `LeaderElection` made without arguments has the usual times."""
        return cls(config.lease_duration, config.renew_deadline, config.retry_period)

    @property
    def validity(self) -> int:
        """How long a lease holds as it is written down: in whole seconds."""
        return self.lease_duration.nanoseconds // SECOND

    @property
    def request_timeout(self) -> Duration:
        """How long one request may take, so that a hanging one does not cost the lease."""
        return max(Duration(self.renew_deadline.nanoseconds // 2), Duration.of_seconds(1))

    def _problem(self) -> str:
        lease, renew, retry = self.lease_duration, self.renew_deadline, self.retry_period
        if lease <= renew:
            return "leaseDuration must be greater than renewDeadline"
        if renew.nanoseconds <= int(JITTER * float(retry.nanoseconds)):
            return "renewDeadline must be greater than retryPeriod*JitterFactor"
        for name, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
            if value.nanoseconds < 1:
                return f"{name} must be greater than zero"
        if not self.validity:
            return f"leaseDuration must be at least 1s, which is the least a lease can say, got {lease}"
        return ""
