"""Requests and their answers, from servers that behave and from those that do not."""

import asyncio
from typing import Any

import msgspec
import pytest

from client.http.http2peer import Http2Server
from client.http.nastyserver import (
    CREATED,
    OK,
    NastyServer,
    answer,
    bit_by_bit,
    chunked,
    drop,
    silence,
    then_drop,
)
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node
from stowplan.api.requests import DeleteOptions, PatchType
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client.http import HttpClient
from waiting import PATIENCE, eventually

BINDING = Binding(
    metadata=ObjectMeta(namespace="default", name="web", uid="u1"),
    target=ObjectReference(kind="Node", name="n1"),
)
CONFLICT = msgspec.json.encode(
    {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "it is taken"}
)
RETRY_NOW = answer("429 Too Many Requests", b"slow down", "Retry-After: 0")


Peer = type[NastyServer]


@pytest.fixture(params=[NastyServer, Http2Server], ids=["HTTP/1.1", "HTTP/2"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """A server of either kind."""
    found: Peer = request.param
    return found


async def get(client: HttpClient) -> Any:
    return await client.get(NODES, "", "n1")


def test_a_binding_is_one_post_with_its_kind(peer: Peer) -> None:
    async def run() -> None:
        async with peer(CREATED) as server, server.client() as client:
            await client.bind(BINDING)
        (sent,) = server.requests
        head, _, body = sent.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /api/v1/namespaces/default/pods/web/binding HTTP/1.1\r\n")
        assert msgspec.json.decode(body) == {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"namespace": "default", "name": "web", "uid": "u1"},
            "target": {"kind": "Node", "name": "n1"},
        }

    asyncio.run(run())


def test_connections_are_kept_and_no_more_are_made_than_allowed() -> None:
    async def run() -> None:
        async with NastyServer(bit_by_bit(OK, 40, 0.001)) as server, server.client(connections=3) as client:
            await asyncio.gather(*(get(client) for _ in range(30)))
            await get(client)
        assert server.connections == 3
        assert len(server.requests) == 31

    asyncio.run(run())


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(bit_by_bit(answer("200 OK", '{"a":"é€"}'.encode())), id="byte by byte"),
        pytest.param(bit_by_bit(chunked(b'{"a":', '"é€"}'.encode())), id="chunks byte by byte"),
        pytest.param(chunked('{"a":"é'.encode()[:-1], b"\xa9" + '€"}'.encode()), id="inside a character"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + answer("200 OK", '{"a":"é€"}'.encode()), id="interim answer"
        ),
        pytest.param(then_drop(b"HTTP/1.0 200 OK\r\n\r\n" + '{"a":"é€"}'.encode()), id="until closed"),
        pytest.param(bit_by_bit(answer("200 OK", '{"a":"é€"}'.encode()), 30, 0.02), id="slow head"),
    ],
)
def test_an_answer_is_read_however_it_is_cut(script: Any) -> None:
    async def run() -> None:
        async with NastyServer(script) as server, server.client() as client:
            assert await get(client) == {"a": "é€"}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (drop, "reset|EOF"),
        (then_drop(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"), "unexpected EOF"),
        (then_drop(chunked(b"{", end=False)), "unexpected EOF"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "malformed Content-Length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "unsupported transfer encoding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed chunked encoding"),
        (answer("200 OK", b"{}") + b"more", "unexpected data"),
        (answer("200 OK", b"<html>"), "the answer cannot be read"),
        (answer("200 OK", b"[]"), "the answer cannot be read"),
    ],
)
def test_a_write_whose_answer_is_lost_or_garbage_is_unreachable_and_not_sent_again(
    script: Any, problem: str
) -> None:
    async def run() -> None:
        async with NastyServer(script) as server, server.client() as client:
            with pytest.raises(ApiError, match=problem) as failure:
                await client.create(PODS, {"metadata": {"name": "a"}}, namespace="default")
            assert failure.value.is_unreachable
            assert failure.value.message.startswith(f'Post "{server.url}/api/v1/namespaces/default/pods": ')
        assert len(server.requests) == 1

    asyncio.run(run())


def bound_to(node: str) -> bytes:
    message = (
        f'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "{node}"'
    )
    text = {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": message}
    return answer("409 Conflict", msgspec.json.encode(text))


def test_a_binding_whose_answer_was_lost_is_sent_again_and_done_if_it_was_done(peer: Peer) -> None:
    async def run() -> None:
        async with peer(drop, bound_to("n1")) as server, server.client() as client:
            await client.bind(BINDING)
        assert len(server.requests) == 2
        assert server.requests[0] == server.requests[1]
        async with peer(drop, bound_to("n10")) as server, server.client() as client:
            with pytest.raises(ApiError, match='already assigned to node "n10"'):
                await client.bind(BINDING)

    asyncio.run(run())


@pytest.mark.parametrize("kind", [PatchType.STRATEGIC, PatchType.MERGE])
def test_a_patch_of_maps_whose_answer_was_lost_is_sent_again(peer: Peer, kind: PatchType) -> None:
    async def run() -> None:
        async with peer(drop, OK) as server, server.client() as client:
            await client.patch(PODS, "default", "web", {"status": {}}, kind)
        assert len(server.requests) == 2

    asyncio.run(run())


def test_a_patch_of_steps_whose_answer_was_lost_is_not_sent_again(peer: Peer) -> None:
    async def run() -> None:
        async with peer(drop, OK) as server, server.client() as client:
            with pytest.raises(ApiError) as failure:
                await client.patch(PODS, "default", "web", [{"op": "remove", "path": "/a"}], PatchType.JSON)
        assert failure.value.is_unreachable
        assert len(server.requests) == 1

    asyncio.run(run())


def test_an_answer_that_nobody_wants_to_see_is_not_read(peer: Peer) -> None:
    patch = {"status": {"nominatedNodeName": "n1"}}

    async def run() -> None:
        async with peer(answer("200 OK", b"no JSON")) as server, server.client() as client:
            await client.patch_unseen(PODS, "default", "web", patch, subresource="status")
            await client.create_unseen(PODS, {"metadata": {"name": "web"}}, namespace="default")
            with pytest.raises(ApiError):
                await client.patch(PODS, "default", "web", patch, subresource="status")
        unseen, _, seen = server.requests
        assert unseen == seen

    asyncio.run(run())


def test_a_list_is_not_asked_for_again_where_its_reader_does_that(peer: Peer) -> None:
    async def run() -> None:
        failed = answer("503 Service Unavailable", b"upstream is away")
        async with peer(failed) as server, server.client() as client:
            with pytest.raises(ApiError, match="upstream is away"):
                await client.list(NODES, Node)
        assert len(server.requests) == 1

    asyncio.run(run())


def test_a_read_is_sent_again_when_its_answer_is_lost(peer: Peer) -> None:
    async def run() -> None:
        scripts = drop, then_drop(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"), OK
        async with peer(*scripts) as server, server.client() as client:
            assert await get(client) == {}
        assert len(server.requests) == 3

    asyncio.run(run())


def test_a_read_on_a_kept_connection_that_was_closed_is_sent_again_at_once(peer: Peer) -> None:
    """Other reads wait a tenth of a second at least. A busy machine may take as long once in a while."""

    async def took() -> float:
        async with peer(OK, drop, OK) as server, server.client() as client:
            await get(client)
            await get(client)
        return server.times[2] - server.times[1]

    assert any(asyncio.run(took()) < 0.09 for _ in range(10))


def test_a_write_is_sent_over_a_new_connection_when_the_kept_one_was_closed_before(peer: Peer) -> None:
    async def run() -> None:
        async with peer(then_drop(CREATED), CREATED) as server, server.client() as client:
            await client.bind(BINDING)
            await asyncio.sleep(0.05)
            await client.bind(BINDING)
        assert (len(server.requests), server.connections) == (2, 2)

    asyncio.run(run())


def test_a_server_that_cannot_be_connected_to_is_unreachable(peer: Peer) -> None:
    async def run() -> None:
        async with peer(OK) as server:
            pass
        async with server.client() as client:
            with pytest.raises(
                ApiError, match=r"dial tcp 127\.0\.0\.1:\d+: connect: connection refused"
            ) as failure:
                await client.bind(BINDING)
        assert failure.value.code == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("scripts", "sent"),
    [
        ((RETRY_NOW, RETRY_NOW, CREATED), 3),
        ((answer("503 Unavailable", b"", "Retry-After: 0"), CREATED), 2),
        ((answer("429 Too Many Requests", b""), CREATED), 2),
    ],
)
def test_a_write_that_is_refused_for_the_moment_is_sent_again(peer: Peer, scripts: Any, sent: int) -> None:
    async def run() -> None:
        async with peer(*scripts) as server, server.client() as client:
            await client.bind(BINDING)
        assert len(server.requests) == sent

    asyncio.run(run())


def test_the_time_a_server_asks_for_is_waited(peer: Peer) -> None:
    async def run() -> None:
        refusal = answer("429 Too Many Requests", b"", "Retry-After: 1")
        async with peer(refusal, CREATED) as server, server.client() as client:
            await client.bind(BINDING)
        assert server.times[1] - server.times[0] >= 1

    asyncio.run(run())


def test_a_server_that_goes_on_refusing_is_believed_in_the_end(peer: Peer) -> None:
    async def run() -> None:
        async with peer(RETRY_NOW) as server, server.client() as client:
            with pytest.raises(ApiError, match="slow down") as failure:
                await client.bind(BINDING)
        assert (failure.value.code, failure.value.reason) == (429, "TooManyRequests")
        assert failure.value.retry_after == 0
        assert len(server.requests) == 11

    asyncio.run(run())


def test_a_failing_server_is_asked_again_by_reads_only(peer: Peer) -> None:
    async def run() -> None:
        failed = answer("503 Service Unavailable", b"upstream is away")
        async with peer(failed, OK) as server, server.client() as client:
            assert await get(client) == {}
        async with peer(failed, CREATED) as server, server.client() as client:
            with pytest.raises(ApiError, match="code 503: upstream is away") as failure:
                await client.bind(BINDING)
        assert failure.value.reason == "ServiceUnavailable"
        assert len(server.requests) == 1

    asyncio.run(run())


def test_a_refusal_is_the_status_of_the_server(peer: Peer) -> None:
    async def run() -> None:
        async with peer(answer("409 Conflict", CONFLICT)) as server, server.client() as client:
            with pytest.raises(ApiError, match="it is taken") as failure:
                await client.bind(BINDING)
        assert failure.value.is_conflict
        assert failure.value.code == 409

    asyncio.run(run())


def test_a_server_that_does_not_answer_is_given_up(peer: Peer) -> None:
    async def run() -> None:
        async with peer(silence) as server, server.client(answer_seconds=0.2) as client:
            with pytest.raises(ApiError, match="deadline exceeded") as failure:
                await client.bind(BINDING)
        assert failure.value.is_unreachable

    asyncio.run(run())


def test_a_request_that_is_cancelled_leaves_its_place_to_others(peer: Peer) -> None:
    async def run() -> None:
        async with peer(silence, OK) as server, server.client(connections=1) as client:
            first = asyncio.create_task(get(client))
            second = asyncio.create_task(get(client))
            third = asyncio.create_task(get(client))
            await eventually(lambda: server.requests)
            second.cancel()
            await asyncio.sleep(0)
            first.cancel()
            assert await asyncio.wait_for(third, PATIENCE) == {}

    asyncio.run(run())


def test_a_write_that_waited_for_a_connection_is_not_sent_if_it_is_not_ours_to_do_any_more(
    peer: Peer,
) -> None:
    async def run() -> None:
        leads = True
        options = {"connections": 1, "may_write": lambda: leads}
        async with peer(silence, OK) as server, server.client(**options) as client:
            first = asyncio.create_task(get(client))
            await eventually(lambda: server.requests)
            writing = [asyncio.create_task(client.bind(BINDING)) for _ in range(2)]
            reading = asyncio.create_task(get(client))
            await asyncio.sleep(0.05)
            leads = False
            first.cancel()
            assert await asyncio.wait_for(reading, PATIENCE) == {}
            for failure in await asyncio.gather(*writing, return_exceptions=True):
                assert isinstance(failure, ApiError)
                assert "not sent: another process may lead by now" in failure.message
        assert not any(sent.startswith(b"POST") for sent in server.requests)

    asyncio.run(run())


def test_closing_the_client_fails_what_is_under_way(peer: Peer) -> None:
    async def run() -> None:
        async with peer(silence) as server, server.client(connections=1) as client:
            waiting = [asyncio.create_task(client.bind(BINDING)) for _ in range(3)]
            await eventually(lambda: server.requests)
            client.close()
            for failure in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(failure, ApiError)
                assert "closed" in failure.message

    asyncio.run(run())


def test_writes_say_what_they_mean(peer: Peer) -> None:
    async def run() -> None:
        async with peer(OK) as server, server.client() as client:
            await client.patch(PODS, "default", "a", [{"op": "remove", "path": "/x"}], PatchType.JSON)
            await client.update(
                PODS, {"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}, subresource="status"
            )
            await client.delete(NODES, "", "n1")
            await client.delete(PODS, "b", "a", DeleteOptions(0, "u", propagation="Orphan"))
        patch, update, plain, exact = server.requests
        assert b"PATCH /api/v1/namespaces/default/pods/a HTTP/1.1" in patch
        assert b"Content-Type: application/json-patch+json\r\n" in patch
        assert b"PUT /api/v1/namespaces/b/pods/a/status HTTP/1.1" in update
        assert plain.endswith(b'{"kind":"DeleteOptions","apiVersion":"v1"}')
        assert msgspec.json.decode(exact.partition(b"\r\n\r\n")[2]) == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
            "propagationPolicy": "Orphan",
        }

    asyncio.run(run())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_what_is_no_name_is_not_sent(name: str) -> None:
    async def run() -> None:
        async with NastyServer(OK) as server, server.client() as client:
            with pytest.raises(ApiError, match="name: expected one part of a path"):
                await client.get(NODES, "", name)
        assert not server.requests

    asyncio.run(run())
