"""The states of pods and groups, and the places of a pod in a running scheduler, each with its words."""

from typing import Final, NamedTuple

PENDING: Final = "pending"
PLACED: Final = "placed"
"""The pod has a node, or the pods of the group do."""
FITS: Final = "fits"
"""The pod is not on a node, but one would take it: it is new, or about to be scheduled. Of a group, enough
members would find a node now."""
GONE: Final = "gone"
"""The pod is known only from what happened to it."""
WAITING: Final = "waiting"
"""Too few members of the group would find a node."""
INCOMPLETE: Final = "incomplete"
"""Something that the group needs does not exist yet: pods, its object, its parent."""


class Place(NamedTuple):
    """The words for a place: in short, as a sentence, and for the lane of the queue that has its pods."""

    short: str
    sentence: str
    lane: str = ""


PLACES: Final = {
    "active": Place(
        "in the queue, will be tried next", "It is in activeQ and will be tried.", "ready to be tried"
    ),
    "backoff": Place("in backoff", "It is in backoffQ after a failed attempt.", "backs off"),
    "unschedulable": Place(
        "tried again on an event below",
        "It is in unschedulablePods until an event may make it schedulable.",
        "waits for an event",
    ),
    "gated": Place(
        "held back before the queue", "A PreEnqueue plugin keeps it out of the queue.", "held by a gate"
    ),
    "incomplete": Place(
        "waits for its group to exist", "Its group, or a group above that, does not exist yet."
    ),
    "pending": Place(
        "waits for the next cycle of its group",
        "Its group is in its scheduling cycle, and it joins the next one.",
    ),
    "in flight": Place("being scheduled at this moment", "It is in its scheduling cycle."),
    "waiting": Place("waits at Permit", "Its node is reserved, and it waits at Permit."),
    "binding": Place("being bound", "It is in its binding cycle.", "is being bound"),
    "bound": Place("", "It is bound to its node."),
    "unknown": Place("", "The scheduler does not know this pod."),
}

LANES: Final = {
    **{place: PLACES[place].lane for place in ("active", "backoff", "unschedulable", "gated")},
    "permit": PLACES["waiting"].short,
    "binding": PLACES["binding"].lane,
}
"""The lanes of the queue, with their words."""

NOT_READY: Final = "not ready: "
"""Begin of the words about a pod whose containers run."""
NOT_OURS: Final = "Not decided by this scheduler"
NOT_RUNNING: Final = "On a node and not running"
NOT_CREATED: Final = "Not created"
"""Headings above the causes of pods that do not wait for this scheduler."""
