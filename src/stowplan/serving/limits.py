"""How much anybody may ask of the port."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that keep a flood from exhausting memory and a slow client from holding its place.

    `connections` at a time; each has `handshake` seconds to become secure, `idle` seconds between requests,
    `request` seconds to send one whole, and `stalled` seconds in which something of an answer must have gone
    out, of which somebody makes sure every `look` seconds. `requests` are answered at a time. `body`,
    `head` (of a request), `line` and `header` (one of each) are bytes, `headers` a number.
    """

    connections: int = 128
    requests: int = 100
    handshake: float = 10.0
    request: float = 32.0
    idle: float = 90.0
    stalled: float = 30.0
    look: float = 1.0
    body: int = 1 << 20
    head: int = 64 << 10
    line: int = 8190
    header: int = 16 << 10
    headers: int = 64
