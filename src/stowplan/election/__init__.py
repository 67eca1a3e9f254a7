"""Which of several instances works: a lock in the API server, taken, held and renewed by one of them.

`lock_for` makes the lock, `Elector` takes part for us. Whoever leads does so only until a moment that it
knows itself; nobody else takes over before that, whatever is slow, lost or asleep.
"""

from stowplan.election.announcing import Announcer
from stowplan.election.build import LOCK_KINDS, identity, lock_for
from stowplan.election.candidate import LEASE_CANDIDATES, Candidate, Offer
from stowplan.election.elector import DEFAULT_NAME, Elector, LeaseLostError
from stowplan.election.health import ElectionHealth
from stowplan.election.locks import Lock
from stowplan.election.thread import ElectionThread
from stowplan.election.timing import ElectionError, Timing

__all__ = [
    "DEFAULT_NAME",
    "LEASE_CANDIDATES",
    "LOCK_KINDS",
    "Announcer",
    "Candidate",
    "ElectionError",
    "ElectionHealth",
    "ElectionThread",
    "Elector",
    "LeaseLostError",
    "Lock",
    "Offer",
    "Timing",
    "identity",
    "lock_for",
]
