"""Identical waiting pods: those of one template that the same plugins rejected."""

from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from stowplan.scheduler.framework.held_pods import HeldPods
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodTemplate

GroupKey = tuple[str, PodTemplate | None, frozenset[str], frozenset[str], str]


_ticket = attrgetter("ticket")
_timestamp = attrgetter("timestamp")


Due = tuple[float, int, QueuedPod]
"""After what time a pod will have waited long enough, and its ticket, by which it is known if that holds."""


def _counts(entry: Due) -> bool:
    return entry[1] == entry[2].ticket


class Group:
    """Pods that are identical in everything hints look at. Never empty while it waits.

    Those without a template (pod groups that wait as one entity) share only the plugins that rejected them.
    """

    __slots__ = (
        "_due",
        "_free",
        "_holder",
        "_line",
        "_mixed",
        "_seen",
        "_sorted",
        "_special",
        "_uids",
        "_users",
        "ends_in_order",
        "entry",
        "first",
        "gating_plugin",
        "heap",
        "key",
        "number",
        "place",
        "pods",
        "priority",
        "profile",
        "rejectors",
        "template",
    )

    def __init__(self, key: GroupKey, number: int) -> None:
        self.key = key
        self.number = number
        """It came after those with smaller numbers."""
        self.profile, self.template, unschedulable, pending, self.gating_plugin = key
        self.rejectors = unschedulable | pending
        self.pods: dict[str, QueuedPod] = {}
        self._users: dict[str, dict[str, QueuedPod]] = {}
        self._uids: dict[str, str] = {}
        """Keys of pods by uid."""
        self.priority = 0
        """The priority of all its pods, unless they are of several."""
        self._mixed = False
        self._sorted = True
        self.ends_in_order = True
        """True if the backoffs of its pods end in the order in which they stand here."""
        self._special: set[str] = set()
        self.heap: object = None
        """Where it stands as a whole after it was woken."""
        self.place = 0
        self.entry: list[Any] = []
        self.first: QueuedPod | None = None
        """Its number and its entry there, and the pod that the entry is of."""
        self._line: deque[QueuedPod] | None = None
        self._due: list[Due] = []
        self._holder: HeldPods | None = None
        self._seen = 0
        self._free: set[str] = set()
        """Uids of its pods that may be free: as of `_seen`, the position in the holder's log of releases."""

    @property
    def is_plain(self) -> bool:
        """True if its pods have one priority and none of them needs individual treatment."""
        if self.template is None or self.gating_plugin:
            return False
        return not (self._mixed or self._special or self._users)

    def add(self, queued: QueuedPod, special: bool = False) -> None:
        """Let a pod wait here; `special`: there is more to be asked about it than hints."""
        if not self.pods:
            self.priority, self._mixed, self._sorted, self.ends_in_order = queued.priority, False, True, True
        else:
            self._mixed = self._mixed or queued.priority != self.priority
            last = next(reversed(self.pods.values()))
            self._sorted = self._sorted and last.timestamp <= queued.timestamp
            ended, ends = last.backoff_until or 0, queued.backoff_until or 0
            self.ends_in_order = self.ends_in_order and ended <= ends
        self.pods[queued.key] = queued
        queued.grouped_uid = queued.uid
        self._uids[queued.uid] = queued.key
        self._free.add(queued.uid)
        if special:
            self._special.add(queued.key)
        for claim in queued.claims:
            self._users.setdefault(claim, {})[queued.key] = queued

    def remove(self, queued: QueuedPod) -> None:
        del self.pods[queued.key]
        self._uids.pop(queued.grouped_uid, None)
        self._free.discard(queued.grouped_uid)
        self._special.discard(queued.key)
        for claim in queued.claims:
            users = self._users[claim]
            del users[queued.key]
            if not users:
                del self._users[claim]

    def stays(self, queued: QueuedPod, key: GroupKey, special: bool) -> bool:
        """True if a changed pod that belongs to a group of this key can keep its place."""
        return (
            key == self.key
            and queued.uid == queued.grouped_uid
            and queued.claims == queued.claim_keys
            and special == (queued.key in self._special)
            and (self._mixed or queued.priority == self.priority)
        )

    def wait_until(self, due: float, queued: QueuedPod) -> bool:
        """Note when a pod will have waited long enough. True if it is the first of its group."""
        entry = (due, queued.ticket, queued)
        heappush(self._due, entry)
        if len(self._due) > 64 and len(self._due) > 2 * len(self.pods):
            self._due = sorted(each for each in self._due if _counts(each))
        return self.first_due() is entry

    def first_due(self) -> Due | None:
        """First pod to reach the maximum waiting time."""
        heap = self._due
        while heap and not _counts(heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def take_due(self) -> QueuedPod:
        """The pod of `first_due`, once."""
        return heappop(self._due)[2]

    def sort(self) -> None:
        """Put pods in the order of their times."""
        if not self._sorted:
            self.pods = {queued.key: queued for queued in sorted(self.pods.values(), key=_timestamp)}
            self._sorted, self.ends_in_order = True, False

    def next(self) -> QueuedPod | None:
        """The first pod that is left after the group was woken, None if there is none."""
        if self._line is None:
            self._line = deque(self.pods.values())
        line = self._line
        while line and line[0].group is not self:
            line.popleft()
        return line[0] if line else None

    def has(self, uid: str) -> bool:
        """True if the group contains a pod with this uid."""
        return uid in self._uids

    def among(self, uids: AbstractSet[str]) -> list[QueuedPod]:
        """The pods that have some of these uids, in the order in which they came."""
        return sorted([self.pods[self._uids[uid]] for uid in self._uids.keys() & uids], key=_ticket)

    def users_of(self, claim: str) -> list[QueuedPod]:
        """The pods that refer to a ResourceClaim."""
        return list(self._users.get(claim, {}).values())

    def users_of_any(self, claims: Iterable[str]) -> list[QueuedPod]:
        """The pods that refer to one of some ResourceClaims."""
        found = {queued.key: queued for claim in claims for queued in self.users_of(claim)}
        return list(found.values())

    def without(self, uids: AbstractSet[str]) -> list[QueuedPod]:
        """Pods without those of the given uids, in order of arrival."""
        others = self._let_go(uids) if isinstance(uids, HeldPods) else self._uids.keys() - uids
        return sorted([self.pods[self._uids[uid]] for uid in others], key=_ticket)

    def _let_go(self, held: HeldPods) -> set[str]:
        """Uids of its pods that are not held.

        Only pods released or added since the last call are looked at.
        """
        since = held.let_go_since(self._seen) if self._holder is held else None
        free = self._uids.keys() - held if since is None else self._free.union(since) - held
        self._holder, self._seen, self._free = held, held.position, free & self._uids.keys()
        return self._free

    @property
    def representative(self) -> QueuedPod:
        """One that stands for all."""
        return next(iter(self.pods.values()))


def group_of(queued: QueuedPod) -> Group:
    """The group of a pod that is in one."""
    group = queued.group
    assert isinstance(group, Group)
    return group
