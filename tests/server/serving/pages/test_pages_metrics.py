"""Pages that Prometheus reads: formats, resetting, and thousands of pods without blocking the loop."""

import asyncio
import struct
from collections.abc import Iterator
from time import thread_time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from server.serving.pages.pageports import STARTED, World, answer_of, answers_of, open_port
from stowplan.testing import pod

MESSAGES = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message, read by an independent reader."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack_from("<d", message, place)[0]
            place += 8
        else:
            length = varint()
            yield key >> 3, message[place : place + length]
            place += length


def _messages(body: bytes) -> Iterator[dict[int, list[Any]]]:
    while body:
        length = shift = used = 0
        while True:
            byte = body[used]
            length |= (byte & 0x7F) << shift
            shift, used = shift + 7, used + 1
            if byte < 0x80:
                break
        found: dict[int, list[Any]] = {}
        for number, value in _fields(body[used : used + length]):
            found.setdefault(number, []).append(value)
        yield found
        body = body[used + length :]


def _touched() -> World:
    world = World()
    world.scheduling.attempt("scheduled", "default-scheduler", 0.003)
    world.metrics.requests.to("api:6443").answered("POST", 201, 0.0, 100, False)
    world.metrics.watch_election("kube-scheduler", lambda: True, lambda: 3)
    return world


def test_delete_starts_figures_with_labels_anew() -> None:
    world = _touched()
    before, reset, after = answers_of(world, ("GET", "/metrics"), ("DELETE", "/metrics"), ("GET", "/metrics"))
    for name in ("scheduler_schedule_attempts_total", "rest_client_requests_total"):
        assert name in before.text
        assert name not in after.text
    assert (reset.code, reset.text) == (200, "metrics reset\n")
    assert "kubernetes_feature_enabled" in after.text


def test_messages_tell_the_same_as_the_text() -> None:
    world = _touched()
    text = answer_of(world, "/metrics").text
    body = answer_of(world, "/metrics", accept=MESSAGES).body
    types = ["counter", "gauge", "summary", "unknown", "histogram"]
    told = {found[1][0].decode(): (types[found[3][0]], found) for found in _messages(body)}
    lines = (line.split() for line in text.splitlines() if line.startswith("# TYPE"))
    shown = {name: kind for _, _, name, kind in lines}
    assert {name: kind for name, (kind, _) in told.items()} == shown
    (metric,) = told["scheduler_scheduling_attempt_duration_seconds"][1][4]
    parts = list(_fields(metric))
    labels = [tuple(value.decode() for _, value in _fields(part)) for number, part in parts if number == 1]
    assert labels == [("profile", "default-scheduler"), ("result", "scheduled")]
    histogram = list(_fields(next(part for number, part in parts if number == 7)))
    assert histogram[:2] == [(1, 1), (2, 0.003)]
    buckets = [tuple(value for _, value in _fields(part)) for number, part in histogram if number == 3]
    assert buckets[1:3] == [(0, 0.002), (1, 0.004)]
    assert buckets[-1] == (1, float("inf"))
    (attempts,) = told["scheduler_schedule_attempts_total"][1][4]
    assert dict(_fields(dict(_fields(attempts))[3])) == {1: 1.0}


def test_the_text_is_read_by_prometheus_s_own_parser() -> None:
    families = {
        family.name for family in text_string_to_metric_families(answer_of(_touched(), "/metrics").text)
    }
    assert {"leader_election_master_status", "process_cpu_seconds", "python_info"} <= families


def test_the_start_of_the_process_is_told_in_a_header() -> None:
    assert answer_of(World(), "/metrics").headers["Process-Start-Time-Unix"] == str(int(STARTED))


def test_without_gzip_nothing_is_packed() -> None:
    pods = [pod("p").requests(cpu="1").obj()]
    for path in ("/metrics", "/metrics/resources"):
        answer = answer_of(World(pods=pods), path, headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in answer.headers
        assert answer.body.startswith(b"# HELP ")


def test_a_standby_says_nothing_of_pods() -> None:
    answer = answer_of(World(leading=False, pods=[pod("p").requests(cpu="1").obj()]), "/metrics/resources")
    assert (answer.code, answer.body) == (200, b"")


def test_pods_are_streamed_while_others_get_their_turn() -> None:
    """The text of 40,000 pods takes its time; other tasks wait no longer than a few hundred pods take."""
    world = World(pods=[pod(f"p{n}").requests(cpu=f"{n % 7 + 1}").obj() for n in range(40_000)])

    async def run() -> tuple[int, int, float]:
        turns, longest = 0, 0.0
        async with open_port(world.pages()) as port:
            asking = asyncio.ensure_future(port.ask("/metrics/resources"))
            while not asking.done():
                began = thread_time()
                await asyncio.sleep(0)
                turns, longest = turns + 1, max(longest, thread_time() - began)
            answer = asking.result()
        return answer.body.count(b"\n"), turns, longest

    lines, turns, longest = asyncio.run(run())
    assert lines == 40_000 + 2
    assert turns > 40_000 / 200
    assert longest < 1
