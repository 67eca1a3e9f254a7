"""Watches over HTTP: lines cut at any place, errors, ends, and events that have arrived already."""

import asyncio
from typing import Any

import msgspec
import pytest

from client.http.nastyserver import NastyServer, answer, bit_by_bit, chunked, then_drop
from stowplan.api.catalogue import NODES
from stowplan.api.meta import AnyObject
from stowplan.api.node import Node
from stowplan.api.requests import Selection
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.client.interface import WatchEvent
from waiting import PATIENCE

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


def line(kind: str, name: str, version: int = 1, **more: Any) -> bytes:
    metadata = {"name": name, "resourceVersion": str(version), **more.pop("metadata", {})}
    return (
        msgspec.json.encode({"type": kind, "object": {"kind": "Node", "metadata": metadata, **more}}) + b"\n"
    )


BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"9",'
    b'"creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{},"status":null}}\n'
)
ERROR = msgspec.json.encode({"type": "ERROR", "object": GONE}) + b"\n"


async def events_of(client: HttpClient, cls: Any = Node, **options: Any) -> list[WatchEvent[Any]]:
    return [event async for event in client.watch(NODES, cls, **options)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_are_put_together_wherever_they_are_cut(size: int) -> None:
    labels = {"labels": {"where": "Zürich 東京"}}
    text = line("ADDED", "a", 1, metadata=labels) + line("MODIFIED", "b", 2) + line("DELETED", "c", 3)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    async def run() -> None:
        async with NastyServer(bit_by_bit(chunked(*pieces), 11)) as server, server.client() as client:
            events = await events_of(client)
        assert [(event.type, event.key, event.resource_version) for event in events] == [
            ("ADDED", "a", "1"),
            ("MODIFIED", "b", "2"),
            ("DELETED", "c", "3"),
        ]
        assert events[0].object is not None
        assert events[0].object.metadata.labels == {"where": "Zürich 東京"}

    asyncio.run(run())


def test_a_watch_asks_for_what_it_needs() -> None:
    async def run() -> None:
        async with NastyServer(chunked(BOOKMARK)) as server, server.client() as client:
            selection = Selection.parse("a in (b,c)", "spec.unschedulable=false")
            (event,) = await events_of(client, since="7", initial_events=True, selection=selection)
            assert event == WatchEvent("BOOKMARK", "", "9", synced=True)
            await events_of(client, since="7")
        first, second = (request.split(b" ")[1].decode() for request in server.requests)
        for part in (
            "/api/v1/nodes?allowWatchBookmarks=true&",
            "resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=true",
            "&watch=true",
            "labelSelector=a%20in%20%28b%2Cc%29",
            "fieldSelector=spec.unschedulable%3Dfalse",
        ):
            assert part in first
        assert "sendInitialEvents" not in second
        assert 300 <= int(second.partition("timeoutSeconds=")[2].partition("&")[0]) <= 600

    asyncio.run(run())


def test_an_object_that_cannot_be_read_is_told_by_itself() -> None:
    bad = line("ADDED", "bad", 2, spec={"taints": 7})
    nulls = line("ADDED", "nulls", 3, spec={"taints": None})

    async def run() -> None:
        async with (
            NastyServer(chunked(line("ADDED", "good") + bad + nulls)) as server,
            server.client() as client,
        ):
            events = await events_of(client)
        assert [(event.key, bool(event.object), bool(event.problem)) for event in events] == [
            ("good", True, False),
            ("bad", False, True),
            ("nulls", True, False),
        ]
        assert "taints" in events[1].problem

    asyncio.run(run())


@pytest.mark.parametrize("cls", [Node, AnyObject])
def test_an_error_ends_a_watch_after_what_came_before(cls: Any) -> None:
    async def run() -> None:
        text = chunked(line("ADDED", "a"), ERROR, line("ADDED", "b"))
        async with NastyServer(text) as server, server.client() as client:
            watch = client.watch(NODES, cls)
            assert (await anext(watch)).key == "a"
            with pytest.raises(ApiError, match="too old") as failure:
                await anext(watch)
        assert failure.value.is_expired

    asyncio.run(run())


def test_what_has_come_already_needs_no_waiting() -> None:
    many = b"".join(line("ADDED", f"n{number}", number) for number in range(10))

    async def run() -> None:
        async with NastyServer(chunked(many, ERROR)) as server, server.client() as client:
            watch = client.watch(NODES, Node)
            assert watch.ready(5) == []
            assert (await anext(watch)).key == "n0"
            assert [event.key for event in watch.ready(4)] == ["n1", "n2", "n3", "n4"]
            assert len(watch.ready(100)) == 5
            assert watch.ready(100) == []
            with pytest.raises(ApiError, match="too old"):
                await anext(watch)

    asyncio.run(run())


def test_a_broken_watch_is_unreachable_after_all_that_came_completely() -> None:
    text = chunked(line("ADDED", "a"), b'{"type":"ADD', end=False)

    async def run() -> None:
        async with NastyServer(then_drop(text)) as server, server.client() as client:
            watch = client.watch(NODES, Node)
            assert (await anext(watch)).key == "a"
            with pytest.raises(ApiError, match="unexpected EOF") as failure:
                await anext(watch)
        assert failure.value.is_unreachable

    asyncio.run(run())


def test_a_line_that_is_no_event_is_unreachable() -> None:
    async def run() -> None:
        async with NastyServer(chunked(b"<html>\n")) as server, server.client() as client:
            with pytest.raises(ApiError, match="the answer cannot be read") as failure:
                await events_of(client)
        assert failure.value.is_unreachable

    asyncio.run(run())


def test_a_refused_watch_is_not_tried_again_but_says_how_long_to_wait() -> None:
    async def run() -> None:
        refusal = answer("429 Too Many Requests", b"", "Retry-After: 7")
        async with NastyServer(refusal) as server, server.client() as client:
            with pytest.raises(ApiError) as failure:
                await events_of(client)
        assert (failure.value.code, failure.value.retry_after) == (429, 7)
        assert len(server.requests) == 1

    asyncio.run(run())


def test_a_watch_that_is_left_early_ends_its_connection() -> None:
    async def run() -> None:
        async with NastyServer(chunked(line("ADDED", "a"), end=False)) as server, server.client() as client:
            watch = client.watch(NODES, Node)
            await anext(watch)
            await watch.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(watch)

    asyncio.run(run())


def test_a_slow_reader_slows_the_server_down_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.client.http.watch.PAUSE_ABOVE", 10_000)
    monkeypatch.setattr("stowplan.client.http.watch._RESUME_BELOW", 5_000)
    pad = {"annotations": {"pad": "x" * 3000}}
    pieces = [line("ADDED", f"n{number}", number, metadata=pad) for number in range(3000)]

    async def run() -> None:
        async with NastyServer(bit_by_bit(chunked(*pieces), 65536)) as server, server.client() as client:
            watch = client.watch(NODES, Node)
            await anext(watch)
            await asyncio.sleep(0.2)
            waiting = watch._lines.size
            assert waiting < 3_000_000
            assert [event.key async for event in watch] == [f"n{number}" for number in range(1, 3000)]

    asyncio.run(run())


PERIODIC = b'{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"12"}}}\n'


@pytest.mark.parametrize(
    ("lines", "initial", "seen"),
    [
        ([], False, 0),
        ([PERIODIC], False, 1),
        ([BOOKMARK, PERIODIC], True, 2),
        ([line("ADDED", "a")], True, 1),
    ],
    ids=["from the beginning", "after bookmarks", "after the first state", "in the first state"],
)
def test_a_watch_that_falls_silent_ends(
    lines: list[bytes], initial: bool, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stowplan.client.http.watch.SILENCE", 0.2)
    monkeypatch.setattr("stowplan.client.http.watch.INITIAL_SILENCE", 0.2)

    async def run() -> None:
        text = chunked(*lines, end=False)
        async with NastyServer(text) as server, server.client(answer_seconds=0.2) as client:
            watch = client.watch(NODES, Node, initial_events=initial)
            for _ in range(seen):
                await anext(watch)
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(watch), PATIENCE)

    asyncio.run(run())


def test_a_quiet_watch_lasts_until_the_server_should_have_ended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.client.http.client._SHORTEST_WATCH", 0)
    monkeypatch.setattr("stowplan.client.http.client._LONGEST_WATCH", 1)
    monkeypatch.setattr("stowplan.client.http.watch._SLACK", 0.5)

    async def run() -> None:
        async with NastyServer(chunked(end=False)) as server, server.client(answer_seconds=0.1) as client:
            began = asyncio.get_running_loop().time()
            assert await events_of(client) == []
            assert asyncio.get_running_loop().time() - began > 0.4

    asyncio.run(run())


def test_an_object_with_metadata_that_cannot_be_read_is_told_by_name_and_version() -> None:
    bad = line("MODIFIED", "bad", 8, metadata={"annotations": 7})

    async def run() -> None:
        async with NastyServer(chunked(bad)) as server, server.client() as client:
            (event,) = await events_of(client)
        assert (event.type, event.key, event.resource_version) == ("MODIFIED", "bad", "8")
        assert "annotations" in event.problem

    asyncio.run(run())


def test_who_manages_which_field_is_left_out() -> None:
    managed = line("ADDED", "a", metadata={"managedFields": [{"manager": "kubectl"}], "labels": {"x": "y"}})

    async def run() -> None:
        async with NastyServer(chunked(managed)) as server, server.client() as client:
            found = await anext(client.watch(NODES, AnyObject))
        assert found.object is not None
        assert found.object.data["metadata"].keys() == {"name", "resourceVersion", "labels"}

    asyncio.run(run())


def test_a_watch_may_be_quiet_for_longer_once_everything_has_been_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stowplan.client.http.watch.INITIAL_SILENCE", 0.1)

    async def run() -> None:
        text = chunked(BOOKMARK, end=False)
        async with NastyServer(text) as server, server.client(answer_seconds=0.2) as client:
            watch = client.watch(NODES, Node, initial_events=True)
            await anext(watch)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watch), 0.5)

    asyncio.run(run())
