"""Endpoints and ConfigMaps as locks, alone and combined with a Lease: old and new candidates exclude each
other."""

import asyncio
import json
from typing import Any

import pytest

from client.election.candidates import NAME, NAMESPACE, World, lead
from stowplan.api.catalogue import CONFIG_MAPS, ENDPOINTS, EVENTS, LEASES
from stowplan.api.requests import Json
from stowplan.client.election import lock_for
from stowplan.client.election.locks import UNKNOWN_LEADER, MultiLock
from stowplan.client.election.record import ANNOTATION, Record
from stowplan.localcluster.client import InProcessClient
from stowplan.runtime.clock import VirtualClock, run

OLD = {"endpoints": ENDPOINTS, "configmaps": CONFIG_MAPS}


def annotation(world: World, kind: str) -> Json:
    metadata = world.store.get(OLD[kind], NAMESPACE, NAME)["metadata"]
    read: Json = json.loads(metadata["annotations"][ANNOTATION])
    return read


@pytest.mark.parametrize("kind", ["endpoints", "configmaps"])
def test_an_old_lock_keeps_the_record_in_an_annotation(kind: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector(kind=kind)
        world.start(lead(elector))
        await asyncio.sleep(3)
        metadata = world.store.get(OLD[kind], NAMESPACE, NAME)["metadata"]
        assert metadata["annotations"][ANNOTATION] == (
            f'{{"holderIdentity":"{elector.identity}","leaseDurationSeconds":15,'
            '"acquireTime":"2026-01-01T00:00:00Z","renewTime":"2026-01-01T00:00:02Z","leaderTransitions":0}'
        )
        assert await elector.release()
        assert annotation(world, kind)["holderIdentity"] == ""
        (event,) = [e for e in world.store.list(EVENTS, NAMESPACE).items if "became" in e["note"]]
        assert (event["regarding"]["kind"], event["regarding"]["apiVersion"]) == (
            OLD[kind].kind,
            "v1",
        )

    run(main)


@pytest.mark.parametrize("kind", ["endpoints", "configmaps"])
def test_what_else_an_object_holds_is_kept(kind: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": {"a": "b"}, "annotations": {"c": "d"}}
        await InProcessClient(world.store).create(OLD[kind], {"metadata": metadata}, namespace=NAMESPACE)
        elector = world.elector(kind=kind)
        await elector.acquire()
        kept = world.store.get(OLD[kind], NAMESPACE, NAME)["metadata"]
        assert (kept["labels"], kept["annotations"]["c"]) == ({"a": "b"}, "d")
        assert annotation(world, kind)["holderIdentity"] == elector.identity

    run(main)


@pytest.mark.parametrize("text", ["{", "[]", '{"holderIdentity": 1}', '{"renewTime": "soon"}'])
def test_an_annotation_that_cannot_be_read_is_named_and_left_alone(text: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        metadata = {"name": NAME, "namespace": NAMESPACE, "annotations": {ANNOTATION: text}}
        await InProcessClient(world.store).create(ENDPOINTS, {"metadata": metadata}, namespace=NAMESPACE)
        acquiring = asyncio.create_task(world.elector(kind="endpoints").acquire())
        await asyncio.sleep(60)
        acquiring.cancel()
        assert {request.method for request in world.wire} == {"GET"}
        assert world.said("Error retrieving lease lock") > 3

    run(main)


def test_a_pair_of_locks_is_written_and_read_as_old_clients_do() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        world.start(lead(world.elector(kind="endpointsleases", events=None)))
        await asyncio.sleep(3)
        kinds = [(r.method, r.url.rsplit("/", 2)[-2 if r.method != "POST" else -1]) for r in world.wire]
        assert kinds == [
            ("GET", "endpoints"),
            ("POST", "endpoints"),
            ("POST", "leases"),
            *[("PUT", "endpoints"), ("GET", "leases"), ("PUT", "leases")] * 2,
        ]
        assert annotation(world, "endpoints")["holderIdentity"] == world.lease()["spec"]["holderIdentity"]

    run(main)


CHANGE_OVERS = [
    ("endpoints", "endpointsleases"),
    ("endpointsleases", "endpoints"),
    ("endpointsleases", "leases"),
    ("leases", "endpointsleases"),
    ("configmaps", "configmapsleases"),
    ("configmapsleases", "configmaps"),
    ("configmapsleases", "leases"),
    ("leases", "configmapsleases"),
    ("endpointsleases", "configmapsleases"),
]


@pytest.mark.parametrize(("old", "new"), CHANGE_OVERS)
def test_an_old_and_a_new_candidate_exclude_each_other_and_follow_each_other(old: str, new: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        first, second = world.elector(kind=old), world.elector(kind=new)
        leading = world.start(lead(first))
        await asyncio.sleep(3)
        following = world.start(lead(second))
        await asyncio.sleep(100)
        assert (first.is_leader, second.is_leader) == (True, False)
        leading.cancel()
        await asyncio.sleep(15 + 2 * 4.5)
        assert (first.is_leader, second.is_leader) == (False, True)
        third = world.elector(kind=old)
        world.start(lead(third))
        await asyncio.sleep(100)
        assert (second.is_leader, third.is_leader) == (True, False)
        following.cancel()
        await second.release()
        await asyncio.sleep(15 + 2 * 4.5)
        assert third.is_leader

    run(main)


def record(holder: str) -> Record:
    return Record(holder, 15, 1.0, 2.0)


def _pair(world: World, me: str) -> MultiLock:
    lock = lock_for("endpointsleases", InProcessClient(world.store), NAMESPACE, NAME, me)
    assert isinstance(lock, MultiLock)
    return lock


def _single(world: World, kind: str, me: str) -> Any:
    return lock_for(kind, InProcessClient(world.store), NAMESPACE, NAME, me)


def test_a_pair_held_by_two_is_held_by_nobody_known() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _single(world, "endpoints", "a").create(record("a"))
        await _single(world, "leases", "b").create(record("b"))
        seen = await _pair(world, "c").get()
        assert seen.record.holder == UNKNOWN_LEADER

    run(main)


def test_a_pair_whose_lease_is_missing_is_held_by_the_old_client() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _single(world, "endpoints", "a").create(record("a"))
        assert (await _pair(world, "c").get()).record.holder == "a"

    run(main)


def test_a_pair_is_not_created_over_somebody_elses_first_lock() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        pair = _pair(world, "c")
        with pytest.raises(Exception, match="not found"):
            await pair.get()
        await _single(world, "endpoints", "a").create(record("a"))
        with pytest.raises(Exception, match="already exists"):
            await pair.create(record("c"))
        with pytest.raises(Exception, match="not found"):
            world.store.get(LEASES, NAMESPACE, NAME)

    run(main)


def test_a_leader_that_slept_does_not_take_the_lease_of_a_pair_back() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        pair = _pair(world, "c")
        await pair.create(record("c"))
        lease = _single(world, "leases", "b")
        await lease.get()
        await lease.update(record("b"))
        with pytest.raises(Exception, match="is held by 'b' now"):
            await pair.update(record("c"))
        assert world.lease()["spec"]["holderIdentity"] == "b"

    run(main)


def test_a_pair_whose_lease_was_deleted_gets_it_again() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector(kind="endpointsleases")
        world.start(lead(elector))
        await asyncio.sleep(3)
        await InProcessClient(world.store).delete(LEASES, NAMESPACE, NAME)
        await asyncio.sleep(3)
        assert elector.is_leader
        assert world.lease()["spec"]["holderIdentity"] == elector.identity

    run(main)
