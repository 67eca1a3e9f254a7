"""What the system knows of the process that prometheus_client does not ask for."""

import resource
from pathlib import Path
from typing import Final

_UNLIMITED: Final = float(2**64)
_NETSTAT: Final = Path("/proc/self/net/netstat")


def virtual_memory_limit() -> float:
    """Bytes of virtual memory the process may use; Go shows "no limit" as 2⁶⁴."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else float(soft)


def network_bytes(netstat: Path = _NETSTAT) -> tuple[int, int] | None:
    """Bytes that came in and went out in the process's network, None where that is not told."""
    try:
        lines = netstat.read_text().splitlines()
    except OSError:
        return None
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith("IpExt:"):
            found = dict(zip(names.split()[1:], values.split()[1:], strict=False))
            return int(found.get("InOctets", 0)), int(found.get("OutOctets", 0))
    return None
