"""The document about an object as the API server has it: its YAML and the events about it."""

import msgspec

from stowplan.explain.document.part import Part


class EventLine(Part, frozen=True):
    """An event: when it was last seen, how often, by whom it was written."""

    time: str
    type: str
    reason: str
    note: str
    component: str
    times: int = 1


class EventsDocument(Part, frozen=True, tag_field="document", tag="events"):
    """Events about a pod or node, the latest first."""

    items: tuple[EventLine, ...] = ()
    incomplete: tuple[str, ...] = ()
    """Objects that were not read, with the reason."""


class ObjectDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="object"):
    """A pod or node as the API server has it."""

    kind: str
    name: str
    yaml: str
    """The whole object, without managed fields."""
    manifest: str = ""
    """Of a pod: a manifest that makes another one like it, to be edited."""
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a pod: what its containers request of each resource, in all."""
    owner: str = ""
    """The controller that its owner reference names."""
    events: tuple[EventLine, ...] = ()
    """Events about it, the latest first."""
    incomplete: tuple[str, ...] = ()
    """Objects that were not read, with the reason."""
