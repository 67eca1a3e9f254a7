"""Objects that cannot be read: one log line and one event for each, and how many there are.

Such an object is left out until a version of it can be read. If one was read before, that one counts.
"""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api.catalogue import PODS, Resource
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.client import Unreadable
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.events import WARNING, EventRecorder

REASON: Final = "FailedDecoding"
_ACTION: Final = "Decoding"

LINES: Final = 20
"""Log lines within a period: a server that sends nothing but nonsense must not fill the log."""

PERIOD: Final = 60.0

_LONGEST: Final = 500
"""Characters of a problem that are shown."""


class UnreadableObjects:
    """Reports objects that cannot be read. Pods get an event in the name of a scheduler, if `may_write`."""

    def __init__(
        self,
        recorder: EventRecorder,
        logger: Logger,
        clock: Clock,
        scheduler_name: str,
        may_write: Callable[[], bool],
    ) -> None:
        self._recorder = recorder
        self._logger = logger
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._may_write = may_write
        self._announces = False
        self._began = float("-inf")
        self._lines = 0

    def found(self, resource: Resource, unreadable: Unreadable) -> None:
        """An object cannot be read that was readable, or not there, before."""
        self._log(resource, unreadable)
        if self._announces and resource == PODS:
            self._announce(unreadable)

    def announce(self, pods: Mapping[str, Unreadable]) -> None:
        """Write events from now on, and at once for pods that are known. Only the leader does."""
        self._announces = True
        for one in pods.values():
            self._announce(one)

    def _log(self, resource: Resource, unreadable: Unreadable) -> None:
        now = self._clock.monotonic()
        if now - self._began >= PERIOD:
            self._began, self._lines = now, 0
        self._lines += 1
        if self._lines <= LINES:
            self._logger.error(
                "Object cannot be read; it is left out until it can be",
                resource=resource.qualified,
                object=Ref(unreadable.key),
                resourceVersion=unreadable.resource_version,
                err=unreadable.problem[:_LONGEST],
            )
        elif self._lines == LINES + 1:
            self._logger.error("More objects cannot be read; stowplan_unreadable_objects has their number")

    def _announce(self, unreadable: Unreadable) -> None:
        if not (unreadable.uid and self._may_write()):
            return
        namespace, _, name = unreadable.key.rpartition("/")
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            uid=unreadable.uid,
            resource_version=unreadable.resource_version,
        )
        note = f"The pod cannot be read and is left out: {unreadable.problem[:_LONGEST]}"
        self._recorder.event(Pod(metadata=metadata), WARNING, REASON, _ACTION, note, self._scheduler_name)
