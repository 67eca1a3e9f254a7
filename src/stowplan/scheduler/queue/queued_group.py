"""A whole tree of pod groups as one entry of the scheduling queue, with the members that wait for a node."""

from bisect import insort
from collections.abc import Iterable, Iterator

from stowplan.api.pod_groups import GroupObject
from stowplan.scheduler.queue.queued_pod import NOBODY, QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo


def entity_key(root: str) -> str:
    """The key in the queue of the tree below a root, `podgroup/namespace/name` for either kind of root.

    A PodGroup and a CompositePodGroup of one name have the same, as in kube-scheduler.
    """
    return "podgroup/" + root.split("/", 1)[1]


class QueuedGroup(QueuedPod):
    """A group on its way through the queue.

    It has its own timestamps, counts and backoff, like a pod, and stands in the sub-queues like one; `pod` is
    one of its members, for QueueSort plugins. It is never empty while it is queued. `root` is the key of the
    group at the top of its tree. The groups below it are kept by `PodGroups`; `members` has the waiting ones,
    by the key of their PodGroup and in the order in which they are tried.
    """

    __slots__ = (
        "_by_key",
        "_claiming",
        "_counted",
        "_leaf_of",
        "_size",
        "fresh",
        "members",
        "obj",
        "root",
        "to_ask",
        "unstarted",
        "woken",
    )

    def __init__(self, root: str, obj: GroupObject, first: QueuedPod) -> None:
        super().__init__(first.pod, first.timestamp)
        self.key = entity_key(root)
        self.uid = self.key
        self.root = root
        self.obj = obj
        """The object of the root, as it was last told of."""
        self.first_attempt = first.first_attempt
        self.members: dict[str, list[QueuedPod]] = {}
        self._size = 0
        self._by_key: dict[str, QueuedPod] = {}
        self._leaf_of: dict[str, str] = {}
        """The key of the PodGroup that a member waits in, by that of the member."""
        self.unstarted: dict[str, QueuedPod] = {}
        """Members, by key, that were never ready to be tried."""
        self.to_ask: dict[str, QueuedPod] = {}
        """Members, by key, that a PreEnqueue plugin may gate later though it let them pass before."""
        self._claiming = 0
        self._counted = ("", 0)
        """The part of the queue that it was last counted in, and with how many pods."""
        self.fresh: dict[str, QueuedPod] = {}
        """Members, by key, that PreEnqueue plugins were not asked about since they came or changed."""
        self.woken = False
        """True if an event may have helped it since it was rejected (`wake_failed_groups`)."""

    def __repr__(self) -> str:
        return f"QueuedGroup({self.key!r}, {self.size} pods, attempts={self.attempts})"

    @property
    def namespace(self) -> str:
        return self.root.split("/", 2)[1]

    @property
    def name(self) -> str:
        return self.root.rsplit("/", 1)[1]

    @property
    def priority(self) -> int:
        """Priority of the root; the priorities of its pods do not count."""
        return self.obj.priority

    @property
    def lowest_priority(self) -> int:
        return min(member.pod.priority for member in self.pods())

    @property
    def size(self) -> int:
        """Number of waiting pods in it."""
        return self._size

    @property
    def backoff_size(self) -> int:
        """A group that an event may have helped waits no longer than a pod."""
        return 1 if self.woken else self.size

    @property
    def template(self) -> None:
        """None: its members may differ."""
        return

    @property
    def claim_keys(self) -> tuple[str, ...]:
        if not self._claiming:
            return ()
        return tuple({claim: None for member in self.pods() for claim in member.claim_keys})

    @property
    def rejected(self) -> bool:
        """A group that failed is not tried ahead of its time, unless an event may have helped it."""
        return self.woken

    def pods(self) -> Iterator[QueuedPod]:
        """The members that wait, group by group."""
        for members in self.members.values():
            yield from members

    def count_in(self, lane: str) -> int:
        """It comes to a part of the queue, or comes there again with other members: how many pods are new to
        it? An empty name: it leaves the queue."""
        before, there = self._counted
        self._counted = (lane, self.size)
        return max(self.size - there, 0) if lane == before else self.size

    def last_gated(self) -> QueuedPod | None:
        """The last member, group by group, that a plugin holds back."""
        for members in reversed(self.members.values()):
            for member in reversed(members):
                if member.gated:
                    return member
        return None

    def add(self, group: str, queued: QueuedPod) -> None:
        """Let a member of a PodGroup wait here, instead of another one with its name."""
        before = self._by_key.get(queued.key)
        if before is not None:
            self.remove(before)
        insort(self.members.setdefault(group, []), queued, key=_order)
        self._take_in(group, queued)
        self._follow()

    def add_all(self, group: str, pods: Iterable[QueuedPod]) -> None:
        """The same for several members of one PodGroup."""
        members = self.members.setdefault(group, [])
        for queued in pods:
            members.append(queued)
            self._take_in(group, queued)
        members.sort(key=_order)
        self._follow()

    def find(self, pod_key: str) -> QueuedPod | None:
        """The member with a key `namespace/name`."""
        return self._by_key.get(pod_key)

    def remove(self, queued: QueuedPod) -> None:
        """Let a member go. The group may be empty then."""
        if self._by_key.get(queued.key) is not queued:
            return
        group = self._leaf_of[queued.key]
        members = self.members[group]
        members.remove(queued)
        if not members:
            del self.members[group]
        self._give_up(queued)
        self._follow()

    def take(self, group: str) -> list[QueuedPod]:
        """Let all members of one PodGroup go, in their order. The group may be empty then."""
        members = self.members.pop(group, [])
        for queued in members:
            self._give_up(queued)
        self._follow()
        return members

    def changed(self, queued: QueuedPod) -> None:
        """A member is another than plugins were asked about."""
        self.to_ask.pop(queued.key, None)
        self.fresh[queued.key] = queued

    def forget_rejectors(self) -> None:
        """Nobody holds the group back."""
        self.gating_plugin = ""
        self.gate = None
        self.unschedulable_plugins = self.pending_plugins = NOBODY

    def _take_in(self, group: str, queued: QueuedPod) -> None:
        self._size += 1
        self._by_key[queued.key] = self.fresh[queued.key] = queued
        self._leaf_of[queued.key] = group
        queued.group = self
        self._claiming += bool(queued.pod.spec.resource_claims)
        if queued.first_attempt is None:
            self.unstarted[queued.key] = queued

    def _give_up(self, queued: QueuedPod) -> None:
        self._size -= 1
        del self._by_key[queued.key], self._leaf_of[queued.key]
        for noted in (self.fresh, self.unstarted, self.to_ask):
            noted.pop(queued.key, None)
        self._claiming -= bool(queued.pod.spec.resource_claims)
        if queued.group is self:
            queued.group = None

    def _follow(self) -> None:
        first = next(self.pods(), None)
        if first is not None:
            self.pod: PodInfo = first.pod
            self.profile = first.profile


def _order(queued: QueuedPod) -> tuple[int, int, float, str]:
    """Members of high priority first, then those tried most often, then those that wait longest."""
    return (-queued.pod.priority, -queued.attempts, queued.timestamp, queued.pod.name)
