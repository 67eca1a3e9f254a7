"""The document about a group of pods: how many members fit now, where, what stops the next one."""

from typing import Literal

from stowplan.explain.document.part import Part
from stowplan.explain.document.pod import FunnelLine, GroupChange, GroupOfPod
from stowplan.explain.document.preemption import GroupPreemption

GroupStage = Literal["waiting", "fits", "placed", "incomplete"]


class DomainOfGroup(Part, frozen=True):
    """Trial of the group in one domain: the number of members that fit, and the first that does not."""

    domain: str
    nodes: int
    fits: int
    enough: bool
    stopped_by: str | None
    message: str


class StoppedBy(Part, frozen=True):
    """The member that finds no node where most of them fit, and why."""

    pod: str
    domain: str
    nodes: int
    asks: str
    message: str
    funnel: tuple[FunnelLine, ...]
    headline: str = ""


class MemberOfGroup(Part, frozen=True):
    """A pod of the group, or of a group below it, with its node."""

    pod: str
    node: str | None
    group: str


class GroupDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="group"):
    """Everything that is known about one group. `needed` is how many more members must get a node.

    What only a running scheduler knows (`place` to `members`) is null from other sources.
    """

    group: str
    kind: str
    state: GroupStage
    source: str

    headline: str = ""
    """The group, its state and the reason, in one sentence."""
    remedy: str = ""
    """The changes that help most, in words; empty if none was found."""
    situation: tuple[str, ...] = ()
    """The minimum that the group requires, and the number of its pods with a node."""
    waits: tuple[str, ...] = ()
    """Where in the queue it is, how long, how often it was tried and when it is tried again."""

    incomplete: tuple[str, ...] = ()
    """Things not read or not evaluated although the answer depends on them."""

    reason: str = ""
    message: str = ""
    """Message of the last scheduling attempt."""
    exists: bool = True
    """False for a group that pods name and that is not there."""
    advice: tuple[str, ...] = ()
    """Remedy in words, where no change could be tried."""
    policy: str = "gang"
    minimum: int = 1
    pods: int = 0
    scheduled: int = 0
    needed: int = 1
    topology_key: str | None = None
    fits: int | None = None
    domains: tuple[DomainOfGroup, ...] = ()
    domain_count: int = 0
    stopped_by: StoppedBy | None = None
    changes: tuple[GroupChange, ...] = ()
    preemption: GroupPreemption | None = None
    parts: tuple["GroupDocument", ...] = ()

    priority: int | None = None
    parent: str | None = None
    created: str | None = None
    place: str | None = None
    since: str | None = None
    until: str | None = None
    attempts: int | None = None
    held_by: str | None = None
    members: tuple[MemberOfGroup, ...] | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the members wait for the group, even if they would fit alone."""
        return self.state not in ("fits", "placed")

    def in_short(self) -> GroupOfPod:
        """The group as the documents of its pods have it."""
        return GroupOfPod(
            self.group,
            self.kind,
            self.state,
            self.reason,
            self.message,
            self.changes,
            self.headline,
            self.remedy,
        )
