"""Ports for processes that have to be told where to listen, before they do."""

import os
import socket
from itertools import count
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_FOR_CONNECTIONS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Of which ports the system gives one to every connection that is made."""

_APART: Final = 251
"""How far apart the ports begin that two processes try which were started one after the other."""

_numbers = count()


def free_port() -> int:
    """An unused port of the loopback interface, which no connection is assigned meanwhile.

    A port that the system picks may be taken before a process listens on it: connections get ports from the
    same range.
    """
    try:
        end = int(_FOR_CONNECTIONS.read_text().split()[0])
    except (OSError, ValueError):
        end = 0
    room = end - _LOWEST
    if room < _APART:
        return _bound(0)
    for _ in range(room):
        tried = _LOWEST + (os.getpid() * _APART + next(_numbers)) % room
        try:
            return _bound(tried)
        except OSError:
            continue
    return _bound(0)


def _bound(port: int) -> int:
    """The number of a port that can be bound; 0 for any. Raises OSError."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", port))
        number: int = one.getsockname()[1]
        return number
