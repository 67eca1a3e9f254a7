"""Elections in which the server picks the leader: who offers himself, answers, and leads only when put in."""

import asyncio
import random

import pytest

from election.worlds import NAME, NAMESPACE, World, lead
from stowplan.api.catalogue import LEASES
from stowplan.api.meta import micro_timestamp
from stowplan.api.requests import Json
from stowplan.clock import VirtualClock, run
from stowplan.election import LEASE_CANDIDATES, Candidate, CandidateInfo, Elector
from stowplan.embedded.client import InProcessClient

ME = "vm_1"


def world_of(clock: VirtualClock) -> tuple[World, InProcessClient, Candidate]:
    world = World(clock)
    world.store.catalogue.register(LEASE_CANDIDATES)
    client = InProcessClient(world.store)
    info = CandidateInfo(NAMESPACE, ME, NAME, "1.36.4", "1.36.0")
    return world, client, Candidate(client, info, clock=clock, rng=random.Random(1), logger=world.logger())


async def put_in(client: InProcessClient, elector: Elector, **more: str) -> None:
    """What the server does when it has made its choice."""
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
