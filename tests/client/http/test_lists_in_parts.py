"""A list that arrives in pages and pieces is shown as it arrives, and the result is always complete."""

import asyncio
import json
import random
from typing import Any, cast

import pytest

from client.http.http2peer import Http2Server, Http2Writer
from client.http.nastyserver import Act, ChoosingServer, answer, silence, then_drop
from client.reflected_store import Checked
from stowplan.api.catalogue import PODS
from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.client import Reflector
from stowplan.client.http import Address
from stowplan.client.http.body import Body
from stowplan.client.http.connection import LostError
from stowplan.client.http.dialer import Dialer
from stowplan.client.http.pool import ConnectionPool
from stowplan.client.http.requests import Common, Message
from stowplan.runtime.clock import RealClock
from waiting import PATIENCE, eventually

GONE = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
LARGE = "x" * 4000


def page(names: list[str], version: str, rest: str = "") -> bytes:
    items = [
        {
            "metadata": {
                "name": name,
                "namespace": "n",
                "uid": name,
                "resourceVersion": "1",
                "labels": {"l": LARGE},
            }
        }
        for name in names
    ]
    metadata = {"resourceVersion": version, **({"continue": rest} if rest else {})}
    return json.dumps(
        {"kind": "PodList", "metadata": metadata, "items": items}, separators=(",", ":")
    ).encode()


def numbered(begin: int, end: int) -> list[str]:
    return [f"p{number}" for number in range(begin, end)]


class Paged:
    """Answers to lists, one after the other; a watch never ends."""

    def __init__(self, *answers: bytes | Act) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, method: str, target: str) -> bytes | Act:
        if "watch=true" in target:
            return silence
        self.asked.append(target)
        return self._answers.pop(0)


async def shown_by(paged: Paged, problems: list[str]) -> tuple[Checked, Reflector[Pod]]:
    """Objects of a reflector when it is synced."""
    handler = Checked()
    server = ChoosingServer(paged)
    async with server, server.client() as client:
        reflector = Reflector(
            client, PODS, Pod, handler, clock=RealClock(), rng=random.Random(1), report=problems.append
        )
        task = asyncio.create_task(reflector.run())
        await eventually(lambda: reflector.has_synced)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert handler.objects == dict(reflector.objects)
    return handler, reflector


def test_pages_add_up_to_the_list() -> None:
    first, second = page(numbered(0, 100), "7", "next"), page(numbered(100, 150), "7")
    paged, problems = Paged(answer("200 OK", first), answer("200 OK", second)), list[str]()
    handler, reflector = asyncio.run(shown_by(paged, problems))
    assert sorted(handler.objects) == sorted(f"n/{name}" for name in numbered(0, 150))
    assert reflector.resource_version == "7"
    assert ["continue=next" in target for target in paged.asked] == [False, True]
    assert not problems


def test_if_the_server_forgets_where_the_next_page_begins_the_whole_list_counts() -> None:
    first, whole = page(numbered(0, 100), "7", "next"), page(numbered(50, 200), "9")
    gone = answer("410 Gone", json.dumps(GONE).encode())
    paged, problems = Paged(answer("200 OK", first), gone, answer("200 OK", whole)), list[str]()
    handler, reflector = asyncio.run(shown_by(paged, problems))
    assert sorted(handler.objects) == sorted(f"n/{name}" for name in numbered(50, 200))
    assert "+p0" in handler.told
    assert "-p0" in handler.told
    assert reflector.resource_version == "9"
    assert not problems


def test_a_list_that_breaks_off_when_some_of_it_was_shown_is_a_failure_and_is_listed_anew() -> None:
    text = answer("200 OK", page(numbered(0, 100), "7"))
    again = answer("200 OK", page(numbered(50, 150), "8"))
    paged, problems = Paged(then_drop(text[: len(text) // 2]), again), list[str]()
    handler, reflector = asyncio.run(shown_by(paged, problems))
    assert sorted(handler.objects) == sorted(f"n/{name}" for name in numbered(50, 150))
    assert reflector.resource_version == "8"
    assert len(problems) == 1


def test_a_list_that_breaks_off_before_any_of_it_was_shown_is_asked_for_again() -> None:
    text = answer("200 OK", page(numbered(0, 3), "7"))
    paged, problems = Paged(then_drop(text[: len(text) // 2]), text), list[str]()
    handler, reflector = asyncio.run(shown_by(paged, problems))
    assert sorted(handler.objects) == ["n/p0", "n/p1", "n/p2"]
    assert reflector.resource_version == "7"
    assert not problems


def test_a_list_may_come_later_than_the_head_of_its_answer() -> None:
    async def late(writer: asyncio.StreamWriter) -> None:
        head, end, text = answer("200 OK", page(numbered(0, 100), "7")).partition(b"\r\n\r\n")
        writer.write(head + end)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(text)

    problems = list[str]()
    handler, _ = asyncio.run(shown_by(Paged(late), problems))
    assert len(handler.objects) == 100
    assert not problems


def test_a_list_that_falls_silent_through_an_outage_has_not_come() -> None:
    text = answer("200 OK", page(numbered(0, 100), "7"))

    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(text[: len(text) // 2])
        await silence(writer)

    async def run() -> None:
        server = ChoosingServer(lambda method, target: half)
        async with server:
            address = Address.parse(server.url)
            pool, body = ConnectionPool(Dialer(address, None), timeout=60), Body()
            message = Message(Common("GET", address, []), "/api/v1/pods")
            request = asyncio.create_task(pool.exchange(message, body))
            await eventually(lambda: body.size > 0)
            now = asyncio.get_running_loop().time()
            pool.end_silent(now + 1, now + 1)
            with pytest.raises(LostError):
                await request
            pool.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("text", [b"no list", page(numbered(0, 100), "7")[:-20] + b"}" * 20])
def test_what_is_no_list_is_said_so(text: bytes) -> None:
    async def run() -> Any:
        server = ChoosingServer(Paged(answer("200 OK", text)))
        async with server, server.client() as client:
            return await client.list(PODS, Pod)

    with pytest.raises(ApiError, match="pods"):
        asyncio.run(run())


def test_pages_come_over_one_connection_of_their_own_where_requests_share_one() -> None:
    over_http2: list[bool] = []

    def answered(text: bytes) -> Act:
        async def serve(writer: asyncio.StreamWriter | Http2Writer) -> None:
            over_http2.append(isinstance(writer, Http2Writer))
            writer.write(answer("200 OK", text))

        return cast(Act, serve)

    async def run() -> list[str]:
        texts = (b"{}", page(numbered(0, 40), "7", "40"), page(numbered(40, 50), "7"), b"{}")
        server = Http2Server(*map(answered, texts))
        async with server, server.client() as client:
            await client.get(PODS, "n", "p0")
            listed = await client.list(PODS, Pod)
            await client.get(PODS, "n", "p0")
            assert server.connections == 2
            return [pod.name for pod in listed.items]

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == numbered(0, 50)
    assert over_http2 == [True, False, False, True]


def test_a_page_is_asked_for_again_if_the_server_closes_the_connection_of_the_last_one() -> None:
    first, second = page(numbered(0, 40), "7", "40"), page(numbered(40, 50), "7")

    async def then_closed(writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK", first))
        await writer.drain()
        writer.close()

    async def run() -> list[str]:
        server = Http2Server(then_closed, answer("200 OK", second))
        async with server, server.client() as client:
            return [pod.name for pod in (await client.list(PODS, Pod)).items]

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == numbered(0, 50)


def test_a_server_that_offers_http2_is_slowed_down_by_a_slow_reader_of_a_list() -> None:
    text = page(numbered(0, 12_000), "7")
    written: list[int] = []

    async def piecewise(writer: asyncio.StreamWriter) -> None:
        head = answer("200 OK", text)
        for at in range(0, len(head), 65_536):
            writer.write(head[at : at + 65_536])
            await writer.drain()
            written.append(at)

    async def run() -> None:
        server = Http2Server(piecewise)
        async with server, server.client() as client:
            parts = client.parts(PODS, Pod)
            await anext(parts)
            before = -1
            while len(written) != before:
                before = len(written)
                await asyncio.sleep(0.2)
            assert written[-1] < len(text) // 2
            names = [pod.name async for part in parts for pod in part.items]
            assert names[-1] == "p11999"

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
