"""Requests of a real scheduler to its API server, and its reactions to failures: ours does the same.

The recorded answers are given again by a server with a real socket; requests are compared by path and query.
Intended differences: ours reads JSON, and after a failed watch it continues from its last version
(kube-scheduler lists everything again after a 503 or a broken connection).
"""

import asyncio
import json
import random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from client.http.nastyserver import Act, ChoosingServer, NastyServer, answer, chunked, drop, silence
from observed.files import recorded
from releases import GATES_1_36
from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.client import Reflector, Retries
from stowplan.config import default_config
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.informers import UNFINISHED
from waiting import eventually

Query = dict[str, str]

SYNCED = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"205",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


def query_of(url: str) -> tuple[str, Query]:
    """Path and query; how long a watch lasts is checked here and left out."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if "watch" in query:
        seconds = int(query.pop("timeoutSeconds"))
        assert 300 <= seconds < 600
        assert query.pop("timeout") == f"{seconds // 60}m{seconds % 60}s"
    return parts.path, query


def asked(server: NastyServer) -> list[tuple[str, Query]]:
    return [query_of(request.split(b" ")[1].decode()) for request in server.requests]


def headers_of(request: bytes) -> dict[str, str]:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines)


async def until_asked(server: NastyServer, count: int) -> None:
    await eventually(lambda: len(server.requests) >= count)


def open_watch(*lines: bytes) -> Act:
    """A watch that never ends."""

    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(*lines, end=False))
        await silence(writer)

    return act


def without_streams(method: str, target: str) -> bytes | Act:
    """A server that is listed from, and watched afterwards."""
    if "sendInitialEvents" in target:
        return answer("422 Unprocessable Entity", status_of("w9-server-without-watchlist", 422))
    if "watch=true" in target:
        return open_watch()
    return answer("200 OK", b'{"kind":"List","metadata":{"resourceVersion":"205"},"items":[]}')


def status_of(scenario: str, code: int) -> bytes:
    """An answer that the recorded server gave in a scenario."""
    found = next(one for one in recorded("wire/watch-behaviour")[scenario] if one["code"] == code)
    return json.dumps(found["injected_answer"]).encode()


def urls_of(scenario: str) -> list[tuple[str, Query]]:
    """The reads of a scenario; the version a watch begins at is one for all here."""
    found = [query_of(one["url"]) for one in recorded("wire/watch-behaviour")[scenario] if "?" in one["url"]]
    for _, query in found:
        if query.get("resourceVersion", "0") != "0":
            query["resourceVersion"] = "205"
    return found


def reads_at_start() -> list[tuple[str, Query]]:
    return [
        query_of(f"{one['path']}?{'&'.join(one['query'])}")
        for one in recorded("wire/reads-at-start")["in_order"]
        if one["user_agent"].endswith("/scheduler") and "watch=true" in one["query"]
    ]


@pytest.mark.parametrize(
    ("expected", "choose", "streams"),
    [
        (reads_at_start(), lambda method, target: open_watch(SYNCED), True),
        (urls_of("w9-server-without-watchlist"), without_streams, True),
        (urls_of("w10-gate-WatchListClient-off"), without_streams, False),
    ],
    ids=["at start", "server without WatchList", "WatchListClient off"],
)
def test_a_scheduler_asks_for_what_was_recorded(expected: list[Any], choose: Any, streams: bool) -> None:
    agent = "kube-scheduler/v1 (linux/amd64) stowplan/1/scheduler"

    async def run() -> None:
        server = ChoosingServer(choose)
        async with server, server.client(streams=streams, user_agent=agent) as client:
            settings = Settings.of(default_config(GATES_1_36))
            scheduler = Scheduler(client, settings, clock=RealClock(), rng=random.Random(1))
            async with scheduler.running():
                await until_asked(server, len(expected))
                await asyncio.sleep(0.05)
        assert sorted(asked(server), key=str) == sorted(expected, key=str)
        accept = recorded("wire/json-content-type")["in_order"][0]["headers"]["Accept"]
        for request in server.requests:
            headers = headers_of(request)
            assert (headers["Accept"], headers["User-Agent"]) == (accept, agent)

    asyncio.run(run())


def scenario(name: str) -> tuple[list[bytes | Act], list[Query]]:
    """The answers of a scenario after a first picture, and what was asked for."""
    answers: list[bytes | Act] = []
    for one in recorded("wire/watch-behaviour")[name]:
        injected = json.dumps(one.get("injected_answer")).encode()
        if one["code"] == 200 and "injected_answer" in one:
            answers.append(chunked(injected + b"\n"))
        elif one["code"] == 200:
            answers.append(chunked(SYNCED) if "sendInitialEvents" in one["url"] else brief_watch)
        elif one["code"] == 429:
            answers.append(answer("429 Too Many Requests", injected, "Retry-After: 1"))
        elif isinstance(one["code"], int):
            answers.append(answer(f"{one['code']} No", injected))
        else:
            answers.append(drop)
    return answers, [query for _, query in urls_of(name)]


async def brief_watch(writer: asyncio.StreamWriter) -> None:
    """A watch that lasts a little and ends as it should, with nothing seen."""
    await asyncio.sleep(0.02)
    writer.write(chunked())


def go_through(answers: list[bytes | Act], **options: Any) -> tuple[list[Query], NastyServer]:
    """Requests of a reflector of pods to a server that gives these answers, then continues normally."""
    told: list[str] = []

    class Handler:
        def added(self, new: Pod) -> None:
            told.append(f"+{new.name}")

        def updated(self, old: Pod, new: Pod) -> None:
            told.append(f"~{new.name}")

        def deleted(self, last: Pod) -> None:
            told.append(f"-{last.name}")

    async def run() -> tuple[list[Query], NastyServer]:
        async with NastyServer(*answers, open_watch(SYNCED)) as server, server.client() as client:
            reflector = Reflector(
                client,
                PODS,
                Pod,
                Handler(),
                clock=RealClock(),
                rng=random.Random(1),
                report=lambda text: None,
                selection=UNFINISHED,
                stream=True,
                **options,
            )
            task = asyncio.create_task(reflector.run())
            await until_asked(server, len(answers) + 1)
            task.cancel()
            await asyncio.wait([task])
        paths = {path for path, _ in asked(server)}
        assert paths == {"/api/v1/pods"}
        return [query for _, query in asked(server)], server

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses take a hundredth of what they would."""
    pause = Retries.next_pause
    monkeypatch.setattr(Retries, "next_pause", lambda self: pause(self) / 100)
    monkeypatch.setattr("stowplan.client.reflector.SHORT_WATCH", 0.01)


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ([], "w1-watch-ends-after-3s"),
        ([chunked(SYNCED)], "w2-rewatch-answered-410"),
        ([chunked(SYNCED)], "w3-rewatch-answered-429"),
        ([chunked(SYNCED)], "w4-error-event-410-in-stream"),
    ],
)
def test_watches_that_end_are_taken_up_again_as_recorded(first: list[bytes | Act], name: str) -> None:
    answers, expected = scenario(name)
    queries, server = go_through([*first, *answers])
    assert queries[len(first) : -1] == expected
    if "429" in name:
        assert server.times[len(first) + 1] - server.times[len(first)] >= 1


WATCH = {
    "allowWatchBookmarks": "true",
    "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
    "watch": "true",
}


@pytest.mark.parametrize("name", ["w5-all-answered-503-for-20s", "w7-connection-dropped-for-10s"])
def test_trouble_is_outlived_without_taking_everything_anew(name: str) -> None:
    """Here kube-scheduler streams and lists again and again; ours continues from the version it has."""
    answers, _ = scenario(name)
    queries, _ = go_through([chunked(SYNCED), *answers])
    assert queries[1:] == [{**WATCH, "resourceVersion": "205"}] * (len(answers) + 1)


def test_without_a_first_picture_a_stream_that_fails_is_replaced_by_a_list_as_recorded() -> None:
    answers, expected = scenario("w5-all-answered-503-for-20s")
    queries, _ = go_through(answers[1:])
    at_first = []
    for query in expected[1:]:
        query = {name: value for name, value in query.items() if name != "resourceVersion"}
        at_first.append(query if "watch" in query else {**query, "limit": "500", "resourceVersion": "0"})
    assert queries[:-1] == at_first


def test_without_a_first_picture_broken_connections_are_met_with_the_same_request() -> None:
    answers, expected = scenario("w7-connection-dropped-for-10s")
    queries, _ = go_through(answers[:1])
    stream = {name: value for name, value in expected[0].items() if name != "resourceVersion"}
    assert queries == [stream] * 2
