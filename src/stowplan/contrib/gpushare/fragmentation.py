"""FGD: the node on which the pod makes the fewest GPUs useless for the pods that usually come.

A free GPU is a fragment as far as a usual pod cannot use it: it is of another model, too little of it is
left, or the node has not enough CPU. The fragmentation of a node is what is free of its GPUs, weighted by how
many of the usual pods cannot use it. FGD goes where it grows least, also among the GPUs of a node.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from stowplan.contrib.gpushare.devices import MODEL, GpuRequest, Milli, gpus, request_of
from stowplan.contrib.gpushare.policies import Policy, free_cpu
from stowplan.framework import (
    MAX_NODE_SCORE,
    Cycle,
    Handle,
    NodeRows,
    PodInfo,
    Scores,
)

POPULARITY: Final = 0.95
"""Usual pods are the most frequent ones that make up this share of all."""

Amounts = npt.NDArray[np.float64]


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Pods that ask for the same: millicores, GPUs, parts of each, models; `weight` is how many there are."""

    cpu: int
    gpus: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()
    weight: float = 1.0

    @property
    def request(self) -> GpuRequest:
        return GpuRequest(self.gpus, self.milli, self.models)


class FGDArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """`typicalPods`: the pods that usually come. `typical_pods` makes the list from a workload."""

    typical_pods: tuple[TypicalPod, ...] = ()


def typical_pods(
    requests: Iterable[tuple[int, GpuRequest]], popularity: float = POPULARITY
) -> tuple[TypicalPod, ...]:
    """The most frequent requests (millicores and GPUs) of a workload, up to a share of all of them."""
    counts = Counter(requests)
    most_frequent = sorted(
        counts.items(),
        key=lambda item: (-item[1], -item[0][0], -item[0][1].milli, -item[0][1].number, item[0][1].models),
    )
    enough, seen = popularity * counts.total(), 0
    found = []
    for (cpu, request), number in most_frequent:
        if seen >= enough:
            break
        seen += number
        found.append(TypicalPod(cpu, request.number, request.milli, request.models, float(number)))
    return tuple(found)


class Usual:
    """The usual pods as arrays: their requests of GPUs, and their weight by model and by CPU that is free.

    Requests with equal parts and number of GPUs are one column; how many of its pods find enough CPU on a
    node is looked up by the node's free CPU.
    """

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        total = sum(pod.weight for pod in pods)
        asking = [pod for pod in pods if pod.gpus and pod.milli]
        columns = sorted({(pod.milli, pod.gpus) for pod in asking})
        self.parts: Milli = np.array(sorted({milli for milli, _ in columns}), dtype=np.int64)
        self._counts: Milli = np.array([count for _, count in columns], dtype=np.int64)
        self._of_part = np.searchsorted(self.parts, np.array([milli for milli, _ in columns], dtype=np.int64))
        self._cpus: Milli = np.array(sorted({pod.cpu for pod in asking}), dtype=np.int64)
        self._models = sorted({model for pod in asking for model in pod.models})
        self._weights = np.zeros((len(self._models) + 1, len(self._cpus) + 1, len(columns)))
        for pod in asking:
            column = columns.index((pod.milli, pod.gpus))
            first = int(np.searchsorted(self._cpus, pod.cpu)) + 1
            accepted = [self._models.index(model) for model in pod.models] or slice(None)
            self._weights[accepted, first:, column] += pod.weight / total

    def model_ids(self, nodes: NodeRows) -> npt.NDArray[np.intp]:
        """By row, the number of its model here; the last one stands for all models that are not named."""
        column = nodes.table.label_column(MODEL)
        ids = np.full(max(column.index.values(), default=0) + 1, len(self._models), dtype=np.intp)
        for number, model in enumerate(self._models):
            if model in column.index:
                ids[column.index[model]] = number
        return ids[column.ids[nodes.rows]]

    def weights(self, models: npt.NDArray[np.intp], cpu: Milli) -> Amounts:
        """By row and column, the weight of the pods that accept the model and find enough CPU."""
        found: Amounts = self._weights[models, np.searchsorted(self._cpus, cpu, side="right")]
        return found

    def fragmented(self, total: Milli, hosts: Milli, small: Milli, weights: Amounts) -> Amounts:
        """The fragmentation of rows.

        `total` is the free part of their GPUs, `hosts` the number of GPUs with at least each number of parts
        (by `parts`), and `small` the free part of GPUs that have fewer. All may have more axes in front of
        that of `parts`.
        """
        usable = (hosts[..., self._of_part] >= self._counts) * weights
        lost: Amounts = total * (1.0 - usable.sum(axis=-1)) + (usable * small[..., self._of_part]).sum(
            axis=-1
        )
        return lost


class FGD(Policy):
    """Fragmentation Gradient Descent. Needs the usual pods: args `typicalPods`."""

    args_type = FGDArgs

    def __init__(self, args: FGDArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        if not args.typical_pods:
            raise ValueError(
                "typicalPods: expected the pods that usually come, see stowplan.contrib.gpushare.typical_pods"
            )
        self._usual = Usual(args.typical_pods)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        request = request_of(pod)
        grown = self._growth(pod, request, nodes)
        scores = points(grown)
        if request.is_shared:
            scores = scores.max(axis=1)
        return scores

    def best_gpu(self, pod: PodInfo, row: int) -> int:
        """The GPU of a row that a pod that asks for part of one should get."""
        nodes = NodeRows(self.handle.table, np.array([row], dtype=np.intp))
        return int(points(self._growth(pod, request_of(pod), nodes)[0]).argmax())

    def _growth(self, pod: PodInfo, request: GpuRequest, nodes: NodeRows) -> Amounts:
        """Growth of fragmentation by row; for a pod that shares a GPU by row and GPU."""
        usual, cpu_asked = self._usual, pod.requests.non_zero_milli_cpu
        known = gpus(nodes.table)
        free, total = np.maximum(known.free[nodes.rows], 0), known.total[nodes.rows]
        cpu, models = free_cpu(nodes), usual.model_ids(nodes)
        enough = free[:, :, None] >= usual.parts
        hosts, small = enough.sum(axis=1), (free[:, :, None] * ~enough).sum(axis=1)
        before = usual.fragmented(total, hosts, small, usual.weights(models, cpu))
        weights = usual.weights(models, cpu - cpu_asked)
        if request.is_shared:
            left = free - request.milli
            enough_after = left[:, :, None] >= usual.parts
            hosts = hosts[:, None] - enough + enough_after
            small = small[:, None] - free[:, :, None] * ~enough + left[:, :, None] * ~enough_after
            after = usual.fragmented((total - request.milli)[:, None], hosts, small, weights[:, None])
            grown: Amounts = np.where(left >= 0, after - before[:, None], np.inf)
            return grown
        if request.number:
            free = _taken(free, request)
            enough = free[:, :, None] >= usual.parts
            hosts, small = enough.sum(axis=1), (free[:, :, None] * ~enough).sum(axis=1)
        return usual.fragmented(total - request.total, hosts, small, weights) - before


def _taken(free: Milli, request: GpuRequest) -> Milli:
    """Free parts after a pod got its GPUs: those with the least sufficient remainder."""
    order = np.argsort(np.where(free >= request.milli, free, 1 << 40), axis=1, kind="stable")
    left = free.copy()
    chosen = order[:, : request.number]
    np.put_along_axis(left, chosen, np.take_along_axis(free, chosen, axis=1) - request.milli, axis=1)
    return left


def points(grown: Amounts) -> Scores:
    """Growth of fragmentation (in parts of a GPU) as a score: 50 for none, more where it shrinks."""
    scores: Scores = (MAX_NODE_SCORE / (1.0 + np.exp(np.minimum(grown / 1000, 700)))).astype(np.int64)
    return scores
