"""Elections in which the server picks the leader: who offers himself, answers, and leads only when put in."""

import asyncio
import random

import pytest

from client.election.candidates import NAME, NAMESPACE, World, lead
from stowplan.api.catalogue import LEASE_CANDIDATES, LEASES
from stowplan.api.meta import micro_timestamp
from stowplan.api.requests import Json
from stowplan.client.election import Candidate, CandidateInfo, Elector
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.leaderelection import (
    OLDEST_EMULATION_VERSION as OLDEST,
)
from stowplan.localcluster.controllers.leaderelection import (
    ElectionProblem,
    LeaderElectionController,
    best_candidate,
    best_strategy,
)
from stowplan.runtime.clock import VirtualClock, run

ME = "vm_1"


def world_of(clock: VirtualClock) -> tuple[World, InProcessClient, Candidate]:
    world = World(clock)
    client = InProcessClient(world.store)
    info = CandidateInfo(NAMESPACE, ME, NAME, "1.36.4", "1.36.0")
    return world, client, Candidate(client, info, clock=clock, rng=random.Random(1), logger=world.logger())


async def put_in(client: InProcessClient, elector: Elector, **more: str) -> None:
    """Write the server's choice into the lease."""
    spec = {
        "holderIdentity": elector.identity,
        "leaseDurationSeconds": 15,
        "strategy": "OldestEmulationVersion",
    }
    body: Json = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {**spec, **more}}
    await client.create(LEASES, body, namespace=NAMESPACE)


def test_a_candidate_offers_itself_answers_when_asked_and_every_five_minutes() -> None:
    async def main(clock: VirtualClock) -> None:
        world, client, candidate = world_of(clock)
        world.start(candidate.run())
        await asyncio.sleep(1)
        assert candidate.has_synced
        made = world.store.get(LEASE_CANDIDATES, NAMESPACE, ME)
        assert made["spec"] == {
            "leaseName": NAME,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "binaryVersion": "1.36.4",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
        }
        await asyncio.sleep(9)
        asked = micro_timestamp(clock.now())
        await client.update(LEASE_CANDIDATES, {**made, "spec": {**made["spec"], "pingTime": asked}})
        await asyncio.sleep(1)
        answered = world.store.get(LEASE_CANDIDATES, NAMESPACE, ME)["spec"]
        assert (answered["pingTime"], answered["renewTime"]) == (asked, asked)
        await asyncio.sleep(300)
        renewed = world.store.get(LEASE_CANDIDATES, NAMESPACE, ME)["spec"]["renewTime"]
        assert renewed == "2026-01-01T00:05:10.000000Z"

    run(main)


def test_a_candidate_never_takes_a_lease_by_itself() -> None:
    async def main(clock: VirtualClock) -> None:
        world, client, _ = world_of(clock)
        elector = world.elector(coordinated=True)
        world.start(lead(elector))
        await asyncio.sleep(30)
        assert not elector.is_leader
        assert {request.method for request in world.wire} == {"GET"}
        await put_in(client, elector)
        await asyncio.sleep(5)
        assert elector.is_leader
        spec = world.lease()["spec"]
        assert (spec["strategy"], spec["holderIdentity"]) == ("OldestEmulationVersion", elector.identity)
        await asyncio.sleep(100)
        assert elector.is_leader

    run(main)


def test_a_leader_whose_term_ends_stops_renewing() -> None:
    async def main(clock: VirtualClock) -> None:
        world, client, _ = world_of(clock)
        elector = world.elector(coordinated=True)
        process = world.start(lead(elector))
        await put_in(client, elector)
        await asyncio.sleep(5)
        lease = world.lease()
        await client.update(LEASES, {**lease, "spec": {**lease["spec"], "preferredHolder": "better"}})
        began = clock.now()
        await process
        assert clock.now() - began == pytest.approx(11, abs=1.1)
        assert world.said("Lease is marked as 'end of term'") >= 4
        assert world.lease()["spec"]["holderIdentity"] == ""

    run(main)


# The server's part


class Electorate:
    """A server that elects, and candidates of several versions that lead when they are put in."""

    def __init__(self, clock: VirtualClock) -> None:
        self.world = World(clock)
        self.problems: list[str] = []
        self.electors: dict[str, Elector] = {}
        self.processes: dict[str, list[asyncio.Task[None]]] = {}
        context = ControllerContext.of(
            InProcessClient(self.world.store), clock, random.Random(7), self.problems.append
        )
        self.world.start(ControllerManager(context, [LeaderElectionController(context)]).run())

    def join(self, emulation: str, binary: str = "1.37.0", strategy: str = OLDEST) -> Elector:
        """Start a process that emulates a version."""
        elector = self.world.elector(coordinated=True)
        info = CandidateInfo(NAMESPACE, elector.identity, NAME, binary, f"{emulation}.0", strategy)
        rng, logger = random.Random(emulation), self.world.logger()
        candidate = Candidate(self.world.client(), info, clock=self.world.clock, rng=rng, logger=logger)
        offering = self.world.start(candidate.run())
        leading = self.world.start(lead(elector))
        leading.add_done_callback(lambda _: offering.cancel())
        self.electors[emulation] = elector
        self.processes[emulation] = [offering, leading]
        return elector

    def kill(self, emulation: str) -> None:
        """It vanishes without a word."""
        for task in self.processes[emulation]:
            task.cancel()
        del self.electors[emulation]

    def leaders(self) -> list[str]:
        return [emulation for emulation, elector in self.electors.items() if elector.is_leader]

    async def passes(self, seconds: float) -> list[str]:
        """Let time pass; returns the leaders in order. There is never more than one at a time."""
        led: list[str] = []
        for _ in range(int(seconds * 4)):
            await asyncio.sleep(0.25)
            leaders = self.leaders()
            assert len(leaders) <= 1
            if leaders and leaders != led[-1:]:
                led += leaders
        return led


def test_the_oldest_emulated_version_leads_and_takes_over_from_newer_ones() -> None:
    async def main(clock: VirtualClock) -> None:
        election = Electorate(clock)
        election.join("1.37")
        assert await election.passes(10) == ["1.37"]
        lease = election.world.lease()["spec"]
        assert (lease["strategy"], lease["leaseDurationSeconds"]) == (OLDEST, 15)
        election.join("1.36")
        oldest = election.join("1.35")
        await asyncio.sleep(1)
        assert election.world.lease()["spec"]["preferredHolder"] == oldest.identity
        assert election.leaders() == ["1.37"], "it leads to the end of its term"
        assert await election.passes(40) == ["1.37", "1.35"]
        spec = election.world.lease()["spec"]
        assert (spec["holderIdentity"], spec.get("preferredHolder")) == (oldest.identity, None)
        assert not election.problems

    run(main)


def test_a_leader_that_dies_is_replaced_by_the_best_of_those_that_answer() -> None:
    async def main(clock: VirtualClock) -> None:
        election = Electorate(clock)
        for emulation in ("1.35", "1.36", "1.37"):
            election.join(emulation)
        assert await election.passes(10) == ["1.35"]
        election.kill("1.35")
        assert await election.passes(60) == ["1.36"]
        dead = "its candidate is still there, and was asked in vain"
        assert len(election.world.store.list(LEASE_CANDIDATES).items) == 3, dead
        assert await election.passes(1800) == ["1.36"]
        assert len(election.world.store.list(LEASE_CANDIDATES).items) == 2, "half an hour later it is gone"

    run(main)


def test_a_leader_that_releases_the_lease_makes_room_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        election = Electorate(clock)
        first = election.join("1.36")
        assert await election.passes(10) == ["1.36"]
        election.join("1.37")
        await asyncio.sleep(6)
        election.kill("1.36")
        await first.release()
        spec = election.world.lease()["spec"]
        assert (spec["holderIdentity"], spec.get("strategy")) == ("", None)
        assert await election.passes(20) == ["1.37"]
        assert election.world.lease()["spec"]["strategy"] == OLDEST

    run(main)


def candidate(
    name: str, emulation: str, binary: str = "1.37.0", created: int = 0, strategy: str = ""
) -> Json:
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"},
        "spec": {
            "emulationVersion": emulation,
            "binaryVersion": binary,
            "strategy": strategy or OLDEST,
        },
    }


def test_who_is_best() -> None:
    def best(*candidates: Json) -> str:
        found = best_candidate(candidates)
        return "" if found is None else str(found["metadata"]["name"])

    assert best(candidate("a", "1.37.0"), candidate("b", "1.36.0")) == "b"
    assert best(candidate("a", "1.10.0"), candidate("b", "1.9.0")) == "b", "not by text"
    assert best(candidate("a", "1.36.0"), candidate("b", "1.36.0", "1.36.4")) == "b"
    assert best(candidate("a", "1.36.0", created=2), candidate("b", "1.36.0", created=1)) == "b"
    assert best(candidate("a", "1.36"), candidate("b", "1.37.0")) == "b", "one that cannot be read"
    assert best(candidate("a", "")) == ""
    mine = candidate("a", "1.37.0", strategy="example.com/mine")
    assert best_strategy([candidate("b", "1.36.0", "1.36.4"), mine]) == "example.com/mine"
    with pytest.raises(ElectionProblem, match='candidates "a", "b" at same binary version'):
        best_strategy([mine, candidate("b", "1.36.0")])
