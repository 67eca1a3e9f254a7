"""Pods that wait for something to happen: those that were rejected, and those that are not to be tried yet.

Pods made from one template and turned down by the same plugins wait as one group. An event looks at the
groups whose plugins registered for it, and most hints need to be asked only once per group. So what an event
costs depends on how many different pods wait for it, not on how many pods wait. One that helps a group wakes
it as a whole: its pods stay together in the part of the queue they are woken to (heaps.py) until their turn.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush, heapreplace
from itertools import count
from operator import attrgetter
from typing import Any, Final

from stowplan.cluster.podinfo import PodTemplate
from stowplan.framework.held_pods import HeldPods
from stowplan.queue.queued_pod import QueuedPod

GroupKey = tuple[str, PodTemplate | None, frozenset[str], frozenset[str], str]


_ticket = attrgetter("ticket")
_timestamp = attrgetter("timestamp")


Due = tuple[float, int, QueuedPod]
"""After what time a pod will have waited long enough, and its ticket, by which it is known if that holds."""


def _counts(entry: Due) -> bool:
    return entry[1] == entry[2].ticket


class Group:
    """Pods alike in all that hints look at. Never empty while it waits.

    Those without a template (pod groups that wait as one) are only alike in who rejected them.
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
        "place",
        "pods",
        "priority",
        "profile",
        "rejectors",
        "template",
    )

    def __init__(self, key: GroupKey) -> None:
        self.key = key
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
        """Whether the backoffs of its pods end in the order in which they stand here."""
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
        """Who of its pods may not be held: at `_seen`, the position among those the holder let go."""

    @property
    def is_plain(self) -> bool:
        """Whether its pods are of one priority and none of them needs a look of its own."""
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
        """Whether one of its pods that changed, and belongs to a group of this key, can stay in its place."""
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
        """Who will have waited long enough first."""
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
        """Whether a pod with this uid is one of the group."""
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
        """The pods that have none of some uids, in the order in which they came."""
        others = self._let_go(uids) if isinstance(uids, HeldPods) else self._uids.keys() - uids
        return sorted([self.pods[self._uids[uid]] for uid in others], key=_ticket)

    def _let_go(self, held: HeldPods) -> set[str]:
        """The uids of its pods that are not held. Only those are looked at that may have been let go since
        the last time, or have come since.
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


def _always(queued: QueuedPod) -> bool:
    return True


class UnschedulablePods:
    """All that wait, found by key, by what they wait for, and by how long they have waited.

    `longest` is how many seconds a pod waits at most before it is tried again without any event. `must_ask`
    says whether there is more to be asked about a pod than hints before it is tried again.
    """

    def __init__(self, longest: float, must_ask: Callable[[QueuedPod], bool] = _always) -> None:
        self._longest = longest
        self._must_ask = must_ask
        self.pods: Final[dict[str, QueuedPod]] = {}
        """Those in groups, by key: those that wait, and those woken with their group before their turn."""
        self._woken = 0
        self._groups: dict[GroupKey, Group] = {}
        self._by_plugin: dict[tuple[str, str], dict[GroupKey, Group]] = {}
        self._by_claim: dict[str, dict[GroupKey, Group]] = {}
        self._due: list[tuple[float, int, Group]] = []
        """The `first_due` of every group, and some that no longer hold."""
        self._numbers = count()
        self.gated = 0
        """How many are not to be tried yet."""

    def __len__(self) -> int:
        return len(self.pods) - self._woken

    def __iter__(self) -> Iterator[QueuedPod]:
        pods = iter(self.pods.values())
        return (queued for queued in pods if group_of(queued).heap is None) if self._woken else pods

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> QueuedPod | None:
        queued = self.pods.get(key)
        return None if queued is None or (self._woken and group_of(queued).heap is not None) else queued

    def put(self, queued: QueuedPod) -> bool:
        """Let a pod wait, or find its place anew after something about it changed. True if it is new here."""
        key, present = self._key(queued), self.get(queued.key)
        special = self._must_ask(queued)
        if present is queued and group_of(queued).stays(queued, key, special):
            return False
        self.remove(queued.key)
        self.pods[queued.key] = queued
        group = self._group(key)
        queued.claims = queued.claim_keys
        group.add(queued, special)
        for claim in queued.claims:
            self._by_claim.setdefault(claim, {})[group.key] = group
        queued.group = group
        self.gated += queued.gated
        queued.ticket = next(self._numbers)
        due = self.due_at(queued)
        if group.wait_until(due, queued):
            heappush(self._due, (due, queued.ticket, group))
            self._sweep()
        return present is None

    def due_at(self, queued: QueuedPod) -> float:
        """When a pod has waited for an event long enough."""
        since = queued.timestamp if queued.flushed_at is None else max(queued.timestamp, queued.flushed_at)
        return since + self._longest

    def remove(self, key: str) -> QueuedPod | None:
        queued = self.get(key)
        if queued is None:
            return None
        del self.pods[key]
        group = group_of(queued)
        queued.group = None
        queued.ticket = -1
        self.gated -= group.gating_plugin != ""
        self._take_out(group, queued)
        if not group.pods:
            self._forget(group)
        return queued

    def split(self, group: Group, pods: list[QueuedPod]) -> Group:
        """Some pods of a plain group as a group of their own, in this order; itself if these are all."""
        if len(pods) == len(group.pods):
            group.pods = {queued.key: queued for queued in pods}
            return group
        part = Group(group.key)
        for queued in pods:
            group.remove(queued)
            part.add(queued)
            queued.group = part
        return part

    def wake(self, group: Group) -> None:
        """A plain group no longer waits: its pods will leave one by one."""
        if self._groups.get(group.key) is group:
            self._forget(group)
        self._woken += len(group.pods)

    def leave(self, group: Group, queued: QueuedPod) -> None:
        """It is the turn of a pod of a group that was woken, or it was deleted."""
        del self.pods[queued.key]
        group.remove(queued)
        queued.group = None
        queued.ticket = -1
        self._woken -= 1

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def groups_of(self, profile: str, plugins: Iterable[str]) -> list[Group]:
        """The groups of a profile that any of these plugins turned down."""
        found: dict[GroupKey, Group] = {}
        for plugin in plugins:
            found |= self._by_plugin.get((profile, plugin), {})
        return list(found.values())

    def groups_using(self, claim: str, profile: str, plugins: Collection[str]) -> list[Group]:
        """The groups of `groups_of` that have users of a ResourceClaim, in the same order."""
        using = self._by_claim.get(claim, {})
        found = [
            group
            for group in using.values()
            if group.profile == profile and not group.rejectors.isdisjoint(plugins)
        ]
        if len(found) < 2:
            return found
        return [group for group in self.groups_of(profile, plugins) if group.key in using]

    def next_due(self) -> float | None:
        """After what time the first pod will have waited long enough."""
        group = self._next_due_group()
        return None if group is None else self._due[0][0]

    def take_due(self, now: float, limit: int | None = None) -> list[QueuedPod]:
        """The pods that have waited long enough, at most `limit`. They stay until they are put or removed."""
        found: list[QueuedPod] = []
        while len(found) != limit and (group := self._next_due_group()) is not None and self._due[0][0] < now:
            found.append(group.take_due())
        return found

    def _next_due_group(self) -> Group | None:
        """The group of the pod that will have waited long enough first; its entry is then the first."""
        heap = self._due
        while heap:
            _, ticket, group = heap[0]
            first = group.first_due() if group.heap is None else None
            if first is None:
                heappop(heap)
            elif first[1] == ticket:
                return group
            else:
                heapreplace(heap, (first[0], first[1], group))
        return None

    @staticmethod
    def _key(queued: QueuedPod) -> GroupKey:
        return (
            queued.profile,
            queued.template,
            queued.unschedulable_plugins,
            queued.pending_plugins,
            queued.gating_plugin,
        )

    def _group(self, key: GroupKey) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            for plugin in group.rejectors:
                self._by_plugin.setdefault((group.profile, plugin), {})[key] = group
        return group

    def _take_out(self, group: Group, queued: QueuedPod) -> None:
        group.remove(queued)
        for claim in queued.claims:
            if not group.users_of(claim):
                using = self._by_claim[claim]
                del using[group.key]
                if not using:
                    del self._by_claim[claim]

    def _forget(self, group: Group) -> None:
        del self._groups[group.key]
        for plugin in group.rejectors:
            groups = self._by_plugin[group.profile, plugin]
            del groups[group.key]
            if not groups:
                del self._by_plugin[group.profile, plugin]

    def _sweep(self) -> None:
        """Throw away what no longer holds once it is more than the rest."""
        if len(self._due) > 64 and len(self._due) > 2 * len(self._groups):
            firsts = [(group.first_due(), group) for group in self._groups.values()]
            self._due = sorted((first[0], first[1], group) for first, group in firsts if first is not None)
