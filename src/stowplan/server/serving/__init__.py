"""The secure port: HTTPS pages with delegated authentication and authorization.

`SecureServer` serves pages by path. Requests pass a filter chain (`filters`) that has the API server
authenticate and authorize them, as kube-scheduler does. `pages/` has the pages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stowplan.server.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    Limits,
    RequestHeaderSettings,
    ServingError,
    ServingSettings,
    SniCertificate,
)

if TYPE_CHECKING:
    from stowplan.server.serving.filters import Page, Pages
    from stowplan.server.serving.server import SecureServer

__all__ = [
    "AuthenticationSettings",
    "AuthorizationSettings",
    "Limits",
    "Page",
    "Pages",
    "RequestHeaderSettings",
    "SecureServer",
    "ServingError",
    "ServingSettings",
    "SniCertificate",
]

_PLACES = {"Page": "filters", "Pages": "filters", "SecureServer": "server"}


def __getattr__(name: str) -> Any:
    """Import parts that need an HTTP server on first use: settings are read without one."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
