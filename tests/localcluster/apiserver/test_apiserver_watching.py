"""Watches over HTTP: what they show, from where on, and how they end."""

import gc
import socket
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any
from unittest.mock import create_autospec

import pytest
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_exceptions import ClientConnectionResetError
from aiohttp.test_utils import make_mocked_request

from localcluster.apiserver.served import PODS, Served, pod, serving
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions
from stowplan.localcluster.store import BOOKMARK
from stowplan.localcluster.store.watchcache import FRESH, OLD_HISTORY_BYTES
from waiting import until

AT_ONCE = DeleteOptions(grace_period_seconds=0)
STREAM = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
def api() -> Iterator[Served]:
    with serving(history=20) as served:
        served.ask("POST", PODS, pod("a"))
        served.ask("POST", PODS, pod("b", labels={"x": "y"}))
        yield served


def short(events: Iterator[Any], count: int) -> list[str]:
    return [f"{e['type']} {e['object']['metadata'].get('name', '')}".strip() for e in islice(events, count)]


def test_a_watch_without_a_version_shows_what_is_there_and_what_comes(api: Served) -> None:
    events = api.watch(f"{PODS}?watch=true")
    assert short(events, 2) == ["ADDED a", "ADDED b"]
    api.ask("POST", PODS, pod("c"))
    api.ask("DELETE", f"{PODS}/a")
    assert short(events, 3) == ["ADDED c", "MODIFIED a", "DELETED a"]


def test_a_stream_ends_its_first_state_with_a_bookmark(api: Served) -> None:
    events = api.watch(f"{PODS}?{STREAM}")
    first = list(islice(events, 3))
    assert [event["type"] for event in first] == ["ADDED", "ADDED", "BOOKMARK"]
    told = first[2]["object"]
    assert told["kind"] == "Pod"
    assert told["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(told["metadata"]["resourceVersion"]) >= int(first[1]["object"]["metadata"]["resourceVersion"])


def test_a_watch_resumes_from_a_version(api: Served) -> None:
    version = api.ask("GET", PODS).body["metadata"]["resourceVersion"]
    api.ask("POST", PODS, pod("c"))
    events = api.watch(f"{PODS}?watch=true&resourceVersion={version}")
    assert short(events, 1) == ["ADDED c"]


def test_a_version_that_is_forgotten_is_told_within_the_watch(api: Served) -> None:
    for number in range(30):
        api.ask("POST", PODS, pod(f"more-{number}"))
    (event,) = api.watch(f"{PODS}?watch=true&resourceVersion=1")
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_what_leaves_a_selection_is_deleted_for_who_sees_only_that(api: Served) -> None:
    events = api.watch(f"{PODS}?watch=true&labelSelector=x%3Dy")
    assert short(events, 1) == ["ADDED b"]
    merge = "application/merge-patch+json"
    api.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, Content_Type=merge)
    api.ask("PATCH", f"{PODS}/b", {"metadata": {"labels": {"x": None}}}, Content_Type=merge)
    assert short(events, 2) == ["ADDED a", "DELETED b"]


def test_one_object_can_be_watched(api: Served) -> None:
    path = PODS.replace("/v1/", "/v1/watch/")
    events = api.watch(f"{path}/b")
    assert short(events, 1) == ["ADDED b"]
    api.ask("DELETE", f"{PODS}/a")
    api.ask("DELETE", f"{PODS}/b")
    assert short(events, 2) == ["MODIFIED b", "DELETED b"]


def test_a_watch_ends_when_its_time_is_over(api: Served) -> None:
    began = time.monotonic()
    assert len(list(api.watch(f"{PODS}?watch=true&timeoutSeconds=1"))) == 2
    assert time.monotonic() - began > 0.9


def test_bookmarks_are_for_those_who_want_them(api: Served) -> None:
    with_bookmarks = api.watch(f"{PODS}?{STREAM}")
    without = api.watch(f"{PODS}?watch=true")
    assert len(list(islice(with_bookmarks, 3))) == len(list(islice(without, 2))) + 1
    api.run(lambda store: store.send_bookmarks())
    api.ask("POST", PODS, pod("c"))
    assert [event["type"] for event in islice(with_bookmarks, 2)] == [BOOKMARK, "ADDED"]
    assert short(without, 1) == ["ADDED c"]


def test_rows_of_a_table_can_be_watched(api: Served) -> None:
    connection = api.connection()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    connection.request("GET", f"{PODS}?watch=true", headers=api.headers(Accept=accept))
    line = connection.getresponse().readline()
    assert b'"kind":"Table"' in line
    assert b'"cells":["a","0/1","Pending"' in line
    connection.close()


def test_who_hangs_up_is_forgotten(api: Served) -> None:
    events = api.watch(f"{PODS}?watch=true")
    next(events)
    assert watchers(api) == 1
    events.close()
    until(lambda: watchers(api) == 0)


def watchers(api: Served) -> int:
    return api.run(lambda store: len(store._collection(c.PODS).watchers))


def test_who_hangs_up_before_the_watch_begins_is_no_error(api: Served) -> None:
    """The connection is closing by the time the first byte is written."""

    gone = create_autospec(AbstractStreamWriter, instance=True)
    gone.write_headers.side_effect = ClientConnectionResetError("Cannot write to closing transport")

    async def ask() -> int:
        path = f"{PODS}?watch=true"
        asked = make_mocked_request("GET", path, api.headers(), writer=gone)
        return (await api.server.handler(asked)).status

    assert api.wait(ask()) == 200
    assert watchers(api) == 0


def test_who_does_not_read_is_cut_off_and_the_others_are_not() -> None:
    with serving(watch_limit=2_000_000) as api:
        slow = never_read(api)
        quick = api.watch(f"{PODS}?watch=true")
        big = {"note": "x" * 100_000}
        for number in range(120):
            body = pod(f"big-{number}", annotations=big)
            api.create_pod(body)
            assert short(quick, 1) == [f"ADDED big-{number}"]
        assert watchers(api) == 1
        slow.close()


def never_read(api: Served) -> socket.socket:
    """A watch of which only the first bytes of the answer are read."""
    host, port = api.server.url.split("//")[1].split(":")
    slow = socket.create_connection((host, int(port)))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked = f"GET {PODS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer the-token\r\n\r\n"
    slow.sendall(asked.encode())
    slow.recv(15)
    return slow


def test_watches_that_are_never_read_leave_nothing_behind() -> None:
    """Their buffers are freed, and the history keeps 2 MiB of the changes: live bytes, not the process's."""

    def burst(size: int) -> None:
        watches = [never_read(api) for _ in range(12)]
        for number in range(60):
            api.create_pod(pod(f"p{number}", annotations={"note": f"{number:0{size}}"}))
        until(lambda: watchers(api) == len(watches))
        peaks.append(tracemalloc.get_traced_memory()[0])
        for slow in watches:
            slow.close()
        api.run(lambda store: store.delete_collection(c.PODS, "default", options=AT_ONCE))
        until(lambda: watchers(api) == 0)
        api.run(lambda store: [store.compact_history(now) for now in (0.0, FRESH)])
        gc.collect()

    peaks: list[int] = []
    with serving() as api:
        burst(10)
        tracemalloc.start()
        try:
            burst(100_000)
            left = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert peaks[-1] > 10_000_000
    assert left < OLD_HISTORY_BYTES + 500_000


def test_many_watchers_see_everything_in_one_order(api: Served) -> None:
    watching = [api.watch(f"{PODS}?watch=true") for _ in range(50)]
    for events in watching:
        assert short(events, 2) == ["ADDED a", "ADDED b"]
    for number in range(40):
        api.ask("POST", PODS, pod(f"n{number}"))
    seen = [[event["object"]["metadata"]["name"] for event in islice(events, 40)] for events in watching]
    assert all(names == [f"n{number}" for number in range(40)] for names in seen)
