"""Servers that the client trusts, each next to one that differs in a single detail and is not trusted."""

import asyncio
import random
import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from client.http.nastyserver import OK, NastyServer, answer
from stowplan.api.catalogue import NODES
from stowplan.api.status import ApiError
from stowplan.client.http import Address, HttpClient, Identity, Secret, Server, Trust
from stowplan.runtime.clock import RealClock

TOKEN = Identity(token="the-token")
HERE: list[x509.GeneralName] = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
DAY = timedelta(days=1)


class Authority(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def issued(
    name: str,
    names: list[x509.GeneralName],
    by: Authority | None = None,
    *,
    since: timedelta = -DAY,
    until: timedelta = DAY,
    ca: bool = False,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + since)
        .not_valid_after(now + until)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if not ca:
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return Authority(made.sign(key if by is None else by.key, hashes.SHA256()), key)


@cache
def authority(name: str) -> Authority:
    return issued(name, [], ca=True)


@cache
def server_certificate(case: str) -> Authority:
    ours = authority("ours")
    match case:
        case "of another authority":
            return issued("s", HERE, authority("theirs"))
        case "of nobody":
            return issued("s", HERE)
        case "that has expired":
            return issued("s", HERE, ours, since=-2 * DAY, until=-DAY)
        case "that does not hold yet":
            return issued("s", HERE, ours, since=DAY, until=2 * DAY)
        case "of another host":
            return issued("s", [x509.DNSName("elsewhere.example")], ours)
        case "of another address":
            return issued("s", [x509.IPAddress(ip_address("127.0.0.2"))], ours)
        case "with the host in its common name alone":
            return issued("127.0.0.1", [], ours)
        case "of a client":
            return issued("s", HERE, ours, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        case "signed by a certificate that may not sign":
            return issued("s", HERE, issued("middle", HERE, ours))
    return issued("s", HERE, ours)


def context(tmp_path: Path, certificate: Authority) -> ssl.SSLContext:
    path = tmp_path / "server.pem"
    key = certificate.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.pem + key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(path)
    return made


def got(server: NastyServer, trust: Trust, host: str = "127.0.0.1") -> Any:
    async def get() -> Any:
        address = Address.parse(server.url.replace("127.0.0.1", host))
        options: dict[str, Any] = {"clock": RealClock(), "rng": random.Random(1), "qps": -1, "environ": {}}
        async with HttpClient(Server(address, trust, identity=TOKEN), **options) as client:
            return await client.get_path("/version")

    return get()


def check(tls: ssl.SSLContext, trust: Trust, problem: str, host: str = "127.0.0.1") -> None:
    """Send a request to a server; if it is not trusted, it must not have seen any of the request."""

    async def run() -> None:
        async with NastyServer(OK, tls=tls) as server:
            if not problem:
                assert await got(server, trust, host) == {}
                assert b"Bearer the-token" in server.requests[0]
                return
            with pytest.raises(ApiError) as failure:
                await got(server, trust, host)
            assert problem in failure.value.message
            assert "\n" not in failure.value.message
            assert not server.requests

    asyncio.run(run())


OURS = Trust(Secret(authority("ours").pem))


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("as it should be", ""),
        ("of another authority", "tls: failed to verify certificate: unable to get local issuer certificate"),
        ("of nobody", "tls: failed to verify certificate: self-signed certificate"),
        ("that has expired", "tls: failed to verify certificate: certificate has expired"),
        ("that does not hold yet", "tls: failed to verify certificate: certificate is not yet valid"),
        ("of another host", "tls: failed to verify certificate: IP address mismatch"),
        ("of another address", "tls: failed to verify certificate: IP address mismatch"),
        ("with the host in its common name alone", "tls: failed to verify certificate: IP address mismatch"),
        ("of a client", "tls: failed to verify certificate: unsuitable certificate purpose"),
        ("signed by a certificate that may not sign", "tls: failed to verify certificate: "),
    ],
)
def test_a_certificate(tmp_path: Path, case: str, problem: str) -> None:
    check(context(tmp_path, server_certificate(case)), OURS, problem)
    if problem:
        check(context(tmp_path, server_certificate(case)), Trust(insecure=True), "")


@pytest.mark.parametrize(
    ("trust", "host", "problem"),
    [
        (OURS, "localhost", ""),
        (Trust(OURS.authority, server_name="localhost"), "127.0.0.1", ""),
        (Trust(OURS.authority, server_name="127.0.0.1"), "localhost", ""),
        (Trust(OURS.authority, server_name="elsewhere.example"), "127.0.0.1", "Hostname mismatch"),
        (Trust(OURS.authority, server_name="localhost.evil.example"), "localhost", "Hostname mismatch"),
        (Trust(OURS.authority, server_name="10.0.0.1"), "localhost", "IP address mismatch"),
        (Trust(), "127.0.0.1", "unable to get local issuer certificate"),
    ],
)
def test_the_name_that_a_certificate_must_have(tmp_path: Path, trust: Trust, host: str, problem: str) -> None:
    check(context(tmp_path, server_certificate("")), trust, problem, host)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize(
    ("most", "problem"),
    [(ssl.TLSVersion.TLSv1_3, ""), (ssl.TLSVersion.TLSv1_2, ""), (ssl.TLSVersion.TLSv1_1, "Get ")],
)
def test_versions_before_1_2_are_not_spoken(tmp_path: Path, most: ssl.TLSVersion, problem: str) -> None:
    tls = context(tmp_path, server_certificate(""))
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version, tls.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, most
    check(tls, OURS, problem)


@pytest.mark.parametrize(
    "code", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
@pytest.mark.parametrize("method", ["read", "write"])
def test_a_redirection_is_not_followed(code: str, method: str) -> None:
    async def run() -> None:
        async with (
            NastyServer(OK) as elsewhere,
            NastyServer(answer(code, b"", f"Location: {elsewhere.url}/")) as server,
        ):
            async with server.client(identity=TOKEN) as client:
                with pytest.raises(ApiError):
                    await (
                        client.get(NODES, "", "n")
                        if method == "read"
                        else client.create(NODES, {"metadata": {}})
                    )
            assert len(server.requests) == 1
            assert not elsewhere.requests
            assert elsewhere.connections == 0

    asyncio.run(run())
