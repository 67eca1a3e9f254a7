"""TLS towards an extender: whom to trust, and which certificate to show."""

import contextlib
import re
import ssl
from pathlib import Path

from stowplan.client.http.certfiles import FileStamp, file_stamp, load_key_pair, load_key_pair_files
from stowplan.config.errors import describe_os_error
from stowplan.config.types import Extender, ExtenderTLS

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class TlsSettingsError(ValueError):
    """TLS settings that cannot be used now; they were checked when the configuration was read."""


class ClientTls:
    """The TLS settings of one extender.

    Without a CA, `enableHTTPS` means that any certificate is accepted. A certificate of our own that is
    kept in files is read again when they change, and used for new connections.
    """

    def __init__(self, extender: Extender) -> None:
        self._settings = extender.tls_config or ExtenderTLS()
        has_ca = bool(self._settings.ca_data or self._settings.ca_file)
        self._verify = not (self._settings.insecure or (extender.enable_https and not has_ca))
        self._context: ssl.SSLContext | None = None
        self._loaded: tuple[FileStamp, ...] = ()

    @property
    def server_name(self) -> str | None:
        """The name the server's certificate must have, None for that of its address."""
        return self._settings.server_name or None

    def context(self) -> ssl.SSLContext:
        """What connections are made with: always the same object, brought up to date.

        Raises TlsSettingsError.
        """
        try:
            if self._context is None:
                self._context = self._make()
            self._reload(self._context)
        except ssl.SSLError as error:
            raise TlsSettingsError(_problem(error)) from None
        except OSError as error:
            raise TlsSettingsError(describe_os_error(error, str(error.filename))) from None
        return self._context

    def _make(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.hostname_checks_common_name = False
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif settings.ca_data or settings.ca_file:
            _trust(context, settings.ca_data or Path(settings.ca_file).read_bytes())
        else:
            context.load_default_certs()
        if self._has_certificate and not self._from_files:
            certificate = settings.cert_data or Path(settings.cert_file).read_bytes()
            key = settings.key_data or Path(settings.key_file).read_bytes()
            load_key_pair(context, certificate, key)
        return context

    @property
    def _has_certificate(self) -> bool:
        settings = self._settings
        return bool((settings.cert_file or settings.cert_data) and (settings.key_file or settings.key_data))

    @property
    def _from_files(self) -> bool:
        return self._has_certificate and not (self._settings.cert_data or self._settings.key_data)

    def _reload(self, context: ssl.SSLContext) -> None:
        if not self._from_files:
            return
        files = self._settings.cert_file, self._settings.key_file
        stamps = tuple(map(file_stamp, files))
        if stamps != self._loaded:
            load_key_pair_files(context, *files)
            self._loaded = stamps


def _problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "tls: private key does not match public key"
    return f"tls: failed to parse certificate or private key: {(error.reason or str(error)).lower()}"


def _trust(context: ssl.SSLContext, pem: bytes) -> None:
    """Trust every certificate of a bundle; a broken one among good ones does no harm."""
    for block in _CERTIFICATE.findall(pem):
        with contextlib.suppress(ssl.SSLError):
            context.load_verify_locations(cadata=block.decode("ascii", "replace"))
