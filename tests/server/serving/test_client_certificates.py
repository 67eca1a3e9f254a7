"""Certificates of clients and front proxies, and authorities that change while the port is open."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from server.serving.secureports import (
    AllowingApi,
    Authority,
    Caller,
    RecordedApi,
    authentication_settings_in,
    eventually,
    port,
)
from stowplan.api.status import ApiError
from stowplan.runtime.clock import RealClock
from stowplan.runtime.logs import Logger
from stowplan.server.serving import AuthenticationSettings, RequestHeaderSettings, SecureServer, ServingError
from stowplan.server.serving.clientcertificates import (
    UID_OID,
    CertPool,
    CredentialsError,
    user_from_certificate,
)

CLIENTS = Authority("client-ca")
PROXIES = Authority("front-proxy-ca")
STRANGERS = Authority("client-ca")
"""Has the name of the first, but not its key."""

HEADERS = {"username_headers": '["X-Remote-User"]', "group_headers": '["X-Remote-Group"]'}


def flags(folder: Path, **more: Any) -> AuthenticationSettings:
    """Authorities in files, as flags name them."""
    (folder / "clients.pem").write_text(CLIENTS.pem)
    (folder / "proxies.pem").write_text(PROXIES.pem)
    request_header = RequestHeaderSettings(client_ca_file=str(folder / "proxies.pem"), **more)
    return AuthenticationSettings(client_ca_file=str(folder / "clients.pem"), request_header=request_header)


def by_flags(folder: Path, **more: Any) -> tuple[SecureServer, AllowingApi]:
    api = AllowingApi()
    return port(folder, authorization_client=api, authentication=flags(folder, **more)), api


def subject(api: RecordedApi) -> dict[str, Any]:
    spec = dict(api.reviews[-1]["spec"])
    del spec["nonResourceAttributes"]
    return spec


def test_a_certificate_names_its_owner_and_groups_to_the_api_server(tmp_path: Path) -> None:
    async def run() -> None:
        server, api = by_flags(tmp_path)
        issued = CLIENTS.issue("ann", "crew", "night shift", attributes={UID_OID: "u-1"})
        async with server:
            answer = await Caller(server.port, context=issued.context(tmp_path)).get("/metrics")
        spec = subject(api)
        (identifier,) = spec.pop("extra")["authentication.kubernetes.io/credential-id"]
        assert (answer.code, identifier.partition("=")[0]) == (200, "X509SHA256")
        groups = ["crew", "night shift", "system:authenticated"]
        assert spec == {"user": "ann", "groups": groups, "uid": "u-1"}

    asyncio.run(run())


def test_administrators_need_nobody_to_ask(tmp_path: Path) -> None:
    async def run() -> None:
        issued = CLIENTS.issue("admin", "system:masters")
        async with port(tmp_path, authentication=flags(tmp_path)) as server:
            caller = Caller(server.port, context=issued.context(tmp_path))
            assert (await caller.get("/metrics")).code == 200
            assert (await Caller(server.port).get("/metrics")).code == 403

    asyncio.run(run())


@pytest.mark.parametrize(
    "issued",
    [
        STRANGERS.issue("admin", "system:masters"),
        CLIENTS.issue("admin", "system:masters", days=-1),
        CLIENTS.issue("admin", "system:masters", use=ExtendedKeyUsageOID.SERVER_AUTH),
    ],
    ids=["of another authority", "expired", "for servers"],
)
def test_a_certificate_that_proves_nothing_gets_no_answer_at_all(tmp_path: Path, issued: Any) -> None:
    async def run() -> None:
        async with port(tmp_path, authentication=flags(tmp_path)) as server:
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await Caller(server.port, context=issued.context(tmp_path)).get("/healthz")
            assert (await Caller(server.port).get("/healthz")).code == 200

    asyncio.run(run())


def test_a_certificate_behind_an_intermediate_authority_counts(tmp_path: Path) -> None:
    async def run() -> None:
        issued = Authority("branch", above=CLIENTS).issue("admin", "system:masters")
        async with port(tmp_path, authentication=flags(tmp_path)) as server:
            caller = Caller(server.port, context=issued.context(tmp_path))
            assert (await caller.get("/metrics")).code == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("shown", "names", "headers", "code", "user"),
    [
        ("proxy", (), {"X-Remote-User": "ann", "X-Remote-Group": "crew"}, 200, "ann"),
        ("proxy", ("proxy",), {"X-Remote-User": "ann", "X-Remote-Group": "system:masters"}, 200, None),
        ("proxy", ("another",), {"X-Remote-User": "ann"}, 401, None),
        ("proxy", (), {}, 401, None),
        ("client", (), {"X-Remote-User": "ann", "X-Remote-Group": "system:masters"}, 200, "mallory"),
        (
            "nothing",
            (),
            {"X-Remote-User": "ann", "X-Remote-Group": "system:masters"},
            200,
            "system:anonymous",
        ),
    ],
)
def test_only_a_front_proxy_speaks_for_others(
    tmp_path: Path, shown: str, names: tuple[str, ...], headers: dict[str, str], code: int, user: str | None
) -> None:
    async def run() -> None:
        issued = {"proxy": PROXIES.issue("proxy"), "client": CLIENTS.issue("mallory")}.get(shown)
        server, api = by_flags(tmp_path, allowed_names=names)
        async with server:
            caller = Caller(server.port, headers=headers)
            if issued is not None:
                caller.context = issued.context(tmp_path)
            assert (await caller.get("/metrics")).code == code
        assert [review["spec"]["user"] for review in api.reviews] == ([] if user is None else [user])

    asyncio.run(run())


def test_what_else_a_front_proxy_says_is_passed_on(tmp_path: Path) -> None:
    async def run() -> None:
        server, api = by_flags(tmp_path, uid_headers=("x-remote-uid",))
        headers = {
            "X-Remote-User": "ann",
            "X-Remote-Uid": "7",
            "X-Remote-Group": "crew",
            "X-Remote-Extra-Acme.com%2fProject": "one",
        }
        context = PROXIES.issue("proxy").context(tmp_path)
        async with server:
            await Caller(server.port, context=context, headers=headers).get("/metrics")
        assert subject(api) == {
            "user": "ann",
            "uid": "7",
            "groups": ["crew", "system:authenticated"],
            "extra": {"acme.com/project": ["one"]},
        }

    asyncio.run(run())


def test_authorities_are_found_in_the_cluster_and_followed(tmp_path: Path) -> None:
    async def run() -> None:
        api = AllowingApi()
        old, new = CLIENTS.issue("ann", "system:masters"), STRANGERS.issue("ann", "system:masters")
        authentication_settings_in(api.store, CLIENTS.pem, PROXIES.pem, **HEADERS)
        async with port(tmp_path, authentication_client=api) as server:
            before, after = (Caller(server.port, context=one.context(tmp_path)) for one in (old, new))
            reader, writer = await before.connect()
            assert (await before.ask(reader, writer, "/metrics")).code == 200
            authentication_settings_in(api.store, STRANGERS.pem, PROXIES.pem, **HEADERS)
            await eventually(lambda: is_let_in(after))
            assert (await before.ask(reader, writer, "/healthz")).code == 401
            writer.close()
            assert not await is_let_in(before)
            proxied = Caller(server.port, context=PROXIES.issue("p").context(tmp_path))
            proxied.headers = {"X-Remote-User": "ann", "X-Remote-Group": "system:masters"}
            assert (await proxied.get("/metrics")).code == 200

    asyncio.run(run())


async def is_let_in(caller: Caller) -> bool:
    try:
        return (await caller.get("/metrics")).code == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


def test_authorities_that_appear_later_are_used_from_then_on(tmp_path: Path) -> None:
    async def run() -> None:
        api = AllowingApi()
        caller = Caller(0, context=CLIENTS.issue("ann", "system:masters").context(tmp_path))
        async with port(tmp_path, authentication_client=api) as server:
            caller.port = server.port
            assert (await caller.get("/healthz")).code == 200
            assert (await caller.get("/metrics")).code == 403
            authentication_settings_in(api.store, CLIENTS.pem)
            await eventually(lambda: is_let_in(caller))

    asyncio.run(run())


def test_settings_in_the_cluster_that_cannot_be_used_change_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        problems: list[str] = []
        logger = Logger(lambda level, message, values: problems.append(str(values.get("err"))))

        async def is_told(text: str) -> bool:
            return text in "".join(problems)

        api = AllowingApi()
        caller = Caller(0, context=CLIENTS.issue("ann", "system:masters").context(tmp_path))
        authentication_settings_in(api.store, CLIENTS.pem)
        async with port(tmp_path, authentication_client=api, logger=logger) as server:
            caller.port = server.port
            authentication_settings_in(api.store, "no certificate")
            await eventually(lambda: is_told("client-ca-file: expected PEM certificates"))
            authentication_settings_in(api.store, CLIENTS.pem, PROXIES.pem, username_headers="{}")
            await eventually(lambda: is_told("requestheader-username-headers: expected a JSON list"))
            assert await is_let_in(caller)

    asyncio.run(run())


def test_files_of_authorities_are_read_again_when_they_change(tmp_path: Path) -> None:
    async def run() -> None:
        settings = flags(tmp_path)
        issued = STRANGERS.issue("ann", "system:masters")
        async with port(tmp_path, authentication=settings, reload_every=0.05) as server:
            caller = Caller(server.port, context=issued.context(tmp_path))
            assert not await is_let_in(caller)
            (tmp_path / "clients.pem").write_text("rubbish")
            await asyncio.sleep(0.1)
            (tmp_path / "clients.pem").write_text(CLIENTS.pem + STRANGERS.pem)
            await eventually(lambda: is_let_in(caller))

    asyncio.run(run())


class Refusing(AllowingApi):
    """An API server that does not show its settings."""

    async def get(self, *place: Any) -> Any:
        raise ApiError(403, "Forbidden", "configmaps is forbidden")


@pytest.mark.parametrize("tolerant", [True, False])
def test_a_failed_look_up_stops_the_start_only_if_told_so(tmp_path: Path, tolerant: bool) -> None:
    async def run() -> None:
        settings = AuthenticationSettings(tolerate_lookup_failure=tolerant)
        async with port(tmp_path, authentication_client=Refusing(), authentication=settings) as server:
            assert (await Caller(server.port).get("/healthz")).code == 200

    if tolerant:
        asyncio.run(run())
    else:
        expected = "^unable to load configmap based request-header-client-ca-file: configmaps is forbidden$"
        with pytest.raises(ServingError, match=expected):
            asyncio.run(run())


def test_a_look_up_that_is_skipped_asks_for_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        settings = AuthenticationSettings(skip_lookup=True, tolerate_lookup_failure=False)
        async with port(tmp_path, authentication_client=Refusing(), authentication=settings) as server:
            assert (await Caller(server.port).get("/healthz")).code == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("chain", "holds"),
    [
        (CLIENTS.issue("a").chain, True),
        (STRANGERS.issue("a").chain, False),
        (Authority("b", above=CLIENTS).issue("a").chain, True),
        (Authority("b", above=CLIENTS).issue("a").chain[:1], False),
        (Authority("b", above=STRANGERS).issue("a").chain, False),
        (Authority("c", above=Authority("b", above=CLIENTS)).issue("a").chain, False),
        ((*Authority("c", above=PROXIES).issue("a").chain, CLIENTS.certificate), False),
        ((CLIENTS.certificate,), True),
    ],
    ids=[
        "signed",
        "signed by somebody of the same name",
        "with what stands between",
        "without what stands between",
        "what stands between is signed by somebody else",
        "a gap",
        "a trusted certificate sent along",
        "trusted itself",
    ],
)
def test_a_way_has_to_lead_to_a_trusted_certificate(chain: tuple[x509.Certificate, ...], holds: bool) -> None:
    authorities = CertPool([CLIENTS.certificate])
    if holds:
        authorities.verify(chain, RealClock().now())
    else:
        with pytest.raises(CredentialsError, match="no authority vouches for it"):
            authorities.verify(chain, RealClock().now())


def test_somebody_who_is_no_authority_cannot_vouch() -> None:
    ann = CLIENTS.issue("ann")
    pretender = Authority("ann")
    pretender.key, pretender.name = ann.key, ann.certificate.subject
    forged = (*pretender.issue("admin", "system:masters").chain, ann.certificate)
    with pytest.raises(CredentialsError):
        CertPool([CLIENTS.certificate]).verify(forged, RealClock().now())


def test_an_authority_that_may_only_issue_to_clients_cannot_make_further_ones() -> None:
    branch = Authority("branch", above=CLIENTS, path_length=0)
    twig = Authority("twig", above=branch)
    chain = (*twig.issue("a").chain, branch.certificate)
    with pytest.raises(CredentialsError):
        CertPool([CLIENTS.certificate]).verify(chain, RealClock().now())
    branch = Authority("branch", above=CLIENTS, path_length=1)
    chain = (*Authority("twig", above=branch).issue("a").chain, branch.certificate)
    CertPool([CLIENTS.certificate]).verify(chain, RealClock().now())


def test_a_certificate_without_a_name_names_nobody() -> None:
    assert user_from_certificate(CLIENTS.issue("", "system:masters").certificate) is None
