"""ImageLocality: prefers nodes that already hold the pod's images, the more so the larger they are."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    Contract,
    Cycle,
    Handle,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Scores,
    Signs,
)
from stowplan.scheduler.framework.advanced import ALL_ROWS, StaleRows
from stowplan.scheduler.table.changes import NO_ROWS

_MIB = 1024 * 1024
MIN_THRESHOLD = 23 * _MIB
MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class _State(NamedTuple):
    """Inputs of the scores: they hold while these are unchanged."""

    images_version: int
    node_count: int


class ImageLocality(Plugin):
    """An image counts with its size times the share of nodes that have it, so that one image on one node does
    not draw everything there."""

    contract = Contract(
        reads=Reads.NOTHING,
        reads_others=Reads.NODE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counts_volumes = handle.behaviour.rules.image_locality_counts_image_volumes

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod)

    def score_basis(self, cycle: Cycle, pod: PodInfo) -> _State:
        return _State(cycle.table.images.version, cycle.table.node_count)

    def stale_score_rows(self, cycle: Cycle, pod: PodInfo, before: _State, now: _State) -> StaleRows:
        return NO_ROWS if before == now else ALL_ROWS

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        table = nodes.table
        if not table.images.states:
            return None
        images, counted = self._wanted(pod)
        present = [table.images.states[name] for name in images if name in table.images.states]
        if not present or not counted:
            return None
        sums = np.zeros(table.capacity, dtype=np.int64)
        highest = MAX_CONTAINER_THRESHOLD * counted
        for state in present:
            # More than the highest sum that counts is as good as that, and does not wrap around.
            state.add_to(sums, min(int(state.size * (state.count / table.node_count)), highest))
        clamped = np.clip(sums[nodes.rows], MIN_THRESHOLD, highest)
        return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (highest - MIN_THRESHOLD)

    def _wanted(self, pod: PodInfo) -> tuple[tuple[str, ...], int]:
        """The images a pod needs, by their full names, and by how many of them the threshold is scaled."""
        spec = pod.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        containers = len(names)
        names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
        return tuple(map(normalized_name, names)), len(names) if self._counts_volumes else containers


def normalized_name(name: str) -> str:
    """The name with its tag: `:latest` where there is none after the last slash."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
