"""Fields of protobuf messages as bytes."""


def varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def length_delimited(number: int, raw: bytes) -> bytes:
    """A field whose value is text, bytes or a message."""
    return varint(number << 3 | 2) + varint(len(raw)) + raw
