"""Host ports: which ones a pod takes on its node and which of them exclude each other."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stowplan.api.pod import ContainerPort, Pod

ANY_ADDRESS: Final = "0.0.0.0"
DEFAULT_PROTOCOL: Final = "TCP"


class HostPort(NamedTuple):
    """A port on a node's address. `0.0.0.0` is every address; `::` is an address like any other."""

    protocol: str
    ip: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether the two cannot be open on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


def host_port(protocol: str, ip: str, port: int) -> HostPort | None:
    """A host port with defaults (TCP, every address) filled in, None where no port is asked for."""
    return HostPort(protocol or DEFAULT_PROTOCOL, ip or ANY_ADDRESS, port) if port > 0 else None


def declared_host_ports(pod: Pod) -> Iterator[ContainerPort]:
    """The ports a pod holds on its node while it runs, as declared: sidecars' first, then containers'."""
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    for container in (*sidecars, *spec.containers):
        for declared in container.ports:
            if declared.host_port > 0:
                yield declared


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports a pod holds on its node while it runs, with defaults filled in."""
    return tuple(
        HostPort(declared.protocol or DEFAULT_PROTOCOL, declared.host_ip or ANY_ADDRESS, declared.host_port)
        for declared in declared_host_ports(pod)
    )


def conflicts(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether any wanted port excludes a used one."""
    taken = tuple(used)
    return any(port.conflicts(other) for port in wanted for other in taken)
