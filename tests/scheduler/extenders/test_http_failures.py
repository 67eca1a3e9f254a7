"""Everything that can go wrong between us and an extender, over real sockets, in kube-scheduler's words."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from scheduler.extenders.servers import Answer, Server, extender, raw_server, run, serving
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.transport import describe_error
from stowplan.scheduler.framework.interface import Victims
from stowplan.testing import node, pod

POD = pod("p").namespace("d").uid("u-p").obj()
NODES = [node("a").obj(), node("b").obj()]
SHORT = Duration(100_000_000)

Call = Callable[[HttpExtender], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "filter": lambda ext: ext.filter(POD, NODES),
    "prioritize": lambda ext: ext.prioritize(POD, NODES),
    "bind": lambda ext: ext.bind(POD, "a"),
    "preempt": lambda ext: ext.preempt(POD, {"a": Victims((POD,), 0)}, lambda node, uid: None),
}


def expect(answer: Answer, call: Call, message: str, **settings: Any) -> None:
    async def main() -> None:
        async with serving(answer) as server, extender(server.url, **settings) as ext:
            with pytest.raises(ExtenderError) as caught:
                await call(ext)
            assert str(caught.value) == message.replace("<url>", server.url)

    run(main())


async def fail_at(url: str, call: Call = CALLS["filter"], **settings: Any) -> str:
    async with extender(url, **settings) as ext:
        with pytest.raises(ExtenderError) as caught:
            await call(ext)
    return str(caught.value)


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("code", [500, 404, 204])
def test_any_status_but_200_is_a_failure(verb: str, code: int) -> None:
    expect(
        lambda verb, body: web.Response(status=code),
        CALLS[verb],
        f"failed {verb} with extender at URL <url>/{verb}, code {code}",
    )


@pytest.mark.parametrize("verb", CALLS)
def test_nobody_listens(verb: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        address = f"127.0.0.1:{port}"

        async def main() -> None:
            assert await fail_at(f"http://{address}/x", CALLS[verb]) == (
                f'Post "http://{address}/x/{verb}": dial tcp {address}: connect: connection refused'
            )

        run(main())


def test_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def unknown(*args: object, **kwargs: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        assert await fail_at("http://ext.example:8888") == (
            'Post "http://ext.example:8888/filter": dial tcp: lookup ext.example: no such host'
        )

    run(main())


def test_no_answer_in_time() -> None:
    async def never(verb: str, body: Any) -> None:
        await asyncio.sleep(10)

    waited = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    expect(never, CALLS["filter"], f'Post "<url>/filter": {waited}', http_timeout=SHORT)


def test_an_answer_that_does_not_end_in_time() -> None:
    async def main() -> None:
        begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        async with raw_server(begun, close=False) as url:
            assert await fail_at(url, http_timeout=SHORT) == (
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
            )

    run(main())


def test_a_negative_timeout_is_none() -> None:
    async def main() -> None:
        async with (
            serving(lambda verb, body: {"NodeNames": ["a"]}) as server,
            extender(server.url, http_timeout=Duration.of_seconds(-1)) as ext,
        ):
            assert (await ext.filter(POD, NODES)).kept == ["a"]

    run(main())


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"", 'Post "<url>/filter": EOF'),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "unexpected EOF"),
        (b"SSH-2.0-x\r\n\r\n", 'Post "<url>/filter": net/http: HTTP/1.x transport connection broken: '),
    ],
    ids=["closed at once", "cut off", "not HTTP"],
)
def test_a_server_that_does_not_keep_to_the_protocol(reply: bytes, problem: str) -> None:
    async def main() -> None:
        async with raw_server(reply) as url:
            assert (await fail_at(url)).startswith(problem.replace("<url>", url))

    run(main())


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", 'Post "/filter": unsupported protocol scheme ""'),
        ("ftp://x", 'Post "ftp://x/filter": unsupported protocol scheme "ftp"'),
        ("http://", 'Post "http:/filter": http: no Host in request URL'),
        (
            "http://u:secret@127.0.0.1:1",
            'Post "http://u:***@127.0.0.1:1/filter": dial tcp 127.0.0.1:1: connect: ',
        ),
    ],
)
def test_an_address_nothing_can_be_sent_to(url: str, problem: str) -> None:
    async def main() -> None:
        assert (await fail_at(url)).startswith(problem)

    run(main())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(errno.ECONNRESET, ""), "read: connection reset by peer"),
        (BrokenPipeError(errno.EPIPE, ""), "write: broken pipe"),
        (OSError("strange"), "strange"),
        (OSError(), "OSError"),
    ],
)
def test_what_breaks_underneath_is_told_in_the_usual_words(error: Exception, text: str) -> None:
    assert describe_error(error) == text


@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_an_error_in_the_answer_is_the_message(verb: str) -> None:
    expect(lambda verb, body: {"error": "no, %s"}, CALLS[verb], "no, %s")


def test_an_answer_that_is_no_json() -> None:
    text = "invalid character '<' looking for beginning of value"
    expect(lambda verb, body: b"<html>", CALLS["filter"], text)


def test_a_victim_that_is_not_on_its_node() -> None:
    expect(
        lambda verb, body: {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u9"}]}}},
        CALLS["preempt"],
        "extender: <url> claims to preempt pod (UID: &{u9}) on node: a, "
        "but the pod is not found on that node",
    )


def test_victims_on_a_node_nobody_knows() -> None:
    def find(node: str, uid: str) -> None:
        raise LookupError(node)

    expect(
        lambda verb, body: {"NodeNameToMetaVictims": {"z": {"Pods": [{"UID": "u9"}]}}},
        lambda ext: ext.preempt(POD, {"a": Victims((POD,), 0)}, find),
        'nodeinfo not found for node name "z"',
    )


def test_a_verb_that_is_not_configured_cannot_be_asked_for() -> None:
    async def main() -> None:
        settings = {"filter_verb": "", "prioritize_verb": "", "bind_verb": "", "preempt_verb": ""}
        url = "http://127.0.0.1:1"
        assert await fail_at(url, CALLS["bind"], **settings) == "unexpected empty bindVerb in extender"
        assert await fail_at(url, CALLS["preempt"], **settings) == (
            f"preempt verb is not defined for extender {url} but run into ProcessPreemption"
        )
        async with extender(url, **settings) as ext:
            assert (await ext.filter(POD, NODES)).kept == ["a", "b"]
            assert await ext.prioritize(POD, NODES) == {"a": 0, "b": 0}

    run(main())


def test_a_kept_connection_is_used_again() -> None:
    async def main() -> None:
        async with serving(lambda verb, body: []) as server, extender(server.url) as ext:
            for _ in range(3):
                await ext.prioritize(POD, NODES)
            assert len({id(heard.connection) for heard in server.heard}) == 1

    run(main())


def breaking_second(server: Server) -> Answer:
    """Closes the connection instead of answering the second request."""

    def answer(verb: str, body: Any) -> Any:
        if len(server.heard) == 2:
            server.heard[-1].connection.abort()  # type: ignore[attr-defined]
        return [] if verb == "prioritize" else {}

    return answer


def test_a_question_is_put_again_when_a_kept_connection_breaks() -> None:
    async def main() -> None:
        async with serving(lambda verb, body: {}) as server, extender(server.url) as ext:
            server.answer = breaking_second(server)
            await ext.prioritize(POD, NODES)
            assert await ext.prioritize(POD, NODES) == {}
            assert len(server.heard) == 3

    run(main())


def test_a_pod_is_never_bound_twice() -> None:
    async def main() -> None:
        async with serving(lambda verb, body: {}) as server, extender(server.url) as ext:
            server.answer = breaking_second(server)
            await ext.prioritize(POD, NODES)
            with pytest.raises(ExtenderError, match=r'^Post "http://.*/bind": (EOF|read: connection reset)'):
                await ext.bind(POD, "a")
            assert len(server.heard) == 2

    run(main())


def test_a_new_connection_that_breaks_is_not_tried_again() -> None:
    async def main() -> None:
        def answer(verb: str, body: Any) -> Any:
            server.heard[-1].connection.abort()  # type: ignore[attr-defined]
            return []

        async with serving(answer) as server:
            assert (await fail_at(server.url)).startswith(f'Post "{server.url}/filter": ')
            assert len(server.heard) == 1

    run(main())


@pytest.mark.parametrize(("code", "method"), [(307, "POST"), (308, "POST"), (302, "GET")])
def test_redirections_are_followed(code: int, method: str) -> None:
    async def main() -> None:
        def answer(verb: str, body: Any) -> Any:
            if verb == "filter":
                return web.Response(status=code, headers={"Location": "/elsewhere"})
            return {"nodenames": ["b"]}

        async with serving(answer) as server, extender(server.url) as ext:
            assert (await ext.filter(POD, NODES)).kept == ["b"]
            assert [heard.method for heard in server.heard] == ["POST", method]

    run(main())


def test_redirections_that_go_in_circles() -> None:
    expect(
        lambda verb, body: web.Response(status=307, headers={"Location": "/filter"}),
        CALLS["filter"],
        'Post "<url>/filter": stopped after 10 redirects',
    )
