"""The socket that the port listens on."""

import os
import socket
from ipaddress import ip_address

from stowplan.serving.errors import ServingError
from stowplan.serving.settings import ServingSettings


def listen(settings: ServingSettings) -> socket.socket:
    """Raises `ServingError` if the address cannot be had.

    An address that was in use a moment ago may always be used again, as in kube-scheduler; sharing a port
    with another process has to be asked for.
    """
    try:
        address = ip_address(settings.bind_address)
    except ValueError:
        raise ServingError(f"--bind-address: expected an IP address, got {settings.bind_address!r}") from None
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    port = 0 if settings.any_free_port else settings.port
    try:
        return socket.create_server(
            (settings.bind_address, port),
            family=family,
            backlog=1024,
            reuse_port=settings.permit_port_sharing,
            dualstack_ipv6=address.version == 6 and address.is_unspecified,
        )
    except OSError as error:
        host = f"[{address}]" if address.version == 6 else str(address)
        where = f"{host}:{port}"
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise ServingError(
            f"failed to create listener: failed to listen on {where}: listen tcp {where}: bind: {why}"
        ) from None
