"""TLS towards a server: whom to trust and which certificate to show, read again when files change."""

import re
import ssl
from pathlib import Path
from typing import Final

from stowplan.client.http.certfiles import FileStamp, file_stamp, load_key_pair
from stowplan.client.http.settings import AccessError, Secret, Trust

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_Stamps = tuple[FileStamp | None, ...]


class Tls:
    """The context connections are made with. Files that were written anew are used for new connections."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._stamps: _Stamps = ()
        self._shown: tuple[bytes, bytes] = (b"", b"")

    @property
    def server_name(self) -> str:
        """The name the server's certificate must have, "" for that of its address."""
        return self._trust.server_name

    @property
    def shows_certificate(self) -> bool:
        """True if we have a client certificate."""
        return bool(self._shown[0] or self._trust.certificate)

    def show(self, certificate: bytes, key: bytes) -> bool:
        """Show another certificate from now on, as a credential plugin gives it; tells if that is new."""
        if self._shown == (certificate, key):
            return False
        self._shown = (certificate, key)
        self._context = None
        return True

    def context(self) -> ssl.SSLContext:
        """Raises AccessError, one line with the place of what cannot be used."""
        stamps = self._current_stamps()
        if self._context is None or stamps != self._stamps:
            self._context = self._make()
            self._stamps = stamps
        return self._context

    def _current_stamps(self) -> _Stamps:
        trust = self._trust
        return tuple(_stamp(one, trust.where) for one in (trust.authority, trust.certificate, trust.key))

    def _make(self) -> ssl.SSLContext:
        trust = self._trust
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.hostname_checks_common_name = False
        if trust.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif trust.authority:
            _believe(context, trust.authority, trust.where)
        else:
            context.load_default_certs()
        certificate, key = self._shown
        if not certificate and trust.certificate:
            certificate = read_secret(trust.certificate, trust.where, "client-certificate")
            key = read_secret(trust.key, trust.where, "client-key")
        if certificate:
            _show(context, certificate, key, trust.where)
        return context


def read_secret(secret: Secret, where: str, field: str) -> bytes:
    """Content of a setting or of its file. Raises AccessError."""
    if secret.data:
        return secret.data
    try:
        return Path(secret.file).read_bytes()
    except OSError as error:
        raise AccessError(
            f"{where}: {field}: {secret.file}: {(error.strerror or str(error)).lower()}"
        ) from None


def _stamp(secret: Secret, where: str) -> FileStamp | None:
    """Stamp that changes when a secret's file is replaced; None for a secret that is in no file."""
    if not secret.file:
        return None
    try:
        return file_stamp(secret.file)
    except OSError as error:
        raise AccessError(f"{where}: {secret.file}: {(error.strerror or str(error)).lower()}") from None


def _believe(context: ssl.SSLContext, authority: Secret, where: str) -> None:
    """Trust every certificate of a bundle."""
    field = "certificate-authority" + ("-data" if authority.data else "")
    blocks = _CERTIFICATE.findall(read_secret(authority, where, field))
    try:
        for block in blocks:
            context.load_verify_locations(cadata=block.decode("ascii", "replace"))
    except ssl.SSLError:
        blocks = []
    if not blocks:
        raise AccessError(f"{where}: {field}: expected certificates in PEM form")


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes, where: str) -> None:
    try:
        load_key_pair(context, certificate, key)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        problem = "it does not match client-key" if mismatch else "expected a certificate and its key as PEM"
        raise AccessError(f"{where}: client-certificate: {problem}") from None
