"""Objects a scheduler writes: bindings, events and leases."""

from stowplan.api.meta import Object, Struct
from stowplan.api.storage import ObjectReference


class Binding(Object, frozen=True):
    """Puts a pod on a node: metadata names the pod, `target` the node."""

    target: ObjectReference = ObjectReference()


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: str = ""


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


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec = LeaseSpec()
