"""TLS contexts of the secure port, with SNI; certificates and client CAs may be replaced while it is open."""

import ssl
from collections.abc import Sequence
from typing import Final

from stowplan.runtime.logs import Logger
from stowplan.server.serving.certificates import Certificate, Certificates
from stowplan.server.serving.settings import ServingError, ServingSettings

TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Always enabled with TLS 1.3: neither Go nor Python can choose among them."""

_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_INSECURE_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_CURVES: Final = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
_HYBRIDS: Final = (4587, 4588, 4589)

_WITHOUT_TLS12_SUITES: Final = ssl.TLSVersion.TLSv1_3


# Go's names for cipher suites, TLS versions and curves, and OpenSSL's


def is_insecure(suite: str) -> bool:
    return suite in _INSECURE_SUITES


def openssl_ciphers(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of these suites without those of TLS 1.3. Raises `ServingError` for unknown ones."""
    found: list[str] = []
    for suite in suites:
        name = _SUITES.get(suite) or _INSECURE_SUITES.get(suite)
        if name is not None:
            found.append(name)
        elif suite not in TLS13_SUITES:
            raise ServingError(f"Cipher suite {suite} not supported or doesn't exist")
    return list(dict.fromkeys(found))


def min_tls_version(name: str) -> ssl.TLSVersion:
    """The minimum version. TLS 1.0 and 1.1 are not supported: they mean 1.2."""
    version = _VERSIONS.get(name)
    if version is None:
        raise ServingError(f'unknown tls version "{name}"')
    return version


def openssl_curves(numbers: Sequence[int]) -> list[str]:
    """OpenSSL's names of these curves, without hybrids that it does not know."""
    for number in numbers:
        if number not in _CURVES and number not in _HYBRIDS:
            raise ServingError(f"unsupported curve {number}")
    return [_CURVES[number] for number in dict.fromkeys(numbers) if number in _CURVES]


# Contexts


class TLSContexts:
    """TLS contexts by server name. A connection keeps the one it was accepted with.

    The server requests a client certificate only if there is a client CA. Python verifies it during the
    handshake, which fails for an unknown CA; kube-scheduler completes the handshake and responds with 401.
    """

    def __init__(self, settings: ServingSettings, logger: Logger) -> None:
        self._ciphers = openssl_ciphers(settings.cipher_suites)
        self._min_version = min_tls_version(settings.min_version)
        if settings.cipher_suites and not self._ciphers:
            self._min_version = _WITHOUT_TLS12_SUITES
        curves = openssl_curves(settings.curve_preferences)
        self._curve = curves[0] if len(curves) == 1 else ""
        _check_ciphers(self._ciphers)
        self._default: ssl.SSLContext | None = None
        self._by_name: dict[str, ssl.SSLContext] = {}
        _log_warnings(settings, logger)

    def replace(self, certificates: Certificates, client_cas: bytes) -> None:
        """Use these for new connections. `client_cas` is a PEM bundle, empty for none."""
        default = self._context(certificates.default, client_cas)
        own: dict[str, ssl.SSLContext] = {}
        explicit: dict[str, ssl.SSLContext] = {}
        for named in reversed(certificates.named):
            context = self._context(named.certificate, client_cas)
            (explicit if named.explicit else own).update(dict.fromkeys(named.names, context))
        self._default, self._by_name = default, own | explicit

    def for_address(self, address: str) -> ssl.SSLContext:
        """The context for a local address; SNI may select another."""
        if self._default is None:
            raise AssertionError("no certificates yet")
        return self._by_name.get(address.removeprefix("::ffff:"), self._default)

    def _context(self, certificate: Certificate, client_cas: bytes) -> ssl.SSLContext:
        context = certificate.context()
        context.minimum_version = self._min_version
        if self._ciphers:
            context.set_ciphers(":".join(self._ciphers))
        if self._curve:
            context.set_ecdh_curve(self._curve)
        if client_cas:
            context.load_verify_locations(cadata=client_cas.decode("ascii", "ignore"))
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._on_sni
        return context

    def _on_sni(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        if name and self._default is not None:
            chosen = next(
                (found for one in _sni_patterns(name) if (found := self._by_name.get(one))), self._default
            )
            if chosen is not context:
                connection.context = chosen


def _sni_patterns(name: str) -> list[str]:
    """The names that match a server name: itself, then wildcards for more and more leading labels."""
    labels = name.rstrip(".").lower().split(".")
    stars = [".".join(["*"] * (count + 1) + labels[count + 1 :]) for count in range(len(labels))]
    return [".".join(labels), *stars]


def _check_ciphers(ciphers: list[str]) -> None:
    """OpenSSL ignores suites that it no longer offers, but needs at least one."""
    if ciphers:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(":".join(ciphers))
        except ssl.SSLError:
            raise ServingError("--tls-cipher-suites: OpenSSL offers none of these any more") from None


def _log_warnings(settings: ServingSettings, logger: Logger) -> None:
    for suite in settings.cipher_suites:
        if is_insecure(suite):
            logger.warning(f"Use of insecure cipher '{suite}' detected.")
    if settings.min_version in ("VersionTLS10", "VersionTLS11"):
        logger.warning("TLS 1.0 and 1.1 are not spoken; the lowest version is 1.2")
    if len(settings.curve_preferences) > 1:
        logger.warning("Only a single curve can be enforced; the choice is left to OpenSSL")
