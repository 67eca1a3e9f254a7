"""Scheduling pod groups on the table of a simulated cluster: by the algorithm of the scheduler's group cycle.

All members that wait are tried together. Either enough of them get a node or none does; members that are left
over when their group has its minimum are tried once more, as the scheduler does.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.scheduler.framework.budget import standing_still
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.table.pod_groups import GroupTree
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.simulate.outcome import Outcome
from stowplan.simulate.scheduling import PodScheduling, SimulatedQueue

if TYPE_CHECKING:
    from stowplan.scheduler.framework.pod_groups.placement import PodGroupInfo, PodGroupPostFilterResult
    from stowplan.scheduler.pod_groups.algorithm import GroupAlgorithm
    from stowplan.scheduler.pod_groups.result import GroupResult

_ONE_SEARCH_FOR_ALL = "cluster"
"""Where victims of a group are evicted, in the words of the scheduler's events: its nodes are many."""


class GroupScheduling(PodScheduling):
    """The scheduling of pods and of groups of them."""

    @cached_property
    def _algorithms(self) -> "Mapping[str, GroupAlgorithm]":
        from stowplan.scheduler.pod_groups.algorithm import GroupAlgorithm

        return {
            name: GroupAlgorithm(
                framework,
                self._lifecycles[name],
                self._finder,
                self._tie_break,
                placements=self.settings.gates["TopologyAwareWorkloadScheduling"],
                nominations=self._nominations,
                timer=standing_still,
            )
            for name, framework in self.frameworks.items()
        }

    def _enqueue(self, pod: Pod, queue: SimulatedQueue) -> None:
        super()._enqueue(pod, queue)
        groups = self.table.groups
        root = groups.root_of(self._see(pod)) if groups.enabled else None
        if root is None or not queue.takes_pending(root):
            return
        for state in groups.pod_groups_below(root):
            for waiting in state.unscheduled_pods:
                if waiting.key in self.pending and waiting.key != pod.key:
                    queue.push(self.table.info(waiting))

    def _schedule_group(
        self, entity: QueuedGroup, queue: SimulatedQueue, outcome: Outcome, preempt: bool
    ) -> None:
        first = self._first_to_come(entity)
        if first is None:
            self._attempt(entity, queue, outcome, preempt)
        elif self._attempt(first, queue, outcome, preempt, last=False):
            tried = {queued.uid for queued in first.pods()}
            for queued in entity.pods():
                if queued.uid not in tried:
                    queue.push(queued.pod)
        else:
            self._attempt(entity, queue, outcome, preempt)

    def _first_to_come(self, entity: QueuedGroup) -> QueuedGroup | None:
        """The members with which a group is tried first: as soon as it has its minimum, others come later.

        None if these are all. It matters with a topology constraint: the first ones decide on the domain.
        """
        state = self.table.groups.group(entity.root)
        if state is None or state.obj is None or state.scheduled_count:
            return None
        members = list(entity.pods())
        there = [queued for queued in members if queued.key in self.pending]
        new = [queued for queued in members if queued.key not in self.pending]
        early = there + new[: max(state.obj.minimum - len(there), 1)]
        if len(early) == len(members):
            return None
        found = QueuedGroup(entity.root, entity.obj, early[0])
        found.add_all(entity.root, early)
        return found

    def _attempt(
        self,
        entity: QueuedGroup,
        queue: SimulatedQueue,
        outcome: Outcome,
        preempt: bool,
        *,
        last: bool = True,
    ) -> bool:
        """Try a group once; False if it found no place: its members wait if it was the `last` attempt."""
        from stowplan.scheduler.framework.pod_groups.placement import group_info
        from stowplan.scheduler.pod_groups.cycle import GroupConflictError

        tree = self.table.groups.tree(entity.root)
        assert tree is not None
        waiting = {key: [queued.pod for queued in members] for key, members in entity.members.items()}
        held = self._group_gate(entity)
        if not held:
            try:
                name = self._agreed(tree, entity)
            except GroupConflictError as problem:
                held = str(problem)
        if held:
            for queued in entity.pods() if last else ():
                self._wait(queued.pod.pod, held, outcome)
            return False
        root = group_info(tree, waiting, self.table)
        result, found = self._tried(self._algorithms[name], root, preempt)
        if found is not None and found.victims:
            self._preempt_for_group(entity, found, queue, outcome)
        elif last or result.status.code is Code.SUCCESS:
            self._carry_out(result, queue, outcome)
        else:
            return False
        return True

    def _group_gate(self, entity: QueuedGroup) -> str:
        """Why a group may not be tried: one gated member holds all of it."""
        return next((gate for queued in entity.pods() if (gate := self._gate(queued.pod))), "")

    def _agreed(self, tree: GroupTree, entity: QueuedGroup) -> str:
        """The profile of a group whose members agree on what they must. Raises GroupConflictError."""
        from stowplan.scheduler.pod_groups.cycle import Agreement

        check = Agreement(tree, self.settings.gates["PodGroupPreemptionPolicy"])
        for queued in entity.pods():
            check.take(queued.pod.pod)
        for leaf in tree.leaves:
            state = self.table.groups.group(leaf.key)
            for uid in () if state is None else state.scheduled:
                check.take(self.table.pods[uid].pod)
        return self._framework(next(entity.pods()).pod.pod).profile.scheduler_name

    def _tried(
        self, algorithm: "GroupAlgorithm", root: "PodGroupInfo", preempt: bool
    ) -> "tuple[GroupResult, PodGroupPostFilterResult | None]":
        """The result of placing a group, and of the search for victims if there was one."""
        from stowplan.scheduler.framework.pod_groups.placement import GroupCycle, GroupTrial, Waited, finish
        from stowplan.scheduler.pod_groups.cycle import apply_post_filter

        cycle = GroupCycle(self.table, root)
        result = finish(algorithm.run(root, cycle))
        before = result.status.code
        result.complete()
        if before is not Code.UNSCHEDULABLE or not preempt:
            return result, None
        shape = cycle.shape = algorithm.shape(root)

        def again() -> Waited[GroupTrial]:
            return algorithm.try_again(root, shape)

        found = finish(algorithm.points.post_filter_steps(cycle, root, again))
        apply_post_filter(result, found)
        return result, found

    def _preempt_for_group(
        self,
        entity: QueuedGroup,
        found: "PodGroupPostFilterResult",
        queue: SimulatedQueue,
        outcome: Outcome,
    ) -> None:
        """Evict the victims of a group, and have it tried again on the nodes that it is nominated to."""
        for queued in entity.pods():
            pod = queued.pod.pod
            node = found.nominations.get(queued.uid)
            if node is not None:
                pod = replace(pod, status=replace(pod.status, nominated_node_name=node))
            info = self.table.info(pod)
            self._nominate(info, node or None)
            queue.push(info)
        self._evict_victims(found.victims, _ONE_SEARCH_FOR_ALL, entity.key, queue, outcome)

    def _carry_out(self, result: "GroupResult", queue: SimulatedQueue, outcome: Outcome) -> None:
        """Put the members on the nodes that were found; the others wait, and are named with their reasons."""
        from stowplan.scheduler.pod_groups.cycle import failure_of

        left: list[tuple[PodInfo, str]] = []
        placed = len(outcome.placed)
        for leaf in result.root.leaves():
            group = result.outcomes[leaf.key]
            for member in group.pods:
                if member.row is None or member.cycle is None or not group.status.is_success:
                    left.append((member.pod, failure_of(group, member).message))
                    continue
                member.cycle.group = member.cycle.placement = None
                self._place(member.pod, self.table.name_of(member.row), member.cycle, outcome)
        again = len(outcome.placed) > placed
        for info, message in left:
            if again:
                queue.push(info)
            else:
                self._wait(info.pod, message, outcome)
