"""The server a pod runs under, from what every pod finds in itself."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stowplan.client.http.settings import AccessError, Address, Identity, Secret, Server, Trust

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Server:
    """Where the server is and how to get in. Raises AccessError where this is no pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "in-cluster configuration: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: "
            "expected both to be set, as in a pod"
        )
    token = folder / "token"
    if not token.is_file():
        raise AccessError(f"in-cluster configuration: {token}: expected the token of a service account")
    try:
        address = Address.parse(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    except ValueError as error:
        raise AccessError(f"in-cluster configuration: {error}") from None
    authority = folder / "ca.crt"
    trust = Trust(
        Secret(file=str(authority)) if authority.is_file() else Secret(), where="in-cluster configuration"
    )
    return Server(address, trust, Identity(token_file=str(token)), namespace=_namespace(folder))


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text("utf-8").strip() or "default"
    except OSError:
        return "default"
