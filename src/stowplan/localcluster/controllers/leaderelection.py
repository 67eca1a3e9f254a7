"""Coordinated leader election: picks the holder of every Lease that has LeaseCandidates.

In upstream this loop is part of kube-apiserver. Its state is all in the objects: candidates are pinged
(`pingTime`), those that renew within five seconds take part, and the best of them gets the lease. A holder
that is not the best any more is not replaced at once: the lease names the `preferredHolder`, the holder stops
renewing, and the lease changes hands when it is free.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import LEASE_CANDIDATES, LEASES
from stowplan.api.cel.semver import Semver, SemverError, parse
from stowplan.api.meta import micro_timestamp, seconds_of
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, gather_writes
from stowplan.localcluster.objects.fields import (
    created_at,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    split_key,
)

OLDEST_EMULATION_VERSION: Final = "OldestEmulationVersion"
ELECTION_SECONDS: Final = 5.0
"""How long candidates that were pinged are waited for."""

LEASE_SECONDS: Final = 5
"""Seconds of a lease that its new holder has not renewed yet."""

CHECK_EVERY: Final = 5.0
CANDIDATE_SECONDS: Final = 30 * 60.0
"""Seconds without renewal after which a candidate is dropped; after half of it all are pinged."""


class ElectionProblem(Exception):  # noqa: N818 - a state of the cluster from which no leader can be elected
    """Candidates among whom no choice can be made; one line."""


class _Times(NamedTuple):
    pinged: float | None
    renewed: float | None

    @property
    def has_answered(self) -> bool:
        """True if it has renewed since it was pinged."""
        return self.renewed is not None and (self.pinged is None or self.renewed >= self.pinged)

    def was_pinged_within(self, seconds: float, now: float) -> bool:
        return self.pinged is not None and self.pinged + seconds > now

    def has_renewed_within(self, seconds: float, now: float) -> bool:
        return self.renewed is not None and self.renewed + seconds > now


class LeaderElectionController(Controller):
    """Elects; keys are those of leases."""

    name: ClassVar[str] = "leader-election-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.leases = self.informer(LEASES)
        self.candidates = self.informer(LEASE_CANDIDATES)
        self._by_lease = self.candidates.index(_leases_wanted)
        self.leases.add_handler(self._lease_changed)
        self.candidates.add_handler(self._candidate_changed)

    def _lease_changed(self, old: Json | None, new: Json | None) -> None:
        lease = new if new is not None else old
        assert lease is not None
        key = key_of(lease)
        if self._by_lease[key]:
            self.queue.add(key)

    def _candidate_changed(self, old: Json | None, new: Json | None) -> None:
        """One that was just pinged is waited for; every other change may decide something."""
        candidate = new if new is not None else old
        assert candidate is not None
        times = _times(candidate)
        if times.pinged is None or times.has_answered:
            for key in _leases_wanted(candidate):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        candidates = await self._valid_candidates(key)
        if not candidates:
            return
        self.queue.add_after(key, CHECK_EVERY)
        if not self._is_election_needed(key, candidates) or not await self._have_all_answered(candidates):
            return
        now = self.now()
        present = [one for one in candidates if _times(one).has_renewed_within(ELECTION_SECONDS, now)]
        if not present:
            return
        strategy = best_strategy(present)
        best = best_candidate(present) if strategy == OLDEST_EMULATION_VERSION else None
        await self._give_lease(key, strategy, None if best is None else name_of(best))

    async def _valid_candidates(self, key: str) -> list[Json]:
        """The candidates for a lease; those that have not renewed for half an hour are deleted."""
        now, valid = self.now(), []
        for candidate in list(self._by_lease[key].values()):
            if _times(candidate).has_renewed_within(CANDIDATE_SECONDS, now):
                valid.append(candidate)
            else:
                await self.delete(LEASE_CANDIDATES, candidate)
        return valid

    def _is_election_needed(self, key: str, candidates: Sequence[Json]) -> bool:
        lease, now = self.leases.get(key), self.now()
        if lease is None or is_expired(lease, now) or not spec_of(lease).get("holderIdentity"):
            return True
        if any(not _times(one).has_renewed_within(CANDIDATE_SECONDS / 2, now) for one in candidates):
            return True
        if best_strategy(candidates) != OLDEST_EMULATION_VERSION:
            return False
        best = best_candidate(candidates)
        return best is not None and name_of(best) != spec_of(lease)["holderIdentity"]

    async def _have_all_answered(self, candidates: Sequence[Json]) -> bool:
        """Ping those that have not renewed lately; whether the choice can be made now."""
        now = self.now()
        pings, waiting = [], False
        for candidate in candidates:
            times = _times(candidate)
            if times.was_pinged_within(ELECTION_SECONDS, now) and not times.has_answered:
                waiting = True
            elif times.has_renewed_within(ELECTION_SECONDS, now):
                continue
            elif times.pinged is None or times.has_answered:
                pings.append(self._ping(candidate, now))
        await gather_writes(pings)
        return not waiting and not pings

    async def _ping(self, candidate: Json, now: float) -> None:
        spec = {**spec_of(candidate), "pingTime": micro_timestamp(now)}
        self.note(LEASE_CANDIDATES, await self.client.update(LEASE_CANDIDATES, {**candidate, "spec": spec}))

    async def _give_lease(self, key: str, strategy: str, holder: str | None) -> None:
        """Create the lease for its holder, give it to another one if it is free, or name who is preferred."""
        namespace, name = split_key(key)
        wanted: Json = {
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(self.now()),
            "strategy": strategy,
            **({} if holder is None else {"holderIdentity": holder}),
        }
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": wanted}
        try:
            await self.create(LEASES, body, namespace)
        except ApiError as error:
            if not error.is_already_exists:
                raise
        else:
            return
        lease = await self.client.get(LEASES, namespace, name)
        spec = changed_spec(spec_of(lease), wanted, is_free=is_expired(lease, self.now()))
        if spec != spec_of(lease):
            self.note(LEASES, await self.client.update(LEASES, {**lease, "spec": spec}))


def changed_spec(spec: Json, wanted: Json, *, is_free: bool) -> Json:
    """The spec of an existing lease after an election."""
    spec = {**spec, "strategy": wanted["strategy"]}
    holder, before = wanted.get("holderIdentity"), spec.get("holderIdentity") or ""
    if holder is None or holder == before:
        return spec
    if before and not is_free:
        return {**spec, "preferredHolder": holder}
    dropped = ("preferredHolder", "acquireTime")
    return {**{name: value for name, value in spec.items() if name not in dropped}, **wanted}


def is_expired(lease: Json, now: float) -> bool:
    spec = spec_of(lease)
    renewed, seconds = _time(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    return renewed is None or seconds is None or renewed + seconds < now


def best_candidate(candidates: Iterable[Json]) -> Json | None:
    """The one with the oldest emulation version, then the oldest binary; of equal ones the first made."""
    best: tuple[_Rank, Json] | None = None
    for candidate in candidates:
        rank = _rank(candidate)
        if rank is not None and (best is None or rank.is_before(best[0])):
            best = rank, candidate
    return None if best is None else best[1]


def best_strategy(candidates: Sequence[Json]) -> str:
    """The strategy of the candidates with the newest binary. Raises ElectionProblem if they do not agree."""
    newest = candidates[0]
    for candidate in candidates[1:]:
        order = _version(newest, "binaryVersion").compare(_version(candidate, "binaryVersion"))
        if order < 0:
            newest = candidate
        elif order == 0 and _strategy(candidate) != _strategy(newest):
            raise ElectionProblem(
                f'candidates "{name_of(newest)}", "{name_of(candidate)}" at same binary version but received '
                f"differing strategies {_strategy(newest)}, {_strategy(candidate)}"
            )
    return _strategy(newest)


class _Rank(NamedTuple):
    emulation: Semver
    binary: Semver
    created: float

    def is_before(self, other: "_Rank") -> bool:
        order = self.emulation.compare(other.emulation) or self.binary.compare(other.binary)
        return order < 0 if order else self.created < other.created


def _rank(candidate: Json) -> _Rank | None:
    """None if it says no versions that can be compared."""
    spec = spec_of(candidate)
    try:
        versions = parse(spec.get("emulationVersion", "")), parse(spec.get("binaryVersion", ""))
    except SemverError:
        return None
    return _Rank(*versions, created_at(candidate))


def _version(candidate: Json, field: str) -> Semver:
    try:
        return parse(spec_of(candidate).get(field, ""))
    except SemverError:
        return Semver(0, 0, 0)


def _strategy(candidate: Json) -> str:
    strategy: str = spec_of(candidate).get("strategy", "")
    return strategy


def _leases_wanted(candidate: Json) -> list[str]:
    return [f"{namespace_of(candidate)}/{spec_of(candidate).get('leaseName', '')}"]


def _times(candidate: Json) -> _Times:
    spec = spec_of(candidate)
    return _Times(_time(spec.get("pingTime")), _time(spec.get("renewTime")))


def _time(text: str | None) -> float | None:
    return seconds_of(text) if text else None
