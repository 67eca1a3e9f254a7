"""All that a scheduler believes, as text: nodes with the pods on them, and the queue."""

from collections.abc import Iterable

from stowplan.cluster.columns import CORE_RESOURCES
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.queue.scheduling_queue import SchedulingQueue


def nodes_text(table: ClusterTable, queue: SchedulingQueue) -> str:
    """Every node with what is taken of it, what it has, its pods and those it is promised to."""
    rows = (row for row in range(table.rows_in_use) if table.nodes[row] is not None)
    return "\n\n".join(_node_text(table, queue, row) for row in rows)


def queue_text(queue: SchedulingQueue) -> str:
    """Every pod that waits."""
    return pods_text(queued.pod for queued in queue)


def pods_text(pods: Iterable[PodInfo]) -> str:
    return "".join(f"{pod_text(info)}\n" for info in pods)


def pod_text(info: PodInfo) -> str:
    pod = info.pod
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.metadata.uid}, "
        f"phase: {pod.status.phase}, nominated node: {pod.status.nominated_node_name}"
    )


def _node_text(table: ClusterTable, queue: SchedulingQueue, row: int) -> str:
    name = table.name_of(row)
    requested = _amounts(table, table.requested[:, row].tolist(), 0)
    allocatable = _amounts(table, table.allocatable[:, row].tolist(), int(table.allowed_pods[row]))
    pods = table.pods_on[row].values()
    promised = list(queue.nominator.pods_for(name))
    return (
        f"Node name: {name}\nDeleted: false\nRequested Resources: {requested}\n"
        f"Allocatable Resources:{allocatable}\nScheduled Pods(number: {len(pods)}):\n{pods_text(pods)}"
        + (f"Nominated Pods(number: {len(promised)}):\n{pods_text(promised)}" if promised else "")
    )


def _amounts(table: ClusterTable, amounts: list[int], pods: int) -> str:
    """Amounts in the form that people know from kube-scheduler's dump."""
    cpu, memory, storage, *_ = amounts
    scalars = sorted(zip(table.resources.names, amounts, strict=True))
    others = " ".join(f"{name}:{amount}" for name, amount in scalars if amount and name not in CORE_RESOURCES)
    return (
        f"&{{MilliCPU:{cpu} Memory:{memory} EphemeralStorage:{storage} AllowedPodNumber:{pods} "
        f"ScalarResources:map[{others}]}}"
    )
