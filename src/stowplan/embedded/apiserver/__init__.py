"""The store spoken to over HTTP, as any Kubernetes API server is."""

from stowplan.embedded.apiserver.auth import Authenticator
from stowplan.embedded.apiserver.server import ApiServer, Listening

__all__ = ["ApiServer", "Authenticator", "Listening"]
