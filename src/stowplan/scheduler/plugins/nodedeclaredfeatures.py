"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes where the node declares it."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stowplan.api.node import Node
from stowplan.api.pod import Pod, PodSpec
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import Shortfall, pod_resources

REASON = "node(s) didn't match Pod's required features"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
VOLUME_BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"

_NONE: frozenset[str] = frozenset()


class NodeDeclaredFeatures(Plugin):
    """Compares the features that a pod's spec implies with a node's `status.declaredFeatures`."""

    contract = Contract(
        reads=Reads.NODE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        skips_deferred_resizes=True,
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._known = frozenset(handle.behaviour.rules.declared_features)

    def sign(self, pod: PodInfo) -> Hashable:
        return self._required(pod.spec)

    def _required(self, spec: PodSpec) -> frozenset[str]:
        """The node features a pod cannot run without, as far as the release knows them."""
        return required_features(spec) & self._known

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_target, Action.UPDATE)
        return (
            EventRegistration(nodes, self._after_node_change, by_template=True, ignores_labels=True),
            EventRegistration(pods, self._after_pod_update, by_template=True, ignores_labels=True),
        )

    @staticmethod
    def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
        return queue_if(old is None or old.status.declared_features != new.status.declared_features)

    def _after_pod_update(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        if pod.uid != new.metadata.uid:
            return Hint.SKIP
        return queue_if(self._required(old.spec) != self._required(new.spec))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if self._required(pod.spec) else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        needed = self._required(pod.spec)
        table = nodes.table
        lacking = np.array(
            [not needed <= (features or _NONE) for features in table.feature_sets], dtype=np.int64
        )
        result: Codes = lacking[table.feature_set[nodes.rows]]
        return result

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        table = cycle.table
        lacking = self._required(pod.spec) - (table.feature_sets.value(table.feature_set.item(row)) or _NONE)
        return Shortfall("node feature", f"does not declare {', '.join(sorted(lacking))}")

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)


def required_features(spec: PodSpec) -> frozenset[str]:
    """The node features a pod cannot run without."""
    needed = set()
    for container in (*spec.init_containers, *spec.containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            needed.add(RESTART_ALL_CONTAINERS)
        if any(mount.bind_mount_options for mount in container.volume_mounts):
            needed.add(VOLUME_BIND_MOUNT_OPTIONS)
    if spec.host_network and spec.host_users is False:
        needed.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(needed)
