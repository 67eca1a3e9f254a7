"""What a run finds wrong."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A broken invariant: which one, what was seen, and the second of the run it was seen in."""

    invariant: str
    detail: str
    at: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail} (at {self.at:.3f} s)"


class Findings:
    """Everything found in a run, each broken invariant with its first few cases."""

    ENOUGH = 5

    def __init__(self) -> None:
        self.found: list[Finding] = []

    def add(self, invariant: str, detail: str, at: float) -> None:
        if sum(known.invariant == invariant for known in self.found) < self.ENOUGH:
            self.found.append(Finding(invariant, detail, at))
