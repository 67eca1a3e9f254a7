"""A reflector's picture, through everything a server can do to it."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from client.reflected_store import World, pod, running
from stowplan.api import catalogue as c
from stowplan.api import status
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions
from stowplan.api.status import ApiError
from stowplan.client import WatchEvent
from stowplan.runtime.clock import VirtualClock, run

UNAVAILABLE = ApiError(503, "ServiceUnavailable", "down for repairs")


def in_world(main: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def begin(clock: VirtualClock) -> None:
        await main(World(clock, **options))

    run(begin, patience=100_000)


@pytest.mark.parametrize("stream", [False, True])
def test_it_tells_of_what_is_there_and_of_what_happens(stream: bool) -> None:
    async def main(world: World) -> None:
        store = world.store
        store.create(c.PODS, pod("b"))
        store.create(c.PODS, pod("a"))
        assert not world.reflector.has_synced
        async with running(world):
            await world.reflector.wait_synced()
            assert world.handler.told == ["+a", "+b"]
            store.create(c.PODS, pod("c"))
            store.patch(c.PODS, "d", "a", {"status": {"phase": "Running"}}, subresource="status")
            store.delete(c.PODS, "d", "b")
            await asyncio.sleep(1)
            assert world.handler.told[2:] == ["+c", "~a", "~b", "-b"]
            assert world.reflector.resource_version == str(store.version)
            world.check()
        assert world.client.asked == (["stream"] if stream else ["list 0", "watch 2"])

    in_world(main, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_watch_that_ends_is_resumed_without_listing(stream: bool) -> None:
    async def main(world: World) -> None:
        async with running(world):
            await world.reflector.wait_synced()
            world.store.create(c.PODS, pod("a"))
            await asyncio.sleep(2)
            world.client.hang_up()
            world.store.create(c.PODS, pod("b"))
            await asyncio.sleep(0.5)
            world.check()
        first = ["stream"] if stream else ["list 0", "watch 0"]
        assert world.client.asked == [*first, "watch 1"]
        assert (world.reflector.failures, world.reports) == (0, [])

    in_world(main, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_when_the_version_is_forgotten_everything_is_compared_anew(stream: bool) -> None:
    async def main(world: World) -> None:
        store = world.store
        for name in "abc":
            store.create(c.PODS, pod(name))
        async with running(world):
            await asyncio.sleep(2)
            store.create(c.PODS, pod("d"))
            await asyncio.sleep(2)
            world.handler.told.clear()
            world.client.moods.append(status.expired("too old resource version: 4 (9)"))
            world.client.hang_up()
            store.delete(c.PODS, "d", "a")
            store.patch(c.PODS, "d", "b", {"status": {"phase": "Running"}}, subresource="status")
            store.delete(c.PODS, "d", "c")
            store.create(c.PODS, pod("c"))
            store.create(c.PODS, pod("e"))
            await asyncio.sleep(0.5)
            assert world.handler.told == ["-a", "~b", "-c", "+c", "+e"]
            world.check()
        assert world.client.asked[-2:] == (["watch 4", "stream 4"] if stream else ["list 4", "watch 11"])

    in_world(main, stream=stream)


def test_who_is_cut_off_for_being_slow_catches_up() -> None:
    async def main(world: World) -> None:
        async with running(world):
            await world.reflector.wait_synced()
            await asyncio.sleep(2)
            for number in range(100):
                world.store.create(c.PODS, pod(f"p{number}"))
            await asyncio.sleep(5)
            world.check()
            assert len(world.reflector.objects) == 100

    in_world(main, buffer=10, history=20)


def test_errors_are_met_with_growing_pauses_and_the_picture_stays() -> None:
    async def main(world: World) -> None:
        world.store.create(c.PODS, pod("a"))
        async with running(world):
            await asyncio.sleep(2)
            world.client.moods.extend([UNAVAILABLE] * 8)
            world.client.hang_up()
            world.store.create(c.PODS, pod("b"))
            await asyncio.sleep(0.5)
            assert list(world.reflector.objects) == ["d/a"]
            await asyncio.sleep(600)
            world.check()
        assert world.client.asked[2:] == ["watch 1"] * 9
        times = world.client.times[2:]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        for number, pause in enumerate(pauses):
            base = min(0.8 * 2**number, 30)
            assert base <= pause <= 2 * base + 0.001
        assert world.reflector.failures == 8
        assert world.reports == ["pods: down for repairs"] * 8

    in_world(main)


def test_a_first_list_that_fails_is_tried_again() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([UNAVAILABLE, status.unreachable("connection refused")])
        world.store.create(c.PODS, pod("a"))
        async with running(world):
            await asyncio.sleep(60)
            world.check()
        assert world.client.asked == ["list 0", "list 0", "list 0", "watch 1"]

    in_world(main)


def test_a_server_that_asks_for_patience_gets_it() -> None:
    async def main(world: World) -> None:
        world.client.moods.append(status.too_many_requests("slow down", 20))
        async with running(world):
            await asyncio.sleep(60)
        assert world.client.times[1] - world.client.times[0] == 20

    in_world(main)


def test_a_server_that_forgets_at_once_every_time_is_not_hammered() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([None, status.expired("too old")] * 500)
        async with running(world):
            await asyncio.sleep(60)
        assert len(world.client.asked) < 20

    in_world(main)


def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    async def main(world: World) -> None:
        world.client.stop_after = 0
        async with running(world):
            await asyncio.sleep(60)
        assert 3 < len(world.client.asked) < 20

    in_world(main)


@pytest.mark.parametrize("code", [400, 422])
def test_a_server_that_cannot_stream_the_first_state_is_listed_from(code: int) -> None:
    async def main(world: World) -> None:
        refusal = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"
        world.client.moods.append(ApiError(code, "Invalid", refusal))
        world.store.create(c.PODS, pod("a"))
        async with running(world):
            await asyncio.sleep(0.5)
            world.check()
        assert world.client.asked == ["stream", "list 0", "watch 1"]

    in_world(main, stream=True)


def test_a_server_that_went_back_in_time_is_listed_from_anew() -> None:
    async def main(world: World) -> None:
        for name in "ab":
            world.store.create(c.PODS, pod(name))
        async with running(world):
            await asyncio.sleep(2)
            world.store.create(c.PODS, pod("c"))
            await asyncio.sleep(2)
            world.client.moods.append(status.too_large_version(3, 1))
            world.client.hang_up()
            await asyncio.sleep(30)
            world.check()
        assert world.client.asked == ["list 0", "watch 2", "watch 3", "list", "watch 3"]

    in_world(main)


def test_a_stream_that_ends_before_the_first_state_is_complete_changes_nothing() -> None:
    async def main(world: World) -> None:
        for name in "abc":
            world.store.create(c.PODS, pod(name))
        world.client.stop_after = 2
        async with running(world):
            await asyncio.sleep(0.5)
            assert not world.reflector.has_synced
            assert world.handler.told == []
            world.client.stop_after = None
            await asyncio.sleep(30)
            world.check()
        assert world.client.asked == ["stream", "stream"]

    in_world(main, stream=True)


def test_streams_that_never_complete_are_replaced_by_a_list() -> None:
    async def main(world: World) -> None:
        for name in "abc":
            world.store.create(c.PODS, pod(name))
        world.client.stop_after = 2
        async with running(world):
            await asyncio.sleep(30)
            world.check()
        assert world.client.asked[:4] == ["stream", "stream", "list 0", "watch 3"]

    in_world(main, stream=True)


def test_a_server_that_fails_a_stream_is_asked_for_a_list_at_once_and_later_for_a_stream_again() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([UNAVAILABLE] * 4)
        async with running(world):
            await asyncio.sleep(30)
            world.check()
        assert world.client.asked == ["stream", "list 0", "stream", "list 0", "stream"]
        assert world.client.times[0] == world.client.times[1] < world.client.times[2]
        assert world.reports == ["pods: down for repairs"] * 2

    in_world(main, stream=True)


FORBIDDEN = ApiError(403, "Forbidden", "pods is forbidden: no rights")
ABSENT = ApiError(404, "NotFound", "the server could not find the requested resource")


@pytest.mark.parametrize("refusal", [FORBIDDEN, ABSENT])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_refused_is_told_once_and_comes_alive_when_it_is_granted(
    refusal: ApiError, stream: bool
) -> None:
    async def main(world: World) -> None:
        world.store.create(c.PODS, pod("a"))
        world.client.moods.extend([refusal] * 5)
        async with running(world):
            await world.reflector.wait_settled()
            assert world.reflector.refusal == refusal.message
            assert not world.reflector.has_synced
            await asyncio.sleep(600)
            world.check()
            assert world.reflector.refusal == ""
            assert world.reflector.failures == 5
        assert world.reports == [f"cannot watch pods: {refusal.message}; nothing is bound"]
        assert world.informed == ["pods can be watched now"]

    in_world(main, stream=stream, without="nothing is bound")


def test_what_cannot_be_done_without_is_told_every_time() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([FORBIDDEN] * 3)
        async with running(world):
            await world.reflector.wait_synced()
        assert world.reports == ["cannot watch pods: pods is forbidden: no rights"] * 3

    in_world(main)


def test_a_refused_resource_can_be_asked_for_again_without_waiting() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([FORBIDDEN] * 2)
        async with running(world):
            await world.reflector.wait_settled()
            for expected in (False, True):
                await asyncio.sleep(0.1)
                world.reflector.ask_again()
                await world.reflector.wait_settled()
                assert world.reflector.has_synced is expected
            world.reflector.ask_again()
            await world.reflector.wait_settled()
            assert world.clock.now() - world.client.times[0] < 0.3

    in_world(main, without="nothing is bound")


def test_trouble_is_not_taken_for_a_refusal() -> None:
    async def main(world: World) -> None:
        world.client.moods.extend([UNAVAILABLE, ApiError(401, "Unauthorized", "who?")] * 2)
        async with running(world):
            settled = asyncio.create_task(world.reflector.wait_settled())
            await asyncio.sleep(3)
            assert not settled.done()
            await settled
            assert world.reflector.has_synced

    in_world(main, without="nothing is bound")


def event(type_: str, name: str, version: str, **more: Any) -> WatchEvent[Pod]:
    shown = Pod(metadata=ObjectMeta(name=name, uid=name, resource_version=version)) if name else None
    return WatchEvent(type_, name, version, shown, **more)


class Streams:
    """A server whose watches give these events; one after another, or all that there are at once.

    A watch ends after its last event, the last one never.
    """

    def __init__(self, *watches: list[WatchEvent[Pod]], at_once: bool = False) -> None:
        self._watches = list(watches)
        self._at_once = at_once

    def watch(self, *args: Any, **options: Any) -> "Streams":
        self._left = self._watches.pop(0)
        return self

    def __aiter__(self) -> "Streams":
        return self

    async def __anext__(self) -> WatchEvent[Pod]:
        if self._left:
            return self._left.pop(0)
        if self._watches:
            raise StopAsyncIteration
        await asyncio.sleep(1000)
        raise AssertionError("nobody waits for so long")

    def ready(self, limit: int) -> list[WatchEvent[Pod]]:
        if not self._at_once:
            return []
        found, self._left = self._left[:limit], self._left[limit:]
        return found

    async def aclose(self) -> None:
        """Nothing to close."""

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def is_reachable(self) -> bool:
        return True


@pytest.mark.parametrize("at_once", [False, True])
def test_what_changes_while_the_first_state_is_streamed_is_taken_in(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    events = [
        event("ADDED", "a", "1"),
        event("ADDED", "b", "2"),
        event("BOOKMARK", "", "2"),
        event("DELETED", "a", "3"),
        event("MODIFIED", "b", "4"),
        event("BOOKMARK", "", "4", synced=True),
        event("ADDED", "c", "5"),
    ]

    async def main(world: World) -> None:
        monkeypatch.setattr(world.reflector, "_reader", Streams(events, at_once=at_once))
        async with running(world):
            await asyncio.sleep(1)
            assert world.handler.told == ["+b", "+c"]
            assert world.reflector.objects["b"].metadata.resource_version == "4"
            assert world.reflector.resource_version == "5"

    in_world(main, stream=True)


def test_the_first_list_is_worked_off_while_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events before the stream broke are known; objects that the next one does not show are gone."""
    many = [event("ADDED", f"p{number}", str(number + 1)) for number in range(100)]
    whole = [*many[1:], event("BOOKMARK", "", "200", synced=True)]
    known: list[tuple[int, bool]] = []

    async def main(world: World) -> None:
        monkeypatch.setattr(world.reflector, "_reader", Streams(list(many), whole, at_once=True))
        async with running(world):
            await asyncio.sleep(0.1)
            known.append((len(world.reflector.objects), world.reflector.has_synced))
            await world.reflector.wait_synced()
        assert known == [(100, False)]
        assert world.handler.told == [*(f"+p{number}" for number in range(100)), "-p0"]

    in_world(main, stream=True)


def test_a_long_list_leaves_others_their_turn() -> None:
    async def main(world: World) -> None:
        for number in range(2000):
            world.store.create(c.PODS, pod(f"p{number}"))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while not world.reflector.has_synced:
                turns += 1
                await asyncio.sleep(0)

        async with running(world):
            await asyncio.create_task(other())
        assert turns > 10

    in_world(main)


def unreadable(name: str) -> Any:
    return {**pod(name), "spec": {"priority": "very high"}}


@pytest.mark.parametrize("stream", [False, True])
def test_an_object_that_cannot_be_read_is_skipped_counted_and_reported_once(stream: bool) -> None:
    async def main(world: World) -> None:
        store = world.store
        store.create(c.PODS, unreadable("bad"))
        store.create(c.PODS, pod("good"))
        async with running(world):
            await asyncio.sleep(2)
            for phase in ("Running", "Succeeded"):
                store.patch(c.PODS, "d", "bad", {"status": {"phase": phase}}, subresource="status")
            store.create(c.PODS, pod("fine"))
            await asyncio.sleep(1)
            assert world.handler.told == ["+good", "+fine"]
            assert world.reflector.skipped == 3
            (report,) = world.reports
            assert report.startswith("pods d/bad: skipped: Pod: ")
            assert "$.spec.priority" in report
            store.delete(c.PODS, "d", "bad")
            store.create(c.PODS, unreadable("bad"))
            await asyncio.sleep(1)
            assert len(world.reports) == 2
            current = store.get(c.PODS, "d", "bad")
            store.update(c.PODS, {**current, "spec": {"priority": 7}})
            await asyncio.sleep(1)
            assert world.handler.told == ["+good", "+fine", "+bad"]
            world.check()

    in_world(main, stream=stream)


def test_an_object_that_becomes_unreadable_keeps_its_last_readable_state() -> None:
    async def main(world: World) -> None:
        store = world.store
        store.create(c.PODS, pod("p"))
        async with running(world):
            await asyncio.sleep(2)
            current = store.get(c.PODS, "d", "p")
            store.update(c.PODS, {**current, "spec": {"priority": "x"}})
            await asyncio.sleep(1)
            assert world.reflector.objects["d/p"].metadata.resource_version == "1"
            world.client.moods.append(status.expired("too old"))
            world.client.hang_up()
            await asyncio.sleep(30)
            assert list(world.reflector.objects) == ["d/p"]
            assert len(world.reports) == 1
            store.delete(c.PODS, "d", "p", DeleteOptions(0))
            await asyncio.sleep(1)
            assert world.handler.told == ["+p", "-p"]

    in_world(main)


def test_a_handler_that_fails_ends_the_reflector_for_all_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        def fails(new: object) -> None:
            raise RuntimeError("a bug in the handler")

        monkeypatch.setattr(world.handler, "added", fails)
        world.store.create(c.PODS, pod("p"))
        with pytest.raises(RuntimeError, match="a bug in the handler"):
            await world.reflector.run()

    in_world(main)
