"""Which proxy a request goes through, as the environment says: HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""

import ipaddress
from collections.abc import Mapping

from yarl import URL

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_for(url: URL, environ: Mapping[str, str]) -> str | None:
    """The proxy for an address, None for none. What is on this machine is never asked for through a proxy."""
    proxy = _setting(environ, f"{url.scheme}_proxy")
    host = (url.host or "").rstrip(".").lower()
    address = _address(host)
    if not proxy or host == "localhost" or (address is not None and address.is_loopback):
        return None
    for rule in _setting(environ, "no_proxy").lower().split(","):
        if _excludes(rule.strip(), host, address, url.port):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _setting(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excludes(rule: str, host: str, address: _Address | None, port: int | None) -> bool:
    """Whether an entry of NO_PROXY is about a host.

    `*` is about all, `10.0.0.0/8` about addresses, `example.com` about the domain and all in it, and
    `.example.com` only about what is in it. An entry with a port is about that port.
    """
    if rule in ("", "*"):
        return rule == "*"
    if address is not None and "/" in rule:
        return _in_network(address, rule)
    name, wanted_port = _split_port(rule)
    if wanted_port and wanted_port != str(port):
        return False
    rule_address = _address(name)
    if rule_address is not None:
        return rule_address == address
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    if _address(rule) is not None:
        return rule, ""
    name, colon, port = rule.rpartition(":")
    return (name, port) if colon and port.isdigit() else (rule, "")


def _in_network(address: _Address, rule: str) -> bool:
    try:
        return address in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
