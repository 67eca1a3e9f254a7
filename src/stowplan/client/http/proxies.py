"""Which proxy a server is reached through, as the environment says: HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""

import ipaddress
from collections.abc import Mapping

from stowplan.client.http.settings import Address

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_for(target: Address, environ: Mapping[str, str]) -> str:
    """The proxy for an address, "" for none. What is on this machine is never asked for through a proxy."""
    proxy = _setting(environ, f"{target.scheme}_proxy")
    host = target.host.rstrip(".").lower()
    ip = _ip(host)
    if not proxy or host == "localhost" or (ip is not None and ip.is_loopback):
        return ""
    rules = _setting(environ, "no_proxy").lower().split(",")
    if any(_excludes(rule.strip(), host, ip, target.port) for rule in rules):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _setting(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excludes(rule: str, host: str, ip: _Ip | None, port: int) -> bool:
    """Whether an entry of NO_PROXY is about a host.

    `*` is about all, `10.0.0.0/8` about addresses, `example.com` about the domain and all in it, and
    `.example.com` only about what is in it. An entry with a port is about that port.
    """
    if rule in ("", "*"):
        return rule == "*"
    if ip is not None and "/" in rule:
        return _in_network(ip, rule)
    name, wanted_port = _split_port(rule)
    if wanted_port and wanted_port != str(port):
        return False
    rule_ip = _ip(name)
    if rule_ip is not None:
        return rule_ip == ip
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    if _ip(rule) is not None:
        return rule, ""
    name, colon, port = rule.rpartition(":")
    return (name, port) if colon and port.isdigit() else (rule, "")


def _in_network(ip: _Ip, rule: str) -> bool:
    try:
        return ip in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _ip(text: str) -> _Ip | None:
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
