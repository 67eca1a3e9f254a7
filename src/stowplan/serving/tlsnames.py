"""Go's names for cipher suites, TLS versions and curves, and what OpenSSL calls them."""

import ssl
from collections.abc import Sequence
from typing import Final

from stowplan.serving.errors import ServingError

TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Part of every TLS 1.3 connection: neither Go nor Python lets anybody choose among them."""

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


def is_insecure(suite: str) -> bool:
    return suite in _INSECURE_SUITES


def openssl_ciphers(suites: Sequence[str]) -> list[str]:
    """What OpenSSL calls these suites, those of TLS 1.3 left out. Raises `ServingError` for unknown ones."""
    found: list[str] = []
    for suite in suites:
        name = _SUITES.get(suite) or _INSECURE_SUITES.get(suite)
        if name is not None:
            found.append(name)
        elif suite not in TLS13_SUITES:
            raise ServingError(f"Cipher suite {suite} not supported or doesn't exist")
    return list(dict.fromkeys(found))


def lowest_version(name: str) -> ssl.TLSVersion:
    """The lowest version to speak. TLS 1.0 and 1.1 are not spoken: asking for them gives 1.2."""
    version = _VERSIONS.get(name)
    if version is None:
        raise ServingError(f'unknown tls version "{name}"')
    return version


def openssl_curves(numbers: Sequence[int]) -> list[str]:
    """What OpenSSL calls these curves; hybrids that it does not know are left out."""
    for number in numbers:
        if number not in _CURVES and number not in _HYBRIDS:
            raise ServingError(f"unsupported curve {number}")
    return [_CURVES[number] for number in dict.fromkeys(numbers) if number in _CURVES]
