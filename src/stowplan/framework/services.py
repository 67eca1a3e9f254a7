"""What a living scheduler offers its plugins."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.client import Client
from stowplan.clock import Clock
from stowplan.framework.waiting import WaitingPods
from stowplan.logs import Journal


class Services(Protocol):
    """The scheduler as its plugins see it. Everything is on the scheduler's event loop."""

    @property
    def client(self) -> Client:
        """The API server."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def journal(self) -> Journal:
        """The log. Ask `journal.shows(level)` before putting a message together on the way of every pod."""
        ...

    @property
    def waiting(self) -> WaitingPods:
        """Pods of all profiles that wait at Permit, to be let go or turned away."""
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Try pods again now that wait in the queue."""
        ...

    def pod(self, key: str) -> Pod | None:
        """A pod as the API server last told of it, by `namespace/name`."""
        ...

    def objects(self, kind: str) -> Mapping[str, Object]:
        """The objects of a kind as last told of, by `namespace/name`.

        Kinds are named as in events: `<plural>.<version>.<group>` for those that are not built in, which come
        as `AnyObject`. Raises LookupError for a kind that no plugin registered for.
        """
        ...

    def event(self, pod: Pod, *, type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod, in the name of its profile."""
        ...

    def count_volume_error(self, operation: str) -> None:
        """Volumes of a pod could not be looked for, reserved or bound: `predicate`, `assume`, `bind`."""
        ...
