"""TLS as it is at the moment: certificates may be renewed and authorities replaced while the port is open."""

import ssl
from typing import Final

from stowplan.logs import Journal
from stowplan.serving.certificates import Certificates
from stowplan.serving.errors import ServingError
from stowplan.serving.selfsigned import Certificate
from stowplan.serving.settings import ServingSettings
from stowplan.serving.tlsnames import is_insecure, lowest_version, openssl_ciphers, openssl_curves

_TLS12_WITHOUT_CHOICE: Final = ssl.TLSVersion.TLSv1_3


class Contexts:
    """Makes contexts from certificates and authorities. A connection keeps the one it began with.

    A client is asked for a certificate only if there is an authority to check it with. Python checks it
    during the handshake, so one that no authority signed ends the connection there; kube-scheduler lets the
    handshake pass and answers 401. Neither tells the client anything else.
    """

    def __init__(self, settings: ServingSettings, journal: Journal) -> None:
        self._ciphers = openssl_ciphers(settings.cipher_suites)
        self._lowest = lowest_version(settings.min_version)
        if settings.cipher_suites and not self._ciphers:
            self._lowest = _TLS12_WITHOUT_CHOICE
        curves = openssl_curves(settings.curve_preferences)
        self._curve = curves[0] if len(curves) == 1 else ""
        _check(self._ciphers)
        self._default: ssl.SSLContext | None = None
        self._by_name: dict[str, ssl.SSLContext] = {}
        _warn(settings, journal)

    def replace(self, certificates: Certificates, authorities: bytes) -> None:
        """Use these from the next connection on. `authorities` are PEM, empty for none."""
        default = self._context(certificates.default, authorities)
        own: dict[str, ssl.SSLContext] = {}
        explicit: dict[str, ssl.SSLContext] = {}
        for named in reversed(certificates.named):
            context = self._context(named.certificate, authorities)
            (explicit if named.explicit else own).update(dict.fromkeys(named.names, context))
        self._default, self._by_name = default, own | explicit

    def for_address(self, address: str) -> ssl.SSLContext:
        """What to begin a connection to one of our addresses with; a server name may choose another."""
        if self._default is None:
            raise AssertionError("no certificates yet")
        return self._by_name.get(address.removeprefix("::ffff:"), self._default)

    def _context(self, certificate: Certificate, authorities: bytes) -> ssl.SSLContext:
        context = certificate.context()
        context.minimum_version = self._lowest
        if self._ciphers:
            context.set_ciphers(":".join(self._ciphers))
        if self._curve:
            context.set_ecdh_curve(self._curve)
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._choose
        return context

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        if name and self._default is not None:
            chosen = next(
                (found for one in _patterns(name) if (found := self._by_name.get(one))), self._default
            )
            if chosen is not context:
                connection.context = chosen


def _patterns(name: str) -> list[str]:
    """What may stand for a server name: itself, then with more and more leading parts left open."""
    labels = name.rstrip(".").lower().split(".")
    stars = [".".join(["*"] * (count + 1) + labels[count + 1 :]) for count in range(len(labels))]
    return [".".join(labels), *stars]


def _check(ciphers: list[str]) -> None:
    """OpenSSL drops suites that it no longer offers, but wants at least one."""
    if ciphers:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(":".join(ciphers))
        except ssl.SSLError:
            raise ServingError("--tls-cipher-suites: OpenSSL offers none of these any more") from None


def _warn(settings: ServingSettings, journal: Journal) -> None:
    for suite in settings.cipher_suites:
        if is_insecure(suite):
            journal.warning(f"Use of insecure cipher '{suite}' detected.")
    if settings.min_version in ("VersionTLS10", "VersionTLS11"):
        journal.warning("TLS 1.0 and 1.1 are not spoken; the lowest version is 1.2")
    if len(settings.curve_preferences) > 1:
        journal.warning("Only a single curve can be enforced; the choice is left to OpenSSL")
