"""Serving certificates: read from files, or generated at startup."""

import ipaddress
import os
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.client.http.certfiles import load_key_pair
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.keys import NewKey, new_key
from stowplan.server.serving.settings import ServingError, ServingSettings

LIFETIME: Final = timedelta(days=365)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

PAIR_NAME: Final = "kube-scheduler"
"""Base name of the files in `--cert-dir`."""

_HOST: Final = "localhost"
_LOOPBACK: Final = "127.0.0.1"


# Generated certificates


class Certificate(NamedTuple):
    """A certificate with its intermediates, and its key, as PEM."""

    certificate: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """A server-side context. Raises `ssl.SSLError` if the key does not match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        load_key_pair(context, self.certificate, self.key)
        return context

    def write(self, certificate_file: Path, key_file: Path) -> None:
        """Write both to disk, the key readable by the owner only."""
        for path, data, mode in ((certificate_file, self.certificate, 0o644), (key_file, self.key, 0o600)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                file.write(data)


def self_signed(name: str, hosts: Sequence[str], now: float) -> Certificate:
    """A new self-signed certificate for these names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    built = (
        _builder(subject, subject, key, now)
        .add_extension(x509.SubjectAlternativeName(subject_alternative_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(_certificate_pem(built), _key_pem(key))


def signed_by_new_ca(host: str, hosts: Sequence[str], now: float, key_for: NewKey = new_key) -> Certificate:
    """A new certificate for these names and addresses, signed by a CA that is generated with it.

    Both are named after host and time, as kube-scheduler's are. The key of the certificate is RSA, which some
    TLS 1.2 cipher suites need; that of the CA, which signs once, is one that is found quickly.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _named(f"{host}-ca@{int(now)}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        _builder(ca_name, ca_name, ca_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True, enciphers_keys=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = key_for()
    built = (
        _builder(_named(f"{host}@{int(now)}"), ca_name, key, now)
        .add_extension(_usage(enciphers_keys=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(subject_alternative_names(hosts)), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Certificate(_certificate_pem(built) + _certificate_pem(ca), _key_pem(key))


def subject_alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Names and addresses as subject alternative names, each once."""
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _builder(subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: float) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(int(now), UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFETIME)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool = False, enciphers_keys: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        key_encipherment=enciphers_keys,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


# Certificates of the secure port


@dataclass(frozen=True, slots=True)
class NamedCertificate:
    """A certificate and its server names. Explicit names take precedence over the certificate's own."""

    certificate: Certificate
    names: tuple[str, ...]
    explicit: bool


@dataclass(frozen=True, slots=True)
class Certificates:
    """The default certificate, and those for SNI."""

    default: Certificate
    named: tuple[NamedCertificate, ...] = ()


class CertificateSource:
    """Loads the certificates the settings name. Raises `ServingError` for unusable ones."""

    def __init__(
        self, settings: ServingSettings, clock: Clock, logger: Logger, key_for: NewKey = new_key
    ) -> None:
        self._settings = settings
        self._key_for = key_for
        self._generated: Certificate | None = None
        self._files = (settings.certificate_file, settings.key_file)
        if bool(self._files[0]) != bool(self._files[1]):
            missing = "--tls-private-key-file" if self._files[0] else "--tls-cert-file"
            raise ServingError(f"{missing}: expected a file, for the other of the two is given")
        if not self._files[0]:
            self._generate(clock, logger)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        sni = (
            file
            for pair in self._settings.sni_certificates
            for file in (pair.certificate_file, pair.key_file)
        )
        return tuple(file for file in (*self._files, *sni) if file)

    def read(self) -> Certificates:
        named = tuple(
            self._named(_read_pair(sni.certificate_file, sni.key_file, "--tls-sni-cert-key"), sni.names)
            for sni in self._settings.sni_certificates
        )
        default = self._generated or _read_pair(*self._files, "--tls-cert-file")
        return Certificates(default, named)

    @staticmethod
    def _named(certificate: Certificate, names: Sequence[str]) -> NamedCertificate:
        own = names or _certificate_names(certificate)
        return NamedCertificate(certificate, tuple(name.lower() for name in own), bool(names))

    def _generate(self, clock: Clock, logger: Logger) -> None:
        folder = self._settings.certificate_folder
        hosts = _certificate_hosts(self._settings.bind_address)
        if not folder:
            self._generated = signed_by_new_ca(_HOST, hosts, clock.now(), self._key_for)
            logger.plain(0, "Generated self-signed cert in-memory")
            return
        certificate, key = (Path(folder, f"{PAIR_NAME}.{ending}") for ending in ("crt", "key"))
        self._files = (str(certificate), str(key))
        if certificate.exists() and key.exists():
            return
        if certificate.exists() != key.exists():
            missing = key if certificate.exists() else certificate
            raise ServingError(f"--cert-dir: {missing} is missing, but the other of the two is there")
        try:
            signed_by_new_ca(_HOST, hosts, clock.now(), self._key_for).write(certificate, key)
        except OSError as error:
            raise ServingError(f"--cert-dir: cannot write {error.filename}: {error.strerror}") from None
        logger.plain(0, f"Generated self-signed cert ({certificate}, {key})")


def subject_of(certificate: Certificate) -> str:
    """The subject of a certificate, for logs."""
    return x509.load_pem_x509_certificate(certificate.certificate).subject.rfc4514_string()


def _certificate_hosts(bind: str) -> list[str]:
    return [_HOST, _LOOPBACK] if ip_address(bind).is_unspecified else [_HOST, _LOOPBACK, bind]


def _read_pair(certificate_file: str, key_file: str, flag: str) -> Certificate:
    try:
        pair = Certificate(Path(certificate_file).read_bytes(), Path(key_file).read_bytes())
        pair.context()
        subject_of(pair)
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            raise ServingError(
                f"{flag}: {certificate_file} and {key_file} are no usable pair: {error}"
            ) from None
        raise ServingError(f"{flag}: cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise ServingError(f"{flag}: {certificate_file}: expected a PEM certificate: {error}") from None
    return pair


def _certificate_names(certificate: Certificate) -> list[str]:
    """The DNS names of a certificate; IP addresses are no server names."""
    parsed = x509.load_pem_x509_certificate(certificate.certificate)
    names = [str(one.value) for one in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        listed = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return [name for name in names if not _is_address(name)]
    names += listed.value.get_values_for_type(x509.DNSName)
    return [name for name in dict.fromkeys(names) if not _is_address(name)]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
