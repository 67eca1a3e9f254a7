"""Credentials: certificates, tokens that change, commands that print them, and issuers that renew them."""

import asyncio
import base64
import contextlib
import os
import random
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from client.http.nastyserver import OK, NastyServer, answer, bit_by_bit, not_before
from stowplan.api.catalogue import NODES
from stowplan.api.meta import timestamp
from stowplan.api.status import ApiError
from stowplan.client.http import AccessError, Address, HttpClient, Identity, Secret, Server, Trust
from stowplan.client.http.settings import ExecPlugin, OpenIdConnect
from stowplan.localcluster.apiserver.server import self_signed
from stowplan.runtime.clock import RealClock

REFUSED = answer("401 Unauthorized", b'{"kind":"Status","code":401,"reason":"Unauthorized"}')
V1 = "client.authentication.k8s.io/v1"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.now()


def authorizations(server: NastyServer) -> list[str]:
    found = [request.partition(b"Authorization: ")[2].partition(b"\r\n")[0] for request in server.requests]
    return [one.decode() for one in found]


async def get(client: HttpClient) -> Any:
    return await client.get(NODES, "", "n1")


def plugin(folder: Path, body: str, **more: Any) -> ExecPlugin:
    script = folder / "login.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {folder}/runs\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin("./login.sh", folder=str(folder), **more)


def printing(token: str, **more: Any) -> str:
    data = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": token, **more}}
    return f"cat <<'END'\n{msgspec.json.encode(data).decode()}\nEND"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize(
    ("identity", "header"),
    [
        (Identity(token="abc"), "Bearer abc"),
        (Identity(username="ann", password="pw"), "Basic YW5uOnB3"),
        (Identity(), ""),
    ],
)
def test_what_does_not_change_is_sent_with_every_request(identity: Identity, header: str) -> None:
    async def run() -> None:
        async with NastyServer(OK) as server, server.client(identity=identity) as client:
            await get(client)
            await get(client)
        assert authorizations(server) == [header, header]

    asyncio.run(run())


def test_a_token_file_is_read_again_after_a_minute_and_after_a_refusal(tmp_path: Path) -> None:
    async def run() -> None:
        clock, file = Clock(), tmp_path / "token"
        file.write_text("one\n")
        options = {"identity": Identity(token_file=str(file)), "clock": clock}
        async with NastyServer(OK, OK, OK, REFUSED, OK) as server, server.client(**options) as client:
            await get(client)
            file.write_text("two")
            await get(client)
            clock.time += 61
            await get(client)
            file.write_text("three")
            await get(client)
            file.unlink()
            clock.time += 61
            await get(client)
        expected = ["one", "one", "two", "two", "three", "three"]
        assert authorizations(server) == [f"Bearer {token}" for token in expected]

    asyncio.run(run())


def test_a_command_runs_once_until_its_token_expires(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        expiry = timestamp(clock.time + 100)
        identity = Identity(plugin=plugin(tmp_path, printing("first", expirationTimestamp=expiry)))
        async with NastyServer(OK) as server, server.client(identity=identity, clock=clock) as client:
            await asyncio.gather(*(get(client) for _ in range(5)))
            clock.time += 99
            await get(client)
            assert runs(tmp_path) == 1
            plugin(tmp_path, printing("second"))
            clock.time += 2
            await get(client)
        assert runs(tmp_path) == 2
        assert authorizations(server) == [*["Bearer first"] * 6, "Bearer second"]

    asyncio.run(run())


def test_a_command_is_told_what_for_and_with_its_own_environment(tmp_path: Path) -> None:
    async def run() -> None:
        body = (
            f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n{printing("x")}\n: "$1" > {tmp_path}/$NAME-$1'
        )
        made = plugin(tmp_path, body, args=("arg",), env={"NAME": "env"}, cluster={"server": "https://h"})
        async with NastyServer(OK) as server, server.client(identity=Identity(plugin=made)) as client:
            await get(client)
        assert (tmp_path / "env-arg").exists()
        assert msgspec.json.decode((tmp_path / "info").read_bytes()) == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": {"server": "https://h"}},
        }

    asyncio.run(run())


def test_a_refused_token_of_a_command_is_renewed_once(tmp_path: Path) -> None:
    async def run() -> None:
        identity = Identity(plugin=plugin(tmp_path, printing("x")))
        async with NastyServer(REFUSED) as server, server.client(identity=identity) as client:
            with pytest.raises(ApiError) as failure:
                await get(client)
        assert failure.value.code == 401
        assert (runs(tmp_path), len(server.requests)) == (2, 2)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo no such user >&2; exit 3", "it failed with exit code 3: no such user"),
        ("echo hello", "expected an ExecCredential as JSON"),
        ("echo '{}'", f"expected an ExecCredential of {V1}, got kind ''"),
        (printing(""), "expected a token or a certificate"),
        (printing("x", expirationTimestamp="soon"), "status.expirationTimestamp: expected an RFC 3339 time"),
        (printing("x", clientCertificateData="y"), "expected both clientCertificateData and clientKeyData"),
    ],
)
def test_a_command_that_fails_is_told_in_one_line(tmp_path: Path, body: str, problem: str) -> None:
    async def run() -> None:
        identity = Identity(plugin=plugin(tmp_path, body))
        async with NastyServer(OK) as server, server.client(identity=identity) as client:
            with pytest.raises(ApiError) as failure:
                await get(client)
        assert "getting credentials: exec: ./login.sh: " + problem in failure.value.message
        assert failure.value.is_unreachable
        assert "\n" not in failure.value.message
        assert not server.requests

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param("yes", "it printed more than 1048576 bytes", id="without end"),
        pytest.param("yes >&2", "it printed more than 1048576 bytes", id="errors without end"),
        pytest.param("(yes &)\nsleep 100", "it printed more than 1048576 bytes", id="by a child"),
        pytest.param("cat", "expected an ExecCredential as JSON", id="what it reads"),
    ],
)
def test_a_command_is_ended_when_it_prints_more_than_credentials(
    tmp_path: Path, body: str, problem: str
) -> None:
    async def run() -> None:
        identity = Identity(plugin=plugin(tmp_path, f"echo $$ > {tmp_path}/pid\n{body}"))
        async with NastyServer(OK) as server, server.client(identity=identity) as client:
            with pytest.raises(ApiError, match=problem):
                await get(client)
        group = int((tmp_path / "pid").read_text())
        while is_alive(group):
            await asyncio.sleep(0.01)

    asyncio.run(run())


def is_alive(group: int) -> bool:
    """True if a group of processes has a running one; ended ones may wait to be collected."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] != "Z":
                    return True
    return False


@pytest.mark.parametrize(
    ("script", "body", "sent"),
    [
        pytest.param(OK, printing("old", expirationTimestamp="2001-01-01T00:00:00Z"), 20, id="expired"),
        pytest.param(REFUSED, printing("old"), 21, id="refused"),
        pytest.param(OK, "exit 1", 0, id="fails"),
    ],
)
def test_a_command_whose_result_is_of_no_use_runs_more_and_more_rarely(
    tmp_path: Path, script: bytes, body: str, sent: int
) -> None:
    async def run() -> None:
        clock = Clock()
        identity = Identity(plugin=plugin(tmp_path, body))
        async with NastyServer(script) as server, server.client(identity=identity, clock=clock) as client:
            for _ in range(20):
                await asyncio.gather(get(client), return_exceptions=True)
            at_once = runs(tmp_path)
            assert len(server.requests) == sent
            assert set(authorizations(server)) <= {"Bearer old"}
            for _ in range(600):
                clock.time += 1
                await asyncio.gather(get(client), return_exceptions=True)
            later = runs(tmp_path)
            plugin(tmp_path, printing("new"))
            clock.time += 60
            await asyncio.gather(get(client), return_exceptions=True)
            assert authorizations(server)[-1] == "Bearer new"
        assert at_once <= 2
        assert later <= 20

    asyncio.run(run())


@pytest.mark.parametrize("text", [b"[]", b"[" * 5000 + b"]" * 5000, b"{", b"5"])
def test_an_issuer_whose_answer_is_no_map_is_told_in_one_line(text: bytes) -> None:
    async def run() -> None:
        async with NastyServer(answer("200 OK", text)) as issuer, NastyServer(OK) as server:
            settings = OpenIdConnect(issuer=issuer.url, client_id="c", id_token="", refresh_token="r")
            async with server.client(identity=Identity(oidc=settings)) as client:
                with pytest.raises(ApiError) as failure:
                    await get(client)
        assert "getting credentials: oidc: " in failure.value.message
        assert not server.requests

    asyncio.run(run())


def test_a_command_that_is_missing_tells_how_to_install_it() -> None:
    async def run() -> None:
        identity = Identity(plugin=ExecPlugin("no-such-command-here", install_hint="get it\nthere"))
        async with NastyServer(OK) as server, server.client(identity=identity) as client:
            with pytest.raises(ApiError, match="no such file or directory; get it there"):
                await get(client)

    asyncio.run(run())


def id_token(expires: float) -> str:
    claims = base64.urlsafe_b64encode(msgspec.json.encode({"exp": expires})).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


def test_an_expired_id_token_is_renewed_by_its_issuer() -> None:
    async def run() -> None:
        clock = Clock()
        old, new = id_token(clock.time + 100), id_token(clock.time + 5000)
        async with NastyServer(OK) as server, NastyServer(b"", b"") as issuer:
            about = msgspec.json.encode({"token_endpoint": f"{issuer.url}/token"})
            issuer._scripts = [
                answer("200 OK", about),
                answer("200 OK", msgspec.json.encode({"id_token": new})),
            ]
            oidc = OpenIdConnect(old, "refresh me", f"{issuer.url}/", "client", "secret")
            async with server.client(identity=Identity(oidc=oidc), clock=clock) as client:
                await get(client)
                clock.time += 95
                await get(client)
                await get(client)
        assert authorizations(server) == [f"Bearer {old}", f"Bearer {new}", f"Bearer {new}"]
        assert issuer.requests[0].startswith(b"GET /.well-known/openid-configuration HTTP/1.1")
        assert issuer.requests[1].endswith(b"grant_type=refresh_token&refresh_token=refresh+me")
        assert len(issuer.requests) == 2

    asyncio.run(run())


def client_certificate(now: float, owner: str = "scheduler") -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner)])
    begin = datetime.fromtimestamp(now, UTC) - timedelta(hours=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(begin).not_valid_after(begin + timedelta(days=9))
    built = builder.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return built.public_bytes(pem), key.private_bytes(pem, form, plain)


def test_certificates_are_shown_from_data_from_files_and_from_commands(tmp_path: Path) -> None:
    async def run() -> None:
        now = RealClock().now()
        certificate, key = client_certificate(now)
        own = self_signed(["127.0.0.1"], now)
        tls = own.context()
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=certificate.decode())
        (tmp_path / "c.pem").write_bytes(certificate)
        (tmp_path / "k.pem").write_bytes(key)
        authority = Secret(own.certificate)
        by_file = Secret(file=str(tmp_path / "c.pem")), Secret(file=str(tmp_path / "k.pem"))
        printed = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        ways = [
            (Trust(authority, Secret(certificate), Secret(key)), Identity()),
            (Trust(authority, *by_file), Identity()),
            (Trust(authority), Identity(plugin=plugin(tmp_path, printing("", **printed)))),
        ]
        async with NastyServer(OK, tls=tls) as server:
            for trust, identity in ways:
                async with made(Server(Address.parse(server.url), trust, identity)) as client:
                    assert await get(client) == {}
            async with made(Server(Address.parse(server.url), Trust(authority))) as client:
                with pytest.raises(ApiError) as failure:
                    await get(client)
                assert failure.value.is_unreachable
        _, other = client_certificate(now)
        with pytest.raises(AccessError, match=r"^here: client-certificate: it does not match client-key$"):
            made(
                Server(
                    Address.parse(server.url),
                    Trust(certificate=Secret(certificate), key=Secret(other), where="here"),
                )
            )

    asyncio.run(run())


def test_a_replaced_certificate_is_noticed_by_its_size_alone(tmp_path: Path) -> None:
    """A copy that keeps times, over the same inode: only the size tells."""

    async def run() -> None:
        now = RealClock().now()
        good, bad = client_certificate(now), client_certificate(now, "a-much-longer-name")
        own = self_signed(["127.0.0.1"], now)
        tls = own.context()
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=good[0].decode())
        files = tmp_path / "c.pem", tmp_path / "k.pem"
        for file, text in zip(files, bad, strict=True):
            file.write_bytes(text)
        before = [file.stat() for file in files]
        certificate, key = (Secret(file=str(file)) for file in files)
        trust = Trust(Secret(own.certificate), certificate, key)
        async with (
            NastyServer(OK, tls=tls) as server,
            made(Server(Address.parse(server.url), trust)) as client,
        ):
            with pytest.raises(ApiError):
                await get(client)
            for file, text, old in zip(files, good, before, strict=True):
                file.write_bytes(text)
                os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
            assert files[0].stat().st_size != before[0].st_size
            assert await get(client) == {}

    asyncio.run(run())


def test_an_expired_certificate_is_renewed_and_shown_over_new_connections_only(tmp_path: Path) -> None:
    """Servers look at a certificate's end with every request, also over a connection it once opened."""

    async def run() -> None:
        now = RealClock().now()
        old, new = client_certificate(now, "old"), client_certificate(now, "new")
        own = self_signed(["127.0.0.1"], now)
        tls = own.context()
        tls.verify_mode = ssl.CERT_REQUIRED
        for certificate, _ in (old, new):
            tls.load_verify_locations(cadata=certificate.decode())
        for suffix, text in zip(("c.pem", "k.pem"), old, strict=True):
            (tmp_path / suffix).write_bytes(text)
        by_file = Secret(file=str(tmp_path / "c.pem")), Secret(file=str(tmp_path / "k.pem"))
        trust = Trust(Secret(own.certificate), *by_file)
        renewed = asyncio.Event()
        late = not_before(renewed.is_set, OK)
        together = not_before(lambda: len(server.requests) == 7, OK)
        async with (
            NastyServer(late, OK, REFUSED, OK, together, tls=tls) as server,
            made(Server(Address.parse(server.url), trust)) as client,
        ):
            busy = asyncio.create_task(get(client))
            while not server.requests:
                await asyncio.sleep(0.005)
            await get(client)
            assert server.connections == 2
            for suffix, text in zip(("c.pem", "k.pem"), new, strict=True):
                (tmp_path / suffix).write_bytes(text)
            assert await get(client) == {}
            assert server.connections == 3
            assert not busy.done()
            renewed.set()
            await busy
            await asyncio.gather(*(get(client) for _ in range(3)))
            assert server.connections == 5

    asyncio.run(run())


def test_a_token_that_others_have_renewed_meanwhile_is_not_renewed_again(tmp_path: Path) -> None:
    async def run() -> None:
        identity = Identity(plugin=plugin(tmp_path, printing("x")))
        late = bit_by_bit(REFUSED, 40, 0.05)
        async with NastyServer(late, OK) as server, server.client(identity=identity) as client:
            first = asyncio.create_task(get(client))
            while not server.requests:
                await asyncio.sleep(0.005)
            client._transport._credentials._value = "Bearer fresh"  # type: ignore[attr-defined]
            await first
        assert (authorizations(server), runs(tmp_path)) == (["Bearer x", "Bearer fresh"], 1)

    asyncio.run(run())


def made(server: Server) -> HttpClient:
    return HttpClient(server, clock=RealClock(), rng=random.Random(1), qps=-1, environ={})
