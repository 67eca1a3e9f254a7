"""TLS towards an extender, with certificates made for the test and real handshakes."""

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.extenders.servers import extender, run, serving
from stowplan.config.types import ExtenderTLS
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.testing import node, pod

POD = pod("p").obj()
NODES = [node("a").obj()]
UNTRUSTED = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> tuple[str, str]:
        files = folder / "tls.crt", folder / "tls.key"
        files[0].write_bytes(self.certificate)
        files[1].write_bytes(self.key)
        return str(files[0]), str(files[1])


class Authority:
    """Signs certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.pem = self._signed(self._name, self._key, ca=True).certificate

    def issue(self, name: str, *alternatives: x509.GeneralName) -> Pair:
        return self._signed(_name(name), ec.generate_private_key(ec.SECP256R1()), alternatives)

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        alternatives: tuple[x509.GeneralName, ...] = (),
        *,
        ca: bool = False,
    ) -> Pair:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return Pair(
            certificate,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


CA = Authority("ca")
OTHER_CA = Authority("other")
BY_ADDRESS = CA.issue("ext", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
BY_NAME = CA.issue("ext", x509.DNSName("ext.example"))
CLIENT = CA.issue("scheduler")


def server_context(pair: Pair, folder: Path, *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair.write(folder))
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=CA.pem.decode())
    return context


def outcome(context: ssl.SSLContext, **settings: Any) -> str:
    """Result of a request: `fine`, or why not."""
    seen: list[str] = []

    async def main() -> None:
        async with (
            serving(lambda verb, body: {"nodeNames": ["a"]}, context) as server,
            extender(server.url, **settings) as ext,
        ):
            try:
                await ext.filter(POD, NODES)
                seen.append("fine")
            except ExtenderError as error:
                seen.append(str(error).removeprefix(f'Post "{server.url}/filter": '))

    run(main())
    return seen[0]


def test_the_certificate_of_a_trusted_authority_is_accepted(tmp_path: Path) -> None:
    context = server_context(BY_ADDRESS, tmp_path)
    assert outcome(context, enable_https=True, tls_config=ExtenderTLS(ca_data=CA.pem)) == "fine"
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(b"two of them\n" + OTHER_CA.pem + CA.pem)
    assert outcome(context, enable_https=True, tls_config=ExtenderTLS(ca_file=str(ca_file))) == "fine"
    assert outcome(context, tls_config=ExtenderTLS(ca_data=CA.pem)) == "fine"


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    context = server_context(BY_ADDRESS, tmp_path)
    assert outcome(context, enable_https=True, tls_config=ExtenderTLS(ca_data=OTHER_CA.pem)) == UNTRUSTED
    assert outcome(context) == UNTRUSTED


@pytest.mark.parametrize(
    "settings",
    [{"enable_https": True}, {"tls_config": ExtenderTLS(insecure=True)}],
    ids=["https without a CA", "insecure"],
)
def test_without_an_authority_anything_goes(settings: dict[str, Any], tmp_path: Path) -> None:
    assert outcome(server_context(OTHER_CA.issue("x"), tmp_path), **settings) == "fine"


def test_the_name_has_to_be_right(tmp_path: Path) -> None:
    context = server_context(BY_NAME, tmp_path)
    trusting = ExtenderTLS(ca_data=CA.pem)
    assert outcome(context, tls_config=trusting).startswith("tls: failed to verify certificate: x509: ")
    named = ExtenderTLS(ca_data=CA.pem, server_name="ext.example")
    assert outcome(context, tls_config=named) == "fine"
    misnamed = ExtenderTLS(ca_data=CA.pem, server_name="other.example")
    assert outcome(context, tls_config=misnamed).startswith("tls: failed to verify certificate: x509: ")


def test_a_certificate_of_our_own_is_shown(tmp_path: Path) -> None:
    context = server_context(BY_ADDRESS, tmp_path, wants_client=True)
    assert outcome(context, enable_https=True) != "fine"
    data = ExtenderTLS(ca_data=CA.pem, cert_data=CLIENT.certificate, key_data=CLIENT.key)
    assert outcome(context, tls_config=data) == "fine"
    certificate, key = CLIENT.write(tmp_path)
    files = ExtenderTLS(ca_data=CA.pem, cert_file=certificate, key_file=key)
    assert outcome(context, tls_config=files) == "fine"
    mixed = ExtenderTLS(ca_data=CA.pem, cert_data=CLIENT.certificate, key_file=key)
    assert outcome(context, tls_config=mixed) == "fine"


def test_a_certificate_in_files_is_read_again_when_it_changes(tmp_path: Path) -> None:
    context = server_context(BY_ADDRESS, tmp_path, wants_client=True)
    certificate, key = OTHER_CA.issue("scheduler").write(tmp_path)
    files = ExtenderTLS(ca_data=CA.pem, cert_file=certificate, key_file=key)

    async def main() -> None:
        async with (
            serving(lambda verb, body: {"nodeNames": ["a"]}, context) as server,
            extender(server.url, tls_config=files) as ext,
        ):
            with pytest.raises(ExtenderError):
                await ext.filter(POD, NODES)
            CLIENT.write(tmp_path)
            assert (await ext.filter(POD, NODES)).kept == ["a"]

    run(main())


def test_a_replaced_certificate_is_noticed_by_its_size_alone(tmp_path: Path) -> None:
    """A copy that keeps times, over the same inode: only the size tells."""
    context = server_context(BY_ADDRESS, tmp_path, wants_client=True)
    certificate, key = OTHER_CA.issue("a-much-longer-name").write(tmp_path)
    files = ExtenderTLS(ca_data=CA.pem, cert_file=certificate, key_file=key)
    before = [os.stat(file) for file in (certificate, key)]

    async def main() -> None:
        async with (
            serving(lambda verb, body: {"nodeNames": ["a"]}, context) as server,
            extender(server.url, tls_config=files) as ext,
        ):
            with pytest.raises(ExtenderError):
                await ext.filter(POD, NODES)
            CLIENT.write(tmp_path)
            for file, stat in zip((certificate, key), before, strict=True):
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            assert os.stat(certificate).st_size != before[0].st_size
            assert (await ext.filter(POD, NODES)).kept == ["a"]

    run(main())


def test_a_key_of_another_certificate_is_noticed(tmp_path: Path) -> None:
    mismatch = ExtenderTLS(insecure=True, cert_data=CLIENT.certificate, key_data=BY_NAME.key)
    problem = "tls: private key does not match public key"
    assert outcome(server_context(BY_ADDRESS, tmp_path), tls_config=mismatch) == problem


def test_nobody_is_asked_for_the_password_of_a_key(tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(CLIENT.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    locked = ExtenderTLS(insecure=True, cert_data=CLIENT.certificate, key_data=key)
    problem = outcome(server_context(BY_ADDRESS, tmp_path), tls_config=locked)
    assert problem.startswith("tls: failed to parse certificate or private key: ")


def test_files_that_are_gone_are_named(tmp_path: Path) -> None:
    context = server_context(BY_ADDRESS, tmp_path)
    gone = str(tmp_path / "gone.pem")
    problem = f"open {gone}: no such file or directory"
    assert outcome(context, tls_config=ExtenderTLS(ca_file=gone)) == problem
    assert outcome(context, tls_config=ExtenderTLS(cert_file=gone, key_file=gone)) == problem
