"""Who writes to the store, and how: what admission and managed fields need to know of a request."""

from typing import Final, NamedTuple, Protocol

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

ADMINISTRATORS: Final = "system:masters"


class UserInfo(Protocol):
    """Somebody whom authentication has identified."""

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> tuple[str, ...]: ...


class Component(NamedTuple):
    """A part of the cluster that runs in this process: it may do everything."""

    name: str
    groups: tuple[str, ...] = (ADMINISTRATORS,)


class ServedVersion(Protocol):
    """A version of the API that is served and not stored."""

    @property
    def resource(self) -> Resource: ...

    def to_served(self, obj: Json) -> Json:
        """A stored object in this version."""
        ...


class WriteContext(NamedTuple):
    """The request behind a write.

    `field_manager` is who managed fields name as the owner of what is written. A `dry_run` is admitted
    and validated and gives back what would have been written. `served` is the version of the API that is
    written in, if it is not the one objects are stored in.
    """

    user: UserInfo
    field_manager: str
    dry_run: bool = False
    served: ServedVersion | None = None


def component(name: str) -> WriteContext:
    """The context of what a component of the cluster writes: `kube-scheduler`, `kubelet`."""
    return WriteContext(Component(f"system:{name}"), name)


API_SERVER: Final = WriteContext(Component("system:apiserver"), "kube-apiserver")
"""The API server itself: bootstrap objects, and whatever names no writer."""
