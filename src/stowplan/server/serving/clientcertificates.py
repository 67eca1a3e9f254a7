"""Client certificates: verification, the user a certificate names, and front proxies.

The handshake has verified them against all CAs known at its time. Here they are verified again for each
request, against the current CAs of one purpose: a front proxy must be signed by another CA than users.
"""

import hashlib
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from multidict import CIMultiDictProxy

from stowplan.server.serving.settings import RequestHeaderSettings

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
UID_OID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_MAX_CHAIN_LENGTH: Final = 5
_CLIENT_KEY_USAGES: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)

Headers = CIMultiDictProxy[str]


# Users


@dataclass(frozen=True, slots=True)
class CertificateUser:
    """The user a request was authenticated as."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_authenticated_group(self) -> "CertificateUser":
        """The user as a member of system:authenticated."""
        if self.name == ANONYMOUS or AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return CertificateUser(self.name, self.uid, (*self.groups, AUTHENTICATED), self.extra)


ANONYMOUS_USER: Final = CertificateUser(ANONYMOUS, groups=(UNAUTHENTICATED,))
"""The user of a request without credentials."""


class CredentialsError(Exception):
    """Invalid credentials: the response is 401."""


def valid_utf8(text: str) -> str:
    """The text of a header with invalid UTF-8 replaced, so that it can be put into a review."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# x509 certificates


def presented_chain(connection: ssl.SSLObject | None) -> tuple[x509.Certificate, ...]:
    """The client's certificates, the leaf first; empty if it presented none."""
    leaf = None if connection is None else connection.getpeercert(binary_form=True)
    if connection is None or leaf is None:
        return ()
    further = [der for der in _unverified_chain(connection) if der != leaf]
    return tuple(map(x509.load_der_x509_certificate, [leaf, *further][:_MAX_CHAIN_LENGTH]))


def _unverified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """All certificates the client sent. Before Python 3.13 only the inner object has them."""
    public: Callable[[], Sequence[bytes]] | None = getattr(connection, "get_unverified_chain", None)
    if public is not None:
        return list(public())
    inner: Callable[[], Sequence[Any] | None] | None
    inner = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", None)
    found = () if inner is None else inner() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in found]


class CertPool:
    """CA certificates that are trusted to sign client certificates."""

    def __init__(self, certificates: Iterable[x509.Certificate]) -> None:
        self._trusted = tuple(certificates)

    def verify(self, chain: Sequence[x509.Certificate], now: float) -> None:
        """Raises `CredentialsError` unless a chain leads from the leaf to a trusted certificate."""
        moment = datetime.fromtimestamp(now, UTC)
        if not self._has_trusted_chain(chain[0], chain[1:], moment, 0):
            name = chain[0].subject.rfc4514_string()
            raise CredentialsError(f"verifying certificate {name} failed: no authority vouches for it now")

    def _has_trusted_chain(
        self, certificate: x509.Certificate, others: Sequence[x509.Certificate], moment: datetime, below: int
    ) -> bool:
        """`below` is the number of intermediates between this certificate and the leaf."""
        if not _is_valid(certificate, moment) or not _is_for_clients(certificate):
            return False
        if certificate in self._trusted:
            return True
        if any(_is_valid_issuer(issuer, certificate, moment) for issuer in self._trusted):
            return True
        return below < _MAX_CHAIN_LENGTH and any(
            _may_be_intermediate(issuer, below)
            and _is_signed_by(certificate, issuer)
            and self._has_trusted_chain(issuer, [one for one in others if one != issuer], moment, below + 1)
            for issuer in others
        )


def user_from_certificate(certificate: x509.Certificate) -> CertificateUser | None:
    """The user: the common name, with organizations as groups; None without a common name."""
    names = _attributes(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    fingerprint = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    groups = tuple(_attributes(certificate, NameOID.ORGANIZATION_NAME))
    return CertificateUser(
        names[-1], _uid(certificate), groups, {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    )


def common_name(certificate: x509.Certificate) -> str:
    names = _attributes(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def _uid(certificate: x509.Certificate) -> str:
    uids = _attributes(certificate, UID_OID)
    if len(uids) > 1:
        raise CredentialsError(f"expected 1 UID, but found multiple: {uids}")
    if uids and not uids[0]:
        raise CredentialsError("UID cannot be an empty string")
    return uids[0] if uids else ""


def _attributes(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(one.value) for one in certificate.subject.get_attributes_for_oid(oid)]


def _is_valid(certificate: x509.Certificate, moment: datetime) -> bool:
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False
    return any(use in uses for use in _CLIENT_KEY_USAGES)


def _is_valid_issuer(issuer: x509.Certificate, certificate: x509.Certificate, moment: datetime) -> bool:
    return _is_valid(issuer, moment) and _is_signed_by(certificate, issuer)


def _may_be_intermediate(issuer: x509.Certificate, below: int) -> bool:
    """True if a certificate may sign others: CA constraints and path length."""
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.ca and (constraints.path_length is None or constraints.path_length >= below)


def _is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# Request headers of a front proxy


class RequestHeaderAuthenticator:
    """Authenticates by the headers of a front proxy with a valid client certificate."""

    def __init__(self, pool: CertPool, settings: RequestHeaderSettings) -> None:
        self._pool = pool
        self._settings = settings

    def user(self, chain: Sequence[x509.Certificate], headers: Headers, now: float) -> CertificateUser | None:
        """The user in the headers, if any. Raises `CredentialsError` unless a front proxy sent them."""
        if not chain:
            return None
        self._pool.verify(chain, now)
        name = common_name(chain[0])
        if self._settings.allowed_names and name not in self._settings.allowed_names:
            raise CredentialsError(f"x509: subject with cn={name} is not in the allowed list")
        user = _first_value(headers, self._settings.username_headers)
        if not user:
            return None
        groups = [
            valid_utf8(group)
            for header in self._settings.group_headers
            for group in headers.getall(header, ())
            if group
        ]
        return CertificateUser(
            user, _first_value(headers, self._settings.uid_headers), tuple(groups), self._extra(headers)
        )

    def _extra(self, headers: Headers) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self._settings.extra_headers_prefix:
            for header, value in headers.items():
                if header.lower().startswith(prefix.lower()):
                    key = unquote(valid_utf8(header[len(prefix) :].lower()))
                    extra[key] = (*extra.get(key, ()), valid_utf8(value))
        return extra


def _first_value(headers: Headers, names: Sequence[str]) -> str:
    values = (headers.getall(name, ("",))[0] for name in names)
    return valid_utf8(next((value for value in values if value), ""))
