"""The document about one pod: why it is pending, or why it is on its node, and what would help."""

from typing import Any, Literal

import msgspec

from stowplan.explain.document.decision import Decision
from stowplan.explain.document.layers import Decider, MissingObject, Stage, StageName
from stowplan.explain.document.part import Part, SparsePart
from stowplan.explain.document.preemption import Eviction, Preemption

PodStage = Literal["pending", "placed", "fits", "gone"]


class FunnelLine(Part, frozen=True):
    """Nodes that one plugin is the first to reject, for the same reasons."""

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...] = ()


class DeviceFinding(SparsePart, frozen=True):
    """Reason why a claim cannot use one device of a node."""

    device: str
    claim: str
    request: str
    cause: str
    detail: str = ""


class NearMiss(SparsePart, frozen=True):
    """A node that only one plugin rejects. `missing` says briefly what it lacks, `detail` precisely.

    `size` is how much is missing: 0 is nearly nothing, 1 all there is.
    """

    node: str
    plugin: str
    reason: str
    missing: str
    detail: str
    size: float
    devices: tuple[DeviceFinding, ...] = ()


class NodeGroup(SparsePart, frozen=True, kw_only=True):
    """Nodes that one thing rules out: `8 nodes of pool infer: taint dedicated=infer:NoSchedule`.

    `meant` are nodes that pass what the pod says about itself (selector, affinity, tolerations, claims), so
    their obstacle is the cause. `size` is how much is missing: 0 is nearly nothing, 1 all there is.
    """

    name: str
    """The nodes in words: `8 nodes of pool infer`, or the node if it is one."""
    nodes: int
    plugin: str
    text: str
    """The obstacle, in words: `taint dedicated=infer:NoSchedule`, `2 cpu short`."""
    form: Literal["on", "is", "cluster"] = "on"
    """How the text is told of the nodes: `2 cpu short on n1`, `n1 is cordoned`, or as it stands, because it
    is about the whole cluster: `no node has pool=genral`."""
    examples: tuple[str, ...] = ()
    size: float = 1.0
    meant: bool = False


class Change(SparsePart, frozen=True):
    """A change after which the pod is placed.

    `patch` changes the pod, or the claim that `claim` names; `action` changes the cluster:
    `{"delete": "ns/pod"}`, `{"addNode": "like-this"}`, `{"uncordon": "node"}`. `node` is where the pod would
    go and `nodes` how many nodes would take it; `victims` are pods that preemption would remove.
    """

    kind: str
    text: str
    node: str
    nodes: int
    patch: dict[str, Any] | None = None
    claim: str = ""
    template: str = ""
    """The ResourceClaimTemplate that the claim was made from, which is what has to change then."""
    action: dict[str, str] | None = None
    victims: tuple[str, ...] = ()
    outcome: str = ""
    """Where the pod would go then, in words."""
    command: str = ""
    """kubectl commands that do it, on the owner where the pod has one."""


class RequeueEvent(Part, frozen=True):
    """Events of a resource that may requeue a pod, and the plugin that registered for them."""

    resource: str
    actions: tuple[str, ...]
    plugin: str


class QueueState(Part, frozen=True):
    """Where a pod is in a running scheduler.

    `until` is when it is retried without any event, `wakers` are the events that may requeue it before.
    `held_by` are plugins that hold it at PreEnqueue or Permit, with their messages.
    """

    place: str
    node: str | None = None
    since: str | None = None
    until: str | None = None
    rejected_by: tuple[str, ...] = ()
    held_by: dict[str, str] = msgspec.field(default_factory=dict)
    wakers: tuple[RequeueEvent, ...] = ()


class Attempt(Part, frozen=True):
    """A scheduling attempt; `outcome` is `binding`, `bound`, `unschedulable` or `error`.

    `brief` is the message without what all such messages begin with.
    """

    number: int
    time: str
    outcome: str = ""
    message: str = ""
    preemption: Preemption | None = None
    brief: str = ""


class LastAttempt(Part, frozen=True):
    """The last attempt with what was decided; `decision` is null where it did not come to one."""

    time: str
    number: int
    outcome: str
    message: str
    decision: Decision | None = None
    preemption: Preemption | None = None


class ClaimNote(Part, frozen=True):
    """A claim of the pod, and what is known of it."""

    claim: str
    text: str


class Refusal(Part, frozen=True):
    """A node that was chosen in the last attempt, and why the pod is not bound to it.

    `plugins` refused it at Reserve or Permit; none if the binding failed.
    """

    node: str
    plugins: tuple[str, ...]
    message: str


class TooLarge(Part, frozen=True):
    """A resource of which the pod requests more than any node has, even empty."""

    resource: str
    wanted: str
    largest: str


class NodeScore(Part, frozen=True):
    """The points of a node, in all and by plugin (score times weight)."""

    node: str
    total: int
    plugins: dict[str, int]


class GroupChange(SparsePart, frozen=True):
    """A change after which a group gets its places, and in which domain."""

    kind: str
    text: str
    domain: str
    outcome: str = ""
    command: str = ""
    """The command to type."""
    action: dict[str, str] | None = None
    """For a change of the cluster: `{"addNode": "like-this"}`, `count` times."""
    count: int = 1


class GroupOfPod(Part, frozen=True):
    """The group that a pod waits for, in short."""

    group: str
    kind: str
    state: str
    reason: str
    message: str = ""
    changes: tuple[GroupChange, ...] = ()
    headline: str = ""
    remedy: str = ""


class Note(Part, frozen=True):
    """A fact that changes the meaning of all the rest, with what it is about."""

    about: str
    text: str


class PodDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="pod"):
    """Everything that is known about one pod. `source` says what it is based on, `time` when
    it was found out.

    The sentences are made from the other fields, see `explain.sentences`.
    """

    pod: str
    state: PodStage
    source: str
    time: str | None = None

    headline: str = ""
    """The pod, its state and what is in its way, in one sentence."""
    cause: str = ""
    """Why it is pending, in more words than the headline has; empty if it is not."""
    remedy: str = ""
    """The changes that help most, in words; empty if none was found."""
    situation: tuple[str, ...] = ()
    """Where it is, since when, until when, and the source."""
    notes: tuple[Note, ...] = ()
    owners: tuple[str, ...] = ()
    """The controllers above it up to a custom resource, the nearest first: `Job train-0`, `JobSet train`."""
    why: tuple[str, ...] = ()
    """Why it is on its node or would go there, and whether it would go there again."""
    awaits: tuple[str, ...] = ()
    """The events that would have it tried again, in words."""
    incomplete: tuple[str, ...] = ()
    """Things not read or not evaluated although the answer depends on them."""

    decider: Decider | None = None
    """The scheduler that decides the pod."""
    stages: tuple[Stage, ...] = ()
    """The layers that the pod has passed, and the one that stops it."""
    stopped_at: StageName | None = None
    """The layer that stops it; null if none does."""

    message: str = ""
    node: str | None = None
    nodes: int = 0
    feasible: int = 0
    funnel: tuple[FunnelLine, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    near_miss_count: int = 0
    groups_of_nodes: tuple[NodeGroup, ...] = ()
    """Rejected nodes by the one thing that rules them out: those that the pod could mean first, then by how
    little is missing."""
    changes: tuple[Change, ...] = ()
    advice: tuple[str, ...] = ()
    """Further remedies in words: things that no command of kubectl does, such as mending a node."""
    untried: tuple[str, ...] = ()
    """Changes that were not tried, with the reason."""
    preemption: Preemption | None = None
    wakes: tuple[RequeueEvent, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """The last one, then those before it, the latest first."""
    queue: QueueState | None = None

    refusal: Refusal | None = None
    """The node of the last attempt, if a plugin refused it after the choice and a node would fit."""
    gates: tuple[str, ...] = ()
    missing: tuple[MissingObject, ...] = ()
    """Objects that the pod names and that do not exist, so that it is not queued."""
    nominated_node: str | None = None
    evictions: Eviction | None = None
    """Pods that were evicted for this pod."""
    evicted: Eviction | None = None
    """For whom this pod goes or went."""
    claims: tuple[ClaimNote, ...] = ()
    too_large: tuple[TooLarge, ...] = ()
    group: GroupOfPod | None = None
    pod_group: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int | None = None

    scores: tuple[NodeScore, ...] = ()
    weights: dict[str, int] = msgspec.field(default_factory=dict)
    margin: int | None = None
    ties: int = 0
    decided_by: str | None = None
    would_go_to: str | None = None
    priorities: dict[str, str] = msgspec.field(default_factory=dict)
    """The priorities that plugins stand for, if the profile was made of predicates and priorities."""

    @property
    def stopped(self) -> Stage | None:
        """The layer that does not go on."""
        return next((stage for stage in self.stages if stage.state == "stopped"), None)

    @property
    def not_yet(self) -> Stage | None:
        """A layer that it has not passed yet, too soon to say that it is stopped there."""
        return next((stage for stage in self.stages if stage.state == "unknown" and stage.text), None)

    @property
    def is_ours(self) -> bool:
        """True if the scheduler or configuration that answers decides the pod."""
        return self.decider is None or self.decider.kind == "this"

    @property
    def rejected_outright(self) -> bool:
        """True if the pod was rejected before any node was checked."""
        return len(self.funnel) == 1 and not self.funnel[0].examples

    @property
    def waits_for_group(self) -> bool:
        """True if its group has to be placed first."""
        return self.group is not None and self.group.state not in ("fits", "placed")


class SchedulingDocument(Part, frozen=True, tag_field="document", tag="scheduling"):
    """Where a pod is in a running scheduler, and its last attempt; null if there is none, or not any more."""

    pod: str
    state: QueueState = msgspec.field(name="now")
    attempt: LastAttempt | None = msgspec.field(default=None, name="lastAttempt")

    def text(self) -> str:
        """The same for people."""
        from stowplan.explain.terminal.scheduling import render_scheduling

        return render_scheduling(self)
