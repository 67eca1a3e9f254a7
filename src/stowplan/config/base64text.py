"""Reading base64 text, with the position of a mistake as Go's reader reports it."""

import base64

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_LINE_BREAKS = frozenset(b"\r\n")
_PADDING = ord("=")


class Base64Error(ValueError):
    """Text that is not base64."""


def decode_base64(text: str) -> bytes:
    """Decode standard base64 with padding; line breaks are ignored. Raises Base64Error."""
    data = text.encode("utf-8", "surrogatepass")
    mistake = _first_mistake(data)
    if mistake is not None:
        raise Base64Error(f"illegal base64 data at input byte {mistake}")
    return base64.b64decode(bytes(byte for byte in data if byte not in _LINE_BREAKS))


def _first_mistake(data: bytes) -> int | None:
    position, in_group = 0, 0
    while position < len(data):
        byte = data[position]
        if byte in _ALPHABET:
            in_group = (in_group + 1) % 4
        elif byte == _PADDING:
            return _padding_mistake(data, position, in_group)
        elif byte not in _LINE_BREAKS:
            return position
        position += 1
    return len(data) - in_group if in_group else None


def _padding_mistake(data: bytes, position: int, in_group: int) -> int | None:
    """What is wrong from the first padding character on."""
    if in_group < 2:
        return position
    end = _after_line_breaks(data, position + 1)
    if in_group == 2:
        if end == len(data):
            return len(data)
        if data[end] != _PADDING:
            return end - 1
        end = _after_line_breaks(data, end + 1)
    return end if end < len(data) else None


def _after_line_breaks(data: bytes, position: int) -> int:
    while position < len(data) and data[position] in _LINE_BREAKS:
        position += 1
    return position
