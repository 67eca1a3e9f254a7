"""Making the lock a configuration asks for, and the name under which we hold it."""

import random
import uuid
from typing import Final

from stowplan.api.catalogue import CONFIG_MAPS, ENDPOINTS
from stowplan.client import Client
from stowplan.election.locks import AnnotationLock, LeaseLock, Lock
from stowplan.election.multilock import MultiLock
from stowplan.election.timing import ElectionError

LEASES_LOCK: Final = "leases"
LOCK_KINDS: Final = (LEASES_LOCK, "endpoints", "configmaps", "endpointsleases", "configmapsleases")
"""Values of `resourceLock`: the Lease of today, the locks before it, and each with a Lease beside it."""

_OLD: Final = {"endpoints": ENDPOINTS, "configmaps": CONFIG_MAPS}


def identity(hostname: str, rng: random.Random) -> str:
    """Who we are among the candidates. Two processes of one host have different ones.

    `rng` has to be different in every process, as `random.SystemRandom` is.
    """
    return f"{hostname}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


def lock_for(kind: str, client: Client, namespace: str, name: str, identity: str) -> Lock:
    """A lock of one of `LOCK_KINDS`. Raises `ElectionError` for another kind."""
    if not identity:
        raise ElectionError("couldn't create leader elector: Lock identity is empty")
    lease = LeaseLock(client, namespace, name, identity)
    if kind == LEASES_LOCK:
        return lease
    resource = _OLD.get(kind.removesuffix(LEASES_LOCK))
    if resource is None:
        expected = ", ".join(LOCK_KINDS)
        raise ElectionError(
            f"couldn't create resource lock: Invalid lock-type {kind} (expected one of {expected})"
        )
    old = AnnotationLock(client, resource, namespace, name, identity)
    return MultiLock(old, lease) if kind.endswith(LEASES_LOCK) else old
