"""Writers to the store: data about a request for admission and managed fields."""

from collections.abc import Callable
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


class WritingComponent(NamedTuple):
    """A part of the cluster that runs in this process: it may do everything."""

    name: str
    groups: tuple[str, ...] = (ADMINISTRATORS,)


class ServedForm(Protocol):
    """A version in which objects are served that are stored in another one."""

    @property
    def resource(self) -> Resource: ...

    @property
    def to_served(self) -> Callable[[Json], Json]: ...

    @property
    def to_stored(self) -> Callable[[Json], Json]: ...


class WriteContext(NamedTuple):
    """The request behind a write.

    `field_manager` is who managed fields name as the owner of what is written. A `dry_run` is admitted
    and validated and gives back what would have been written. `served` is the version the request is in, if
    its objects are stored in another one: managed fields are those of that version. `verb` is what roles call
    the request.
    """

    user: UserInfo
    field_manager: str
    dry_run: bool = False
    served: ServedForm | None = None
    verb: str = "update"


def component(name: str) -> WriteContext:
    """The context of what a component of the cluster writes: `kube-scheduler`, `kubelet`."""
    return WriteContext(WritingComponent(f"system:{name}"), name)


API_SERVER: Final = WriteContext(WritingComponent("system:apiserver"), "kube-apiserver")
"""The API server itself: bootstrap objects, and writes without another writer."""
