"""A node's shortfall for a pod that NodeResourcesFit rejects, and the smaller requests that would fit."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.api.pod import Pod
from stowplan.api.rules.amounts import shown_amount, smaller_requests
from stowplan.scheduler.framework.advanced import Remedy, Shortfall
from stowplan.scheduler.plugins.noderesources.fit_request import FitRequest
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.table import ClusterTable


class Lacking(NamedTuple):
    """A request that a node has too little free of."""

    name: str
    wanted: int
    free: int
    allocatable: int

    @property
    def share(self) -> float:
        """Missing share of the request: 0 nearly nothing, 1 all of it."""
        return (self.wanted - self.free) / self.wanted


def _free_text(lacking: Lacking) -> str:
    name = lacking.name
    wanted, free = shown_amount(name, lacking.wanted), shown_amount(name, lacking.free)
    if not lacking.allocatable:
        return f"wants {wanted}, the node has none"
    return f"wants {wanted}, {free} of {shown_amount(name, lacking.allocatable)} free"


def lacking_requests(table: ClusterTable, request: FitRequest, row: int) -> list[Lacking]:
    """The requests that the free part of a node does not cover."""
    found = []
    for name, wanted in request.wanted:
        line = table.resources.find(name)
        allocatable = 0 if line is None else table.allocatable.item(line, row)
        if not allocatable and name in request.devices_for:
            continue
        free = 0 if line is None else allocatable - table.exactly_requested(line, row)
        free += request.held.get(name, 0)
        if wanted > free:
            found.append(Lacking(name, wanted, max(free, 0), allocatable))
    return found


def shortfall(table: ClusterTable, request: FitRequest, row: int) -> Shortfall | None:
    """The amounts by which a node is short, or its limit of pods. None if it has room."""
    if table.pod_count.item(row) >= table.allowed_pods.item(row):
        return Shortfall("pods", f"all {table.allowed_pods.item(row)} pods of the node are taken")
    lacking = lacking_requests(table, request, row)
    if not lacking:
        return None
    short = [f"{shown_amount(one.name, one.wanted - one.free)} {one.name} short" for one in lacking]
    return Shortfall(", ".join(short), "; ".join(map(_free_text, lacking)), max(one.share for one in lacking))


def shortfall_sizes(table: ClusterTable, request: FitRequest, rows: Rows) -> "npt.NDArray[np.float64]":
    """The share of its requests that each row lacks, by the resource it lacks most of."""
    sizes = np.zeros(len(rows))
    for name, wanted in request.wanted:
        line = table.resources.find(name)
        if line is None:
            return np.ones(len(rows))
        free = table.allocatable[line, rows].astype(np.float64) - table.requested[line, rows]
        free += request.held.get(name, 0)
        if wanted:
            sizes = np.maximum(sizes, (wanted - np.maximum(free, 0)) / wanted)
    sizes[table.pod_count[rows] >= table.allowed_pods[rows]] = 1.0
    return sizes


def remedies(table: ClusterTable, request: FitRequest, pod: Pod, row: int) -> Iterable[Remedy]:
    """The pod with requests that fit into what the node has free."""
    lacking = lacking_requests(table, request, row)
    if not lacking or any(one.free <= 0 for one in lacking):
        return
    patch = smaller_requests(pod, {one.name: one.wanted - one.free for one in lacking})
    if patch is not None:
        wishes = ", ".join(
            f"{shown_amount(one.name, one.free)} {one.name} (now {shown_amount(one.name, one.wanted)})"
            for one in lacking
        )
        yield Remedy("requests", f"request {wishes}", patch, sum(one.share for one in lacking))


def too_large(table: ClusterTable, request: FitRequest) -> list[tuple[str, int, int]]:
    """Requests that no node covers even if it is empty: resource, amount, and the largest there is."""
    found = []
    for name, wanted in request.wanted:
        line = table.resources.find(name)
        largest = 0 if line is None else int(table.allocatable[line, table.valid].max(initial=0))
        if wanted > largest:
            found.append((name, wanted, largest))
    return found
