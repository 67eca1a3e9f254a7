"""The health check of an election: a leader that could not renew and is still there is not well."""

from typing import Final

from stowplan.election.elector import Elector

CHECK_NAME: Final = "leaderElection"
TOLERANCE: Final = 20.0
"""Seconds past the end of its lease for which a leader is not called unwell."""


class ElectionHealth:
    """Can be asked before there is an elector: nothing is wrong then."""

    name: Final = CHECK_NAME

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._elector: Elector | None = None

    def watch(self, elector: Elector) -> None:
        """From now on say how this elector is."""
        self._elector = elector

    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        return "" if self._elector is None else self._elector.problem(self._tolerance)
