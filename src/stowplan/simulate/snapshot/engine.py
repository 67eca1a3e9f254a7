"""The scheduler's engine over a snapshot: one table, every profile, and the pods that wait."""

from functools import cached_property
from typing import TYPE_CHECKING

from stowplan.api.coscheduling import see_pod
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.api.workloads import ReplicaSet
from stowplan.explain.explainers.pod import Explainer
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable, load
from stowplan.simulate.snapshot.files import Snapshot

if TYPE_CHECKING:
    from collections.abc import Generator

    from stowplan.explain.document.group import GroupDocument


def _as_it_is(pod: Pod) -> Pod:
    return pod


class Engine:
    """Answers for the profiles of `settings` on the cluster of a snapshot."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.snapshot = snapshot
        self.table = ClusterTable(settings.release)
        self._gates = gates = settings.gates
        groups = self.table.groups
        if gates.pod_groups:
            groups.enable(composite=gates["CompositePodGroup"])
        see = see_pod(gates) or _as_it_is
        self.pods: dict[str, Pod] = {
            obj.key: see(obj) for obj in snapshot.objects if isinstance(obj, Pod) and not obj.is_finished
        }
        load(self.table, (obj for obj in snapshot.objects if not isinstance(obj, Pod)))
        for obj in snapshot.objects:
            if isinstance(obj, GroupObject):
                groups.put(obj)
        for pod in self.pods.values():
            if pod.spec.node_name:
                self.table.put_pod(pod)
            groups.put_pod(pod)
        self.frameworks = {
            profile.scheduler_name: Framework(profile, self.table, settings.registry, settings.gates)
            for profile in settings.config.profiles
        }

    @cached_property
    def waiting(self) -> list[Pod]:
        """Pods without a node."""
        return [pod for pod in self.pods.values() if not pod.spec.node_name]

    def info(self, pod: Pod) -> PodInfo:
        """A pod as the table has it, or as it would be."""
        return self.table.pods.get(pod.metadata.uid) or self.table.info(pod)

    def framework_of(self, pod: Pod) -> Framework:
        """The profile that schedules a pod; the first one if it names none of them."""
        first = next(iter(self.frameworks.values()))
        return self.frameworks.get(pod.spec.scheduler_name, first)

    def explainer_for(self, pod: Pod) -> Explainer:
        return Explainer(self.framework_of(pod), self.snapshot.source, self.nominations)

    def group_steps(self, key: str) -> "Generator[None, None, GroupDocument | None]":
        """Explain in steps why a group waits, by its key; the result is None if nothing is known of it."""
        from stowplan.explain.explainers.group import GroupExplainer

        first = next((pod for pod in self.waiting if self.table.groups.key_of(pod) == key), None)
        framework = next(iter(self.frameworks.values())) if first is None else self.framework_of(first)
        topology = self._gates["TopologyAwareWorkloadScheduling"]
        source = self.snapshot.source
        return GroupExplainer(framework, source, self.nominations, placements=topology).steps(key)

    @cached_property
    def nominations(self) -> Nominations:
        """Pods that wait for their nominated node, by row."""
        found: dict[int, list[PodInfo]] = {}
        for pod in self.waiting:
            row = self.table.row_of(pod.status.nominated_node_name)
            if row is not None:
                found.setdefault(row, []).append(self.table.info(pod))
        return found

    @property
    def replica_sets(self) -> list[ReplicaSet]:
        return [obj for obj in self.snapshot.objects if isinstance(obj, ReplicaSet)]
