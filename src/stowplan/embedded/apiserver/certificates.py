"""A certificate of our own for a server that nobody else vouches for."""

from typing import Final

from stowplan.serving import certificates
from stowplan.serving.certificates import Certificate

__all__ = ["Certificate", "self_signed"]

_HOSTS: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "::1",
)


def self_signed(addresses: list[str], now: float) -> Certificate:
    """A new certificate for these addresses and for this machine's own names."""
    return certificates.self_signed("stowplan", [*_HOSTS, *addresses], now)
