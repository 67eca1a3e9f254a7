"""Pod groups: their state, their trees, and the progress of the pods of each.

kube-scheduler keeps this twice, in its cache and in its queue. Here both follow the same watch events in one
thread, so there is one view. A pod may name a group that does not exist (yet), and a group a parent that does
not; lookups report it in kube-scheduler's words.

Groups are chained as deep as users like, and may form a cycle: an API server admits either. So
every group stores its root and whether it has its minimum. Events update both, at a cost in
proportion to the groups for which they change, and no function here recurses.
"""

import sys
from collections.abc import Iterator
from typing import Final

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import MAX_TREE_DEPTH, CompositePodGroup, GroupObject, PodGroup, group_key_of

GROUP_TYPES: Final = (PodGroup, CompositePodGroup)

KNOWN: Final = 0
SCHEDULED: Final = 1
"""The measures of a group's minimum: pods that exist, and pods that have a node or are assumed on one."""

_MEASURES: Final = (KNOWN, SCHEDULED)
_NEVER: Final = sys.maxsize
"""The minimum of a group without an object: it is never reached."""


class PodGroupState:
    """One PodGroup: its object (None if it was not seen yet) and the pods that name it, by uid.

    `pods` are all of them, each either `unscheduled`, `assumed` or `assigned`; terminating and gated ones
    count, too.
    """

    __slots__ = (
        "assigned",
        "assumed",
        "key",
        "minimum",
        "obj",
        "parent",
        "pods",
        "ready",
        "root",
        "unscheduled",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.obj: PodGroup | None = None
        self.parent: str | None = None
        """The key of the group whose children it is counted among."""
        self.root: str | None = None
        """The key of the topmost group, if everything up to it is known."""
        self.minimum = _NEVER
        self.ready = [False, False]
        """True if the minimum is reached, by measure."""
        self.pods: dict[str, Pod] = {}
        self.unscheduled: dict[str, None] = {}
        self.assumed: dict[str, None] = {}
        self.assigned: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"PodGroupState({self.key!r}, {self.all_count} pods, {self.scheduled_count} scheduled)"

    @property
    def all_count(self) -> int:
        return len(self.pods)

    @property
    def scheduled_count(self) -> int:
        """Number of pods that have a node or are assumed on one."""
        return len(self.assumed) + len(self.assigned)

    def count(self, measure: int) -> int:
        """Number of pods that count towards the minimum."""
        return len(self.pods) if measure == KNOWN else len(self.assumed) + len(self.assigned)

    @property
    def scheduled(self) -> list[str]:
        """The uids of the pods that have a node or are assumed on one; the table knows where they are."""
        return [*self.assigned, *self.assumed]

    @property
    def unscheduled_pods(self) -> list[Pod]:
        return [self.pods[uid] for uid in self.unscheduled]

    def put(self, pod: Pod) -> None:
        """A pod is there or changed. Having a node, it is assigned; otherwise it stays what it was."""
        uid = pod.metadata.uid
        self.pods[uid] = pod
        if pod.spec.node_name:
            self.unscheduled.pop(uid, None)
            self.assumed.pop(uid, None)
            self.assigned[uid] = None
        elif uid not in self.assumed and uid not in self.assigned:
            self.unscheduled[uid] = None

    def remove(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.unscheduled.pop(uid, None)
        self.assumed.pop(uid, None)
        self.assigned.pop(uid, None)

    def assume(self, uid: str) -> None:
        """A pod got a node ahead of the API server's word; one that is gone or bound by others stays so."""
        if uid in self.unscheduled:
            del self.unscheduled[uid]
            self.assumed[uid] = None

    def forget(self, uid: str) -> None:
        if uid in self.assumed:
            del self.assumed[uid]
            self.unscheduled[uid] = None


def _with_priority(obj: PodGroup, state: PodGroupState) -> PodGroup:
    """A group of scheduler-plugins has no priority field: the priority of its first pod is used."""
    if not isinstance(obj, CoschedulingPodGroup):
        return obj
    first = next(iter(state.pods.values()), None)
    return obj if first is None else obj.with_priority_of(first)


class CompositePodGroupState:
    """One CompositePodGroup: its object (None if only children were seen) and the keys of its children."""

    __slots__ = ("children", "key", "minimum", "obj", "parent", "ready", "ready_children", "root")

    def __init__(self, key: str) -> None:
        self.key = key
        self.obj: CompositePodGroup | None = None
        self.children: dict[str, None] = {}
        self.parent: str | None = None
        self.root: str | None = None
        self.minimum = _NEVER
        self.ready = [False, False]
        self.ready_children = [0, 0]
        """Number of children that have their minimum, by measure; the rest is as in PodGroupState."""

    def count(self, measure: int) -> int:
        """Number of groups that count towards the minimum."""
        return self.ready_children[measure]


AnyState = PodGroupState | CompositePodGroupState


class GroupTree:
    """A group with everything below it. A leaf is a PodGroup; a group without a parent is a whole tree."""

    __slots__ = ("children", "key", "obj")

    def __init__(self, key: str, obj: GroupObject, children: tuple["GroupTree", ...] = ()) -> None:
        self.key = key
        self.obj = obj
        self.children = children
        """In the order in which they are tried: by creation, then by name."""

    def __repr__(self) -> str:
        return f"GroupTree({self.key!r}, {[child.key for child in self.children]})"

    @property
    def is_leaf(self) -> bool:
        return isinstance(self.obj, PodGroup)

    def walk(self) -> Iterator["GroupTree"]:
        """This group and all below it, a parent before its children."""
        left = [self]
        while left:
            group = left.pop()
            yield group
            left.extend(reversed(group.children))

    @property
    def leaves(self) -> list["GroupTree"]:
        """The PodGroups, in the order in which they are tried."""
        return [group for group in self.walk() if group.is_leaf]


class GroupLookupError(LookupError):
    """A group, or something above it, is not known; the message says which, as kube-scheduler does."""


class PodGroups:
    """All groups. Nothing is kept until `enable` was called, which a scheduler does if its gates say so."""

    def __init__(self) -> None:
        self.enabled = False
        self.composite = False
        """True if groups can have parents (gate CompositePodGroup)."""
        self.coscheduling_backoff = 0.0
        """Seconds that a group of scheduler-plugins backs off at least after it was rejected."""
        self.version = 0
        """Changes with the pods of groups that have a node, and with what their groups say of them."""
        self._groups: dict[str, PodGroupState] = {}
        self._composites: dict[str, CompositePodGroupState] = {}

    def enable(self, *, composite: bool) -> None:
        """Keep groups from now on: to be said before there are any pods or groups."""
        self.enabled = True
        self.composite = composite

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[PodGroupState]:
        return iter(self._groups.values())

    def all_keys(self) -> list[str]:
        """The keys of all groups that exist or are named by pods or other groups."""
        return [*self._groups, *self._composites]

    def sizes(self) -> dict[str, int]:
        return {"pod groups": len(self._groups), "composite pod groups": len(self._composites)}

    # Changes

    def put(self, obj: GroupObject) -> None:
        """A group is there, or changed."""
        if not self.enabled:
            return
        state: AnyState
        if isinstance(obj, PodGroup):
            state = self._state(obj.group_key)
            known: GroupObject | None = state.obj
            state.obj = _with_priority(obj, state)
            self._changed(state, known)
        elif isinstance(obj, CompositePodGroup) and self.composite:
            state = self._composite(obj.group_key)
            known = state.obj
            state.obj = obj
            self.version += known is None or known.spec != obj.spec
        else:
            return
        parent = self.parent_of(obj)
        if known is None or parent != state.parent:
            self._uproot(state)
            self._unlink(state)
            self._link(state, parent)
            self._root(state)
        state.minimum = obj.minimum
        self._settle(state)

    def remove(self, obj: GroupObject) -> None:
        """A group is gone; its pods and children may still name it."""
        key = obj.group_key
        state = self._groups.get(key) if isinstance(obj, PodGroup) else self._composites.get(key)
        if state is None:
            return
        known = state.obj
        self._uproot(state)
        state.minimum = _NEVER
        self._settle(state)
        self._unlink(state)
        state.obj = None
        if isinstance(state, PodGroupState):
            self._changed(state, known)
            self._drop_if_empty(state)
        else:
            self.version += 1
            self._drop_composite_if_empty(state)

    def put_pod(self, pod: Pod) -> None:
        """A pod is there or changed, with or without a node."""
        key = self.key_of(pod)
        if key is not None:
            state = self._state(key)
            before = state.scheduled_count
            state.put(pod)
            self.version += state.scheduled_count != before
            self._settle(state)
            if isinstance(state.obj, CoschedulingPodGroup):
                known = state.obj
                state.obj = _with_priority(known, state)
                self._changed(state, known)

    def remove_pod(self, pod: Pod) -> None:
        state = self.group_of(pod)
        if state is not None:
            before = state.scheduled_count
            state.remove(pod.metadata.uid)
            self.version += state.scheduled_count != before
            self._settle(state)
            self._drop_if_empty(state)

    def assume(self, pod: Pod) -> None:
        """A pod was given a node, ahead of the API server's word."""
        state = self.group_of(pod)
        if state is not None:
            state.assume(pod.metadata.uid)
            self.version += 1
            self._settle(state)

    def forget(self, pod: Pod) -> None:
        """An assumed pod is unscheduled again."""
        state = self.group_of(pod)
        if state is not None:
            state.forget(pod.metadata.uid)
            self.version += 1
            self._settle(state)

    def _changed(self, state: PodGroupState, known: GroupObject | None) -> None:
        """The object of a group is another one: that matters to others if pods of it have nodes."""
        before, now = (None if one is None else one.spec for one in (known, state.obj))
        if state.scheduled_count and before != now:
            self.version += 1

    # Looking

    def key_of(self, pod: Pod) -> str | None:
        """The key (`podgroup/namespace/name`) of the group that a pod is a member of; None without one."""
        return group_key_of(pod) if self.enabled else None

    def group(self, key: str) -> PodGroupState | None:
        """State of a PodGroup."""
        return self._groups.get(key)

    def composite_group(self, key: str) -> CompositePodGroupState | None:
        """State of a CompositePodGroup."""
        return self._composites.get(key)

    def group_of(self, pod: Pod) -> PodGroupState | None:
        """State of the PodGroup that a pod is a member of."""
        key = self.key_of(pod)
        return None if key is None else self._groups.get(key)

    def object(self, key: str) -> GroupObject | None:
        """The object of a group of either kind."""
        state = self._groups.get(key) or self._composites.get(key)
        return None if state is None else state.obj

    def pod_group(self, key: str) -> PodGroup:
        """The object of a PodGroup. Raises GroupLookupError."""
        state = self._groups.get(key)
        if state is None:
            raise GroupLookupError(f"pod group state not found for pod group {key}")
        if state.obj is None:
            raise GroupLookupError(f"pod group object not found for pod group {key}")
        return state.obj

    def composite_pod_group(self, key: str) -> CompositePodGroup:
        """The object of a CompositePodGroup. Raises GroupLookupError."""
        state = self._composites.get(key)
        if state is None:
            raise GroupLookupError(f"composite pod group state not found for composite pod group {key}")
        if state.obj is None:
            raise GroupLookupError(f"composite pod group object not found for composite pod group {key}")
        return state.obj

    def all_count(self, key: str) -> int:
        """Number of known pods of a PodGroup."""
        state = self._groups.get(key)
        return 0 if state is None else state.all_count

    def scheduled_count(self, key: str) -> int:
        """Number of pods of a PodGroup that have a node or are assumed on one."""
        state = self._groups.get(key)
        return 0 if state is None else state.scheduled_count

    def parent_of(self, obj: GroupObject) -> str | None:
        """The key of a group's parent, if groups can have parents."""
        return obj.parent if self.composite else None

    def root_of(self, of: Pod | GroupObject | str) -> str | None:
        """The key of the topmost group above a pod or a group (or of the group itself).

        None if a group on the way up is not known, or if the way leads back to itself.
        """
        key = self._start(of)
        state = None if key is None else self._any(key)
        return None if state is None else state.root

    def whole_of(self, pod: Pod) -> str | None:
        """The key of what a pod is scheduled with: the topmost group above it, or its own if unknown."""
        return self.root_of(pod) or self.key_of(pod) if self.enabled else None

    def tree(self, root: str) -> GroupTree | None:
        """A group and all below it; None if it is not known."""
        top = self._any(root)
        if top is None or top.obj is None:
            return None
        found: dict[str, GroupTree] = {}
        for state in self._states_below(top):
            if state.obj is not None:
                found[state.key] = GroupTree(state.key, state.obj)
        for key, group in reversed(found.items()):
            composite = self._composites.get(key)
            if composite is not None and composite.children:
                # A circle leads back to the root alone, as no group has two parents.
                children = [found[child] for child in composite.children if child != root]
                children.sort(key=lambda child: (child.obj.metadata.creation_timestamp, child.obj.name))
                group.children = tuple(children)
        return found[root]

    def pod_groups_below(self, key: str) -> Iterator[PodGroupState]:
        """The PodGroups in the tree below a key, or the one with the key, in the order in which they came.

        The group itself need not be known any more.
        """
        top = self._any(key)
        if top is not None:
            yield from (state for state in self._states_below(top) if isinstance(state, PodGroupState))

    def has_minimum(self, key: str, measure: int) -> bool:
        """True if a group has its minimum of pods that count, or of groups that have theirs."""
        state = self._any(key)
        return state is not None and state.ready[measure]

    def check_hierarchy(self, pod: Pod) -> str:
        """The key of the root above a pod, having looked at the whole tree. Raises GroupLookupError.

        The way up ends at the greatest depth that a tree may have. Texts are kube-scheduler's. It looks at
        every group below, too, but what it may find there, a circle, leads through the root.
        """
        key = self.key_of(pod)
        state = None if key is None else self._groups.get(key)
        if state is None:
            raise GroupLookupError(f"pod group state not found for {key}")
        if state.obj is None:
            raise GroupLookupError(f"pod group object not found in state for {key}")
        top, first = state.key, self.parent_of(state.obj)
        parent = first
        for _ in range(MAX_TREE_DEPTH - 1):
            if parent is None:
                break
            composite = self._composites.get(parent)
            if composite is None:
                raise GroupLookupError(f"parent composite pod group state not found for {parent}")
            if composite.obj is None:
                raise GroupLookupError(f"composite pod group object not found in state for {parent}")
            top, parent = parent, self.parent_of(composite.obj)
        if parent is None:
            return top
        self._check_circle(parent)
        if self.root_of(parent) != parent:
            raise GroupLookupError(f"composite pod group object not found in state for {first}")
        return parent

    # Details

    def _start(self, of: Pod | GroupObject | str) -> str | None:
        if isinstance(of, str):
            return of
        return self.key_of(of) if isinstance(of, Pod) else of.group_key

    def _any(self, key: str) -> AnyState | None:
        return self._groups.get(key) or self._composites.get(key)

    def _states_below(self, top: AnyState) -> Iterator[AnyState]:
        """A group and all below it, a parent before its children, each once."""
        left: list[AnyState] = [top]
        while left:
            state = left.pop()
            yield state
            if isinstance(state, CompositePodGroupState):
                below = (self._any(child) for child in reversed(state.children))
                left.extend(one for one in below if one is not None and one is not top)

    def _check_circle(self, key: str) -> None:
        """Raise GroupLookupError if the way up from a group leads back to it, or it does not exist."""
        state = self._composites.get(key)
        if state is None:
            raise GroupLookupError(f"composite pod group state not found for {key}")
        if state.root is not None:
            return
        seen: set[str] = set()
        above = state.parent
        while above is not None and above not in seen:
            if above == key:
                raise GroupLookupError(f"cycle detected in composite pod group hierarchy: {key}")
            seen.add(above)
            composite = self._composites.get(above)
            above = None if composite is None else composite.parent

    def _root(self, state: AnyState) -> None:
        """A group became known or has another parent: tell it and all below their root, if there is one."""
        if state.parent is None:
            root: str | None = state.key
        else:
            root = self._composites[state.parent].root
        if root is not None:
            for one in self._states_below(state):
                one.root = root

    def _uproot(self, state: AnyState) -> None:
        """A group is about to be unknown or to have another parent: nothing below it has a root."""
        if state.root is not None:
            for one in self._states_below(state):
                one.root = None

    def _settle(self, state: AnyState) -> None:
        """Update the groups above after the counts of a group changed."""
        for measure in _MEASURES:
            one: AnyState = state
            while (ready := one.count(measure) >= one.minimum) is not one.ready[measure]:
                one.ready[measure] = ready
                if one.parent is None:
                    break
                above = self._composites[one.parent]
                above.ready_children[measure] += 1 if ready else -1
                one = above

    def _state(self, key: str) -> PodGroupState:
        state = self._groups.get(key)
        if state is None:
            state = self._groups[key] = PodGroupState(key)
        return state

    def _composite(self, key: str) -> CompositePodGroupState:
        state = self._composites.get(key)
        if state is None:
            state = self._composites[key] = CompositePodGroupState(key)
        return state

    def _link(self, state: AnyState, parent: str | None) -> None:
        """Count a group among the children of another one, which need not be known yet."""
        if parent is None:
            return
        composite = self._composite(parent)
        composite.children[state.key] = None
        state.parent = parent
        self._count_child(composite, state, 1)

    def _unlink(self, state: AnyState) -> None:
        if state.parent is None:
            return
        composite = self._composites[state.parent]
        del composite.children[state.key]
        state.parent = None
        self._count_child(composite, state, -1)
        self._drop_composite_if_empty(composite)

    def _count_child(self, composite: CompositePodGroupState, child: AnyState, change: int) -> None:
        for measure in _MEASURES:
            composite.ready_children[measure] += change * child.ready[measure]
        self._settle(composite)

    def _drop_if_empty(self, state: PodGroupState) -> None:
        if state.obj is None and not state.pods:
            self._groups.pop(state.key, None)

    def _drop_composite_if_empty(self, state: CompositePodGroupState) -> None:
        if state.obj is None and not state.children:
            self._composites.pop(state.key, None)
