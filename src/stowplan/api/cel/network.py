"""IP addresses and networks as Kubernetes accepts them in expressions, with the messages of Go's netip."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from stowplan.gocompat.quoting import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NetworkError(ValueError):
    """Text that is no address or network."""


@dataclass(frozen=True, slots=True)
class Ip:
    """An IP address."""

    address: Address

    @property
    def family(self) -> int:
        return self.address.version

    @property
    def size(self) -> int:
        return self.address.max_prefixlen // 8

    @property
    def is_global_unicast(self) -> bool:
        """Everything that is meant for one host beyond the link, private addresses included."""
        address = self.address
        broadcast = address == ipaddress.IPv4Address("255.255.255.255")
        excluded = address.is_unspecified or address.is_loopback or address.is_multicast
        return not (broadcast or excluded or address.is_link_local)

    @property
    def is_link_local_multicast(self) -> bool:
        return self.address in _LINK_LOCAL_MULTICAST[self.family]

    def __str__(self) -> str:
        return str(self.address)


_LINK_LOCAL_MULTICAST: Final[dict[int, ipaddress.IPv4Network | ipaddress.IPv6Network]] = {
    4: ipaddress.IPv4Network("224.0.0.0/24"),
    6: ipaddress.IPv6Network("ff02::/16"),
}


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network: an address of it and the length of its prefix."""

    ip: Ip
    prefix: int

    @property
    def size(self) -> int:
        return (self.prefix + 7) // 8

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.ip.address.packed, self.prefix), strict=False)

    @property
    def masked(self) -> "Cidr":
        return Cidr(Ip(self.network.network_address), self.prefix)

    def contains(self, ip: Ip) -> bool:
        return ip.family == self.ip.family and ip.address in self.network

    def contains_network(self, other: "Cidr") -> bool:
        return self.contains(other.ip) and self.prefix <= other.prefix

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix}"


def parse_ip(text: str) -> Ip:
    """An address without a zone. Raises NetworkError with the words of the `ip` function."""
    try:
        address = _address(text)
    except NetworkError as error:
        what = f"IP Address {quote(text)} parse error during conversion from string: {error}"
        raise NetworkError(what) from None
    if "%" in text:
        raise NetworkError(f"IP address {quote(text)} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise NetworkError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return Ip(address)


def parse_cidr(text: str) -> Cidr:
    """A network `10.0.0.0/8`. Raises NetworkError with the words of the `cidr` function."""
    try:
        found = _prefix(text)
    except NetworkError as error:
        what = f"network address parse error during conversion from string: {error}"
        raise NetworkError(what) from None
    mapped = isinstance(found.ip.address, ipaddress.IPv6Address) and found.ip.address.ipv4_mapped is not None
    if mapped:
        raise NetworkError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return found


def _address(text: str) -> Address:
    wrong = f"ParseAddr({quote(text)}): "
    if not re.search(r"[.:]", text):
        raise NetworkError(f"{wrong}unable to parse IP")
    plain, percent, zone = text.partition("%")
    if "." in plain and ":" not in plain:
        _check_ipv4(text, wrong)
        return ipaddress.IPv4Address(plain)
    if percent and not zone:
        raise NetworkError(f"{wrong}zone must be a non-empty string")
    try:
        return ipaddress.IPv6Address(plain)
    except ValueError:
        raise NetworkError(f"{wrong}unable to parse IP") from None


def _check_ipv4(text: str, wrong: str) -> None:
    parts = text.split(".")
    for part in parts:
        if not part.isascii() or not part.isdigit():
            detail = "unexpected character" if part else "IPv4 field must have at least one digit"
            at = re.search(r"[^0-9.]", text)
            shown = f" (at {quote(text[at.start() :])})" if at and part else f" (at {quote(text)})"
            raise NetworkError(wrong + detail + shown)
        if len(part) > 1 and part[0] == "0":
            raise NetworkError(f"{wrong}IPv4 field has octet with leading zero")
        if len(part) > 3 or int(part) > 255:
            raise NetworkError(f"{wrong}IPv4 field has value >255")
    if len(parts) < 4:
        raise NetworkError(f"{wrong}IPv4 address too short")
    if len(parts) > 4:
        raise NetworkError(f"{wrong}IPv4 address too long")


def _prefix(text: str) -> Cidr:
    wrong = f"netip.ParsePrefix({quote(text)}): "
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise NetworkError(f"{wrong}no '/'")
    try:
        parsed = _address(address)
    except NetworkError as error:
        raise NetworkError(f"{wrong}{error}") from None
    if "%" in address:
        raise NetworkError(f"{wrong}IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]{0,4}", bits, re.ASCII):
        raise NetworkError(f"{wrong}bad bits after slash: {quote(bits)}")
    if int(bits) > parsed.max_prefixlen:
        raise NetworkError(f"{wrong}prefix length out of range")
    return Cidr(Ip(parsed), int(bits))
