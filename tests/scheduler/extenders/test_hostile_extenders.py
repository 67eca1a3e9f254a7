"""Extenders that lie: each answer costs one attempt, in one short line and bounded memory."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from scheduler.extenders.servers import extender, raw_server, run, serving
from stowplan.gocompat.numbers import wrap_int64
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.rounds import bind_round, filter_round, preempt_round, prioritize_round
from stowplan.scheduler.extenders.transport import LARGEST_ANSWER
from stowplan.scheduler.framework.interface import Victims
from stowplan.testing import node, pod

POD = pod("p").namespace("d").uid("u-p").obj()
NODES = [node("a").obj(), node("b").obj()]
VICTIMS = {"a": Victims((POD,), 0)}
DEEP = b"[" * 100_000 + b"]" * 100_000
HEAD = b"HTTP/1.1 200 OK\r\n"

Call = Callable[[HttpExtender], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "filter": lambda ext: filter_round([ext], POD, NODES),
    "bind": lambda ext: bind_round([ext], POD, "a"),
    "preempt": lambda ext: preempt_round([ext], POD, VICTIMS, lambda node, uid: None),
}


async def failure_of(call: Call, url: str, **settings: Any) -> str:
    async with extender(url, **settings) as ext:
        with pytest.raises(ExtenderError) as caught:
            await call(ext)
    return str(caught.value)


def counted(size: int, body: bytes = b"", *fields: bytes) -> bytes:
    return HEAD + b"".join(field + b"\r\n" for field in fields) + b"Content-Length: %d\r\n\r\n" % size + body


@pytest.mark.parametrize("verb", CALLS)
def test_an_answer_without_end_is_read_up_to_its_limit(verb: str) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n")
        with suppress(OSError):
            while True:
                writer.write(bytes(65_536))
                await writer.drain()
                sent += 65_536

    async def main() -> None:
        server = await asyncio.start_server(endless, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/ext"
            assert "the limit for this request" in await failure_of(CALLS[verb], url)

    run(main())
    assert sent < LARGEST_ANSWER + (32 << 20)


def test_a_small_answer_that_stands_for_a_large_one_is_inflated_up_to_its_limit() -> None:
    body = gzip.compress(b'{"Error":"' + bytes(24 << 20) + b'"}', 1)

    async def main() -> None:
        async with raw_server(counted(len(body), body, b"Content-Encoding: gzip")) as url:
            assert "the limit for this request" in await failure_of(CALLS["filter"], url)

    run(main())


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(
            counted(0)[:-4].replace(b"200 OK", b"307 X") + b"\r\nLocation: " + where + b"\r\n\r\n", id=name
        )
        for name, where in {
            "no host": b"http:///x",
            "a name too long": b"http://" + b"a" * 300 + b".example/",
            "an empty label": b"http://a..b/",
            "no name": b"http://\xff\xfe/",
            "a port too large": b"http://a:99999999/",
            "half an address": b"//[::1/",
            "a file": b"file:///etc/passwd",
            "another protocol": b"ftp://a/",
        }.items()
    ]
    + [
        pytest.param(counted(2, b"{}", b"Content-Length: 3"), id="two lengths"),
        pytest.param(counted(2, b"{}", b"Transfer-Encoding: chunked"), id="length and chunks"),
        pytest.param(HEAD + b"Content-Length: -2\r\n\r\n{}", id="a negative length"),
        pytest.param(HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", id="a huge field"),
        pytest.param(HEAD + b"X: a\r\n" * 100_000 + b"\r\n", id="many fields"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc", id="a negative chunk"),
        pytest.param(counted(5, b"abcde", b"Content-Encoding: gzip"), id="no gzip"),
        pytest.param(counted(len(DEEP), DEEP), id="nested deeply"),
        pytest.param(counted(len(DEEP) + 9, b'{"Error":' + DEEP), id="nested deeply within"),
        pytest.param(counted(7, b'{"a":1e'), id="half a number"),
    ],
)
def test_what_is_no_answer_fails_the_attempt_in_one_short_line(reply: bytes) -> None:
    async def main() -> None:
        for call in CALLS.values():
            async with raw_server(reply) as url:
                problem = await failure_of(call, url)
            assert "\n" not in problem
            assert len(problem) < 500

    run(main())


@pytest.mark.parametrize(
    ("answer", "kept", "problem"),
    [
        (
            {"NodeNames": ["a", "elsewhere"]},
            None,
            'extender "<url>" claims a filtered node "elsewhere" which is not found in the input node list',
        ),
        ({"NodeNames": ["b", "b", "b", "a"]}, ("b", "a"), ""),
        ({"NodeNames": None}, (), ""),
        ({"NodeNames": [None]}, None, 'extender "<url>" claims a filtered node ""'),
        ({"NodeNames": ["a"], "FailedNodes": {"a": "no", "elsewhere": "no"}}, ("a",), ""),
        ({"NodeNames": ["a"], "Error": "x" * 3_000_000}, None, "x" * 1020 + " ..."),
    ],
)
def test_lies_about_nodes(answer: Any, kept: tuple[str, ...] | None, problem: str) -> None:
    async def main() -> None:
        async with serving(lambda verb, body: answer) as server:
            if kept is None:
                found = await failure_of(CALLS["filter"], server.url, node_cache_capable=True)
                assert found.startswith(problem.replace("<url>", server.url))
                return
            async with extender(server.url, node_cache_capable=True) as ext:
                assert (await filter_round([ext], POD, NODES)).kept == kept

    run(main())


def test_a_reason_is_not_longer_than_an_event() -> None:
    async def main() -> None:
        answer = {"NodeNames": ["a"], "FailedNodes": {"b": "y" * 1_000_000}}
        async with (
            serving(lambda verb, body: answer) as server,
            extender(server.url, node_cache_capable=True) as ext,
        ):
            verdict = (await filter_round([ext], POD, NODES)).verdicts["b"]
        assert verdict.message == "y" * 1020 + " ..."

    run(main())


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        pytest.param(
            [{"Host": "a", "Score": 2**63 - 1}], {"a": wrap_int64((2**63 - 1) * 10)}, id="the largest"
        ),
        pytest.param([{"Host": "a", "Score": -(2**63)}], {"a": 0}, id="the smallest"),
        pytest.param([{"Host": "elsewhere", "Score": 5}], {}, id="of another node"),
        pytest.param([{"Host": "a", "Score": 3}] * 2, {"a": 60}, id="twice"),
        pytest.param([{"Host": "a", "Score": 1.5}], None, id="a fraction"),
        pytest.param([{"Host": "a", "Score": 2**64}], None, id="too large"),
        pytest.param(b'[{"Host":"a","Score":1e400}]', None, id="without bound"),
        pytest.param(b'[{"Host":"a","Score":NaN}]', None, id="no number"),
        pytest.param(b'[{"Host":"a","Score":' + b"9" * 5000 + b"}]", None, id="5,000 digits"),
        pytest.param({"a": 5}, None, id="a map"),
        pytest.param(None, {}, id="nothing"),
    ],
)
def test_lies_about_scores_cost_the_scores(answer: Any, scores: dict[str, int] | None) -> None:
    async def main() -> None:
        async with serving(lambda verb, body: answer) as server, extender(server.url, weight=1) as ext:
            found = await prioritize_round([ext], POD, NODES)
        if scores is None:
            assert (found.scores, len(found.ignored)) == ((), 1)
        else:
            assert {name: score for one in found.scores for name, score in one.scores.items()} == scores

    run(main())
