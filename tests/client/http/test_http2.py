"""Requests over HTTP/2: many on one connection, and what only that version has."""

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from h2.errors import ErrorCodes

from client.http.http2peer import Http2Server, Http2Writer, act, certificate, context
from client.http.nastyserver import CREATED, OK, NastyServer, answer, bit_by_bit, silence, then_drop
from stowplan.api.catalogue import CONFIG_MAPS, NODES, PODS
from stowplan.api.node import Node
from stowplan.api.status import ApiError
from stowplan.client.http import Address, HttpClient, Secret, Server, Trust
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE, eventually

SLOWLY = bit_by_bit(OK, 1000, 0.01)
CANCEL = int(ErrorCodes.CANCEL)


async def get(client: HttpClient) -> Any:
    return await client.get(NODES, "", "n1")


async def create(client: HttpClient) -> Any:
    """A write that must not be done twice."""
    return await client.create(PODS, {"metadata": {"name": "a"}}, namespace="default")


def test_all_requests_share_one_connection_and_no_more_are_under_way_than_allowed() -> None:
    async def run() -> None:
        async with Http2Server(SLOWLY) as server, server.client(connections=5) as client:
            await asyncio.gather(*(get(client) for _ in range(30)))
            await get(client)
        assert (server.connections, len(server.requests)) == (1, 31)
        assert server.most_at_once == 5

    asyncio.run(run())


def test_there_is_another_connection_when_the_server_takes_no_more_over_the_first() -> None:
    async def run() -> None:
        async with Http2Server(SLOWLY, streams=4) as server, server.client(connections=10) as client:
            await get(client)
            await asyncio.gather(*(get(client) for _ in range(40)))
        assert server.connections == 3
        assert len(server.requests) == 41

    asyncio.run(run())


def test_what_a_server_of_http1_gets_is_as_ever() -> None:
    async def run() -> None:
        trust = Trust(Secret(certificate().certificate))
        async with NastyServer(SLOWLY, tls=context("http/1.1")) as server:
            given: dict[str, Any] = {"clock": RealClock(), "rng": random.Random(1), "qps": -1, "environ": {}}
            where = Server(Address.parse(server.url), trust)
            async with HttpClient(where, connections=3, **given) as client:
                await asyncio.gather(*(get(client) for _ in range(12)))
        assert (server.connections, len(server.requests)) == (3, 12)

    asyncio.run(run())


def test_http2_is_not_used_where_it_is_disabled() -> None:
    async def run() -> None:
        disabled = {"DISABLE_HTTP2": "1"}
        async with Http2Server(SLOWLY) as server, server.client(connections=2, environ=disabled) as client:
            await asyncio.gather(get(client), get(client))
        assert (server.connections, len(server.requests)) == (2, 2)

    asyncio.run(run())


def test_a_watch_has_a_connection_of_its_own() -> None:
    async def run() -> None:
        async with Http2Server(OK, answer("200 OK", b"")) as server, server.client() as client:
            await get(client)
            async for _ in client.watch(NODES, Node):
                raise AssertionError("there was nothing to see")
        assert server.connections == 2

    asyncio.run(run())


def goaway(last: int | None) -> Any:
    """End the connection for all streams after one; that of the request itself by default."""

    async def ending(writer: Http2Writer) -> None:
        writer.connection.close_connection(last_stream_id=writer.stream if last is None else last)
        writer.send()
        writer.transport.close()

    return act(ending)


def test_a_write_the_server_has_not_looked_at_is_sent_again() -> None:
    async def run() -> None:
        async with Http2Server(OK, goaway(1), CREATED) as server, server.client() as client:
            await get(client)
            await create(client)
        assert (len(server.requests), server.connections) == (3, 2)

    asyncio.run(run())


def test_a_write_the_server_may_have_done_is_not_sent_again() -> None:
    async def run() -> None:
        async with Http2Server(OK, goaway(None), CREATED) as server, server.client() as client:
            await get(client)
            with pytest.raises(ApiError, match="EOF") as failure:
                await create(client)
            assert failure.value.is_unreachable
        assert len(server.requests) == 2

    asyncio.run(run())


def test_what_is_under_way_is_finished_when_the_server_takes_no_more() -> None:
    """As kube-apiserver does with `--goaway-chance`, and when it shuts down."""

    async def last_words(writer: Http2Writer) -> None:
        writer.transport.write(goodbye((1 << 31) - 1))
        await asyncio.sleep(0.1)
        writer.write(CREATED)

    async def run() -> None:
        async with Http2Server(act(last_words), OK) as server, server.client() as client:
            writing = asyncio.create_task(create(client))
            await eventually(lambda: server.requests)
            await asyncio.sleep(0.05)
            await get(client)
            await asyncio.wait_for(writing, PATIENCE)
        assert (len(server.requests), server.connections) == (2, 2)

    asyncio.run(run())


def reset(code: ErrorCodes, *, head: bool = False) -> Any:
    async def resetting(writer: Http2Writer) -> None:
        if head:
            writer.connection.send_headers(writer.stream, [(":status", "200")])
        writer.connection.reset_stream(writer.stream, code)
        writer.send()

    return act(resetting)


def test_a_write_that_is_refused_before_it_is_done_is_sent_again_over_the_same_connection() -> None:
    async def run() -> None:
        refused = reset(ErrorCodes.REFUSED_STREAM)
        async with Http2Server(refused, refused, CREATED) as server, server.client() as client:
            await create(client)
        assert (len(server.requests), server.connections) == (3, 1)

    asyncio.run(run())


def test_a_server_that_refuses_every_stream_is_unreachable() -> None:
    async def run() -> None:
        async with Http2Server(reset(ErrorCodes.REFUSED_STREAM)) as server, server.client() as client:
            with pytest.raises(ApiError, match="REFUSED_STREAM") as failure:
                await create(client)
            assert failure.value.is_unreachable

    asyncio.run(run())


@pytest.mark.parametrize("head", [False, True])
def test_a_write_that_fails_at_the_server_is_not_sent_again_and_others_go_on(head: bool) -> None:
    async def run() -> None:
        scripts = SLOWLY, reset(ErrorCodes.INTERNAL_ERROR, head=head), OK
        async with Http2Server(*scripts) as server, server.client() as client:
            other = asyncio.create_task(get(client))
            await eventually(lambda: server.requests)
            with pytest.raises(ApiError, match="stream error: INTERNAL_ERROR"):
                await create(client)
            assert await other == {}
        assert (len(server.requests), server.connections) == (2, 1)

    asyncio.run(run())


def test_a_request_that_is_cancelled_is_taken_back_and_the_connection_lives_on() -> None:
    async def run() -> None:
        async with Http2Server(silence, OK) as server, server.client() as client:
            first = asyncio.create_task(create(client))
            await eventually(lambda: server.requests)
            first.cancel()
            assert await get(client) == {}
            await eventually(lambda: server.resets)
        assert server.resets == [CANCEL]
        assert server.connections == 1

    asyncio.run(run())


def test_an_overdue_request_is_taken_back_and_the_connection_lives_on() -> None:
    async def run() -> None:
        async with Http2Server(silence, OK) as server, server.client(answer_seconds=2.0) as client:
            overdue = asyncio.create_task(create(client))
            await eventually(lambda: server.requests)
            while not overdue.done():
                await get(client)
                await asyncio.sleep(0.1)
            with pytest.raises(ApiError, match="deadline exceeded"):
                await overdue
            assert await get(client) == {}
            await eventually(lambda: server.resets)
        assert server.resets == [CANCEL]
        assert server.connections == 1

    asyncio.run(run())


def test_nothing_more_is_sent_over_a_connection_that_stays_silent() -> None:
    async def run() -> None:
        async with Http2Server(silence, OK) as server, server.client(answer_seconds=0.2) as client:
            with pytest.raises(ApiError, match="deadline exceeded"):
                await create(client)
            await get(client)
        assert server.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize("window", [1_000, 65_535])
def test_a_long_body_is_sent_as_the_server_takes_it(window: int) -> None:
    async def run() -> None:
        text = "x" * 300_000
        body = {"metadata": {"name": "a", "namespace": "default"}, "data": {"text": text}}
        async with Http2Server(CREATED, window=window) as server, server.client() as client:
            await asyncio.gather(*(client.create(CONFIG_MAPS, body) for _ in range(3)), create(client))
        assert sorted(text.encode() in request for request in server.requests) == [False, True, True, True]

    asyncio.run(run())


def test_a_long_answer_is_read() -> None:
    async def run() -> None:
        text = answer("200 OK", b'{"text":"%b"}' % (b"x" * 3_000_000))
        async with Http2Server(text) as server, server.client() as client:
            assert len((await get(client))["text"]) == 3_000_000

    asyncio.run(run())


def test_an_answer_before_the_end_of_a_body_ends_the_request() -> None:
    """Such as one that says that the body is too large."""

    class Impatient(Http2Server):
        """Answers a request when its head has come, and takes no body."""

        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\0\0\0\4\0\0\0\0\0")
            assert (await reader.readexactly(24)).startswith(b"PRI")
            while True:
                head = await reader.readexactly(9)
                content = await reader.readexactly(int.from_bytes(head[:3]))
                if head[3] == 1:
                    block = b"\x08\x03413"
                    writer.write(b"\0\0%c\1\5" % len(block) + head[5:9] + block)
                if head[3] == 3:
                    self.resets.append(int.from_bytes(content))

    async def run() -> None:
        body = {"metadata": {"name": "a", "namespace": "default"}, "data": {"text": "x" * 300_000}}
        async with Impatient() as server, server.client() as client:
            for _ in range(2):
                with pytest.raises(ApiError, match="code 413") as failure:
                    await client.create(CONFIG_MAPS, body)
                assert failure.value.code == 413
            await eventually(lambda: len(server.resets) == 2)

    asyncio.run(run())


def goodbye(last: int) -> bytes:
    """The frame GOAWAY, without a word on errors."""
    return b"\0\0\x08\x07\0\0\0\0\0" + last.to_bytes(4) + bytes(4)


@pytest.mark.parametrize("seed", range(5))
def test_every_write_is_done_once_however_often_the_server_refuses_or_leaves(seed: int) -> None:
    rng = random.Random(seed)
    ended: dict[object, int] = {}
    done: Counter[str] = Counter()

    async def serve(writer: Http2Writer) -> None:
        await asyncio.sleep(rng.random() / 100)
        stream, chance = writer.stream, rng.random()
        if stream > ended.get(writer.connection, stream):
            await asyncio.Event().wait()
        if chance < 0.05:
            await reset(ErrorCodes.REFUSED_STREAM)(writer)
        elif chance < 0.1:
            ended[writer.connection] = max(stream - 2, 0)
            writer.transport.write(goodbye(ended[writer.connection]))
            await asyncio.Event().wait()
        else:
            body = writer.request.partition(b"\r\n\r\n")[2]
            if body:
                done[msgspec.json.decode(body)["metadata"]["name"]] += 1
            writer.write(CREATED)

    async def run() -> None:
        async with Http2Server(act(serve), streams=8) as server, server.client(connections=20) as client:

            async def write(writer: int) -> None:
                for number in range(10):
                    metadata = {"name": f"{writer}-{number}", "namespace": "default"}
                    await client.create(PODS, {"metadata": metadata})
                    given_up = asyncio.create_task(get(client))
                    await asyncio.sleep(0)
                    given_up.cancel()

            await asyncio.gather(*(write(number) for number in range(30)))
            assert done == {f"{writer}-{number}": 1 for writer in range(30) for number in range(10)}
            pool = client._transport._pool
            assert not pool._waiting
            assert not any(one.load for one in pool._shared)

    asyncio.run(run())


def test_a_server_that_leaves_before_every_request_is_unreachable() -> None:
    class Leaving(Http2Server):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            writer.write(b"\0\0\0\4\0\0\0\0\0" + goodbye(0))
            await reader.read()
            writer.close()

    async def run() -> None:
        async with Leaving() as server, server.client() as client:
            with pytest.raises(ApiError) as failure:
                await create(client)
            assert failure.value.is_unreachable
        assert server.connections < 100

    asyncio.run(run())


def test_the_clock_of_the_server_is_read() -> None:
    async def run() -> None:
        text = answer("200 OK", b"{}", "Date: Tue, 17 Nov 2026 22:42:54 GMT")
        async with Http2Server(text) as server, server.client() as client:
            assert await client.server_time() == 1_794_955_374.0

    asyncio.run(run())


def test_a_connection_that_is_retired_finishes_what_is_under_way() -> None:
    async def run() -> None:
        async with Http2Server(SLOWLY, OK) as server, server.client() as client:
            first = asyncio.create_task(get(client))
            await eventually(lambda: server.requests)
            client._transport._pool.retire()
            await get(client)
            assert await first == {}
        assert (len(server.requests), server.connections) == (2, 2)

    asyncio.run(run())


def test_many_requests_that_begin_at_once_share_the_failure_to_connect() -> None:
    async def run() -> None:
        async with Http2Server(OK) as server:
            pass
        async with server.client() as client:
            failures = await asyncio.gather(*(create(client) for _ in range(5)), return_exceptions=True)
        for failure in failures:
            assert isinstance(failure, ApiError)
            assert "connection refused" in failure.message

    asyncio.run(run())


def test_who_gives_up_while_a_connection_is_made_leaves_it_to_others() -> None:
    async def run() -> None:
        async with Http2Server(OK) as server, server.client() as client:
            first = asyncio.create_task(get(client))
            second = asyncio.create_task(get(client))
            await asyncio.sleep(0)
            first.cancel()
            assert await second == {}
        assert (len(server.requests), server.connections) == (1, 1)

    asyncio.run(run())


def test_a_write_over_a_connection_that_was_closed_before_is_sent_over_a_new_one() -> None:
    async def run() -> None:
        async with Http2Server(then_drop(CREATED), CREATED) as server, server.client() as client:
            await create(client)
            await asyncio.sleep(0.05)
            await create(client)
        assert (len(server.requests), server.connections) == (2, 2)

    asyncio.run(run())
