"""Certificates and private keys in files: loaded into an SSL context, and noticed when they are replaced."""

import os
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path

FileStamp = tuple[int, int, int]
"""Modification time, size and inode: at least one of them differs once a file has been replaced."""


def file_stamp(file: str | Path) -> FileStamp:
    """The stamp of a file; of the target if it is a symbolic link. Raises OSError."""
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size, found.st_ino


class FileStamps:
    """The stamps of several files, some of which may not exist."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = tuple(files)
        self._last = self._read()

    def changed(self) -> bool:
        """True if any file has changed since the last call, or since the beginning."""
        before, self._last = self._last, self._read()
        return before != self._last

    def _read(self) -> list[FileStamp | None]:
        return [_stamp_or_none(file) for file in self._files]


def _stamp_or_none(file: str) -> FileStamp | None:
    try:
        return file_stamp(file)
    except OSError:
        return None


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present a certificate, both given as PEM. Raises `ssl.SSLError`.

    The ssl module reads a key only from a file, so one exists for a moment, in a directory of our own.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "tls.crt"), Path(folder, "tls.key")
        files[0].write_bytes(certificate)
        files[1].touch(mode=0o600)
        files[1].write_bytes(key)
        load_key_pair_files(context, *files)


def load_key_pair_files(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    """Present a certificate that is in files. Raises `ssl.SSLError` or OSError."""
    context.load_cert_chain(certificate, key, password=_no_password)


def _no_password() -> str:
    """Encrypted keys are not supported; without this OpenSSL would ask at the terminal for the password."""
    return ""
