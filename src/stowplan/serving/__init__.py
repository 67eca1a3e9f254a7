"""The secure port: who may ask, and what is answered there.

`SecureServer` takes pages by path and puts them behind HTTPS, authentication and authorization, both
delegated to the API server as kube-scheduler does. `pages/` has the pages themselves.
"""

from stowplan.serving.errors import ServingError
from stowplan.serving.limits import Limits
from stowplan.serving.routing import Page, Pages
from stowplan.serving.server import SecureServer
from stowplan.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    RequestHeaderSettings,
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
