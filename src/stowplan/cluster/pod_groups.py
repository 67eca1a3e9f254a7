"""Pod groups: which there are, how they form trees, and how far the pods of each are.

kube-scheduler keeps this twice, in its cache and in its queue. Both follow the same watch events here, in one
thread, so there is one view. A pod may name a group that does not exist (yet), and a group a parent that does
not; whoever asks is told so, in kube-scheduler's words.
"""

from collections.abc import Iterator
from typing import Final

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import MAX_TREE_DEPTH, CompositePodGroup, GroupObject, PodGroup, group_key_of

GROUP_TYPES: Final = (PodGroup, CompositePodGroup)


class PodGroupState:
    """One PodGroup: its object (None if it was not seen yet) and the pods that name it, by uid.

    `pods` are all of them, each either `unscheduled`, `assumed` or `assigned`; terminating and gated ones
    count, too.
    """

    __slots__ = ("assigned", "assumed", "key", "obj", "pods", "unscheduled")

    def __init__(self, key: str) -> None:
        self.key = key
        self.obj: PodGroup | None = None
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
        """How many pods have a node, or are assumed on one."""
        return len(self.assumed) + len(self.assigned)

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
    """A group of scheduler-plugins has no priority of its own: it has that of its first pod."""
    if not isinstance(obj, CoschedulingPodGroup):
        return obj
    first = next(iter(state.pods.values()), None)
    return obj if first is None else obj.with_priority_of(first)


class CompositePodGroupState:
    """One CompositePodGroup: its object (None if only children were seen) and the keys of its children."""

    __slots__ = ("children", "key", "obj")

    def __init__(self, key: str) -> None:
        self.key = key
        self.obj: CompositePodGroup | None = None
        self.children: dict[str, None] = {}


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
        yield self
        for child in self.children:
            yield from child.walk()

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
        """Whether groups can have parents (gate CompositePodGroup)."""
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
        if isinstance(obj, PodGroup):
            state = self._state(obj.group_key)
            known: GroupObject | None = state.obj
            state.obj = _with_priority(obj, state)
            self._changed(state, known)
        elif isinstance(obj, CompositePodGroup) and self.composite:
            composite = self._composite(obj.group_key)
            known = composite.obj
            composite.obj = obj
            self.version += known is None or known.spec != obj.spec
        else:
            return
        before, parent = self.parent_of(known) if known is not None else None, self.parent_of(obj)
        if before != parent and before is not None:
            self._unlink(before, obj.group_key)
        if parent is not None:
            self._composite(parent).children[obj.group_key] = None

    def remove(self, obj: GroupObject) -> None:
        """A group is gone; its pods and children may still name it."""
        key = obj.group_key
        if isinstance(obj, PodGroup):
            state = self._groups.get(key)
            known: GroupObject | None = None if state is None else state.obj
            if state is not None:
                state.obj = None
                self._changed(state, known)
                self._drop_if_empty(state)
        else:
            composite = self._composites.get(key)
            known = None if composite is None else composite.obj
            if composite is not None:
                self.version += 1
                composite.obj = None
                self._drop_composite_if_empty(composite)
        parent = None if known is None else self.parent_of(known)
        if parent is not None:
            self._unlink(parent, key)

    def put_pod(self, pod: Pod) -> None:
        """A pod is there or changed, with or without a node."""
        key = self.key_of(pod)
        if key is not None:
            state = self._state(key)
            before = state.scheduled_count
            state.put(pod)
            self.version += state.scheduled_count != before
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
            self._drop_if_empty(state)

    def assume(self, pod: Pod) -> None:
        """A pod was given a node, ahead of the API server's word."""
        state = self.group_of(pod)
        if state is not None:
            state.assume(pod.metadata.uid)
            self.version += 1

    def forget(self, pod: Pod) -> None:
        """An assumed pod is unscheduled again."""
        state = self.group_of(pod)
        if state is not None:
            state.forget(pod.metadata.uid)
            self.version += 1

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
        """What is known of a PodGroup."""
        return self._groups.get(key)

    def composite_group(self, key: str) -> CompositePodGroupState | None:
        """What is known of a CompositePodGroup."""
        return self._composites.get(key)

    def group_of(self, pod: Pod) -> PodGroupState | None:
        """What is known of the PodGroup that a pod is a member of."""
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
        """How many pods of a PodGroup are known."""
        state = self._groups.get(key)
        return 0 if state is None else state.all_count

    def scheduled_count(self, key: str) -> int:
        """How many pods of a PodGroup have a node or are assumed on one."""
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
        seen: set[str] = set()
        while key is not None and key not in seen:
            seen.add(key)
            obj = self.object(key)
            if obj is None:
                return None
            parent = self.parent_of(obj)
            if parent is None:
                return key
            key = parent
        return None

    def whole_of(self, pod: Pod) -> str | None:
        """The key of what a pod is scheduled with: the topmost group above it, or its own if unknown."""
        return self.root_of(pod) or self.key_of(pod) if self.enabled else None

    def tree(self, root: str) -> GroupTree | None:
        """A group and all below it; None if it is not known."""
        return self._tree(root, set())

    def check_hierarchy(self, pod: Pod) -> str:
        """The key of the root above a pod, having looked at the whole tree. Raises GroupLookupError.

        The way up ends at the greatest depth that a tree may have. Texts are kube-scheduler's.
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
            self._check_below(top, set())
            return top
        self._check_below(parent, set())
        if self.root_of(parent) != parent:
            raise GroupLookupError(f"composite pod group object not found in state for {first}")
        return parent

    # Details

    def _start(self, of: Pod | GroupObject | str) -> str | None:
        if isinstance(of, str):
            return of
        return self.key_of(of) if isinstance(of, Pod) else of.group_key

    def _tree(self, key: str, above: set[str]) -> GroupTree | None:
        obj = self.object(key)
        if obj is None or key in above:
            return None
        composite = self._composites.get(key)
        keys = () if composite is None else composite.children
        found = (self._tree(child, above | {key}) for child in keys)
        children = [child for child in found if child is not None]
        children.sort(key=lambda child: (child.obj.metadata.creation_timestamp, child.obj.name))
        return GroupTree(key, obj, tuple(children))

    def _check_below(self, key: str, seen: set[str]) -> None:
        if key in seen:
            raise GroupLookupError(f"cycle detected in composite pod group hierarchy: {key}")
        seen.add(key)
        if key in self._groups:
            return
        composite = self._composites.get(key)
        if composite is None:
            kind = "pod group" if key.startswith("podgroup/") else "composite pod group"
            raise GroupLookupError(f"{kind} state not found for {key}")
        for child in composite.children:
            self._check_below(child, seen)

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

    def _unlink(self, parent: str, child: str) -> None:
        composite = self._composites.get(parent)
        if composite is not None:
            composite.children.pop(child, None)
            self._drop_composite_if_empty(composite)

    def _drop_if_empty(self, state: PodGroupState) -> None:
        if state.obj is None and not state.pods:
            self._groups.pop(state.key, None)

    def _drop_composite_if_empty(self, state: CompositePodGroupState) -> None:
        if state.obj is None and not state.children:
            self._composites.pop(state.key, None)
