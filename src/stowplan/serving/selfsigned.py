"""Certificates of our own, for servers that nobody else vouches for."""

import ipaddress
import os
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.client.http.certfiles import load_key_pair

LIFETIME: Final = timedelta(days=365)
_RSA_BITS: Final = 2048

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Certificate(NamedTuple):
    """A certificate, with those that vouch for it behind it, and its key: both as PEM."""

    certificate: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """What a server needs to speak TLS with it. Raises `ssl.SSLError` if the two are no pair."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        load_key_pair(context, self.certificate, self.key)
        return context

    def write(self, certificate_file: Path, key_file: Path) -> None:
        """Keep both on disk; nobody else may read the key."""
        for path, data, mode in ((certificate_file, self.certificate, 0o644), (key_file, self.key, 0o600)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                file.write(data)


def self_signed(name: str, hosts: Sequence[str], now: float) -> Certificate:
    """A new certificate for these names and addresses that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    built = (
        _builder(subject, subject, key, now)
        .add_extension(x509.SubjectAlternativeName(alternatives(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(_pem(built), _key_pem(key))


def with_authority(host: str, hosts: Sequence[str], now: float) -> Certificate:
    """A new certificate for these names and addresses, and the authority that was made up to sign it.

    Both are named after the host and the moment, as kube-scheduler names its own. The keys are RSA: with
    TLS 1.2 the cipher suites that a client or a flag allows may need that.
    """
    authority_key = rsa.generate_private_key(65537, _RSA_BITS)
    authority_name = _named(f"{host}-ca@{int(now)}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(authority_name, authority_name, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True, enciphers_keys=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key = rsa.generate_private_key(65537, _RSA_BITS)
    built = (
        _builder(_named(f"{host}@{int(now)}"), authority_name, key, now)
        .add_extension(_usage(enciphers_keys=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(alternatives(hosts)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificate(_pem(built) + _pem(authority), _key_pem(key))


def alternatives(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Names and addresses as a certificate lists them, each once."""
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


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
