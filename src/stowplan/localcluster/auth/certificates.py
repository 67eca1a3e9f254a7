"""The certificate authority of a cluster, and users who authenticate with certificates of it."""

import hashlib
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.localcluster.auth.users import AUTHENTICATED, User
from stowplan.localcluster.durable import DataDirError
from stowplan.localcluster.objects.certificaterequests import read_request
from stowplan.server.serving.certificates import Certificate, subject_alternative_names

CA_FILES: Final = ("ca.crt", "ca.key")
_NAME: Final = "kubernetes"
_LIFETIME: Final = timedelta(days=3650)
_SERVING_LIFETIME: Final = timedelta(days=365)
_BACKDATED: Final = timedelta(minutes=5)
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"

_EXTENDED: Final = {
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
}
_KEY_USAGES: Final = {"digital signature": "digital_signature", "key encipherment": "key_encipherment"}
_ALL_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class CertificateAuthority:
    """Signs the certificate of the API server and those that CertificateSigningRequests ask for."""

    def __init__(self, now: float, pair: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None):
        self._certificate, self._key = _new_authority(now) if pair is None else pair

    @classmethod
    def kept_in(cls, folder: Path, now: float) -> "CertificateAuthority":
        """The authority of a data directory, made if there is none yet. Raises DataDirError."""
        certificate, key = (folder / name for name in CA_FILES)
        try:
            if certificate.exists() and key.exists():
                return cls(now, _read(certificate, key))
            made = cls(now)
            certificate.write_bytes(made.certificate)
            with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_key_pem(made._key))
        except OSError as error:
            raise DataDirError(f"{error.filename}: {error.strerror}") from None
        return made

    @cached_property
    def certificate(self) -> bytes:
        """The CA as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def serving_certificate(self, hosts: Sequence[str], now: float) -> Certificate:
        """A certificate of a server with these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        names = x509.SubjectAlternativeName(subject_alternative_names(hosts))
        usages = ("digital signature", "key encipherment", "server auth")
        begin = _moment(now) - timedelta(hours=1)
        made = self._signed(subject, key.public_key(), usages, begin, begin + _SERVING_LIFETIME, names)
        return Certificate(made + self.certificate, _key_pem(key))

    def sign(self, request: bytes, usages: Collection[str], seconds: float, now: float) -> bytes:
        """The certificate, as PEM, that a request asks for. Raises CertificateRequestError."""
        asked = read_request(request)
        names = _alternative_names(asked)
        begin = _moment(now) - _BACKDATED
        end = min(begin + timedelta(seconds=seconds), self._certificate.not_valid_after_utc)
        return self._signed(asked.subject, asked.public_key(), usages, begin, end, names)

    def _signed(
        self,
        subject: x509.Name,
        key: Any,
        usages: Collection[str],
        begin: datetime,
        end: datetime,
        names: x509.SubjectAlternativeName | None,
    ) -> bytes:
        wanted = {_KEY_USAGES[one] for one in usages if one in _KEY_USAGES}
        flags: dict[str, bool] = {name: name in wanted for name in _ALL_USAGES}
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(authority, critical=False)
        )
        if wanted:
            builder = builder.add_extension(x509.KeyUsage(**flags), critical=True)
        extended = [_EXTENDED[one] for one in usages if one in _EXTENDED]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _alternative_names(asked: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _new_authority(now: float) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    begin = _moment(now) - timedelta(hours=1)
    signs = ("digital_signature", "key_encipherment", "key_cert_sign")
    flags: dict[str, bool] = {usage: usage in signs for usage in _ALL_USAGES}
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**flags), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made, key


def _read(certificate: Path, key: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise DataDirError(
            f"{certificate}: expected a certificate and, in {key.name}, its key: {error}"
        ) from None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != read.public_key():
        raise DataDirError(f"{key}: expected the key of {certificate.name}")
    return read, private


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _moment(now: float) -> datetime:
    return datetime.fromtimestamp(int(now), UTC)


def certificate_user(peer: dict[str, Any], der: bytes | None) -> User | None:
    """The user of a client certificate that was verified, None if it names none.

    Its common name is the user, its organizations are the groups.
    """
    named = [pair for part in peer.get("subject", ()) for pair in part]
    name = next((value for key, value in named if key == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for key, value in named if key == "organizationName")
    extra = {} if der is None else {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    return User(name, (*groups, AUTHENTICATED), "", extra)
