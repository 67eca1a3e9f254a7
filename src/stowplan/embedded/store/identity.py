"""What the server gives an object at birth: a uid, a name if it has none, the time of the day."""

import random
from typing import Final

from stowplan.api.timestamps import timestamp
from stowplan.clock import Clock

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 63 - _SUFFIX


class Registrar:
    """Hands out uids, name suffixes and timestamps, from a given source of chance and a given clock."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def go_on_from(self, version: int) -> None:
        """Give out other uids and names than in the life that ended at a version, also with the same seed."""
        self._rng.seed(f"{self._rng.getrandbits(64)}/{version}")

    def now(self) -> float:
        return self._clock.now()

    def stamp(self) -> str:
        """The current time as objects carry it."""
        return timestamp(self._clock.now())

    def uid(self) -> str:
        """A random (version 4) UUID."""
        digits = f"{self._rng.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def name(self, base: str) -> str:
        """A name that begins with `base`, cut to what names may be long, and ends by chance."""
        return base[:_LONGEST_BASE] + "".join(self._rng.choices(_LETTERS, k=_SUFFIX))
