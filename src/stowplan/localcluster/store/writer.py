"""Writers to the store: data about a request for admission and managed fields."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

if TYPE_CHECKING:
    from stowplan.localcluster.store.attempts import WriteAttempts

ADMINISTRATORS: Final = "system:masters"
NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})


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
    the request, `options` are those that it names (`fieldManager`, `fieldValidation`, …). `attempts` has what
    its caller has waited for; a caller that cannot wait has none, and no webhooks are called for it.
    """

    user: UserInfo
    field_manager: str
    dry_run: bool = False
    served: ServedForm | None = None
    verb: str = "update"
    options: Mapping[str, Any] = NO_OPTIONS
    attempts: "WriteAttempts | None" = None

    def warn(self, text: str) -> None:
        """Have the client see a warning."""
        if self.attempts is not None:
            self.attempts.warn(text)

    def annotate(self, key: str, value: str) -> None:
        """Keep an audit annotation. The first value of a key counts."""
        if self.attempts is not None:
            self.attempts.annotate(key, value)


def component(name: str) -> WriteContext:
    """The context of what a component of the cluster writes: `kube-scheduler`, `kubelet`."""
    return WriteContext(WritingComponent(f"system:{name}"), name)


API_SERVER: Final = WriteContext(WritingComponent("system:apiserver"), "kube-apiserver")
"""The API server itself: bootstrap objects, and writes without another writer."""
