"""Which proxy a request to an extender goes through: the rules are those of the API client."""

from collections.abc import Mapping

from yarl import URL

from stowplan.client.http import dialer
from stowplan.client.http.settings import Address


def proxy_for(url: URL, environ: Mapping[str, str]) -> str | None:
    """The proxy for an address, None for none."""
    target = Address(url.scheme, url.host or "", url.port or 0)
    return dialer.proxy_for(target, environ) or None
