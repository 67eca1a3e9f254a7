"""Certificates that clients show: who vouches for them, and whom they name.

The handshake has checked them already, against all authorities known at its time. Here they are checked again
for each request, against the authorities of the moment and of the purpose: who may speak for others must be
vouched for by another authority than everybody else.
"""

import hashlib
import ssl
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.serving.users import CredentialsError, User

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
UID_OID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_MOST_IN_CHAIN: Final = 5
_ACCEPTED_USES: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)


def presented_chain(connection: ssl.SSLObject | None) -> tuple[x509.Certificate, ...]:
    """What the client at the other end showed, its own certificate first; empty if it showed nothing."""
    leaf = None if connection is None else connection.getpeercert(binary_form=True)
    if connection is None or leaf is None:
        return ()
    further = [der for der in _sent_along(connection) if der != leaf]
    return tuple(map(x509.load_der_x509_certificate, [leaf, *further][:_MOST_IN_CHAIN]))


def _sent_along(connection: ssl.SSLObject) -> list[bytes]:
    """The certificates behind the client's own. Before Python 3.13 only the inner object tells them."""
    told: Callable[[], Sequence[bytes]] | None = getattr(connection, "get_unverified_chain", None)
    if told is not None:
        return list(told())
    inner: Callable[[], Sequence[Any] | None] | None
    inner = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", None)
    found = () if inner is None else inner() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in found]


class Authorities:
    """Certificates that are trusted to vouch for clients."""

    def __init__(self, certificates: Iterable[x509.Certificate]) -> None:
        self._trusted = tuple(certificates)

    def verify(self, chain: Sequence[x509.Certificate], now: float) -> None:
        """Raises `CredentialsError` unless a way leads from the client's certificate to a trusted one."""
        moment = datetime.fromtimestamp(now, UTC)
        if not self._leads_to_trust(chain[0], chain[1:], moment, 0):
            name = chain[0].subject.rfc4514_string()
            raise CredentialsError(f"verifying certificate {name} failed: no authority vouches for it now")

    def _leads_to_trust(
        self, certificate: x509.Certificate, others: Sequence[x509.Certificate], moment: datetime, below: int
    ) -> bool:
        """`below` is how many authorities stand between this certificate and the client's own."""
        if not _is_valid(certificate, moment) or not _is_for_clients(certificate):
            return False
        if certificate in self._trusted:
            return True
        if any(_vouches(issuer, certificate, moment) for issuer in self._trusted):
            return True
        return below < _MOST_IN_CHAIN and any(
            _may_vouch(issuer, below)
            and _is_signed_by(certificate, issuer)
            and self._leads_to_trust(issuer, [one for one in others if one != issuer], moment, below + 1)
            for issuer in others
        )


def user_of(certificate: x509.Certificate) -> User | None:
    """Whom a certificate names: the common name, with organizations as groups; None if it names nobody."""
    names = _attributes(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    fingerprint = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    groups = tuple(_attributes(certificate, NameOID.ORGANIZATION_NAME))
    return User(names[-1], _uid(certificate), groups, {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)})


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
    return any(use in uses for use in _ACCEPTED_USES)


def _vouches(issuer: x509.Certificate, certificate: x509.Certificate, moment: datetime) -> bool:
    return _is_valid(issuer, moment) and _is_signed_by(certificate, issuer)


def _may_vouch(issuer: x509.Certificate, below: int) -> bool:
    """Whether a certificate that is not trusted by itself may stand between."""
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
