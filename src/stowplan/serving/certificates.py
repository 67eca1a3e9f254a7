"""Which certificate the port shows: read from files, kept up to date, or made up at the start."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from stowplan.clock import Clock
from stowplan.logs import Journal
from stowplan.serving.errors import ServingError
from stowplan.serving.selfsigned import Certificate, with_authority
from stowplan.serving.settings import ServingSettings

PAIR_NAME: Final = "kube-scheduler"
"""What the files in `--cert-dir` are called; the name that kube-scheduler looks for."""

_HOST: Final = "localhost"
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class NamedCertificate:
    """A certificate and the server names it is shown for; explicit names go before its own."""

    certificate: Certificate
    names: tuple[str, ...]
    explicit: bool


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificate for everybody, and those for certain names."""

    default: Certificate
    named: tuple[NamedCertificate, ...] = ()


class CertificateSource:
    """Reads the certificates, and again whenever somebody asks. What cannot be used raises `ServingError`."""

    def __init__(self, settings: ServingSettings, clock: Clock, journal: Journal) -> None:
        self._settings = settings
        self._generated: Certificate | None = None
        self._files = (settings.certificate_file, settings.key_file)
        if bool(self._files[0]) != bool(self._files[1]):
            missing = "--tls-private-key-file" if self._files[0] else "--tls-cert-file"
            raise ServingError(f"{missing}: expected a file, for the other of the two is given")
        if not self._files[0]:
            self._generate(clock, journal)

    @property
    def files(self) -> tuple[str, ...]:
        """The files it reads."""
        sni = (
            file
            for pair in self._settings.sni_certificates
            for file in (pair.certificate_file, pair.key_file)
        )
        return tuple(file for file in (*self._files, *sni) if file)

    def read(self) -> Certificates:
        named = tuple(
            self._named(_pair(sni.certificate_file, sni.key_file, "--tls-sni-cert-key"), sni.names)
            for sni in self._settings.sni_certificates
        )
        default = self._generated or _pair(*self._files, "--tls-cert-file")
        return Certificates(default, named)

    @staticmethod
    def _named(certificate: Certificate, names: Sequence[str]) -> NamedCertificate:
        own = names or _own_names(certificate)
        return NamedCertificate(certificate, tuple(name.lower() for name in own), bool(names))

    def _generate(self, clock: Clock, journal: Journal) -> None:
        folder = self._settings.certificate_folder
        hosts = _hosts(self._settings.bind_address)
        if not folder:
            self._generated = with_authority(_HOST, hosts, clock.now())
            journal.plain(0, "Generated self-signed cert in-memory")
            return
        certificate, key = (Path(folder, f"{PAIR_NAME}.{ending}") for ending in ("crt", "key"))
        self._files = (str(certificate), str(key))
        if certificate.exists() and key.exists():
            return
        if certificate.exists() != key.exists():
            missing = key if certificate.exists() else certificate
            raise ServingError(f"--cert-dir: {missing} is missing, but the other of the two is there")
        try:
            with_authority(_HOST, hosts, clock.now()).write(certificate, key)
        except OSError as error:
            raise ServingError(f"--cert-dir: cannot write {error.filename}: {error.strerror}") from None
        journal.plain(0, f"Generated self-signed cert ({certificate}, {key})")


def subject_of(certificate: Certificate) -> str:
    """Whom a certificate is for, for logs."""
    return x509.load_pem_x509_certificate(certificate.certificate).subject.rfc4514_string()


def _hosts(bind: str) -> list[str]:
    return [_HOST, _LOOPBACK] if ip_address(bind).is_unspecified else [_HOST, _LOOPBACK, bind]


def _pair(certificate_file: str, key_file: str, flag: str) -> Certificate:
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


def _own_names(certificate: Certificate) -> list[str]:
    """The names a certificate was made out to; addresses are no server names."""
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
