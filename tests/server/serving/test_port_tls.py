"""The port's own side of TLS: certificates, versions, names, and those who do not speak it."""

import asyncio
import os
import socket
import ssl
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from server.serving.secureports import Caller, certificate_files, eventually, port, trusting_all
from stowplan.runtime.clock import RealClock
from stowplan.runtime.logs import Logger
from stowplan.server.serving import ServingError, ServingSettings, SniCertificate
from stowplan.server.serving.certificates import Certificate, Certificates, self_signed, signed_by_new_ca
from stowplan.server.serving.server import listen
from stowplan.server.serving.tls import TLSContexts

RECORDED_PLAIN = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


async def shown_by(number: int, name: str = "", **options: Any) -> tuple[x509.Certificate, ssl.SSLObject]:
    context = trusting_all()
    context.set_alpn_protocols(["h2", "http/1.1"])
    for option, value in options.items():
        setattr(context, option, value)
    _, writer = await asyncio.open_connection("127.0.0.1", number, ssl=context, server_hostname=name)
    connection = writer.get_extra_info("ssl_object")
    der = connection.getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der), connection


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def write_pair(folder: Path, name: str, *hosts: str) -> dict[str, str]:
    files = {"certificate_file": str(folder / f"{name}.crt"), "key_file": str(folder / f"{name}.key")}
    pair = self_signed(name, hosts, RealClock().now())
    Path(files["certificate_file"]).write_bytes(pair.certificate)
    Path(files["key_file"]).write_bytes(pair.key)
    return files


def test_a_certificate_made_up_at_the_start_looks_like_the_recorded_one(tmp_path: Path) -> None:
    async def run() -> None:
        serving = {"certificate_file": "", "key_file": ""}
        async with port(tmp_path, serving=serving) as server:
            certificate, connection = await shown_by(server.port)
            assert connection.selected_alpn_protocol() == "http/1.1"
            assert connection.version() == "TLSv1.3"
        host, _, moment = common_name(certificate).partition("@")
        assert host == "localhost"
        assert certificate.issuer.rfc4514_string() == f"CN=localhost-ca@{moment}"
        extensions = certificate.extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert list(names) == [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        assert extensions.get_extension_for_class(x509.KeyUsage).value.key_encipherment
        assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 365
        assert certificate.public_key().key_size == 2048  # type: ignore[union-attr]

    asyncio.run(run())


def test_who_trusts_the_made_up_authority_can_verify_the_certificate(tmp_path: Path) -> None:
    pair = signed_by_new_ca("localhost", ["localhost", "127.0.0.1"], RealClock().now())
    (tmp_path / "a.crt").write_bytes(pair.certificate)
    (tmp_path / "a.key").write_bytes(pair.key)

    async def run() -> None:
        files = {"certificate_file": str(tmp_path / "a.crt"), "key_file": str(tmp_path / "a.key")}
        async with port(tmp_path, serving=files) as server:
            authority = pair.certificate[pair.certificate.index(b"-----BEGIN", 10) :]
            context = ssl.create_default_context(cadata=authority.decode())
            assert (await Caller(server.port, context=context).get("/healthz")).code == 200

    asyncio.run(run())


def test_a_certificate_folder_is_filled_once_and_used_again(tmp_path: Path) -> None:
    async def run() -> None:
        serving = {"certificate_folder": str(tmp_path / "certs")}
        async with port(tmp_path, serving=serving) as server:
            first, _ = await shown_by(server.port)
        async with port(tmp_path, serving=serving) as server:
            second, _ = await shown_by(server.port)
        assert first == second
        key = tmp_path / "certs" / "kube-scheduler.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        key.unlink()
        with pytest.raises(ServingError, match=r"^--cert-dir: .*kube-scheduler\.key is missing"):
            async with port(tmp_path, serving=serving):
                pass

    asyncio.run(run())


def test_a_renewed_certificate_is_shown_and_a_broken_one_is_not(tmp_path: Path) -> None:
    async def run() -> None:
        files = write_pair(tmp_path, "old", "localhost")
        async with port(tmp_path, serving=files, reload_every=0.05) as server:
            assert common_name((await shown_by(server.port))[0]) == "old"
            Path(files["certificate_file"]).write_text("rubbish")
            await asyncio.sleep(0.15)
            assert common_name((await shown_by(server.port))[0]) == "old"
            renewed = write_pair(tmp_path, "new", "localhost")
            for kind in ("key_file", "certificate_file"):
                os.replace(renewed[kind], files[kind])
                await asyncio.sleep(0.08)

            async def is_renewed() -> bool:
                return common_name((await shown_by(server.port))[0]) == "new"

            await eventually(is_renewed)

    asyncio.run(run())


def test_a_server_name_chooses_a_certificate(tmp_path: Path) -> None:
    own = write_pair(tmp_path, "own", "a.example", "*.own.example")
    explicit = write_pair(tmp_path, "explicit", "b.example")
    sni = (
        SniCertificate(own["certificate_file"], own["key_file"]),
        SniCertificate(
            explicit["certificate_file"], explicit["key_file"], ("*.example", "a.example", "127.0.0.1")
        ),
    )
    expected = {
        "a.example": "explicit",
        "A.EXAMPLE": "explicit",
        "x.own.example": "own",
        "y.example": "explicit",
        "x.y.example": "default",
        "elsewhere": "default",
        "": "explicit",
    }

    async def run() -> None:
        serving = {**write_pair(tmp_path, "default"), "sni_certificates": sni}
        async with port(tmp_path, serving=serving) as server:
            got = {name: common_name((await shown_by(server.port, name))[0]) for name in expected}
        assert got == expected

    asyncio.run(run())


def test_only_the_asked_for_suites_and_versions_are_spoken(tmp_path: Path) -> None:
    async def run() -> None:
        suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
        async with port(tmp_path, serving={"cipher_suites": suites}) as server:
            twelve: dict[str, Any] = {"maximum_version": ssl.TLSVersion.TLSv1_2}
            _, connection = await shown_by(server.port, **twelve)
            assert connection.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
        for serving in ({"min_version": "VersionTLS13"}, {"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}):
            async with port(tmp_path, serving=serving) as server:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await shown_by(server.port, **twelve)
                assert (await shown_by(server.port))[1].version() == "TLSv1.3"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"cipher_suites": ("TLS_MADE_UP",)}, "Cipher suite TLS_MADE_UP not supported or doesn't exist"),
        (
            {"cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)},
            "--tls-cipher-suites: OpenSSL offers none of these",
        ),
        ({"min_version": "VersionTLS14"}, 'unknown tls version "VersionTLS14"'),
        ({"curve_preferences": (7,)}, "unsupported curve 7"),
        ({"certificate_file": ""}, "--tls-cert-file: expected a file, for the other of the two is given"),
        ({"key_file": "/nowhere"}, "--tls-cert-file: cannot read /nowhere: No such file or directory"),
        ({"key_file": "certificate"}, "--tls-cert-file: .* are no usable pair: "),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    files = certificate_files(tmp_path)
    if settings.get("key_file") == "certificate":
        settings = {"key_file": files["certificate_file"]}

    async def run() -> None:
        async with port(tmp_path, serving={**files, **settings}):
            pass

    with pytest.raises(ServingError, match=f"^{problem}"):
        asyncio.run(run())


def test_a_single_curve_is_enforced(tmp_path: Path) -> None:
    async def run() -> None:
        async with port(tmp_path, serving={"curve_preferences": (25,)}) as server:
            context = trusting_all()
            context.set_ecdh_curve("prime256v1")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await Caller(server.port, context=context).get("/healthz")
            context.set_ecdh_curve("secp521r1")
            assert (await Caller(server.port, context=context).get("/healthz")).code == 200

    asyncio.run(run())


def test_plain_http_is_told_to_speak_tls(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with port(tmp_path) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            got = await reader.read()
            writer.close()
            return got

    assert asyncio.run(run()) == RECORDED_PLAIN


def test_an_address_in_use_is_told_in_kube_schedulers_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = ServingSettings("127.0.0.1", taken.getsockname()[1])
        expected = (
            f"failed to create listener: failed to listen on {where}: "
            f"listen tcp {where}: bind: address already in use"
        )
        with pytest.raises(ServingError) as raised:
            listen(settings)
        assert str(raised.value) == expected


def test_an_address_that_is_none_is_told_in_one_line() -> None:
    with pytest.raises(ServingError, match=r"^--bind-address: expected an IP address, got 'here'$"):
        listen(ServingSettings("here"))


@pytest.mark.parametrize("address", ["::1", "::"])
def test_addresses_may_be_those_of_ipv6(tmp_path: Path, address: str) -> None:
    async def run() -> None:
        lines: list[str] = []
        logger = Logger(lambda level, message, values: lines.append(message))
        async with port(tmp_path, serving={"bind_address": address}, logger=logger) as server:
            context = trusting_all()
            for host in ["::1", "127.0.0.1"][: 1 if address == "::1" else 2]:
                _, writer = await asyncio.open_connection(host, server.port, ssl=context)
                writer.close()
        assert f"Serving securely on [{address}]:{server.port}" in lines

    asyncio.run(run())


def test_a_port_may_be_shared_if_both_ask_for_it() -> None:
    with listen(ServingSettings("127.0.0.1", 0, any_free_port=True, permit_port_sharing=True)) as one:
        number = one.getsockname()[1]
        listen(ServingSettings("127.0.0.1", number, permit_port_sharing=True)).close()
        with pytest.raises(ServingError):
            listen(ServingSettings("127.0.0.1", number))


def test_port_zero_turns_the_port_off(tmp_path: Path) -> None:
    async def run() -> None:
        async with port(tmp_path, serving={"port": 0, "any_free_port": False}) as server:
            assert server.port == 0

    asyncio.run(run())


def test_contexts_ask_for_client_certificates_only_if_somebody_can_vouch_for_them(tmp_path: Path) -> None:
    pair: Certificate = self_signed("x", ["x"], RealClock().now())
    contexts = TLSContexts(ServingSettings(), Logger())
    contexts.replace(Certificates(pair), b"")
    assert contexts.for_address("").verify_mode == ssl.CERT_NONE
    contexts.replace(Certificates(pair), pair.certificate)
    assert contexts.for_address("").verify_mode == ssl.CERT_OPTIONAL
