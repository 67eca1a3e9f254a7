"""Checking the TLS settings of an extender before it is needed: readable files, usable certificates."""

import base64
import binascii
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from stowplan.config.types import Extender, ExtenderTLS
from stowplan.gocompat.quoting import path_error

_BLOCK = re.compile(
    rb"-----BEGIN (?P<kind>[^\n-]+)-----[ \t\r]*\n(?P<body>.*?)-----END (?P=kind)-----[ \t\r]*(?:\n|$)",
    re.DOTALL,
)


class TlsError(ValueError):
    """TLS settings that cannot be used."""


@dataclass(frozen=True, slots=True)
class _PemBlock:
    kind: str
    data: bytes
    end: int


def check_extender_tls(extender: Extender) -> None:
    """Raise TlsError where the TLS settings contradict each other or cannot be loaded."""
    tls = extender.tls_config or ExtenderTLS()
    has_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (extender.enable_https and not has_ca)
    has_certificate = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    if not (has_ca or has_certificate or insecure or tls.server_name):
        return
    if has_ca and insecure:
        raise TlsError("specifying a root certificates file with the insecure flag is not allowed")
    ca = _data_or_file(tls.ca_data, tls.ca_file)
    certificate = _data_or_file(tls.cert_data, tls.cert_file)
    key = _data_or_file(tls.key_data, tls.key_file)
    if ca:
        _check_roots(ca)
    if has_certificate and (tls.cert_data or tls.key_data):
        _check_key_pair(certificate, key)


def _data_or_file(data: bytes, file: str) -> bytes:
    if data or not file:
        return data
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise TlsError(path_error(error, file)) from None


def _check_roots(data: bytes) -> None:
    """At least one block has to be a certificate."""
    blocks = _pem_blocks(data)
    certificates = [block for block in blocks if block.kind == "CERTIFICATE"]
    if any(_is_certificate(block) for block in certificates):
        return
    problem = "no valid certificate authority data seen"
    if certificates:
        problem = "failed to parse certificate: x509: malformed certificate"
    elif not blocks or blocks[-1].end < len(data):
        problem = "unable to parse bytes as PEM block"
    raise TlsError(f"unable to load root certificates: {problem}")


def _is_certificate(block: _PemBlock) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block.data)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _check_key_pair(certificate: bytes, key: bytes) -> None:
    _check_certificate_input([block.kind for block in _pem_blocks(certificate)])
    _check_key_input([block.kind for block in _pem_blocks(key)])
    if not all(_is_certificate(block) for block in _pem_blocks(certificate) if block.kind == "CERTIFICATE"):
        raise TlsError("x509: malformed certificate")


def _check_certificate_input(kinds: list[str]) -> None:
    if "CERTIFICATE" in kinds:
        return
    if not kinds:
        raise TlsError("tls: failed to find any PEM data in certificate input")
    if len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        raise TlsError(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    raise TlsError(f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}')


def _check_key_input(kinds: list[str]) -> None:
    if any(kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY") for kind in kinds):
        return
    if not kinds:
        raise TlsError("tls: failed to find any PEM data in key input")
    if kinds == ["CERTIFICATE"]:
        raise TlsError("tls: found a certificate rather than a key in the PEM for the private key")
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    raise TlsError(f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}')


def _pem_blocks(data: bytes) -> list[_PemBlock]:
    blocks = []
    for match in _BLOCK.finditer(data):
        body = match["body"].rsplit(b"\n\n", 1)[-1]
        try:
            decoded = base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            continue
        blocks.append(_PemBlock(match["kind"].decode("utf-8", "replace"), decoded, match.end()))
    return blocks
