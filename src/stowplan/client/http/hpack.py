"""Header fields of HTTP/2 as they are sent (HPACK, RFC 7541).

Towards the server: fields that all requests of a kind have in common are put into the table once, and are a
byte each from then on. From the server: we allow it no table, so a block of fields depends on no other one,
and nothing of it is decoded before it is needed. For a successful answer that is the status alone.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol


class HeaderError(ValueError):
    """A header block that cannot be read."""


Field = tuple[bytes, bytes]

TABLE_SIZE: Final = 4096
"""Bytes of our table, if the server allows that many."""

_ENTRY: Final = 32
"""Bytes that every entry of a table counts in addition to its name and value."""

_STATIC: Final[tuple[Field, ...]] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    *((b":status", code) for code in (b"200", b"204", b"206", b"304", b"400", b"404", b"500")),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *(
        (name, b"")
        for name in (
            b"accept-language accept-ranges accept access-control-allow-origin age allow authorization "
            b"cache-control content-disposition content-encoding content-language content-length "
            b"content-location content-range content-type cookie date etag expect expires from host if-match "
            b"if-modified-since if-none-match if-range if-unmodified-since last-modified link location "
            b"max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server "
            b"set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    ),
)
_FIRST_OWN: Final = len(_STATIC) + 1
_STATIC_FIELDS: Final = {field: number for number, field in enumerate(_STATIC, 1)}
_STATIC_NAMES: Final = {name: number for number, (name, _) in reversed(list(enumerate(_STATIC, 1)))}

# Numbers and strings


def number(value: int, prefix: int, flags: int = 0) -> bytes:
    """A number whose first byte has `prefix` bits for it; the others are flags."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes((flags | value,))
    out = bytearray((flags | most,))
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: bytes) -> bytes:
    """A string as it is: few of ours are sent twice, and coding them takes longer than sending them."""
    return number(len(text), 7) + text


def _number(block: bytes, at: int, prefix: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    most = (1 << prefix) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in (0, 7, 14, 21):
        byte = block[at]
        at += 1
        value += (byte & 127) << shift
        if byte < 128:
            return value, at
    raise HeaderError("malformed header block: a number too large")


_BY_LENGTH: Final = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\x00$@[]~",
    14: b"^}",
    15: b"<`{",
    19: b"\\\xc3\xd0",
    20: b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2",
    21: b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6",
    22: b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6"
    b"\xe4\xe8\xe9",
    23: b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7"
    b"\xbc\xbf\xc5\xe7\xef",
    24: b"\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed",
    25: b"\xc7\xcf\xea\xeb",
    26: b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
    27: b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe",
    28: b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d"
    b"\x1e\x1f\x7f\xdc\xf9",
    30: b"\n\r\x16",
}
"""The bytes by the bits of their Huffman code. The code is canonical, so the codes follow from this."""


def _codes() -> dict[int, int]:
    """From a code, with a one before its first bit, to its byte."""
    found: dict[int, int] = {}
    code, before = 0, 0
    for length, symbols in _BY_LENGTH.items():
        code <<= length - before
        before = length
        for symbol in symbols:
            found[1 << length | code] = symbol
            code += 1
    return found


_CODES: Final = _codes()
_CODE_OF: Final = {symbol: code for code, symbol in _CODES.items()}


def huffman(text: bytes) -> bytes:
    """A string in its short form."""
    bits = "".join(f"{_CODE_OF[symbol]:b}"[1:] for symbol in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8) if bits else b""


def unhuffman(text: bytes) -> bytes:
    """Decode a Huffman-coded string. Raises HeaderError."""
    found = bytearray()
    code = 1
    for byte in text:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            symbol = _CODES.get(code)
            if symbol is not None:
                found.append(symbol)
                code = 1
        if code >> 31:
            break
    if code >> 8 or code + 1 & code:
        raise HeaderError("malformed header block: a malformed Huffman code")
    return bytes(found)


# Received fields

_Raw = tuple[bytes, bool]
"""A string as it came, and whether that is its short form."""


def status_of(block: bytes) -> int:
    """The status of an answer: the first field of its block. Raises HeaderError."""
    at = 0
    while block[at : at + 1] == b"\x20":
        at += 1
    first = block[at : at + 1]
    if first in _NAMED_STATUS:
        first = block[at : at + 2 + (block[at + 1] & 127 if at + 1 < len(block) else 0)]
    known = _STATUSES.get(first)
    if known is not None:
        return known
    text = value_of(block, b":status")
    if text is None or len(text) != 3 or not text.isdigit() or text < b"100":
        raise HeaderError("malformed HTTP response: no status")
    if 3 < len(first) < 6 and len(_STATUSES) < _MOST_STATUSES:
        _STATUSES[first] = int(text)
    return int(text)


_NAMED_STATUS: Final = frozenset(
    bytes((flags | position,))
    for position, (name, _) in enumerate(_STATIC, 1)
    for flags in (0x00, 0x10, 0x40)
    if name == b":status"
)
"""Encodings of the name of a status without an indexed value."""
_STATUSES: Final = {
    number(position, 7, 128): int(value)
    for position, (name, value) in enumerate(_STATIC, 1)
    if name == b":status"
}
"""Statuses by the field as it comes. Those without a number of their own are added when they are seen."""
_MOST_STATUSES: Final = 64


LONGEST_LIST: Final = 64 * 1024
"""Bytes of the fields of a head, each counted as an entry of a table. Sent to the server as its limit."""
_LONGEST_VALUE: Final = 1024
"""Bytes of a value that is decoded: a status, a date, seconds."""


def value_of(block: bytes, name: bytes) -> bytes | None:
    """The value of a field, None if it is not there. Raises HeaderError."""
    short = huffman(name)
    for found, (value, is_short) in _fields(block):
        if found == (name, False) or found == (short, True):
            if len(value) > _LONGEST_VALUE:
                raise HeaderError("malformed header block: a value too long")
            return unhuffman(value) if is_short else value
    return None


def _fields(block: bytes) -> Iterator[tuple[_Raw, _Raw]]:
    """The fields of a block, as long as they are not more than may be in one.

    A field can be a single byte, so that a block has far more of them than of bytes in a list.
    """
    room = LONGEST_LIST
    for field in _all_fields(block):
        (name, _), (value, _) = field
        room -= len(name) + len(value) + _ENTRY
        if room < 0:
            raise HeaderError("malformed header block: more fields than are taken")
        yield field


def _all_fields(block: bytes) -> Iterator[tuple[_Raw, _Raw]]:
    at, size = 0, len(block)
    begun = False
    try:
        while at < size:
            first = block[at]
            if first & 0xE0 == 0x20:
                limit, at = _number(block, at, 5)
                if limit or begun:
                    raise HeaderError("malformed header block: a table that was not allowed")
                continue
            begun = True
            if first & 0x80:
                position, at = _number(block, at, 7)
                name, value = _static(position)
                yield (name, False), (value, False)
                continue
            position, at = _number(block, at, 6 if first & 0x40 else 4)
            if position:
                found = (_static(position)[0], False)
            else:
                found, at = _string(block, at)
            given, at = _string(block, at)
            yield found, given
    except IndexError:
        raise HeaderError("malformed header block: it ends too early") from None


def _string(block: bytes, at: int) -> tuple[_Raw, int]:
    is_short = block[at] >= 128
    length, at = _number(block, at, 7)
    end = at + length
    if end > len(block):
        raise HeaderError("malformed header block: it ends too early")
    return (block[at:end], is_short), end


def _static(position: int) -> Field:
    if not 0 < position < _FIRST_OWN:
        raise HeaderError("malformed header block: a field that is in no table")
    return _STATIC[position - 1]


# Sent fields


class Common(Protocol):
    """Common parts of many requests."""

    @property
    def fields(self) -> tuple[Field, ...]: ...


class Encoder:
    """Makes header blocks for one connection, and knows what is in the table at the far end."""

    def __init__(self) -> None:
        self._limit = TABLE_SIZE
        self._size = 0
        self._entries: deque[Field] = deque()
        """Entries of the table, the oldest first."""
        self._numbers: dict[Field, int] = {}
        """Which one an entry was, counted from the first one ever."""
        self._inserted = 0
        self._smallest: int | None = None
        """The smallest size since the last block, if the server has to be told of another one."""
        self._blocks: dict[Common, bytes] = {}
        """Blocks that hold as long as nothing is added to the table."""

    def resize(self, limit: int) -> None:
        """The server changes the maximum size of the table; our answer is the part of it that we use."""
        limit = min(limit, TABLE_SIZE)
        if limit == self._limit:
            return
        self._smallest = limit if self._smallest is None else min(limit, self._smallest)
        self._limit = limit
        self._make_room(0)
        self._blocks.clear()

    def block(self, common: Common, path: bytes, length: int | None) -> bytes:
        """The fields of a request. Without a length it has no body."""
        known = self._blocks.get(common) or self._encode(common)
        size = len(path)
        start = b"\x04%c%b" % (size, path) if size < 127 else b"\x04" + string(path)
        if self._smallest is not None:
            start = self._announcement() + start
        if length is None:
            return start + known
        digits = b"%d" % length
        return b"%b%b\x0f\x0d%c%b" % (start, known, len(digits), digits)

    def _announcement(self) -> bytes:
        smallest, self._smallest = self._smallest, None
        text = number(self._limit, 5, 0x20)
        return text if smallest is None or smallest == self._limit else number(smallest, 5, 0x20) + text

    def _encode(self, common: Common) -> bytes:
        inserted = self._inserted
        block = b"".join([self._field(field) for field in common.fields])
        if inserted == self._inserted:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[common] = block
        return block

    def _field(self, field: Field) -> bytes:
        static = _STATIC_FIELDS.get(field)
        if static is not None:
            return number(static, 7, 0x80)
        own = self._numbers.get(field)
        if own is not None:
            return number(_FIRST_OWN + self._inserted - 1 - own, 7, 0x80)
        name, value = field
        known = _STATIC_NAMES.get(name, 0)
        named = b"" if known else string(name)
        size = len(name) + len(value) + _ENTRY
        if size > self._limit:
            return number(known, 4) + named + string(value)
        self._make_room(size)
        self._entries.append(field)
        self._numbers[field] = self._inserted
        self._inserted += 1
        self._size += size
        self._blocks.clear()
        return number(known, 6, 0x40) + named + string(value)

    def _make_room(self, size: int) -> None:
        while self._size + size > self._limit:
            name, value = gone = self._entries.popleft()
            del self._numbers[gone]
            self._size -= len(name) + len(value) + _ENTRY


_MOST_BLOCKS: Final = 64
