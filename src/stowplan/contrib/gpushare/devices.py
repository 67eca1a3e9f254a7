"""GPU requests of pods, and the free part of each GPU: a column per GPU.

A GPU is divided into 1,000 parts. A pod requests part of one GPU, or a number of whole ones, perhaps of
certain models. Its annotation lists its GPUs once it is bound; until then they are remembered here.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from stowplan.api.node import Node
from stowplan.framework import NodeRows, PodInfo
from stowplan.gocompat.numbers import parse_count

MILLI: Final = 1000
"""The parts of a GPU."""
COUNT: Final = "alibabacloud.com/gpu-count"
"""Number of GPUs that a pod requests (annotation) or a node has (allocatable resource)."""
PARTS: Final = "alibabacloud.com/gpu-milli"
"""The parts of each GPU that a pod asks for (annotation)."""
MODEL: Final = "alibabacloud.com/gpu-card-model"
"""The model of a node's GPUs (label), or those a pod accepts, separated by `|` (annotation)."""
INDEX: Final = "alibabacloud.com/gpu-index"
"""The GPUs a pod has got, numbers separated by `-` (annotation)."""

SHARING: Final = 1
"""The bit of pods that ask for part of a GPU, in the kinds of pods on a node."""

Milli = npt.NDArray[np.int64]


class GpuRequest(NamedTuple):
    """GPU request of a pod: number of GPUs, parts of each, and accepted models (none: any)."""

    number: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        """True if it requests part of one GPU."""
        return self.number == 1 and self.milli < MILLI

    @property
    def total(self) -> int:
        return self.number * self.milli

    @property
    def kind(self) -> int:
        """The bit of pods that ask like this: for part of a GPU, or for the same number of GPUs."""
        if not self.total:
            return 0
        return SHARING if self.is_shared else 1 << min(self.number, 62)


NO_GPU: Final = GpuRequest()


def request_of(pod: PodInfo) -> GpuRequest:
    """GPU request of a pod. Malformed numbers count as 0: such a pod requests no GPU."""
    annotations = pod.annotations
    if COUNT not in annotations or PARTS not in annotations:
        return NO_GPU
    return _parsed(annotations[COUNT], annotations[PARTS], annotations.get(MODEL, ""))


@lru_cache(maxsize=4096)
def _parsed(count: str, parts: str, models: str) -> GpuRequest:
    number, milli = _number(count), min(_number(parts), MILLI)
    if not number or not milli:
        return NO_GPU
    return GpuRequest(number, milli, tuple(model for model in models.split("|") if model))


def _number(text: str) -> int:
    return parse_count(text) or 0


def indices_of(pod: PodInfo) -> tuple[int, ...]:
    """The GPUs that a pod's annotation says it has."""
    return tuple(int(part) for part in pod.annotations.get(INDEX, "").split("-") if part.isdecimal())


class Gpus:
    """Free parts of every GPU, by row and GPU; -1 where a node has no such GPU.

    One for each table, shared by the plugins of all profiles. `sync` before reading.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._node_position = self._usage_position = -1
        self.assigned: dict[str, tuple[int, ...]] = {}
        """The GPUs of pods that were reserved here, by uid."""
        self.free: Milli = np.full((0, 0), -1, dtype=np.int64)
        self.total: Milli = np.zeros(0, dtype=np.int64)
        """The free parts of all GPUs of a row."""
        self.kinds: Milli = np.zeros(0, dtype=np.int64)
        """The kinds of GPU pods on a row, as bits."""

    def sync(self) -> None:
        """Catch up with what changed in the table."""
        table = self._table
        if table.capacity != len(self.free):
            self._node_position = -1
        nodes = table.node_log.since(self._node_position) if self._node_position >= 0 else None
        pods = table.usage_log.since(self._usage_position) if self._usage_position >= 0 else None
        self._node_position, self._usage_position = table.node_log.position, table.usage_log.position
        if nodes is None or pods is None:
            self._rebuild()
            return
        for row in {*nodes.tolist(), *pods.tolist()}:
            self.refresh(row)

    def _rebuild(self) -> None:
        table = self._table
        width = max((gpus_of(node) for node in table.nodes if node is not None), default=0)
        self.free = np.full((table.capacity, max(width, 1)), -1, dtype=np.int64)
        self.total = np.zeros(table.capacity, dtype=np.int64)
        self.kinds = np.zeros(table.capacity, dtype=np.int64)
        for row in range(table.rows_in_use):
            self.refresh(row)
        known = table.pods
        self.assigned = {uid: got for uid, got in self.assigned.items() if uid in known}

    def refresh(self, row: int) -> None:
        """Look at a row again."""
        node = self._table.nodes[row]
        count = 0 if node is None else gpus_of(node)
        if count > self.free.shape[1]:
            self._rebuild()
            return
        left = [MILLI] * count + [-1] * (self.free.shape[1] - count)
        kinds = 0
        for pod in self._table.pods_on[row].values():
            request = request_of(pod)
            if not request.number:
                continue
            kinds |= request.kind
            for index in self.assigned.get(pod.uid) or indices_of(pod):
                if index < count:
                    left[index] -= request.milli
        self.free[row] = left
        self.total[row] = sum(left[:count])
        self.kinds[row] = kinds

    def fits(self, request: GpuRequest, nodes: NodeRows) -> npt.NDArray[np.bool_]:
        """Rows with enough free GPUs for a pod, regardless of the model."""
        free = self.free[nodes.rows]
        room: Milli = (np.maximum(free, 0) // request.milli).sum(axis=1)
        return room >= request.number


def gpus_of(node: Node) -> int:
    """Number of GPUs of a node."""
    return _number(str(node.status.allocatable.get(COUNT, "0")))


_known: "WeakKeyDictionary[Any, Gpus]" = WeakKeyDictionary()


def gpus(table: Any) -> Gpus:
    """The GPUs of a table, up to date."""
    found = _known.get(table)
    if found is None:
        found = _known[table] = Gpus(table)
    found.sync()
    return found


def accepts(request: GpuRequest, nodes: NodeRows) -> npt.NDArray[np.bool_] | None:
    """Which rows have GPUs of a model that a pod accepts; None if it accepts any."""
    if not request.models:
        return None
    column = nodes.table.label_column(MODEL)
    ids = [column.index[model] for model in request.models if model in column.index]
    found: npt.NDArray[np.bool_] = np.isin(column.ids[nodes.rows], ids)
    return found
