"""Pods that wait for something to happen: those that were rejected, and those that are not to be tried yet.

Pods made from one template and turned down by the same plugins wait as one group. An event looks at the
groups whose plugins registered for it, and most hints need to be asked only once per group. So what an event
costs depends on how many different pods wait for it, not on how many pods wait.
"""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Final

from stowplan.cluster.podinfo import PodTemplate
from stowplan.queue.queued_pod import QueuedPod

GroupKey = tuple[str, PodTemplate | None, frozenset[str], frozenset[str], str]


_ticket = attrgetter("ticket")


class Group:
    """Pods alike in all that hints look at. Never empty.

    Those without a template (pod groups that wait as one) are only alike in who rejected them.
    """

    __slots__ = ("_uids", "_users", "gating_plugin", "key", "pods", "profile", "rejectors", "template")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.profile, self.template, unschedulable, pending, self.gating_plugin = key
        self.rejectors = unschedulable | pending
        self.pods: dict[str, QueuedPod] = {}
        self._users: dict[str, dict[str, QueuedPod]] = {}
        self._uids: dict[str, str] = {}
        """Keys of gated pods by uid."""

    def add(self, queued: QueuedPod) -> None:
        self.pods[queued.key] = queued
        if self.gating_plugin:
            queued.gated_uid = queued.uid
            self._uids[queued.uid] = queued.key
        for claim in queued.claims:
            self._users.setdefault(claim, {})[queued.key] = queued

    def remove(self, queued: QueuedPod) -> None:
        del self.pods[queued.key]
        if self.gating_plugin:
            self._uids.pop(queued.gated_uid, None)
        for claim in queued.claims:
            users = self._users[claim]
            del users[queued.key]
            if not users:
                del self._users[claim]

    def users_of(self, claim: str) -> list[QueuedPod]:
        """The pods that refer to a ResourceClaim."""
        return list(self._users.get(claim, {}).values())

    def users_of_any(self, claims: Iterable[str]) -> list[QueuedPod]:
        """The pods that refer to one of some ResourceClaims."""
        found = {queued.key: queued for claim in claims for queued in self.users_of(claim)}
        return list(found.values())

    def without(self, uids: AbstractSet[str]) -> list[QueuedPod]:
        """The pods that have none of some uids, in the order in which they came. Only of gated pods."""
        others = self._uids.keys() - uids
        return sorted([self.pods[self._uids[uid]] for uid in others], key=_ticket)

    @property
    def representative(self) -> QueuedPod:
        """One that stands for all."""
        return next(iter(self.pods.values()))


class UnschedulablePods:
    """All that wait, found by key, by what they wait for, and by how long they have waited.

    `longest` is how many seconds a pod waits at most before it is tried again without any event.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self.pods: Final[dict[str, QueuedPod]] = {}
        """Those that wait, by key, for who only looks."""
        self._groups: dict[GroupKey, Group] = {}
        self._by_plugin: dict[tuple[str, str], dict[GroupKey, Group]] = {}
        self._by_claim: dict[str, dict[GroupKey, Group]] = {}
        self._due: list[tuple[float, int, QueuedPod]] = []
        self._numbers = count()
        self.gated = 0
        """How many are not to be tried yet."""

    def __len__(self) -> int:
        return len(self.pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self.pods.values())

    def __contains__(self, key: str) -> bool:
        return key in self.pods

    def get(self, key: str) -> QueuedPod | None:
        return self.pods.get(key)

    def put(self, queued: QueuedPod) -> bool:
        """Let a pod wait, or find its place anew after something about it changed. True if it is new here."""
        is_new = self.remove(queued.key) is None
        self.pods[queued.key] = queued
        group = self._group(queued)
        queued.claims = queued.claim_keys
        group.add(queued)
        for claim in queued.claims:
            self._by_claim.setdefault(claim, {})[group.key] = group
        queued.group = group
        self.gated += queued.gated
        queued.ticket = next(self._numbers)
        heappush(self._due, (self.due_at(queued), queued.ticket, queued))
        return is_new

    def due_at(self, queued: QueuedPod) -> float:
        """When a pod has waited for an event long enough."""
        since = queued.timestamp if queued.flushed_at is None else max(queued.timestamp, queued.flushed_at)
        return since + self._longest

    def remove(self, key: str) -> QueuedPod | None:
        queued = self.pods.pop(key, None)
        if queued is None:
            return None
        group = queued.group
        assert isinstance(group, Group)
        queued.group = None
        queued.ticket = -1
        self.gated -= group.gating_plugin != ""
        self._take_out(group, queued)
        if not group.pods:
            self._forget(group)
        self._sweep()
        return queued

    def remove_many(self, pods: Iterable[QueuedPod]) -> None:
        """Take out pods that wait and are not gated: the same as one after the other, but faster."""
        for queued in pods:
            del self.pods[queued.key]
            group = queued.group
            assert isinstance(group, Group)
            self._take_out(group, queued)
            queued.group = None
            queued.ticket = -1
            if not group.pods:
                self._forget(group)
        self._sweep()

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
        heap = self._due
        while heap and not self._counts(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now: float, limit: int | None = None) -> list[QueuedPod]:
        """The pods that have waited long enough, at most `limit`. They stay until they are put or removed."""
        found: list[QueuedPod] = []
        while len(found) != limit and (due := self.next_due()) is not None and due < now:
            found.append(heappop(self._due)[2])
        return found

    def _group(self, queued: QueuedPod) -> Group:
        key = (
            queued.profile,
            queued.template,
            queued.unschedulable_plugins,
            queued.pending_plugins,
            queued.gating_plugin,
        )
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

    @staticmethod
    def _counts(entry: tuple[float, int, QueuedPod]) -> bool:
        return entry[1] == entry[2].ticket

    def _sweep(self) -> None:
        """Throw away times of pods that left, once they are more than the others."""
        if len(self._due) > 64 and len(self._due) > 2 * len(self.pods):
            self._due = sorted(entry for entry in self._due if self._counts(entry))
