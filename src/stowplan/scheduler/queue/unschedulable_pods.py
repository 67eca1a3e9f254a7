"""Pods that wait for something to happen: those that were rejected, and those that are not to be tried yet.

Pods made from one template and turned down by the same plugins wait as one group (waiting_group.py). An event
looks at the groups whose plugins registered for it, and most hints need to be asked only once per group, or
once for all groups that differ in labels alone (families.py). So what an event costs depends on how many
different pods wait for it, not on how many pods wait. One that helps a group wakes it as a whole: its pods
stay together in the part of the queue they are woken to (heaps.py) until their turn.
"""

from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final

from stowplan.scheduler.framework.events import EventKeys
from stowplan.scheduler.queue.families import Families
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.waiting_group import Group, GroupKey, group_of


def _always(queued: QueuedPod) -> bool:
    return True


def _no_keys(profile: str, plugin: str) -> Collection[EventKeys]:
    return ()


class UnschedulablePods:
    """All unschedulable pods, found by key, by the events they wait for, and by their waiting time.

    `longest` is the number of seconds after which a pod is retried without an event. `must_ask` is true if a
    pod needs more than its hints checked before it is retried. `keys` returns the keys by which the hints of
    a profile's plugin find pods; `failed` is called for a plugin that cannot name them.
    """

    def __init__(
        self,
        longest: float,
        must_ask: Callable[[QueuedPod], bool] = _always,
        keys: Callable[[str, str], Collection[EventKeys]] = _no_keys,
        failed: Callable[[str, Exception], None] = lambda plugin, cause: None,
    ) -> None:
        self._longest = longest
        self._must_ask = must_ask
        self.pods: Final[dict[str, QueuedPod]] = {}
        """Those in groups, by key: those that wait, and those woken with their group before their turn."""
        self._woken = 0
        self._groups: dict[GroupKey, Group] = {}
        self.families: Final = Families(keys, failed)
        self._by_claim: dict[str, dict[GroupKey, Group]] = {}
        self._due: list[tuple[float, int, Group]] = []
        """The `first_due` of every group, and some that no longer hold."""
        self._numbers = count()
        self._group_numbers = count()
        self.gated = 0
        """Number of gated pods."""

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
        if len(group.pods) == 1:
            self.families.add(group)
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
        part = Group(group.key, group.number)
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

    def groups_using(self, claim: str, profile: str, plugins: Collection[str]) -> list[Group]:
        """The groups of a profile that any of these plugins turned down and that have users of a claim."""
        return [
            group
            for group in self._by_claim.get(claim, {}).values()
            if group.profile == profile and not group.rejectors.isdisjoint(plugins)
        ]

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
            group = self._groups[key] = Group(key, next(self._group_numbers))
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
        self.families.remove(group)

    def _sweep(self) -> None:
        """Throw away what no longer holds once it is more than the rest."""
        if len(self._due) > 64 and len(self._due) > 2 * len(self._groups):
            firsts = [(group.first_due(), group) for group in self._groups.values()]
            self._due = sorted((first[0], first[1], group) for first, group in firsts if first is not None)
