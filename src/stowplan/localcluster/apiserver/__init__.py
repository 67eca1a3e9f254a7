"""The store spoken to over HTTP, as any Kubernetes API server is."""

from stowplan.localcluster.apiserver.server import ApiServer, Listening

__all__ = ["ApiServer", "Listening"]
