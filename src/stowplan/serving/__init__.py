"""The secure port: HTTPS pages with delegated authentication and authorization.

`SecureServer` serves pages by path. Requests pass a filter chain (`filters`) that has the API server
authenticate and authorize them, as kube-scheduler does. `pages/` has the pages.
"""

from stowplan.serving.filters import Page, Pages
from stowplan.serving.server import SecureServer
from stowplan.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    Limits,
    RequestHeaderSettings,
    ServingError,
    ServingSettings,
    SniCertificate,
)

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
