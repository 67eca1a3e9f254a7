"""Writes and log lines of candidates as recorded with a real scheduler, and those of ours."""

import asyncio
import re
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from client.election.candidates import Request, World, lead
from observed.files import recorded
from stowplan.api.catalogue import LEASES
from stowplan.api.status import unreachable
from stowplan.localcluster.client import InProcessClient
from stowplan.runtime.clock import VirtualClock, run

_NEUTRAL = (
    ("time", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")),
    ("second", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")),
    ("event", re.compile(r"\.[0-9a-f]{16}$")),
    ("who", re.compile(r"vm_[0-9a-f-]{36}")),
    ("uid", re.compile(r"^[0-9a-f-]{36}$")),
    ("version", re.compile(r"^\d+$")),
)


class Names:
    """Gives what differs from run to run neutral names, in the order in which it appears."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def _renamed(self, kind: str, found: re.Match[str]) -> str:
        return self._named(kind, found.group())

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.of(value[key]) for key in sorted(value) if key != "managedFields"}
        if not isinstance(value, str):
            return value
        for kind, pattern in _NEUTRAL:
            value = pattern.sub(partial(self._renamed, kind), value)
        return value

    def _named(self, kind: str, text: str) -> str:
        if kind in ("second", "event"):
            return f"<{kind}>"
        number = sum(name.startswith(f"<{kind}") for name in self._known.values()) + 1
        return self._known.setdefault(text, f"<{kind}{number}>")


def comparable(requests: list[tuple[str, str, Any, int]]) -> list[Any]:
    names = Names()
    return [(method, url.split("?")[0], code, names.of(body)) for method, url, body, code in requests]


def of_recording(scenario: str, first: int = 0, last: int | None = None) -> tuple[list[Any], list[float]]:
    slice_ = recorded("wire/writes")[scenario][first:last]
    return comparable([(r["method"], r["url"], r.get("request"), r["code"]) for r in slice_]), [
        r["t"] for r in slice_
    ]


def ours(wire: list[Request], count: int) -> tuple[list[Any], list[float]]:
    seen = sorted(wire, key=lambda request: request.at)[:count]
    return comparable([(r.method, r.url, r.body, r.code) for r in seen]), [r.at for r in seen]


def same(mine: tuple[list[Any], list[float]], theirs: tuple[list[Any], list[float]]) -> None:
    for number, (our, their) in enumerate(zip(mine[0], theirs[0], strict=True)):
        assert our == their, f"request {number}"
    gaps = [[b - a for a, b in pairwise(times)] for times in (mine[1], theirs[1])]
    assert gaps[0] == pytest.approx(gaps[1], abs=0.05)


def test_the_first_candidate_creates_the_lease_renews_it_at_once_and_says_so() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        world.start(lead(world.elector()))
        await asyncio.sleep(3)
        same(ours(world.wire, 5), of_recording("g-start"))

    run(main)


def test_a_released_lease_goes_to_the_other_candidate() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        first = world.elector()
        leading = world.start(lead(first))
        await asyncio.sleep(3)
        world.start(lead(world.elector()))
        await asyncio.sleep(4.3)
        leading.cancel()
        world.wire.clear()
        assert await first.release()
        released, _ = ours(world.wire, 2)
        theirs, _ = of_recording("g-release-sigterm")
        assert released == theirs[:2]
        assert world.lease()["spec"]["holderIdentity"] == ""
        await asyncio.sleep(7)
        # The recorded process did not live long enough to say that it stopped.
        kept = [r for r in world.wire if not (r.body and "stopped leading" in r.body.get("message", ""))]
        same_but_for_waiting = ours(kept, 7)[0]
        assert same_but_for_waiting == theirs[:7]

    run(main)


@pytest.mark.parametrize("scenario", ["g-steal", "g-steal-fresh"])
def test_a_stolen_lease_is_lost_at_the_renew_deadline(scenario: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        process = world.start(lead(elector))
        await asyncio.sleep(3)
        await world.steal()
        world.wire.clear()
        world.lines.clear()
        await process
        await asyncio.sleep(1)
        mine, theirs = ours(world.wire, 8), of_recording(scenario, 0, 8)
        assert [one[:3] for one in mine[0]] == [one[:3] for one in theirs[0]]
        assert mine[0][-1][3]["message"] == "<who1> stopped leading"
        gaps = [b - a for a, b in pairwise(mine[1])]
        theirs_gaps = [b - a for a, b in pairwise(theirs[1])]
        assert gaps == pytest.approx(theirs_gaps, abs=0.05)
        assert not elector.is_leader

    run(main)


def test_a_deleted_lease_is_created_again_and_life_goes_on() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        elector = world.elector()
        world.start(lead(elector))
        await asyncio.sleep(3)
        await InProcessClient(world.store).delete(LEASES, "kube-system", "kube-scheduler")
        world.wire.clear()
        await asyncio.sleep(6)
        same(ours(world.wire, 5), of_recording("g-lease-deleted", 0, 5))
        assert elector.is_leader

    run(main)


def lines(world: World) -> list[Any]:
    """Log lines of the election itself, without the ones that only ours has."""
    return [
        {"severity": "E" if level < 0 else "I", "message": message, "keys": list(values)}
        for level, message, values in world.lines
        if message != "New leader observed"
    ]


def test_a_loser_says_what_a_recorded_one_says() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        process = world.start(lead(world.elector()))
        await asyncio.sleep(3)
        await world.steal()
        await process
        assert lines(world) == recorded("logs/leader-election")["steal-fresh"]

    run(main)


def test_a_second_candidate_says_what_a_recorded_one_says() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        first = world.elector()
        leading = world.start(lead(first))
        await asyncio.sleep(1)
        world.lines.clear()
        process = world.start(lead(world.elector()))
        theirs = recorded("logs/leader-election")["standby-then-leader-v4"]
        while world.said("Failed to acquire lease") < 2:
            await asyncio.sleep(0.01)
        leading.cancel()
        await first.release()
        while not world.said("Successfully acquired lease"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        await world.steal()
        await process
        assert lines(world) == theirs

    run(main)


def test_a_server_that_goes_away_is_named_when_the_lease_cannot_be_released() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        client = world.client()
        elector = world.elector(client)
        leading = world.start(lead(elector))
        await asyncio.sleep(3)
        await InProcessClient(world.store).delete(LEASES, "kube-system", "kube-scheduler")
        await asyncio.sleep(3)
        leading.cancel()
        client.failure = unreachable("connection refused")
        assert not await elector.release()
        assert lines(world) == recorded("logs/leader-election")["lease-deleted"]

    run(main)
