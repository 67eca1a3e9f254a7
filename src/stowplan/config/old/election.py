"""Leader election in configurations of earlier versions."""

from typing import Any, Final

from stowplan.config.fields import Fields, refuse
from stowplan.config.old.versions import Version
from stowplan.config.policy.configs import OLD_LOCKS
from stowplan.gocompat.quoting import quote

_KEPT: Final = ("leaderElect", "leaseDuration", "renewDeadline", "retryPeriod")
_OLDER: Final = {"resourceName": "lockObjectName", "resourceNamespace": "lockObjectNamespace"}
"""What fields were called in configurations of one profile."""


def read_election(given: Fields | None, version: Version) -> tuple[dict[str, Any], str]:
    """The section as of today, and the lock if it is one that today's configuration cannot name.

    Raises ConfigError.
    """
    if given is None:
        return {}, _old(version.lock)
    election: dict[str, Any] = {name: given.data(name) for name in _KEPT if given.has(name)}
    lock = given.text("resourceLock") or version.lock
    if lock != "leases" and not _old(lock):
        refuse(given.at("resourceLock"), f"unknown lock {quote(lock)}")
    for name, earlier in _OLDER.items():
        value = given.text(name)
        if "schedulerName" in version.fields:
            older = given.text(earlier)
            if value and older and value != older:
                refuse(given.at(earlier), f"{quote(older)} contradicts {name}, {quote(value)}")
            value = value or older
        if value:
            election[name] = value
    given.done("leader election in this version")
    return election, _old(lock)


def _old(lock: str) -> str:
    return lock if lock in OLD_LOCKS else ""
