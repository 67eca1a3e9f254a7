"""Does the scheduler believe what the API server says? A comparison, and a dump of both, on demand.

`SIGUSR2` asks a running scheduler for it, as it does with kube-scheduler.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from stowplan.api import catalogue
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.context import Context
from stowplan.scheduler.informers import UNFINISHED, Informers
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.columns import CORE_RESOURCES
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

_MISMATCH: Final = "Cache mismatch"


@dataclass(frozen=True, slots=True)
class CacheComparison:
    """Where what is believed differs from what is so: nodes by name, pods by uid.

    `missed` are not known here, `redundant` are known only here. `wrong_totals` are nodes whose kept sums
    are not the sums of their pods, with what is wrong.
    """

    missed_nodes: tuple[str, ...] = ()
    redundant_nodes: tuple[str, ...] = ()
    missed_pods: tuple[str, ...] = ()
    redundant_pods: tuple[str, ...] = ()
    wrong_totals: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        return self == CacheComparison()

    def lines(self) -> Iterator[str]:
        """The differences, a line each; none if there are none."""
        for differences in self.differences():
            yield f"{_MISMATCH} {' '.join(f'{name}={found}' for name, found in differences.items())}"

    def differences(self) -> Iterator[dict[str, list[str]]]:
        """The same as values of log lines."""
        if self.missed_nodes or self.redundant_nodes:
            yield {"missedNodes": list(self.missed_nodes), "redundantNodes": list(self.redundant_nodes)}
        if self.missed_pods or self.redundant_pods:
            yield {"missedPods": list(self.missed_pods), "redundantPods": list(self.redundant_pods)}
        if self.wrong_totals:
            yield {"wrongTotals": list(self.wrong_totals)}


class Debugger:
    """Looks at a scheduler from outside."""

    def __init__(self, context: Context, informers: Informers) -> None:
        self._context = context
        self._informers = informers

    def compare(self) -> CacheComparison:
        """Compare what is believed with what the watches have told."""
        return self._compare(self._informers.nodes.objects.values(), self._informers.pods.objects.values())

    async def compare_with_server(self) -> CacheComparison:
        """Compare the cache with the current state of the API server. Raises ApiError.

        Events in transit show up as differences, so a single comparison of a busy cluster means little.
        """
        client = self._context.client
        nodes = await client.list(catalogue.NODES, Node)
        pods = await client.list(catalogue.PODS, Pod, selection=UNFINISHED)
        return self._compare(nodes.items, pods.items)

    def _compare(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> CacheComparison:
        context = self._context
        profiles = context.profiles
        known_nodes = {node.name for node in context.cache.nodes()}
        told_nodes = {node.name for node in nodes}
        known_pods = {*context.cache.table.pods, *(queued.uid for queued in context.queue)}
        in_flight = set(context.queue.in_flight.uids)
        told_pods = {
            pod.metadata.uid for pod in pods if pod.spec.node_name or pod.spec.scheduler_name in profiles
        }
        return CacheComparison(
            tuple(sorted(told_nodes - known_nodes)),
            tuple(sorted(known_nodes - told_nodes)),
            tuple(sorted(told_pods - known_pods - in_flight)),
            tuple(sorted(known_pods - told_pods)),
            tuple(self._wrong_totals()),
        )

    def _wrong_totals(self) -> Iterator[str]:
        table = self._context.cache.table
        for row in range(table.rows_in_use):
            if table.nodes[row] is None:
                continue
            sums = [0] * len(table.requested)
            for info in table.pods_on[row].values():
                for line, amount in table.taken_by(info.template):
                    sums[line] += amount
            kept = table.requested[:, row].tolist()
            if kept != sums or table.pod_count[row] != len(table.pods_on[row]):
                yield f"{table.name_of(row)}: kept {kept}, of its pods {sums}"

    # Dumps

    def dump(self) -> Iterator[str]:
        """All that is believed: nodes with the pods on them, and the queue."""
        yield "Dump of cached NodeInfo"
        table = self._context.cache.table
        nominated = self._context.queue.nominator
        for row in range(table.rows_in_use):
            if table.nodes[row] is None:
                continue
            name = table.name_of(row)
            yield f"Node name: {name}"
            for title, matrix in (("Requested", table.requested), ("Allocatable", table.allocatable)):
                amounts = zip(CORE_RESOURCES, matrix[: len(CORE_RESOURCES), row].tolist(), strict=True)
                yield f"  {title}: {', '.join(f'{resource}: {amount}' for resource, amount in amounts)}"
            pods = table.pods_on[row].values()
            yield f"  Scheduled Pods (number: {len(pods)}):"
            yield from (f"    {pod_text(info)}" for info in pods)
            yield "  Nominated Pods:"
            yield from (f"    {pod_text(info)}" for info in nominated.pods_for(name))
        queue = self._context.queue
        yield f"Dump of scheduling queue: {queue.summary()}"
        yield from (f"  {queue.place_of(queued.key)}: {pod_text(queued.pod)}" for queued in queue)

    def report(self) -> Iterator[str]:
        """The comparison, then the dump."""
        found = self.compare()
        yield "Compared the cache with what was watched: " + ("equal" if found.is_equal else "different")
        yield from found.lines()
        yield from self.dump()

    def tell(self) -> None:
        """Write the comparison and the dump to the log."""
        context, logger = self._context, self._context.logger
        logger.info(3, "Cache comparer started")
        found = self.compare()
        for differences in found.differences():
            logger.info(0, _MISMATCH, **differences)
        logger.info(3, "Cache comparer finished")
        logger.info(0, "Dump of cached NodeInfo", nodes=nodes_text(context.cache.table, context.queue))
        queue = context.queue
        logger.info(0, "Dump of scheduling queue", summary=queue.summary(), pods=queue_text(queue))

    def on_signal(self, write: Callable[[str], None] | None = None) -> None:
        """Report whenever this process gets SIGUSR2: to the log, or in lines to `write`. For real time."""

        def report() -> None:
            if write is None:
                self.tell()
                return
            for line in self.report():
                write(line)

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, report)


# Text


def nodes_text(table: ClusterTable, queue: SchedulingQueue) -> str:
    """Every node with what is taken of it, what it has, its pods and the pods nominated to it."""
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
    nominated = list(queue.nominator.pods_for(name))
    return (
        f"Node name: {name}\nDeleted: false\nRequested Resources: {requested}\n"
        f"Allocatable Resources:{allocatable}\nScheduled Pods(number: {len(pods)}):\n{pods_text(pods)}"
        + (f"Nominated Pods(number: {len(nominated)}):\n{pods_text(nominated)}" if nominated else "")
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
