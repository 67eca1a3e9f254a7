"""Client configurations of webhooks: the URL or service they name, and whom they trust."""

import base64
import binascii
from typing import Final

from stowplan.api.requests import Json
from stowplan.localcluster.remote.calls import Target
from stowplan.localcluster.remote.services import ServiceAddresses

_PORT: Final = 443


def service_of(client: Json) -> tuple[str, str, int] | None:
    """Namespace, name and port of the service of a client configuration, None if it has a URL."""
    service = client.get("service")
    if not service:
        return None
    return service.get("namespace") or "", service.get("name") or "", service.get("port") or _PORT


def target_of(client: Json, services: ServiceAddresses) -> Target:
    """The server of a client configuration. Raises `UnreachableServiceError`."""
    service = service_of(client)
    trusted = ca_bundle(client)
    if service is None:
        return Target(client.get("url") or "", trusted)
    namespace, name, port = service
    return Target(url_of(client), trusted, services.find(namespace, name, port))


def url_of(client: Json) -> str:
    """The URL that a client configuration stands for, as messages show it."""
    service = service_of(client)
    if service is None:
        return str(client.get("url") or "")
    namespace, name, port = service
    path = (client["service"].get("path") or "").lstrip("/")
    return f"https://{name}.{namespace}.svc:{port}/{path}"


def ca_bundle(client: Json) -> bytes:
    """The certificates that the server of a client configuration is trusted by, as PEM."""
    try:
        return base64.b64decode(client.get("caBundle") or "").strip()
    except (binascii.Error, ValueError):
        return b""
