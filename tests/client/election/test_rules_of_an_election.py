"""When a lease may be taken, its duration, and its end; every rule in virtual time."""

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from client.election.candidates import NAME, NAMESPACE, Watched, World, lead, timing
from runtime.clock.jumping import YEAR, JumpingClock
from stowplan.api.catalogue import EVENTS, LEASES, Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.api.status import ApiError, unreachable
from stowplan.client.election import (
    ElectionError,
    ElectionEvents,
    ElectionHealth,
    Elector,
    LeaseLostError,
    Timing,
    identity,
    lock_for,
)
from stowplan.client.interface import Body
from stowplan.config.types import LeaderElection
from stowplan.gocompat.durations import Duration
from stowplan.localcluster.client import InProcessClient
from stowplan.runtime.clock import VirtualClock, run


@pytest.mark.parametrize(
    ("lease", "renew", "retry", "problem"),
    [
        ("10s", "10s", "2s", "leaseDuration must be greater than renewDeadline"),
        ("15s", "2400ms", "2s", "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ("15s", "10s", "0s", "retryPeriod must be greater than zero"),
        ("15s", "0s", "-1s", "renewDeadline must be greater than zero"),
        (
            "900ms",
            "500ms",
            "100ms",
            "leaseDuration must be at least 1s, which is the least a lease can say, got 900ms",
        ),
    ],
)
def test_times_that_do_not_fit_together_are_refused(lease: str, renew: str, retry: str, problem: str) -> None:
    with pytest.raises(ElectionError) as refused:
        timing(lease, renew, retry)
    assert str(refused.value) == f"couldn't create leader elector: {problem}"


def test_the_usual_times_fit_together() -> None:
    usual = Timing.of(LeaderElection())
    assert (usual.validity, usual.request_timeout) == (15, Duration.of_seconds(5))
    assert timing("15s", "2400000001ns", "2s").request_timeout == Duration(1_200_000_000)
    assert timing("2s", "1s", "100ms").request_timeout == Duration.of_seconds(1)


def test_an_identity_is_the_host_and_a_random_uid() -> None:
    first, second = (identity("vm", random.Random(seed)) for seed in (1, 2))
    assert first != second
    host, uid = first.split("_")
    assert host == "vm"
    assert (len(uid), uid[14]) == (36, "4")


@pytest.mark.parametrize("kind", ["", "secrets", "leasesleases", "Leases"])
def test_a_lock_of_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(ElectionError, match=f"Invalid lock-type {kind} \\(expected one of leases, endpoints"):
        lock_for(kind, None, NAMESPACE, NAME, "me")  # type: ignore[arg-type]


def test_a_lock_without_an_identity_is_refused() -> None:
    with pytest.raises(ElectionError, match="Lock identity is empty"):
        lock_for("leases", None, NAMESPACE, NAME, "")  # type: ignore[arg-type]


async def _held_by(world: World, **spec: Any) -> None:
    lease = {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 3, **spec}
    body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": lease}
    await InProcessClient(world.store).create(LEASES, body, namespace=NAMESPACE)


@pytest.mark.parametrize("renew_time", ["2020-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z", None])
def test_a_lease_is_taken_over_when_it_has_not_changed_for_its_duration_whatever_dates_it_says(
    renew_time: str | None,
) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world, leaseDurationSeconds=7, **({"renewTime": renew_time} if renew_time else {}))
        elector = world.elector()
        began = clock.now()
        await elector.acquire()
        assert 7 <= clock.now() - began <= 7.1
        spec = world.lease()["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (elector.identity, 4)
        assert (spec["leaseDurationSeconds"], spec["acquireTime"]) == (15, spec["renewTime"])
        assert elector.is_leader

    run(main)


def test_every_change_of_the_record_makes_others_wait_anew() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world)
        elector = world.elector()
        acquiring = asyncio.create_task(elector.acquire())
        for number in range(5):
            await asyncio.sleep(10)
            lease = world.lease()
            spec = {**lease["spec"], "renewTime": f"2026-01-01T00:00:00.00000{number}Z"}
            await InProcessClient(world.store).update(LEASES, {**lease, "spec": spec})
        last = clock.now()
        await acquiring
        assert 15 <= clock.now() - last <= 15 + 4.4 + 0.1

    run(main)


def test_a_lease_that_nobody_holds_is_taken_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world, holderIdentity="")
        await world.elector().acquire()
        assert [request.method for request in world.wire] == ["GET", "PUT"]

    run(main)


def test_candidates_try_after_a_retry_period_and_by_chance_up_to_two_and_a_fifth_of_it() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world, leaseDurationSeconds=10_000)
        acquiring = asyncio.create_task(world.elector().acquire())
        await asyncio.sleep(900)
        acquiring.cancel()
        times = [request.at for request in world.wire]
        gaps = [b - a for a, b in pairwise(times)]
        assert 2 <= min(gaps) < 2.1
        assert 4.2 < max(gaps) <= 4.41
        assert 3.1 < sum(gaps) / len(gaps) < 3.3

    run(main)


def test_of_two_candidates_that_come_at_once_one_wins() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        electors = [world.elector() for _ in range(5)]
        for elector in electors:
            world.start(lead(elector))
        await asyncio.sleep(60)
        assert sum(elector.is_leader for elector in electors) == 1
        assert {elector.leader for elector in electors} == {world.lease()["spec"]["holderIdentity"]}
        assert [elector.master_status for elector in electors] == [int(e.is_leader) for e in electors]

    run(main)


@pytest.mark.parametrize(
    ("times", "after"),
    [(("15s", "10s", "2s"), 12.0), (("15s", "14s", "5s"), 15.0), (("6s", "3s", "1s"), 4.0)],
)
def test_a_hanging_server_costs_the_lease_in_time(times: tuple[str, str, str], after: float) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        client = world.client()
        elector = world.elector(client, timing=timing(*times))
        await elector.acquire()
        holding = asyncio.create_task(elector.renew())
        await asyncio.sleep(0.01)
        renewed = clock.now()
        client.hangs = True
        with pytest.raises(LeaseLostError):
            await holding
        assert clock.now() - renewed == pytest.approx(after, abs=0.05)
        assert (elector.is_leader, elector.master_status) == (False, 0)
        hung = [request for request in world.wire if request.code == -1]
        assert hung, "requests were given up, not waited for"
        before = clock.now()
        assert not await elector.release(3)
        assert clock.now() - before <= 3.01

    run(main)


def test_a_leader_survives_errors_that_end_before_the_renew_deadline() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        client = world.client()
        elector = world.elector(client)
        process = world.start(lead(elector))
        await asyncio.sleep(1)
        client.failure = ApiError(500, "InternalError", "no")
        await asyncio.sleep(9)
        client.failure = None
        await asyncio.sleep(60)
        assert elector.is_leader
        assert not process.done()
        assert elector.slow_paths == 0, "the record was still ours, so it was renewed without reading"
        assert world.said("Error retrieving lease lock") >= 4

    run(main)


def test_a_lost_answer_is_found_out_by_reading() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        world.start(lead(elector))
        await asyncio.sleep(1)
        lease = world.lease()
        spec = {**lease["spec"], "renewTime": "2026-01-01T00:00:01.500000Z"}
        await InProcessClient(world.store).update(LEASES, {**lease, "spec": spec})
        await asyncio.sleep(2)
        assert (elector.is_leader, elector.slow_paths) == (True, 1)

    run(main)


def test_release_leaves_somebody_elses_lease_alone() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        await elector.acquire()
        await world.steal()
        assert await elector.release()
        assert world.lease()["spec"]["holderIdentity"] == "somebody-else"

    run(main)


def test_who_never_led_has_nothing_to_release_and_nothing_to_say() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        assert await world.elector().release()
        assert not world.wire

    run(main)


def test_a_lease_that_is_gone_needs_no_release() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        await elector.acquire()
        await InProcessClient(world.store).delete(LEASES, NAMESPACE, NAME)
        assert await elector.release()
        assert world.said("lease lock not found") == 1

    run(main)


@pytest.mark.parametrize("kind", ["leases", "endpoints"])
@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600.0, -2.0, -3.0])
def test_a_wall_clock_that_jumps_for_a_second_neither_takes_nor_loses_a_lease(jump: float, kind: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        jumping = [JumpingClock(clock), JumpingClock(clock)]
        first, second = (world.elector(clock=one, kind=kind) for one in jumping)
        world.start(lead(first))
        await asyncio.sleep(5)
        world.start(lead(second))
        await asyncio.sleep(4.9)
        for back in (False, True):
            for one in jumping:
                one.ahead = 0.0 if back else jump
            for _ in range(10):
                assert (first.is_leader, second.is_leader) == (True, False)
                await asyncio.sleep(0.1)
        for _ in range(300):
            assert (first.is_leader, second.is_leader) == (True, False)
            await asyncio.sleep(0.1)

    run(main)


def test_the_lease_is_dated_by_the_wall_clock_as_it_stands() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        jumping = JumpingClock(clock)
        world.start(lead(world.elector(clock=jumping)))
        await asyncio.sleep(5)
        for ahead in (YEAR, 0.0, -YEAR, 0.0):
            jumping.ahead = ahead
            await asyncio.sleep(2.1)
            renewed = seconds_of(world.lease()["spec"]["renewTime"])
            assert 0 <= jumping.now() - renewed < 2.1

    run(main)


def test_a_machine_that_was_suspended_leads_again_when_it_has_renewed() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        leading, waiting = JumpingClock(clock), JumpingClock(clock)
        first, second = world.elector(clock=leading), world.elector(clock=waiting)
        world.start(lead(first))
        await asyncio.sleep(5)
        world.start(lead(second))
        await asyncio.sleep(5)
        waiting.asleep = 3600.0
        await asyncio.sleep(5)
        assert (first.is_leader, second.is_leader) == (True, False)
        leading.asleep = 60.0
        assert not first.is_leader, "a machine may have slept: not before it has been renewed"
        await asyncio.sleep(2.1)
        assert (first.is_leader, second.is_leader) == (True, False)

    run(main)


def test_a_machine_that_slept_while_another_took_over_stops_at_its_first_word_with_the_server() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        machine = JumpingClock(clock)
        elector = world.elector(clock=machine)
        process = world.start(lead(elector))
        await asyncio.sleep(3)
        await world.steal()
        machine.asleep = 60.0
        assert not elector.is_leader
        await asyncio.sleep(2.1)
        assert process.done()

    run(main)


def test_leaders_are_reported_once_each() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world, leaseDurationSeconds=60)
        seen: list[str] = []
        elector = world.elector(on_new_leader=seen.append)
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(20)
        await world.steal("third")
        await acquiring
        assert seen == ["other", "third", elector.identity]
        assert world.said("New leader observed") == 3

    run(main)


def test_events_tell_who_leads_and_who_stopped() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        await elector.acquire()
        await elector.release()
        await asyncio.sleep(1)
        events = world.store.list(EVENTS, NAMESPACE).items
        assert [(event["reason"], event["note"]) for event in events] == [
            ("LeaderElection", f"{elector.identity} became leader"),
            ("LeaderElection", f"{elector.identity} stopped leading"),
        ]
        assert events[0]["regarding"]["kind"] == "Lease"

    run(main)


def test_an_event_waits_for_a_server_that_cannot_be_reached_but_not_at_the_end() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        client = world.client()
        events = ElectionEvents(client, "me", clock=clock, rng=random.Random(1), logger=world.logger())
        subject = {"kind": "Lease", "namespace": NAMESPACE, "name": NAME}
        client.failure = unreachable("no")
        events.record(subject, "a")
        await asyncio.sleep(25)
        client.failure = None
        await asyncio.sleep(13)
        assert [event["note"] for event in world.store.list(EVENTS, NAMESPACE).items] == ["a"]
        client.hangs = True
        events.record(subject, "b")
        before = clock.now()
        await events.drain(2)
        assert clock.now() - before == pytest.approx(2)

    run(main)


def test_health_is_bad_only_when_a_leader_outlives_its_lease_by_far() -> None:
    async def main(clock: VirtualClock) -> None:
        health = ElectionHealth()
        assert (health.name, health.problem()) == ("leaderElection", "")
        world = World(clock)
        elector: Elector = world.elector()
        health.watch(elector)
        assert health.problem() == ""
        await elector.acquire()
        await asyncio.sleep(34.9)
        assert health.problem() == ""
        await asyncio.sleep(0.2)
        assert health.problem() == "failed election to renew leadership on lease kube-scheduler"
        await elector.release()
        assert health.problem() == ""

    run(main)


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseDurationSeconds": "15"},
        {"renewTime": "yesterday"},
        {"holderIdentity": 3},
        {"leaseTransitions": True},
    ],
)
def test_a_lease_that_cannot_be_read_is_named_and_left_alone(spec: dict[str, Any]) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        await _held_by(world, **spec)
        acquiring = asyncio.create_task(world.elector().acquire())
        await asyncio.sleep(60)
        acquiring.cancel()
        assert {request.method for request in world.wire} == {"GET"}
        problem = next(values for _, said, values in world.lines if said == "Error retrieving lease lock")
        assert str(problem["err"]).startswith(f"{next(iter(spec))}: expected ")

    run(main)


@pytest.mark.parametrize("retries", [True, False])
def test_a_release_that_a_renewal_got_in_the_way_of_is_tried_again_since_1_37(retries: bool) -> None:
    class Contended(Watched):
        conflicts = 0

        async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
            if self.conflicts:
                self.conflicts -= 1
                raise ApiError(409, "Conflict", "the object has been modified")
            return await super().update(resource, body, subresource=subresource)

    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        client = Contended(world.store, clock, world.wire)
        elector = world.elector(client, retry_release=retries)
        await elector.acquire()
        client.conflicts = 3
        assert await elector.release() is retries
        assert (world.lease()["spec"]["holderIdentity"] == "") is retries
        assert world.said("Conflict when releasing lease, retrying") == (3 if retries else 0)
        assert world.said("Failed to release lease") == (0 if retries else 1)

    run(main)
