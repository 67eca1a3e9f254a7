"""A client of any Kubernetes API server over HTTP, with its discovery and credentials.

HTTP/2, or HTTP/1.1 on kept connections, written for this purpose: a scheduler sends many small requests, and
the cost of one of them decides how many pods a second it can bind. Watches are HTTP/1.1, each on a separate
connection, so that a slow one does not block the others.
"""

from stowplan.client.http.availability import ServerAvailability
from stowplan.client.http.client import HttpClient
from stowplan.client.http.kubeconfig import default_kubeconfigs, in_cluster, load_kubeconfig
from stowplan.client.http.settings import AccessError, Address, Identity, Secret, Server, Trust
from stowplan.client.http.transport import Observer
from stowplan.client.http.watch import HttpWatch

__all__ = [
    "AccessError",
    "Address",
    "HttpClient",
    "HttpWatch",
    "Identity",
    "Observer",
    "Secret",
    "Server",
    "ServerAvailability",
    "Trust",
    "default_kubeconfigs",
    "in_cluster",
    "load_kubeconfig",
]
