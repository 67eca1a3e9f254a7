"""The store over HTTP, as any Kubernetes API server is reached.

`server` listens, `handler` is the chain that a request passes: authentication, authorization, and the
verbs (`verbs`, `subresources`, `reviews`, `watch`). `bodies` and `responses` are the formats, `discovery`,
`openapi` and `tables` describe and show what is served. Begin with `handler`.
"""

from stowplan.localcluster.apiserver.server import ApiServer, Listening

__all__ = ["ApiServer", "Listening"]
