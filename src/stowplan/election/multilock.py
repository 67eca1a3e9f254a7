"""Two locks held together, for a change from one kind to the other while candidates of both kinds run."""

from typing import Final

from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.election.locks import Lock, Seen
from stowplan.election.record import Record

UNKNOWN_LEADER: Final = "leaderelection.k8s.io/unknown"
"""Who holds the pair when the two locks are held by different candidates."""


class MultiLock:
    """Held when both are. Who knows only one of the two is kept out, and keeps us out, by that one.

    The second lock is read before it is written, as old clients do; but if it changed hands since it was last
    looked at, it is left alone, also by a leader that has slept for too long.
    """

    def __init__(self, primary: Lock, secondary: Lock) -> None:
        self._primary = primary
        self._secondary = secondary
        self._primary_is_ours = False
        self._secondary_seen: Seen | None = None

    @property
    def identity(self) -> str:
        return self._primary.identity

    @property
    def description(self) -> str:
        return self._primary.description

    async def get(self) -> Seen:
        self._primary_is_ours = False
        primary = await self._primary.get()
        self._primary_is_ours = primary.record.holder == self.identity
        self._secondary_seen = None
        try:
            secondary = await self._secondary.get()
        except ApiError as error:
            if error.is_not_found and not self._primary_is_ours:
                return primary
            raise
        self._secondary_seen = secondary
        raw = f"{primary.raw},{secondary.raw}"
        if primary.record.holder == secondary.record.holder:
            return Seen(primary.record, raw)
        return Seen(
            Record(
                UNKNOWN_LEADER,
                max(primary.record.seconds, secondary.record.seconds),
                primary.record.acquired,
                primary.record.renewed,
                primary.record.transitions,
            ),
            raw,
        )

    async def create(self, record: Record) -> None:
        """Create what is missing.

        The first lock may be there already only if it is ours. Then it is renewed: who knows only that one
        must not think that we are gone.
        """
        try:
            await self._primary.create(record)
        except ApiError as error:
            if not error.is_already_exists or not self._primary_is_ours:
                raise
            await self._primary.update(record)
        await self._secondary.create(record)

    async def update(self, record: Record) -> None:
        await self._primary.update(record)
        try:
            found = await self._secondary.get()
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._secondary.create(record)
        else:
            self._refuse_if_taken(found)
            await self._secondary.update(record)
        self._secondary_seen = None

    def references(self) -> tuple[Json, ...]:
        return self._primary.references() + self._secondary.references()

    def _refuse_if_taken(self, found: Seen) -> None:
        holder = found.record.holder
        if holder in ("", self.identity) or found == self._secondary_seen:
            return
        raise ApiError(409, "Conflict", f"lock {self._secondary.description} is held by {holder!r} now")
