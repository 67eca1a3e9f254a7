"""A client of any Kubernetes API server over HTTP, and how to find the server and get in.

HTTP/2, or HTTP/1.1 on kept connections, written for this purpose: a scheduler sends many small requests, and
what one of them costs decides how many pods a second it can bind. Watches are HTTP/1.1, each on a connection
of its own, so that a slow one holds up nobody.
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
