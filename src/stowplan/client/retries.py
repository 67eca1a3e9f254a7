"""How long to wait before trying again: twice as long each time, up to a limit, and never all at once."""

import random


class Retries:
    """Growing pauses with jitter; `reset` when things work again."""

    def __init__(self, rng: random.Random, *, first: float = 0.8, longest: float = 30.0) -> None:
        self._rng = rng
        self._first = first
        self._longest = longest
        self._base = first

    def next_pause(self) -> float:
        """Seconds to wait: between one and two times the present base."""
        base, self._base = self._base, min(2 * self._base, self._longest)
        return base * (1 + self._rng.random())

    def reset(self) -> None:
        self._base = self._first
