"""GpuShare: nodes whose GPUs cannot take a pod are filtered out; a chosen pod is given certain GPUs."""

from collections.abc import Hashable, Sequence
from typing import Literal

import msgspec
import numpy as np

from stowplan.api.catalogue import PODS
from stowplan.contrib.gpushare.devices import COUNT, INDEX, MILLI, GpuRequest, accepts, gpus, request_of
from stowplan.contrib.gpushare.fragmentation import FGD, FGDArgs, TypicalPod
from stowplan.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Status,
    unresolvable,
    unschedulable,
)

_REASONS = (
    unresolvable("node(s) had no GPU"),
    unresolvable("node(s) had GPUs of another model"),
    unschedulable("node(s) had too little left of their GPUs"),
)
_NO_GPU, _OTHER_MODEL, _TOO_LITTLE = range(1, 4)


class GpuShareArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """`selection`: which GPU of its node a pod gets that asks for part of one.

    `best`: the one with the least left that is enough; `worst`: with the most left; `random`; `fgd`: the one
    on which fragmentation grows least, for which `typicalPods` has to be given as for FGD.
    """

    selection: Literal["best", "worst", "random", "fgd"] = "best"
    typical_pods: tuple[TypicalPod, ...] = ()


class GpuShare(Plugin[GpuShareArgs]):
    """Filter, Reserve and PreBind for pods that ask for GPUs or parts of one."""

    contract = Contract(reads=Reads.ANYTHING)

    def __init__(self, args: GpuShareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._fgd = FGD(FGDArgs(args.typical_pods), handle) if args.selection == "fgd" else None

    def sign(self, pod: PodInfo) -> Hashable:
        return request_of(pod)

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        request = request_of(pod)
        if not request.number:
            return None
        known = gpus(nodes.table)
        codes: Codes = np.where(known.fits(request, nodes), 0, _TOO_LITTLE)
        accepted = accepts(request, nodes)
        if accepted is not None:
            codes[~accepted] = _OTHER_MODEL
        codes[nodes.allocatable(COUNT) <= 0] = _NO_GPU
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return _REASONS[code - 1]

    def events(self) -> Sequence[EventRegistration]:
        return [
            EventRegistration(ClusterEvent(Resource.POD, Action.DELETE)),
            EventRegistration(
                ClusterEvent(
                    Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL
                )
            ),
        ]

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        request = request_of(pod)
        if not request.number:
            return None
        table = self.handle.table
        row = table.row_of(node)
        if row is None:
            return unschedulable(f"node {node} is gone")
        known = gpus(table)
        chosen = self._chosen(pod, request, known.free[row].tolist(), row)
        if len(chosen) < request.number:
            return _REASONS[_TOO_LITTLE - 1]
        known.assigned[pod.uid] = chosen
        known.refresh(row)
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        row = self.handle.table.row_of(node)
        known = gpus(self.handle.table)
        if known.assigned.pop(pod.uid, None) is not None and row is not None:
            known.refresh(row)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        return None if request_of(pod).number else SKIP

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        """Write the pod's GPUs to its annotation: who starts the pod reads them there."""
        indices = "-".join(map(str, gpus(self.handle.table).assigned.get(pod.uid, ())))
        body = {"metadata": {"uid": pod.uid, "annotations": {INDEX: indices}}}
        await self.handle.scheduler.client.patch(PODS, pod.namespace, pod.name, body)
        return None

    def _chosen(self, pod: PodInfo, request: GpuRequest, free: list[int], row: int) -> tuple[int, ...]:
        """The GPUs that a pod gets on a row where so much of each is free."""
        if request.milli == MILLI or request.number > 1:
            fitting = [index for index, left in enumerate(free) for _ in range(left // request.milli)]
            return tuple(fitting[: request.number])
        able = [index for index, left in enumerate(free) if left >= request.milli]
        if not able:
            return ()
        if self._fgd is not None:
            return (self._fgd.best_gpu(pod, row),)
        if self.args.selection == "random":
            return (self.handle.rng.choice(able),)
        sign = 1 if self.args.selection == "best" else -1
        return (min(able, key=lambda index: sign * free[index]),)
