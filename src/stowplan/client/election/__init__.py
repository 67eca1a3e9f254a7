"""Leader election: one of several instances holds a resource lock in the API server, and renews it.

`lock_for` makes the lock, `Elector` acquires, renews and releases it, `ElectionThread` runs an elector in a
separate thread. A leader knows itself until when it may lead; no other candidate takes over before that, even
if something is slow, lost or suspended.
"""

from stowplan.client.election.candidate import Candidate, CandidateInfo
from stowplan.client.election.elector import DEFAULT_NAME, ElectionHealth, Elector, LeaseLostError
from stowplan.client.election.events import ElectionEvents
from stowplan.client.election.locks import LOCK_KINDS, Lock, identity, lock_for
from stowplan.client.election.record import ElectionError, Timing
from stowplan.client.election.thread import ElectionThread, Participant

__all__ = [
    "DEFAULT_NAME",
    "LOCK_KINDS",
    "Candidate",
    "CandidateInfo",
    "ElectionError",
    "ElectionEvents",
    "ElectionHealth",
    "ElectionThread",
    "Elector",
    "LeaseLostError",
    "Lock",
    "Participant",
    "Timing",
    "identity",
    "lock_for",
]
