"""The scheduler's view of nodes and pods: the table, and the pods that are only assumed in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import GroupObject
from stowplan.api.quantity import QuantityError
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable


class CacheCorruptedError(RuntimeError):
    """An event of the API server contradicts the cache: continuing would be guessing."""


class Cache:
    """The table, kept by the rules of a scheduler that runs ahead of the API server.

    A pod that was given a node is *assumed* there until the API server says so itself, or until it is
    forgotten because its binding failed. Objects with amounts that cannot be read are left out and reported;
    what was known of them before stays.
    """

    def __init__(
        self, table: ClusterTable, report: Callable[[str], None], sampler: NodeSampler | None = None
    ) -> None:
        self.table = table
        self._report = report
        self.sampler = NodeSampler(table) if sampler is None else sampler
        self._assumed: dict[str, str] = {}
        self._not_assumed = table.release.behaviour.messages.not_assumed
        self.groups = table.groups
        self.skipped = 0

    # Assumed pods

    @property
    def assumed(self) -> Mapping[str, str]:
        """The nodes of assumed pods, by the pods' uids."""
        return self._assumed

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def assumed_pod(self, pod: Pod) -> Pod | None:
        """A pod as it was assumed, on its node; None if it is not."""
        node = self._assumed.get(pod.metadata.uid)
        if node is None:
            return None
        assumed = self.table.pods[pod.metadata.uid].pod
        return replace(assumed, spec=replace(assumed.spec, node_name=node))

    def assume(self, info: PodInfo, node: str) -> None:
        """Put a pod on a node ahead of the API server's word. Raises ValueError if it is known already."""
        uid = info.uid
        if uid in self.table.pods:
            raise ValueError(f"pod {uid}({info.key}) is in the cache, so can't be assumed")
        self.table.assume(info, node)
        self._assumed[uid] = node

    def forget(self, uid: str) -> bool:
        """Take an assumed pod back; False if it is not assumed (any more)."""
        if self._assumed.pop(uid, None) is None:
            return False
        self.table.forget(uid).assumed = False
        return True

    def remove_assumed(self, uid: str) -> bool:
        """Take away an assumed pod that is being deleted; False if it is not assumed (any more)."""
        return self.forget(uid)

    def put_unscheduled(self, pod: Pod) -> None:
        """A pod of ours without a node is there or changed: it may be a member of a group."""

    def remove_unscheduled(self, pod: Pod) -> None:
        """A pod of ours without a node is gone."""

    def forget_problem(self, pod: Pod, node: str) -> str:
        """Reason why an assumed pod cannot be forgotten: another scheduler bound it. Empty if it can be.

        A pod that is gone can always be forgotten.
        """
        uid = pod.metadata.uid
        known = self.table.pods.get(uid)
        if known is None or uid in self._assumed:
            return ""
        bound = known.pod.spec.node_name
        if bound != node:
            return f"pod {uid}({pod.key}) was assumed on {node} but assigned to {bound}"
        return self._not_assumed.format(uid=uid, key=pod.key)

    # The API server's word

    def put_pod(self, pod: Pod) -> None:
        """A pod that has a node is there, or changed."""
        uid = pod.metadata.uid
        try:
            node = self._assumed.get(uid)
            if node is not None:
                if node != pod.spec.node_name:
                    self._report(
                        f"pod {pod.key} was assumed on node {node} but was bound to {pod.spec.node_name}"
                    )
                self.table.confirm(pod)
                del self._assumed[uid]
                return
            known = self.table.pods.get(uid)
            if known is not None and known.pod.spec.node_name != pod.spec.node_name:
                raise CacheCorruptedError(
                    f"pod {pod.key} was on node {known.pod.spec.node_name!r} "
                    f"and is said to be on {pod.spec.node_name!r}"
                )
            self.table.put_pod(pod)
        except QuantityError as error:
            self.skip(f"pod {pod.key}: {error}")

    def put_pods(self, pods: Sequence[Pod]) -> None:
        """Many pods that have a node are there, as when the cluster is listed."""
        uids = {pod.metadata.uid for pod in pods}
        if len(uids) < len(pods) or self.table.pods.has_any(uids):
            for pod in pods:
                self.put_pod(pod)
        else:
            self.table.add_pods(pods, lambda pod, error: self.skip(f"pod {pod.key}: {error}"))

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod that had a node; unknown pods are ignored."""
        uid = pod.metadata.uid
        known = self.table.pods.get(uid)
        if known is None:
            return
        node = self._assumed.pop(uid, None)
        if node is None and pod.spec.node_name and known.pod.spec.node_name != pod.spec.node_name:
            raise CacheCorruptedError(
                f"pod {pod.key} was on node {known.pod.spec.node_name!r} and is said to have left "
                f"{pod.spec.node_name!r}"
            )
        self.table.remove_pod(uid)

    def put_node(self, node: Node) -> None:
        try:
            self.table.put_node(node)
        except QuantityError as error:
            self.skip(f"node {node.name}: {error}")
        if self.table.row_of(node.name) is not None:
            self.sampler.put(node)

    def remove_node(self, node: Node) -> None:
        if self.table.row_of(node.name) is not None:
            self.table.remove_node(node.name)
        self.sampler.remove(node)

    def root_of(self, group: GroupObject) -> str | None:
        """The key of the topmost group above a group, or of the group itself."""
        return self.groups.root_of(group)

    def put(self, obj: Object) -> None:
        """Any other object is there, or changed."""
        self.table.put(obj)

    def remove(self, obj: Object) -> None:
        self.table.discard(obj)

    # Looking

    def sizes(self) -> dict[str, int]:
        """Number of cached objects, by their names in metrics."""
        return {
            "nodes": self.table.node_count,
            "pods": len(self.table.pods),
            "assumed_pods": len(self._assumed),
        }

    def nodes(self) -> Iterator[Node]:
        """The nodes that are known, in no particular order."""
        return (node for node in self.table.nodes if node is not None)

    def skip(self, problem: str) -> None:
        """Count an object that is left out because it cannot be read."""
        self.skipped += 1
        self._report(f"{problem}; the object is left out")


class GroupCache(Cache):
    """A cache that also keeps how far the pods of groups are (gate GenericWorkload)."""

    def assume(self, info: PodInfo, node: str) -> None:
        super().assume(info, node)
        if info.pod.spec.scheduling_group is not None:
            self.groups.assume(info.pod)

    def forget(self, uid: str) -> bool:
        known = self.table.pods.get(uid)
        if not super().forget(uid):
            return False
        if known is not None and known.pod.spec.scheduling_group is not None:
            self.groups.forget(known.pod)
        return True

    def remove_assumed(self, uid: str) -> bool:
        known = self.table.pods.get(uid)
        if not super().forget(uid):
            return False
        if known is not None and known.pod.spec.scheduling_group is not None:
            self.groups.remove_pod(known.pod)
        return True

    def put_unscheduled(self, pod: Pod) -> None:
        if pod.spec.scheduling_group is not None:
            self.groups.put_pod(pod)

    def remove_unscheduled(self, pod: Pod) -> None:
        if pod.spec.scheduling_group is not None:
            self.groups.remove_pod(pod)

    def put_pod(self, pod: Pod) -> None:
        super().put_pod(pod)
        if pod.spec.scheduling_group is not None and pod.metadata.uid in self.table.pods:
            self.groups.put_pod(pod)

    def put_pods(self, pods: Sequence[Pod]) -> None:
        super().put_pods(pods)
        for pod in pods:
            if pod.spec.scheduling_group is not None and pod.metadata.uid in self.table.pods:
                self.groups.put_pod(pod)

    def remove_pod(self, pod: Pod) -> None:
        known = self.table.pods.get(pod.metadata.uid)
        super().remove_pod(pod)
        if known is not None and pod.spec.scheduling_group is not None:
            self.groups.remove_pod(pod)
