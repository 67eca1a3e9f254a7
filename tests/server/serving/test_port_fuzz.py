"""Arbitrary input: the port stays up, and without credentials only the public paths are answered."""

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from server.serving.secureports import AllowingApi, page, port, trusting_all
from stowplan.server.serving import Pages
from waiting import PATIENCE

OPEN = ("/healthz", "/livez", "/readyz")
CLOSED = (
    "/metrics",
    "/metrics/resources",
    "/configz",
    "/statusz",
    "/flagz",
    "/debug/flags/v",
    "/healthz/ping",
)
SECRET = "only for those who may"
HEALTHY = "well and alive"
QUIET = 0.25


class RunningPort:
    """A port in a separate thread, so that examples can use plain sockets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.number = 0

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda loop, context: self.failures.append(str(context)))
        self.failures: list[str] = []
        api = AllowingApi()
        api.allowed = False
        pages: Pages = {
            **{path: page(text=HEALTHY) for path in OPEN},
            **{path: page(text=SECRET) for path in CLOSED},
            "/debug/pprof/": page(text=SECRET),
        }
        async with port(self._folder, pages, authentication_client=api, authorization_client=api) as server:
            self.number = server.port
            self._ready.set()
            await self._end.wait()

    def __enter__(self) -> "RunningPort":
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.number), timeout=PATIENCE)

    def send(self, data: bytes, secure: bool = True, *, whole: bool = False) -> bytes:
        """Answer until the port closes the connection, or is silent: a `whole` request is always answered."""
        got = b""
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            sock = stack.enter_context(self.connect())
            if secure:
                sock = stack.enter_context(trusting_all().wrap_socket(sock))
            sock.sendall(data)
            sock.settimeout(PATIENCE if whole else QUIET)
            while more := sock.recv(65536):
                got += more
        return got

    def is_well(self) -> bool:
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        return HEALTHY.encode() in self.send(request, whole=True) and not self.failures


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPort]:
    with RunningPort(tmp_path_factory.mktemp("port")) as running:
        yield running


TRICKS = [
    "//{path}",
    "/healthz/..{path}",
    "/healthz/%2e%2e{path}",
    "/healthz%2f..{path}",
    "/healthz;{path}",
    "/healthz?{path}",
    "/healthz#{path}",
    "/healthz%00{path}",
    "/healthz%0d%0a{path}",
    "/healthz%20{path}",
    "/./{path}",
    "{path}/",
    "{path}/.",
    "{path}%2f",
    "{path}?/healthz",
    "{path}#/healthz",
    "{path};/healthz",
    "{path}%3f/healthz",
    "{path}/../healthz",
    "http://localhost{path}",
    "https://localhost:1{path}",
    "http://localhost/healthz/..{path}",
    "http://healthz{path}",
    "http:{path}",
    "//healthz{path}",
    "///healthz{path}",
    "\\\\healthz{path}",
    "{path}",
    "/healthz",
    "*",
]
METHODS = st.sampled_from(
    [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PATCH",
        "PRI",
        "get",
        "M-SEARCH",
        "",
    ]
)
TARGETS = st.one_of(
    st.builds(
        lambda trick, path: trick.replace("{path}", path), st.sampled_from(TRICKS), st.sampled_from(CLOSED)
    ),
    st.text("/.%2efhealtzmrics?#;:\\ ", max_size=30),
)
HEADERS = st.lists(
    st.sampled_from(
        [
            "X-Remote-User: system:admin",
            "X-Remote-Group: system:masters",
            "Impersonate-User: system:admin",
            "Authorization: Bearer ",
            "Authorization: Bearer guess",
            "Authorization: Basic YTpi",
            "X-Original-URL: /healthz",
            "X-Forwarded-Path: /healthz",
            "Content-Length: 0",
            "Content-Length: 4",
            "Content-Length: -1",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: chunked, identity",
            "Connection: upgrade",
            "Upgrade: websocket",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
            "Expect: 100-continue",
            "Host: /metrics",
            "Range: bytes=0-1",
            "no colon",
            " folded",
        ]
    ),
    max_size=4,
)
VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", ""])
BODIES = st.sampled_from([b"", b"", b"abcd", b"0\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    first = f"{draw(METHODS)} {draw(TARGETS)} {draw(VERSIONS)}"
    lines = [first, "Host: localhost", *draw(HEADERS), "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + draw(BODIES)


@settings(max_examples=examples(60))
@given(st.lists(requests(), min_size=1, max_size=2).map(b"".join))
def test_odd_requests_never_show_what_needs_credentials(running: RunningPort, data: bytes) -> None:
    answer = running.send(data)
    assert SECRET.encode() not in answer
    for code in re.findall(rb"^HTTP/1\.[01] (\d+)", answer, re.MULTILINE):
        assert code != b"500"
    assert running.is_well()


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("trick", TRICKS)
def test_no_spelling_of_a_path_gets_around_its_protection(
    running: RunningPort, trick: str, path: str
) -> None:
    target = trick.replace("{path}", path)
    request = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    answer = running.send(request, whole=True)
    assert SECRET.encode() not in answer
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 403", b"HTTP/1.0 400"))
    if answer.startswith(b"HTTP/1.1 200"):
        assert HEALTHY.encode() in answer
        assert re.match(r"/healthz[?#]|/healthz$", target)


@settings(max_examples=examples(25))
@given(st.binary(max_size=300), st.booleans())
def test_rubbish_does_no_harm(running: RunningPort, data: bytes, secure: bool) -> None:
    assert SECRET.encode() not in running.send(data, secure)
    assert running.is_well()


def test_a_handshake_that_breaks_off_anywhere_does_no_harm(running: RunningPort) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting_all().wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    for length in range(1, len(hello), 97):
        with running.connect() as sock:
            sock.sendall(hello[:length])
    with running.connect() as sock:
        sock.sendall(hello)
        sock.recv(10)
        sock.sendall(b"\x17\x03\x03\x00\x10" + b"z" * 16)
    assert running.is_well()
