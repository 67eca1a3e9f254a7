"""The parts of HTTP/1.1 that a client of an API server needs: heads of answers, and chunks."""

import re
from typing import Final, NamedTuple

LONGEST_HEAD: Final = 64 * 1024
_LONGEST_CHUNK_LINE: Final = 256
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: |$|\r)")
_LENGTH: Final = b"\r\ncontent-length:"
_ENCODING: Final = b"\r\ntransfer-encoding:"
_CONNECTION: Final = b"\r\nconnection:"
_RETRY_AFTER: Final = b"\r\nretry-after:"
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


class MalformedError(ValueError):
    """What came is not HTTP."""


class Head(NamedTuple):
    """What matters of an answer's head. Without `length` and chunks the answer ends with the connection."""

    status: int
    length: int | None
    chunked: bool
    closes: bool
    retry_after: float | None


def parse_head(text: bytes) -> Head:
    """Read a status line and the few header fields that matter. Raises MalformedError."""
    found = _STATUS.match(text)
    if found is None:
        raise MalformedError(f"malformed HTTP response {text[:40].decode('latin-1')!r}")
    status = int(found[2])
    lowered = text.lower()
    length: int | None = None
    given = _field(lowered, _LENGTH)
    if given is not None:
        if not given.isdigit() or len(given) > 18:
            raise MalformedError(f"malformed Content-Length {given[:40].decode('latin-1')!r}")
        length = int(given)
    encoding = _field(lowered, _ENCODING)
    if encoding is not None and encoding != b"chunked":
        raise MalformedError(f"unsupported transfer encoding {encoding[:40].decode('latin-1')!r}")
    connection = _field(lowered, _CONNECTION)
    closes = b"close" in connection if connection is not None else found[1] == b"0"
    if status == 204 or status == 304:
        length, encoding = 0, None
    after = _field(lowered, _RETRY_AFTER) if status >= 400 else None
    retry_after = float(after) if after is not None and after.isdigit() and len(after) < 8 else None
    return Head(status, length, encoding is not None, closes, retry_after)


def _field(lowered: bytes, name: bytes) -> bytes | None:
    at = lowered.find(name)
    if at < 0:
        return None
    begin = at + len(name)
    end = lowered.find(b"\r\n", begin)
    return lowered[begin : end if end >= 0 else len(lowered)].strip()


class Chunks:
    """Takes chunks apart as they come in, wherever they are cut."""

    __slots__ = ("_in_trailer", "_left", "_rest", "ended")

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0
        """Bytes of the present chunk that are to come, with the line end after it."""
        self._in_trailer = False
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """The contents of what came, in order; sets `ended` at the last chunk. Raises MalformedError."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._left:
                at = self._take(data, at, pieces)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                if size - at > _LONGEST_CHUNK_LINE:
                    raise MalformedError("malformed chunked encoding")
                self._rest = data[at:]
                break
            line = data[at:end].rstrip(b"\r")
            at = end + 1
            if self._in_trailer:
                self.ended = not line
            else:
                self._begin(line)
        if self.ended and at < size:
            raise MalformedError("unexpected data after an answer")
        return pieces

    def _begin(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 15 or not _HEXADECIMAL.issuperset(digits):
            raise MalformedError("malformed chunked encoding")
        length = int(digits, 16)
        if length:
            self._left = length + 2
        else:
            self._in_trailer = True

    def _take(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take what is there of the present chunk; gives the place behind it."""
        there = min(self._left, len(data) - at)
        content = min(there, self._left - 2)
        if content > 0:
            pieces.append(data[at : at + content])
        ending = data[at + max(content, 0) : at + there]
        if ending and ending not in (b"\r\n", b"\r", b"\n"):
            raise MalformedError("malformed chunked encoding")
        self._left -= there
        return at + there
