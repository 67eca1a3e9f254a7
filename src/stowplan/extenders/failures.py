"""What went wrong on the way to an extender, in the words people know from kube-scheduler's events."""

import errno
import os
import socket
import ssl

import aiohttp
from yarl import URL

from stowplan.gocompat.quoting import quote

WHILE_WAITING = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
WHILE_READING = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"

_UNTRUSTED = frozenset((18, 19, 20, 21))
_NOT_IN_FORCE = frozenset((9, 10))


def posting(url: str, problem: str) -> str:
    """A problem with a request as a whole. A password in the address is not repeated."""
    return f"Post {quote(_without_password(url))}: {problem}"


def describe(error: Exception) -> str:
    """A failure of the transport."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_problem(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _connect_problem(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    if isinstance(error, aiohttp.TooManyRedirects):
        return "stopped after 10 redirects"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return error.message
    if isinstance(error, aiohttp.ClientResponseError):
        return f"net/http: HTTP/1.x transport connection broken: {error.message}"
    if isinstance(error, OSError) and error.errno is not None:
        operation = "write" if error.errno == errno.EPIPE else "read"
        return f"{operation}: {_system_text(error.errno)}"
    return str(error) or type(error).__name__


def _connect_problem(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    host = f"[{error.host}]" if ":" in error.host else error.host
    if isinstance(cause, ssl.SSLError):
        return f"tls: {(cause.reason or str(cause)).lower().replace('_', ' ')}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {error.host}: no such host"
    what = _system_text(cause.errno) if cause.errno else str(cause)
    return f"dial tcp {host}:{error.port}: connect: {what}"


def _certificate_problem(cause: Exception) -> str:
    code = getattr(cause, "verify_code", 0)
    if code in _UNTRUSTED:
        problem = "certificate signed by unknown authority"
    elif code in _NOT_IN_FORCE:
        problem = "certificate has expired or is not yet valid"
    else:
        problem = str(getattr(cause, "verify_message", "") or cause).rstrip(".")
    return f"tls: failed to verify certificate: x509: {problem}"


def _system_text(number: int) -> str:
    return os.strerror(number).lower()


def _without_password(url: str) -> str:
    if "@" not in url:
        return url
    parsed = URL(url)
    return str(parsed.with_password("***")) if parsed.password is not None else url
