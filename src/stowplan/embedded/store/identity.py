"""What the server gives an object at birth: a uid, a name if it has none, the time of the day."""

import random
from math import inf
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.timestamps import timestamp
from stowplan.clock import Clock
from stowplan.embedded.store.objects import Key
from stowplan.embedded.store.replacing import NEVER_GIVEN

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 63 - _SUFFIX

_VERSION_4: Final = 0x4 << 76 | 0x8 << 60
"""What the bits of a random UUID say of its kind: its version, its variant."""

_CHANCE: Final = (1 << 128) - 1 - (0xF << 76 | 0xC << 60)
"""The bits that are left to chance."""


class Registrar:
    """Hands out uids, name suffixes and timestamps, from a given source of chance and a given clock."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self.latest = -inf
        """When the last birth certificate was made out."""
        self._stamp = ""
        self._since = self._next_stamp = -inf

    def go_on_from(self, version: int) -> None:
        """Give out other uids and names than in the life that ended at a version, also with the same seed."""
        self._rng.seed(f"{self._rng.getrandbits(64)}/{version}")

    def now(self) -> float:
        return self._clock.now()

    def stamp(self) -> str:
        """The current time as objects carry it, written out once a second."""
        now = self._clock.now()
        return self._stamp if self._since <= now < self._next_stamp else self._stamp_of(now)

    def _stamp_of(self, now: float) -> str:
        self._stamp = timestamp(now)
        self._since = now // 1
        self._next_stamp = self._since + 1
        return self._stamp

    def birth_certificate(self, resource: Resource, metadata: Json, key: Key) -> Json:
        """The metadata of a new object: what its creator may say, and what is the server's to say.

        Its uid is a random (version 4) UUID.
        """
        born = {**metadata}
        for field in NEVER_GIVEN.intersection(metadata):
            del born[field]
        namespace, born["name"] = key
        if namespace:
            born["namespace"] = namespace
        else:
            born.pop("namespace", None)
        digits = (self._rng.getrandbits(128) & _CHANCE | _VERSION_4).to_bytes(16).hex("-", 6)
        born["uid"] = f"{digits[:13]}-{digits[13:17]}-{digits[17:]}"
        if resource.generation:
            born["generation"] = 1
        self.latest = now = self._clock.now()
        born["creationTimestamp"] = (
            self._stamp if self._since <= now < self._next_stamp else self._stamp_of(now)
        )
        return born

    def name(self, base: str) -> str:
        """A name that begins with `base`, cut to what names may be long, and ends by chance."""
        return base[:_LONGEST_BASE] + "".join(self._rng.choices(_LETTERS, k=_SUFFIX))
