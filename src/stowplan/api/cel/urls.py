"""URLs as Go's `url.ParseRequestURI` takes them: absolute, or a path."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote_plus, unquote_to_bytes

from stowplan.gocompat.quoting import quote

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_CHARACTERS: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*")
_PATH_SAFE: Final = "$&+,/:;=@!'()*~-._"


class UrlError(ValueError):
    """Text that is no URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts."""

    text: str
    scheme: str
    host: str
    raw_path: str
    raw_query: str

    @property
    def hostname(self) -> str:
        host, _ = self._split()
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        return self._split()[1]

    @property
    def escaped_path(self) -> str:
        path = self.raw_path
        if re.fullmatch(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/%\[\]]*", path):
            return path
        return percent_encoded(unquote_to_bytes(path), safe=_PATH_SAFE)

    @property
    def query(self) -> dict[str, list[str]]:
        """The parameters; a pair that cannot be read is left out."""
        found: dict[str, list[str]] = {}
        for part in self.raw_query.split("&"):
            if not part or ";" in part or _BAD_ESCAPE.search(part):
                continue
            key, _, value = part.partition("=")
            found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return found

    def _split(self) -> tuple[str, str]:
        at = self.host.rfind(":")
        port = self.host[at + 1 :]
        if at < 0 or (port and not port.isdigit()):
            return self.host, ""
        return self.host[:at], port


def parse(text: str) -> Url:
    """The URL of a request. Raises UrlError."""
    try:
        return _parse(text)
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def _parse(text: str) -> Url:
    if any(one < " " or one == "\x7f" for one in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text:
        raise UrlError("empty url")
    if text == "*":
        return Url(text, "", "", "*", "")
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query)
        raise UrlError("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    wrong = _BAD_ESCAPE.search(rest)
    if wrong:
        raise UrlError(f"invalid URL escape {quote(wrong[0])}")
    return Url(text, scheme, host, rest, query)


def _host(authority: str) -> str:
    user, _, host = authority.rpartition("@")
    if user and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user):
        raise UrlError("net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise UrlError("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.find(":") :] if ":" in host else ""
    if port and not re.fullmatch(r":[0-9]*", port, re.ASCII):
        raise UrlError(f"invalid port {quote(port)} after host")
    bad = next((one for one in host if not _HOST_CHARACTERS.fullmatch(one)), None)
    if bad is not None:
        raise UrlError(f"invalid character {quote(bad)} in host name")
    return host
