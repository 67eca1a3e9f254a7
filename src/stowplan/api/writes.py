"""Objects a scheduler writes: bindings, events and leases."""

from stowplan.api.meta import Object, Struct
from stowplan.api.storage import ObjectReference


class Binding(Object, frozen=True):
    """Puts a pod on a node: metadata names the pod, `target` the node."""

    target: ObjectReference = ObjectReference()


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: str = ""


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    """An events.k8s.io/v1 event."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_count: int = 0
    deprecated_last_timestamp: str | None = None
    deprecated_source: EventSource = EventSource()

    @property
    def component(self) -> str:
        """The component that wrote it."""
        return self.reporting_controller or self.deprecated_source.component

    @property
    def time(self) -> str:
        """When it was last seen, as text."""
        seen = "" if self.series is None else self.series.last_observed_time
        return seen or self.deprecated_last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def times(self) -> int:
        """How often it was seen."""
        return max(self.deprecated_count, 0 if self.series is None else self.series.count, 1)


class CoreEvent(Object, frozen=True):
    """An event as `v1` has it: the form in which clusters list events, and dumps have them."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    reporting_component: str = ""
    count: int = 0
    type: str = ""
    event_time: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None

    def as_event(self) -> Event:
        """The same as events.k8s.io/v1 has it."""
        return Event(
            metadata=self.metadata,
            event_time=self.event_time,
            series=self.series,
            reporting_controller=self.reporting_component,
            reason=self.reason,
            regarding=self.involved_object,
            note=self.message,
            type=self.type,
            deprecated_count=self.count,
            deprecated_last_timestamp=self.last_timestamp,
            deprecated_source=self.source,
        )


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec = LeaseSpec()
