"""`stowplan view --share`: the page for others, over TLS, read-only, behind a link that ends."""

import asyncio
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from signal import SIGINT

import pytest
from aiohttp import ClientPayloadError, ClientSession, CookieJar, TCPConnector
from click.testing import CliRunner
from msgspec import to_builtins

from localcluster.up.clusters import up
from stowplan.api.catalogue import NODES, PODS
from stowplan.cli.main import stowplan
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import PageServer
from stowplan.explain.web.sharing import SharedPage, Sharing
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Scheduler, Settings
from stowplan.server.serving.certificates import self_signed
from stowplan.testing import node, pod
from waiting import PATIENCE


class _Clock(RealClock):
    """The machine's clock, set forward."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@asynccontextmanager
async def shared() -> AsyncIterator[tuple[SharedPage, _Clock, str]]:
    """A shared page of a cluster with a node and a pending pod, and its address without the token."""
    clock = _Clock()
    store = Store(clock, Random(1))
    store.create(NODES, to_builtins(node("n0").capacity(cpu=4).obj()))
    store.create(PODS, to_builtins(pod("waits").namespace("team").requests(cpu=8).obj()))
    scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
    routes = Routes(Inspection(lambda: scheduler, cluster="a test", release="1.37"), dict)
    tls = self_signed("test", ["127.0.0.1"], clock.now()).context()
    shared_page = SharedPage(routes, Sharing("127.0.0.1", 0, "127.0.0.1", tls, 600), clock)
    async with scheduler.running(), shared_page as page:
        yield page, clock, f"https://127.0.0.1:{page.port}"


def browser() -> ClientSession:
    """A client with cookies that trusts any certificate."""
    return ClientSession(connector=TCPConnector(ssl=False), cookie_jar=CookieJar(unsafe=True))


def test_the_link_opens_the_page_in_several_browsers_until_it_ends() -> None:
    async def story() -> None:
        async with shared() as (page, clock, base), browser() as first, browser() as second:
            assert page.url is not None
            for client in (first, second):
                async with client.get(page.url) as answer:
                    assert (answer.status, answer.url.query_string) == (200, "")
                    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
                async with client.get(f"{base}/stowplan/v1/pods/team/waits") as answer:
                    assert (await answer.json())["state"] == "pending"
            [cookie] = first.cookie_jar
            assert cookie["secure"]
            assert cookie["httponly"]
            async with first.get(f"{base}/stowplan/v1/link") as answer:
                assert (await answer.json())["link"] == page.url
            clock.ahead = 601
            assert page.url is None
            async with first.get(f"{base}/stowplan/v1/pods/team/waits") as answer:
                assert answer.status == 401
            async with browser() as late, late.get(f"{base}/stowplan/?token={page._token}") as answer:
                assert answer.status == 401

    asyncio.run(story())


def test_nothing_is_told_without_the_link_and_nothing_can_be_written() -> None:
    async def story() -> None:
        async with shared() as (page, _, base), browser() as stranger, browser() as guest:
            for path in ("/", "/stowplan/", "/stowplan/v1/pods", "/stowplan/v1/link", "/stowplan/?token=x"):
                async with stranger.get(base + path) as answer:
                    assert answer.status == 401, path
            assert page.url is not None
            async with guest.get(page.url) as answer:
                assert answer.status == 200
            async with guest.post(f"{base}/stowplan/v1/fit", json={}) as answer:
                assert answer.status == 405
            for path in ("pods/team/waits/object", "nodes/n0/object"):
                async with guest.get(f"{base}/stowplan/v1/{path}") as answer:
                    assert answer.status == 403
                    assert "YAML may contain passwords" in (await answer.json())["message"]

    asyncio.run(story())


def test_streams_end_with_the_link() -> None:
    async def story() -> None:
        async with shared() as (page, clock, base), browser() as guest:
            assert page.url is not None
            async with guest.get(page.url) as answer:
                assert answer.status == 200
            clock.ahead = 599.0
            async with guest.get(f"{base}/stowplan/v1/stream") as stream:
                assert (await stream.content.readline()).startswith(b"event: hello")
                with pytest.raises(ClientPayloadError):
                    await asyncio.wait_for(stream.read(), PATIENCE)

    asyncio.run(story())


def test_the_link_is_told_to_the_one_who_shares() -> None:
    async def story() -> None:
        async with shared() as (page, _, _):
            server = PageServer(page._routes, shared=lambda: page.url)
            async with server, browser() as owner, owner.get(server.url) as answer:
                assert answer.status == 200
                async with owner.get(f"http://127.0.0.1:{server.port}/stowplan/v1/link") as found:
                    assert await found.json() == {"link": page.url}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--share", "10.0.0.1:x"], "--share: expected ADDRESS or ADDRESS:PORT, got '10.0.0.1:x'"),
        (["--share", "10.0.0.1/x"], "--share: expected ADDRESS or ADDRESS:PORT, got '10.0.0.1/x'"),
        (["--share"], "--share: expected the ADDRESS of a network: the cluster is on this machine"),
        (["--share", "--share-for", "0s"], "--share-for: expected a duration such as 50s or 1m30s, got '0s'"),
        (
            ["--tls-cert-file", __file__],
            "--tls-cert-file and --tls-private-key-file: expected both or neither",
        ),
        (
            ["--share", "127.0.0.1", "--tls-cert-file", __file__, "--tls-private-key-file", __file__],
            "--tls-cert-file: expected a certificate and its key",
        ),
        (
            ["--tls-cert-file", __file__, "--tls-private-key-file", __file__],
            "--tls-cert-file: expected --share with it",
        ),
    ],
)
def test_bad_options_are_named(options: list[str], message: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: "
        "{cluster: c}}], current-context: c}"
    )
    result = CliRunner().invoke(stowplan, ["view", "--kubeconfig", str(config), *options])
    assert result.exit_code != 0
    assert message in result.output


def test_the_command_prints_a_link_for_others(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "1", "--no-page") as running:
        command = [sys.executable, "-m", "stowplan", "view", "--kubeconfig", str(running.kubeconfig)]
        process = subprocess.Popen(
            [*command, "--share", "127.0.0.1", "--share-for", "1h"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(5))
        [link] = re.findall(r"https://127\.0\.0\.1:\d+/stowplan/\?token=\S+", said)
        assert "For others, until 20" in said
        [digest] = re.findall(r"SHA-256 ((?:[0-9A-F]{2}:){31}[0-9A-F]{2})", said)
        host, port = link.split("/")[2].split(":")
        certificate = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))
        assert sha256(certificate).hexdigest().upper() == digest.replace(":", "")
        process.send_signal(SIGINT)
        assert process.wait(PATIENCE) == 0
