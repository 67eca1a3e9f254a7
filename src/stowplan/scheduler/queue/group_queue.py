"""The scheduling queue with pod groups (gate GenericWorkload): members of a group wait and are tried as one.

A member is in exactly one place: in the entity of its tree of groups, which is active, backing off or held
back; *incomplete*, while its group or one above is not known; *pending*, while its tree is being scheduled;
or in flight. Pods without a group go their own way as before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.api.rules.resources import is_resize_deferred
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Ref
from stowplan.scheduler.framework.events import (
    SCHEDULE_ATTEMPT_FAILURE,
    Action,
    ClusterEvent,
    pod_resources,
)
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.queue.group_places import GroupSubQueues, MemberPods
from stowplan.scheduler.queue.instrument import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    POD,
    POD_GROUP,
    UNSCHEDULABLE,
)
from stowplan.scheduler.queue.queued_group import QueuedGroup, entity_key
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.requeue import Requeuer
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.queue.sub_queues import ProfileRules, SortKey, Strategy, SubQueues, nanoseconds
from stowplan.scheduler.queue.waiting_group import Group
from stowplan.scheduler.table.pod_groups import GroupTree, PodGroups
from stowplan.scheduler.table.podinfo import PodInfo


class GroupWaker(Requeuer):
    """A waker that knows groups: an event that may help any member may help the whole group."""

    __slots__ = ("groups",)

    groups: PodGroups

    def _worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        if not isinstance(queued, QueuedGroup):
            return super()._worth(queued, event, old, new)
        found = Strategy.SKIP
        for member in queued.pods():
            strategy = super()._worth(member, event, old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is not Strategy.SKIP:
                if not queued.pending_plugins and (
                    queued.gated or not any(other.pending_plugins for other in queued.pods())
                ):
                    return strategy
                found = strategy
        return found

    def may_help(self, group: QueuedGroup, event: ClusterEvent, old: Any, new: Any) -> bool:
        """True if an event may help a failed group, according to the plugins that rejected one of its
        members.

        Members without a rejection were not evaluated, or would fit: they do not count. A group with a member
        that failed with an error sits out its backoff, as a pod would.
        """
        if event.is_wildcard or any(member.consecutive_errors for member in group.pods()):
            return False
        return any(
            member.rejected and super(GroupWaker, self)._worth(member, event, old, new) is not Strategy.SKIP
            for member in group.pods()
        )

    def _verdicts(
        self, group: Group, event: ClusterEvent, old: Any, new: Any, for_all: bool, shared: Strategy | None
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        if group.template is not None:
            yield from super()._verdicts(group, event, old, new, for_all, shared)
            return
        concerned = list(group.pods.values())
        if self._concerns_one_group(group, event):
            root = self.groups.root_of(old if new is None else new)
            entity = None if root is None else group.pods.get(entity_key(root))
            concerned = [] if entity is None else [entity]
        yield from self._verdicts_of(concerned, event, old, new)

    def _concerns_one_group(self, group: Group, event: ClusterEvent) -> bool:
        """True if an event can only help the group of its object, according to all hints involved."""
        if event.is_wildcard:
            return False
        matching = self._profiles[group.profile].hints.matching(event)
        return all(
            entry.only_group
            for plugin, entries in matching.items()
            if plugin in group.rejectors
            for entry in entries
        )


class GroupSchedulingQueue(SchedulingQueue):
    """All pods and groups that wait for nodes.

    `groups` is the state of the groups; it is updated before the queue is. With `wake_failed_groups` a
    rejected group is retried soon after an event that may help one of its members, as a pod is;
    kube-scheduler lets it sit out its backoff in any case.
    """

    _sub_queues: ClassVar[type[SubQueues]] = GroupSubQueues
    _waker_type: ClassVar[type[Requeuer]] = GroupWaker
    _places: GroupSubQueues
    _waker: GroupWaker

    def __init__(
        self,
        clock: Clock,
        info: Callable[[Pod], PodInfo],
        profiles: Mapping[str, ProfileRules],
        sort_key: SortKey,
        groups: PodGroups,
        *,
        gates: FeatureGates = DEFAULT_GATES,
        wake_failed_groups: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(clock, info, profiles, sort_key, gates=gates, **options)
        self.groups = self._waker.groups = groups
        self._wakes_failed = wake_failed_groups
        self._resizes = gates[RESIZE_PREEMPTION]
        self._updated = ClusterEvent(pod_resources(gates.behaviour).unscheduled, Action.UPDATE).label
        self.incomplete = MemberPods()
        self.pending = MemberPods()
        self._last_popped = ""
        self._members: dict[str, QueuedPod] = {}
        """All members that wait, by `namespace/name`."""
        self._entities: dict[str, QueuedGroup] = {}
        """All groups that wait, by key."""
        self._failed: dict[str, QueuedGroup] = {}
        """Those that back off after a rejection and that events may help."""
        self._helped: set[str] = set()
        """The roots of groups that something happened to help while they were tried."""

    # Looking

    def __len__(self) -> int:
        return sum(self.counts().values())

    def __iter__(self) -> Iterator[QueuedPod]:
        for entity in super().__iter__():
            if isinstance(entity, QueuedGroup):
                yield from entity.pods()
            else:
                yield entity
        yield from self.incomplete
        yield from self.pending

    def entity_of(self, pod: Pod) -> QueuedGroup | None:
        """The group that a member waits in; None if it does not wait, or waits for its group to be known."""
        root = self.groups.root_of(pod)
        entity = None if root is None else self._places.get(entity_key(root))
        return entity if isinstance(entity, QueuedGroup) else None

    def get(self, key: str) -> QueuedPod | None:
        return self._members.get(key) or super().get(key)

    def place_of(self, key: str) -> str | None:
        member = self._members.get(key)
        if member is None or isinstance(member.group, QueuedGroup):
            return super().place_of(self._key_of(key))
        return INCOMPLETE if self.groups.root_of(member.pod.pod) is None else PENDING

    def next_try(self, key: str) -> float | None:
        return super().next_try(self._key_of(key))

    def wakers(self, key: str) -> list[tuple[str, ClusterEvent]]:
        return super().wakers(self._key_of(key))

    def counts(self) -> dict[str, int]:
        counts = {**super().counts(), INCOMPLETE: len(self.incomplete), PENDING: len(self.pending)}
        for place, group in self._queued_groups():
            counts[place] += group.size - 1
        return counts

    def entity_counts(self) -> dict[tuple[str, ...], int]:
        found = super().entity_counts()
        found |= {(place, POD_GROUP): 0 for place, _ in list(found)}
        for place, group in self._queued_groups():
            found[place, POD_GROUP] += 1
            found[place, POD] -= group.size
        return found

    def summary(self) -> str:
        counts = self.counts()
        return (
            f"activeQ:{counts[ACTIVE]}; backoffQ:{counts[BACKOFF]}; "
            f"{self._unschedulable_name}:{counts[UNSCHEDULABLE] + counts[GATED]}; "
            f"pendingPodGroupMemberPods:{counts[PENDING]}; incompletePodGroupPods:{counts[INCOMPLETE]}"
        )

    def _is_alone(self, pod: Pod) -> bool:
        """True if a pod is queued individually: it is in no group, or it runs and waits for a resize."""
        return pod.spec.scheduling_group is None or (self._resizes and is_resize_deferred(pod))

    # Pods come and go

    def add(self, pod: Pod, event: str = "") -> None:
        if self._is_alone(pod):
            super().add(pod, event)
            return
        queued = QueuedPod(self._info(pod), self._clock.monotonic())
        self.nominator.add(queued.pod)
        self._add_member(queued)

    def update(self, old: Pod, new: Pod) -> None:
        if self._is_alone(old):
            super().update(old, new)
            return
        group = self.groups.key_of(old) or ""
        root = self.groups.root_of(old)
        if root is None:
            self._become(self.incomplete.get(group, new.key), old, new)
            return
        events = self._update_events.of_pod(old, new, is_target=True)
        if new.metadata.uid in self.in_flight:
            self.in_flight.record(events, old, new)
            return
        entity = self._places.get(entity_key(root))
        member = entity.find(new.key) if isinstance(entity, QueuedGroup) else None
        if isinstance(entity, QueuedGroup) and member is not None:
            self._become(member, old, new)
            if entity.key in self._places.unschedulable:
                self._waker.wake_updated(entity, events, old, new)
        elif not self._become(self.pending.get(group, new.key), old, new):
            self.add(new)

    def delete(self, pod: Pod) -> None:
        if self._is_alone(pod):
            super().delete(pod)
            return
        self.nominator.remove(pod.metadata.uid)
        group = self.groups.key_of(pod) or ""
        root = self.groups.root_of(pod)
        if root is None:
            self._gone(self.incomplete.remove(group, pod.key))
            return
        found = self._take_out(entity_key(root))
        if found is None:
            self._gone(self.pending.remove(group, pod.key))
            return
        entity, strategy = found
        member = entity.find(pod.key)
        if member is not None:
            entity.remove(member)
            self._gone(member)
        self._put_back(entity, strategy, self._added)

    # Groups come and go

    def add_group(self, obj: GroupObject) -> None:
        """A group became known: members that waited for it, anywhere in its tree, are released."""
        root = self.groups.root_of(obj)
        if root is None:
            return
        self.update_group(obj)
        # The rest of its tree had a root before, so none of those members is incomplete.
        tree = self.groups.tree(obj.group_key)
        for leaf in [] if tree is None else tree.leaves:
            for queued in self.incomplete.take(leaf.key):
                self._add_member(queued)

    def update_group(self, obj: GroupObject) -> None:
        """A group changed; a queued one goes by its new state from now on."""
        entity = self._places.get(entity_key(obj.group_key))
        if isinstance(entity, QueuedGroup) and entity.root == obj.group_key:
            entity.obj = obj
            if entity.key in self._places.active:
                self._places.active.put(entity.key, entity)

    def delete_group(self, obj: GroupObject, root: str | None) -> None:
        """A group below (or at) a root is gone: its members, and those of groups below it, are incomplete."""
        if root is None:
            return
        key = entity_key(root)
        found = self._take_out(key)
        if found is None:
            if key == self._last_popped:
                self._drop_rootless_pending()
            return
        entity, strategy = found
        for leaf in self.groups.pod_groups_below(obj.group_key):
            for member in entity.take(leaf.key):
                self.incomplete.add(leaf.key, member)
        self._put_back(entity, strategy, self._updated)

    # Pods are tried

    def pop_specific(self, pod: Pod) -> QueuedPod | None:
        if self._is_alone(pod):
            return super().pop_specific(pod)
        self._activate(pod)
        entity = self.entity_of(pod)
        if entity is None or self._places.active.remove(entity.key) is None:
            return None
        return entity if self._take_off(entity) else None

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        unschedulable: Iterable[str] = (),
        pending: Iterable[str] = (),
        pod: Pod | None = None,
    ) -> Strategy:
        if self._is_alone(queued.pod.pod):
            self._last_popped = ""
            return super().add_unschedulable_if_not_present(queued, unschedulable, pending, pod)
        try:
            self._note_failure(queued, frozenset(unschedulable), frozenset(pending), pod)
            self._note_help(queued)
        finally:
            self.in_flight.end(queued.uid)
        self._count_rejectors(queued, 1)
        self._add_member(queued)
        return Strategy.AFTER_BACKOFF

    def add_attempted_group(self, group: QueuedGroup, code: str, any_failed: bool | None = None) -> None:
        """Take back a group after its cycle with the members that came meanwhile or failed, if there are any.

        `code` is what became of it before preemption was tried: success, rejected or error. After a success
        the members left over are tried again at once, before others if some of them failed in this cycle
        (`any_failed`). Otherwise the group backs off. Raises AlreadyQueuedError if it is in the queue.
        """
        places = self._places
        places.check_group_absent(group)
        self._last_popped = ""
        tree = self.groups.tree(group.root)
        pending = [] if tree is None else self._take_pending(tree)
        if tree is None or not pending:
            return
        tried = {member.uid for member in group.pods()}
        back = {queued.uid for _, queued in pending}
        if any_failed is None:
            any_failed = bool(tried & back)
        if code == "success" and tried and tried <= back:
            code = "error"  # a place was found, but no member could take it: do not retry in a loop
        helped = group.root in self._helped
        self._helped.discard(group.root)
        again = self._regrouped(group, tree.obj, pending)
        self._note_attempt(again, group, code, any_failed)
        held = code != "success" and self._hold_back(again)
        if code != "success" and places.backoff.is_backing_off(again, self._clock.monotonic()):
            placed = places.to_backoff(again, SCHEDULE_ATTEMPT_FAILURE)
        else:
            placed = places.to_active(again, SCHEDULE_ATTEMPT_FAILURE)
        if placed and code == "rejected" and not held and again.key in places.backoff:
            self._failed[again.key] = again
            if helped:
                self._wake_failed(again, SCHEDULE_ATTEMPT_FAILURE)

    def put_aside(self, group: QueuedGroup, until: float) -> None:
        """Take back a group in the middle of its cycle, which starts anew at `until` at the earliest.

        Its attempt goes on then: nothing counts as a failure, or as an attempt more.
        """
        self._places.check_group_absent(group)
        for queued in list(group.pods()):
            queued.attempts -= 1
            self.in_flight.end(queued.uid)
            self._count_rejectors(queued, 1)
            self._add_member(queued)
        self._last_popped = ""
        tree = self.groups.tree(group.root)
        pending = [] if tree is None else self._take_pending(tree)
        if tree is None or not pending:
            return
        again = self._regrouped(group, tree.obj, pending)
        _carry_over(group, again)
        again.attempts -= 1
        again.backoff_until = None
        again.held_until = nanoseconds(until)
        self._places.to_backoff(again, SCHEDULE_ATTEMPT_FAILURE)

    def _take_pending(self, tree: GroupTree) -> list[tuple[str, QueuedPod]]:
        """The members of a tree that wait for its cycle to end, with the keys of their PodGroups."""
        return [(leaf.key, queued) for leaf in tree.leaves for queued in self.pending.take(leaf.key)]

    def _regrouped(
        self, group: QueuedGroup, obj: GroupObject, pending: Sequence[tuple[str, QueuedPod]]
    ) -> QueuedGroup:
        """A new entry for a group, with these members."""
        again = self._entities[group.key] = QueuedGroup(group.root, obj, pending[0][1])
        by_leaf: dict[str, list[QueuedPod]] = {}
        for leaf, queued in pending:
            by_leaf.setdefault(leaf, []).append(queued)
        for leaf, members in by_leaf.items():
            again.add_all(leaf, members)
        return again

    def _hold_back(self, group: QueuedGroup) -> bool:
        """A group of scheduler-plugins backs off at least as long as its plugin says, regardless of events.

        False if the plugin says nothing.
        """
        least = self.groups.coscheduling_backoff
        if not least or not isinstance(group.obj, CoschedulingPodGroup):
            return False
        self._places.backoff.is_backing_off(group, self._clock.monotonic())
        group.backoff_until = max(group.backoff_until or 0, nanoseconds(group.timestamp + least))
        return True

    # Pods are tried again

    def move_all(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        at_most_priority: int | None = None,
        excluding: str = "",
    ) -> None:
        super().move_all(event, old, new, at_most_priority, excluding)
        if self._wakes_failed and self._failed and self._waker.concerns_anybody(event):
            for group in list(self._failed.values()):
                if group.key not in self._places.backoff:
                    del self._failed[group.key]
                elif self._waker.may_help(group, event, old, new):
                    self._wake_failed(group, event.label)

    # In detail

    def _add_member(self, queued: QueuedPod) -> None:
        """Let a member wait where its group does; if it is the first one, make its group ready."""
        pod = queued.pod.pod
        group = self.groups.key_of(pod) or ""
        root = self.groups.root_of(pod)
        self._members[queued.key] = queued
        if root is None:
            self.incomplete.add(group, queued)
            self._say(
                "Pod with pod group added to incompletePodGroupPods, waiting for one or more parent pod "
                "group objects to be observed",
                queued,
            )
            return
        key = entity_key(root)
        found = self._take_out(key)
        if found is not None:
            entity, strategy = found
            entity.add(group, queued)
            if entity.woken and queued.consecutive_errors:
                entity.woken = False
                entity.backoff_until = None
            self._put_back(entity, strategy, self._added)
        elif key == self._last_popped:
            self.pending.add(group, queued)
            self._say(
                "Pod added to pending pod group pods, waiting for its root group to be requeued", queued
            )
        else:
            obj = self.groups.object(root)
            assert obj is not None
            entity = self._entities[key] = QueuedGroup(root, obj, queued)
            entity.add(group, queued)
            self._begin(entity, queued)

    def _begin(self, entity: QueuedGroup, first: QueuedPod) -> None:
        """Make a group ready of which this is the only member so far.

        A member that fails again and again after its group was placed backs off; kube-scheduler tries it in a
        loop.
        """
        entity.consecutive_errors = max(0, first.consecutive_errors - 1)
        entity.unschedulable_count = int(first.rejected and first.attempts > 1)
        if entity.consecutive_errors or entity.unschedulable_count:
            self._places.requeue(entity, Strategy.AFTER_BACKOFF, self._added)
        else:
            self._places.to_active(entity, self._added)

    def _take_off(self, queued: QueuedPod) -> bool:
        if not isinstance(queued, QueuedGroup):
            self._last_popped = queued.key
            return super()._take_off(queued)
        queued.attempts += 1
        queued.count_in("")
        self._entities.pop(queued.key, None)
        self._failed.pop(queued.key, None)
        for member in list(queued.pods()):
            self._members.pop(member.key, None)
            member.attempts += 1
            member.flushed = queued.flushed
            if not self.in_flight.begin(member.uid):
                queued.remove(member)
                self._places.problem("Discarding the popped pod group member", member)
        if not queued.members:
            self._places.problem(
                "all pods from the pod group are tracked in multiple places in the scheduler", queued
            )
            return False
        self.cycle += 1
        self._last_popped = queued.key
        for member in queued.pods():
            member.group = None
            self._count_rejectors(member, -1)
        return True

    def _activate(self, pod: Pod) -> bool:
        if self._is_alone(pod):
            return super()._activate(pod)
        root = self.groups.root_of(pod)
        return root is not None and self._activate_key(entity_key(root))

    def _note_attempt(self, again: QueuedGroup, before: QueuedGroup, code: str, any_failed: bool) -> None:
        """Carry over what is known of a group from the attempt that it comes back from."""
        _carry_over(before, again)
        if code == "success":
            again.unschedulable_count = again.consecutive_errors = 0
            if any_failed:
                return
        elif code == "rejected":
            again.unschedulable_count += 1
            again.consecutive_errors = 0
        else:
            again.consecutive_errors += 1
        again.timestamp = self._clock.monotonic()
        if code != "success":
            again.backoff_until = None

    def _note_help(self, queued: QueuedPod) -> None:
        """Something happened while a member was tried that may help it: its group is to know."""
        if not self._wakes_failed or not queued.rejected or queued.uid not in self.in_flight:
            return
        events = [one for one in self.in_flight.since(queued.uid) if not one.event.is_wildcard]
        if events and self._waker.after(events, queued) is not Strategy.SKIP:
            self._helped.add(self.groups.root_of(queued.pod.pod) or "")

    def _wake_failed(self, group: QueuedGroup, event: str) -> None:
        """Shorten a group's wait to that of a pod; it may be tried as soon as nothing else is ready."""
        self._failed.pop(group.key, None)
        self._places.backoff.remove(group.key)
        group.woken = True
        group.backoff_until = None
        self._places.put_back(group, Strategy.AFTER_BACKOFF, event)

    def _become(self, queued: QueuedPod | None, old: Pod, new: Pod) -> bool:
        """Take in the new state of a member that waits somewhere; False if it does not."""
        if queued is None:
            return False
        queued.update(self._info(new))
        if isinstance(queued.group, QueuedGroup):
            queued.group.changed(queued)
        self.nominator.update(old, queued.pod)
        return True

    def _gone(self, queued: QueuedPod | None) -> None:
        """A member that waited is deleted."""
        if queued is not None:
            self._members.pop(queued.key, None)
            self._count_rejectors(queued, -1)

    def _drop_rootless_pending(self) -> None:
        for queued in list(self.pending):
            if self.groups.root_of(queued.pod.pod) is None:
                group = self.groups.key_of(queued.pod.pod) or ""
                self.pending.remove(group, queued.key)
                self.incomplete.add(group, queued)

    def _take_out(self, key: str) -> tuple[QueuedGroup, Strategy] | None:
        return self._places.take_out(key)

    def _put_back(self, entity: QueuedGroup, strategy: Strategy, event: str) -> None:
        """Put a group back after its members changed; one without members is no longer there."""
        if entity.members:
            self._places.put_back(entity, strategy, event)
        else:
            del self._entities[entity.key]

    def _tell(self, queued: QueuedPod, event: str) -> None:
        if not isinstance(queued, QueuedGroup):
            super()._tell(queued, event)
        elif self._hooks.incoming_group is not None:
            self._hooks.incoming_group(queued, ACTIVE, event, True, queued.count_in(ACTIVE))

    def _queued_groups(self) -> Iterator[tuple[str, QueuedGroup]]:
        for entity in self._entities.values():
            yield super().place_of(entity.key) or "", entity

    def _key_of(self, pod_key: str) -> str:
        """By which key a pod is found in the sub-queues: its own, or that of the group it waits in."""
        member = self._members.get(pod_key)
        entity = None if member is None else member.group
        return entity.key if isinstance(entity, QueuedGroup) else pod_key

    def _say(self, text: str, queued: QueuedPod) -> None:
        self._places.log(5, text, pod=Ref(queued.key))


def _carry_over(before: QueuedGroup, again: QueuedGroup) -> None:
    again.attempts = before.attempts
    again.first_attempt = before.first_attempt
    again.timestamp = before.timestamp
    again.unschedulable_count = before.unschedulable_count
    again.consecutive_errors = before.consecutive_errors
    again.backoff_until = before.backoff_until
    again.cost = before.cost
    again.held_until = before.held_until
