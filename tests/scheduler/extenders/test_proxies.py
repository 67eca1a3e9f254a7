"""Which proxy the environment asks for."""

import asyncio
from typing import Any

import pytest
from yarl import URL

from scheduler.extenders.servers import config, run
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.transport import proxy_of
from stowplan.testing import node, pod

BOTH = {"HTTP_PROXY": "http://plain:1", "HTTPS_PROXY": "http://secure:2"}


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("http://ext", {}, None),
        ("http://ext", BOTH, "http://plain:1"),
        ("https://ext", BOTH, "http://secure:2"),
        ("https://ext", {"HTTP_PROXY": "http://plain:1"}, None),
        ("http://ext", {"http_proxy": "small:1"}, "http://small:1"),
        ("http://ext", {"http_proxy": "small:1", "HTTP_PROXY": "large:1"}, "http://large:1"),
        ("http://localhost:80", BOTH, None),
        ("http://127.3.4.5", BOTH, None),
        ("http://[::1]:8888", BOTH, None),
    ],
)
def test_the_proxy_depends_on_the_scheme_and_is_not_for_this_machine(
    url: str, environ: dict[str, str], expected: str | None
) -> None:
    assert proxy_of(URL(url), environ) == expected


@pytest.mark.parametrize(
    ("rule", "url", "excluded"),
    [
        ("*", "http://anything", True),
        ("", "http://anything", False),
        ("example.com", "http://example.com", True),
        ("example.com", "http://ext.EXAMPLE.com", True),
        ("example.com", "http://notexample.com", False),
        (".example.com", "http://ext.example.com", True),
        (".example.com", "http://example.com", False),
        ("*.example.com", "http://ext.example.com", True),
        ("a, b ,c", "http://b", True),
        ("ext:8888", "http://ext:8888", True),
        ("ext:8888", "http://ext:8889", False),
        ("ext:80", "http://ext", True),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/x", "http://10.1.2.3", False),
        ("10.1.2.3", "http://10.1.2.3:8888", True),
        ("10.1.2.3:80", "http://10.1.2.3:8888", False),
        ("[2001:db8::1]:80", "http://[2001:db8::1]:80", True),
        ("2001:db8::/32", "http://[2001:db8::1]:80", True),
    ],
)
def test_exceptions_from_the_proxy(rule: str, url: str, excluded: bool) -> None:
    environ = {"HTTP_PROXY": "http://proxy:1", "NO_PROXY": rule}
    assert (proxy_of(URL(url), environ) is None) is excluded


def test_a_request_goes_through_the_proxy() -> None:
    lines: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append((await reader.readline()).decode().strip())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        await writer.drain()
        writer.close()

    async def main() -> None:
        proxy = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        ext = HttpExtender(config("http://ext.example"), environ={"http_proxy": f"127.0.0.1:{port}"})
        assert await ext.prioritize(pod("p").obj(), [node("a").obj()]) == {}
        await ext.close()
        proxy.close()

    run(main())
    assert lines == ["POST http://ext.example/prioritize HTTP/1.1"]


def test_a_proxy_of_a_kind_we_cannot_use_is_named() -> None:
    async def main(settings: Any) -> None:
        ext = HttpExtender(settings, environ={"http_proxy": "socks5://p:1"})
        with pytest.raises(ExtenderError, match="proxy socks5://p:1: expected an http or https address"):
            await ext.prioritize(pod("p").obj(), [])

    run(main(config("http://ext.example")))
