"""NodePorts: a host port can be taken once per node."""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from stowplan.api.pod import Pod, conflicts, host_ports
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Scores,
    Signs,
    Status,
    queue_if,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import NODE_ADD, Obstacle, Remedy, Shortfall, pod_resources
from stowplan.scheduler.table.changes import Rows

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(Plugin):
    """Finds the rows where a wanted port is taken from the index of ports in use."""

    contract = Contract(
        reads=Reads.USAGE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        skips_deferred_resizes=True,
    )

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.template.ports

    def events(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_assigned, Action.DELETE)
        return (
            EventRegistration(pods, self._after_pod_deletion, by_template=True, ignores_labels=True),
            EventRegistration(NODE_ADD),
        )

    @staticmethod
    def _after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
        return queue_if(old.is_placed and conflicts(pod.template.ports, host_ports(old)))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if pod.template.ports else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        taken = nodes.table.host_ports.conflicting_rows(pod.template.ports)
        if not taken:
            return None
        codes = np.zeros(nodes.table.capacity, dtype=np.int64)
        codes[list(taken)] = 1
        result: Codes = codes[nodes.rows]
        return result

    def filter_copies(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Scores:
        """Two pods with the same port do not go together."""
        codes = self.filter(cycle, pod, NodeRows(cycle.table, rows))
        return np.ones(len(rows), dtype=np.int64) if codes is None else (codes == 0).astype(np.int64)

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        return not any(other.template.ports for other in others)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        taken = self._taken(cycle, pod, row)
        if not taken:
            return None
        return Shortfall("host port", ", ".join(f"{port} is used by {user}" for port, user in taken.items()))

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        taken = self._taken(cycle, pod, int(rows[0]))
        if not taken:
            return None
        others = " and others" if len(rows) > 1 else ""
        ports = ", ".join(f"{port} is used by {user}{others}" for port, user in taken.items())
        return Obstacle(f"host port {ports}")

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        taken = self._taken(cycle, pod, row)
        containers = [
            {"name": container.name, "ports": freed}
            for container in pod.spec.containers
            if (
                freed := [
                    {"containerPort": port.container_port, "hostPort": None}
                    for port in container.ports
                    if port.host_port in taken
                ]
            )
        ]
        asked = [port for one in pod.spec.containers for port in one.ports if port.host_port in taken]
        patchable = all(port.container_port for port in asked)  # a patch goes by it
        if containers and patchable and not pod.spec.host_network:
            text = f"do not ask for host port {', '.join(map(str, taken))}"
            yield Remedy("hostPort", text, {"spec": {"containers": containers}}, len(taken))

    @staticmethod
    def _taken(cycle: Cycle, pod: PodInfo, row: int) -> dict[int, str]:
        """The host ports that are not free, and who has them."""
        users: dict[int, str] = {}
        for other in cycle.table.pods_on[row].values():
            for port in pod.template.ports:
                if conflicts((port,), other.template.ports):
                    users.setdefault(port.port, other.key)
        return users

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON)
