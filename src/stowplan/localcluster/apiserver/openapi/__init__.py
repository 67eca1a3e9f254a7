"""The API described in its own documents, for kubectl's validation and `kubectl explain`."""

from stowplan.localcluster.apiserver.openapi.documents import OpenApi

__all__ = ["OpenApi"]
