"""Secure ports on free addresses, callers of all kinds, and an API server that answers from a recording."""

import asyncio
import functools
import random
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from observed.files import recorded
from stowplan.api.catalogue import CONFIG_MAPS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from stowplan.server.serving import Pages, SecureServer, ServingSettings
from stowplan.server.serving.certificates import self_signed
from waiting import PATIENCE

NOW = 1_800_000_000.0
TOKENS = {
    "anonymous": "",
    "invalid-token": "wrong",
    "authenticated-without-rights": "nobody-token",
    "system:monitoring-group": "monitor-token",
    "system:masters": "bench-admin-token",
}
CODES: dict[str, dict[str, int]] = recorded("ports/codes")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.now()


@functools.cache
def _recorded_reviews() -> dict[str, Json]:
    return {repr(_sorted(one["request"])): one["status"] for one in recorded("wire/reviews")}


def _sorted(data: Any) -> Any:
    return sorted((key, _sorted(value)) for key, value in data.items()) if isinstance(data, Mapping) else data


class RecordedApi(InProcessClient):
    """Reads from a store; answers a review as the recording does and fails if there was no such review."""

    def __init__(self) -> None:
        self.store = Store(RealClock(), random.Random(1))
        super().__init__(self.store)
        self.reviews: list[Json] = []
        self.failures: list[Exception] = []
        self.may_answer = asyncio.Event()
        """Reviews are held until it is set."""
        self.may_answer.set()

    async def create(self, resource: Resource, body: Any, *, namespace: str = "") -> Json:
        if "reviews" not in resource.plural:
            return await super().create(resource, body, namespace=namespace)
        self.reviews.append(body)
        await self.may_answer.wait()
        if self.failures:
            raise self.failures.pop(0)
        return {**body, "status": self.answer(body)}

    def answer(self, body: Json) -> Json:
        return _recorded_reviews()[repr(_sorted(body))]

    def asked(self) -> Counter[str]:
        return Counter(str(body["kind"]) for body in self.reviews)


class AllowingApi(RecordedApi):
    """An API server that knows one token and decides about paths by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = True

    def answer(self, body: Json) -> Json:
        if body["kind"] == "SubjectAccessReview":
            return {"allowed": self.allowed}
        if body["spec"]["token"] == "good":
            return {"authenticated": True, "user": {"username": "ann", "groups": ["crew"]}}
        return {"user": {}}


def page(code: int = 200, text: str = "ok") -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=text)

    return answer


def recorded_pages() -> Pages:
    """A page for each path that was there for administrators."""
    seen = {path.partition("?")[0]: codes["system:masters"] for path, codes in CODES.items()}
    return {path: page(code) for path, code in seen.items() if code != 404 or "/pprof/" in path}


@functools.cache
def _server_pair() -> tuple[bytes, bytes]:
    pair = self_signed("test", ["localhost", "127.0.0.1"], RealClock().now())
    return pair.certificate, pair.key


def certificate_files(folder: Path, name: str = "server") -> dict[str, str]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    pair = _server_pair()
    certificate.write_bytes(pair[0])
    key.write_bytes(pair[1])
    return {"certificate_file": str(certificate), "key_file": str(key)}


def port(
    folder: Path, pages: Pages | None = None, *, serving: Mapping[str, Any] = {}, **more: Any
) -> SecureServer:
    """A secure port with one certificate for all tests, as making one takes its time."""
    files = {} if "certificate_folder" in serving else certificate_files(folder)
    settings = ServingSettings(**{"bind_address": "127.0.0.1", "any_free_port": True, **files, **serving})
    given = {"rng": random.Random(1), **more}
    return SecureServer(
        {"/healthz": page(), "/metrics": page()} if pages is None else pages, settings, **given
    )


def trusting_all() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass
class Answer:
    code: int
    headers: dict[str, str]
    body: str


@dataclass
class Caller:
    """Sends raw requests over TLS, each on a separate connection by default."""

    port: int
    token: str = ""
    context: ssl.SSLContext = field(default_factory=trusting_all)
    headers: Mapping[str, str] = field(default_factory=dict)

    async def get(self, path: str, method: str = "GET") -> Answer:
        reader, writer = await self.connect()
        try:
            return await self.ask(reader, writer, path, method)
        finally:
            writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)

    async def ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, method: str = "GET"
    ) -> Answer:
        headers = {"Host": "localhost", **self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *rest = head.rstrip().split("\r\n")
        got = dict(line.split(": ", 1) for line in rest)
        length = 0 if method == "HEAD" else int(got.get("Content-Length", "0"))
        return Answer(int(first.split()[1]), got, (await reader.readexactly(length)).decode())


class Authority:
    """Somebody who issues certificates to clients."""

    def __init__(self, name: str, above: "Authority | None" = None, path_length: int | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.above = above
        issuer = self if above is None else above
        self.certificate = (
            _begun(self.name, issuer.name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(_signed_with(issuer.key), critical=False)
            .sign(issuer.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self,
        name: str,
        *groups: str,
        days: float = 1,
        use: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        attributes: Mapping[x509.ObjectIdentifier, str] = {},
    ) -> "Issued":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject += [x509.NameAttribute(oid, value) for oid, value in attributes.items()]
        certificate = (
            _begun(x509.Name(subject), self.name, key, days)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(_signed_with(self.key), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Issued(certificate, key, () if self.above is None else (self.certificate,))


@dataclass
class Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    behind: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.behind)

    def context(self, folder: Path) -> ssl.SSLContext:
        """TLS context of a client with this certificate."""
        path = folder / f"{self.certificate.serial_number}.pem"
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = [one.public_bytes(serialization.Encoding.PEM) for one in self.chain]
        path.write_bytes(b"".join([key, *chain]))
        context = trusting_all()
        context.load_cert_chain(path)
        return context


def _signed_with(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float = 1
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(RealClock().now(), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
    )


def authentication_settings_in(store: Store, clients: str = "", proxies: str = "", **headers: str) -> None:
    """Put the ConfigMap into the cluster that says whom to trust, or replace it."""
    data = {"client-ca-file": clients, "requestheader-client-ca-file": proxies}
    data |= {f"requestheader-{key.replace('_', '-')}": value for key, value in headers.items()}
    metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    body = {"metadata": metadata, "data": {key: value for key, value in data.items() if value}}
    if store.list(CONFIG_MAPS, "kube-system").items:
        store.update(CONFIG_MAPS, body)
    else:
        store.create(CONFIG_MAPS, body, "kube-system")


async def eventually(true: Callable[[], Awaitable[object]]) -> None:
    """Wait until something holds that has to be asked for."""
    async with asyncio.timeout(PATIENCE):
        while not await true():
            await asyncio.sleep(0.02)
