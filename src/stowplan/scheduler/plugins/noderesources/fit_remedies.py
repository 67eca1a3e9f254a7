"""A node's shortfall for a pod that NodeResourcesFit rejects, and the smaller requests that would fit."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan.api.names import closest
from stowplan.api.pod import Pod, PodSpec
from stowplan.api.rules.amounts import round_amount, shown_amount, smaller_requests
from stowplan.api.rules.resources import incoming_requests, is_scalar
from stowplan.scheduler.framework.advanced import Obstacle, Relevance, Remedy, Shortfall
from stowplan.scheduler.plugins.noderesources.fit_request import FitRequest
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntArray
from stowplan.scheduler.table.table import ClusterTable

_LEAST_SHARE: Final = 4
"""A request is not made smaller than this part of it: a pod that needs 8 cpu does not run with 1."""
_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
"""Annotation of the API server with the requests that a LimitRange gave a pod."""


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
    """The pod with requests that fit into what the node has free, if that is not much less."""
    lacking = lacking_requests(table, request, row)
    if not lacking or any(one.free <= 0 for one in lacking):
        return
    totals = {one.name: round_amount(one.name, one.free) for one in lacking}
    if any(_LEAST_SHARE * totals[one.name] < one.wanted for one in lacking):
        return
    patch = smaller_requests(pod, totals)
    if patch is not None:
        overhead = incoming_requests(Pod(spec=PodSpec(overhead=pod.spec.overhead))).amounts()
        wishes = ", ".join(
            f"{shown_amount(one.name, totals[one.name] - overhead.get(one.name, 0))} {one.name} "
            f"(now {shown_amount(one.name, one.wanted - overhead.get(one.name, 0))})"
            for one in lacking
        )
        yield Remedy("requests", f"request {wishes}", patch, sum(one.share for one in lacking))


def obstacle(table: ClusterTable, request: FitRequest, pod: Pod, rows: Rows) -> Obstacle | None:
    """Amount that all of these nodes lack: of a resource, or room for one more pod."""
    nowhere = [name for name, _ in request.wanted if _is_nowhere(table, request, name)]
    if nowhere:
        found = [_unknown(table, name) for name in nowhere]
        return Obstacle("; ".join(found), "cluster")
    parts = []
    if (table.pod_count[rows] >= table.allowed_pods[rows]).any():
        least, most = int(table.allowed_pods[rows].min()), int(table.allowed_pods[rows].max())
        parts.append(f"Too many pods (limit {most if least == most else f'{least} to {most}'})")
    if not parts or (table.pod_count[rows] < table.allowed_pods[rows]).any():
        parts += [
            text
            for name, wanted in request.wanted
            if (text := _lack(table, request, pod, name, wanted, rows))
        ]
    return Obstacle(" or ".join(parts) if len(rows) > 1 else " and ".join(parts)) if parts else None


def _lack(table: ClusterTable, request: FitRequest, pod: Pod, name: str, wanted: int, rows: Rows) -> str:
    """How much of a resource is short on some nodes; "" if there is enough."""
    line = table.resources.find(name)
    allocatable = np.zeros(len(rows), dtype=np.int64) if line is None else table.allocatable[line, rows]
    if name in request.devices_for:
        rows, allocatable = rows[allocatable > 0], allocatable[allocatable > 0]
    requested = np.zeros(len(rows), dtype=np.int64) if line is None else table.requested[line, rows]
    short = wanted - request.held.get(name, 0) - np.maximum(allocatable - requested, 0)
    if not len(rows) or not (short > 0).any():
        return ""
    largest = int(allocatable.max())
    if not largest:
        return f"no {name}"
    if wanted > largest:
        why = "; ".join([f"{shown_amount(name, largest)} at most", *_origins(pod, name)])
        return f"{name} {shown_amount(name, wanted)} ({why})"
    least = int(short[short > 0].min())
    text = f"{shown_amount(name, least)} {name} short"
    return text if int(short.max()) == least else f"at least {text}"


def _origins(pod: Pod, name: str) -> list[str]:
    """Where a request comes from, if that is not one container's manifest."""
    found = []
    overhead = incoming_requests(Pod(spec=PodSpec(overhead=pod.spec.overhead))).amounts().get(name, 0)
    if overhead:
        of_class = f" of RuntimeClass {pod.spec.runtime_class_name}" if pod.spec.runtime_class_name else ""
        found.append(f"{shown_amount(name, overhead)} {name} of it is the overhead{of_class}")
    alone = {
        one.name: incoming_requests(Pod(spec=PodSpec(containers=(one,)))).amounts().get(name, 0)
        for one in (*pod.spec.containers, *pod.spec.init_containers)
    }
    whole = sum(alone[one.name] for one in pod.spec.containers)
    warmest = max(pod.spec.init_containers, key=lambda one: alone[one.name], default=None)
    if warmest is not None and alone[warmest.name] > whole:
        found.append(f"init container {warmest.name} requests it")
    elif sum(amount > 0 for amount in alone.values()) > 1:
        found.append(f"{len(pod.spec.containers)} containers together")
    set_by = pod.metadata.annotations.get(_LIMIT_RANGER, "")
    if any(name in part.partition(" request for")[0] for part in set_by.split(";")):
        found.append("the default of a LimitRange")
    return found


def _is_nowhere(table: ClusterTable, request: FitRequest, name: str) -> bool:
    """True for a resource that no node has any of."""
    if name in request.devices_for:
        return False
    line = table.resources.find(name)
    return line is None or not int(table.allocatable[line, table.valid].max(initial=0))


def _unknown(table: ClusterTable, name: str) -> str:
    """That no node has a resource, and the one that was probably meant."""
    known = closest(name, _offered(table))
    if not known:
        return f"no node has {name}"
    line = table.resources.find(known)
    count = int((table.allocatable[line, : table.rows_in_use] > 0).sum())
    return f"no node has {name}; {count} {'node has' if count == 1 else 'nodes have'} {known}"


def _offered(table: ClusterTable) -> list[str]:
    """The resources that some node has."""
    return [one for one in table.resources.names if one and _has_any(table, one)]


def _has_any(table: ClusterTable, name: str) -> bool:
    line = table.resources.find(name)
    return line is not None and bool(table.allocatable[line, table.valid].any())


def relevance(table: ClusterTable, request: FitRequest, rows: Rows) -> IntArray:
    """Nodes without any of a resource are of another kind; the others lack room."""
    found = np.full(len(rows), Relevance.STATE, dtype=np.int64)
    for name, _ in request.wanted:
        if is_scalar(name) and name not in request.devices_for:
            line = table.resources.find(name)
            has_none = (
                np.ones(len(rows), dtype=np.bool_) if line is None else table.allocatable[line, rows] == 0
            )
            found[has_none] = Relevance.KIND
    return found


def renamed(table: ClusterTable, request: FitRequest, pod: Pod) -> Iterator[Remedy]:
    """The pod with a resource that nodes have instead of one of nearly the same name that none has."""
    for name, _ in request.wanted:
        if not _is_nowhere(table, request, name):
            continue
        known = closest(name, _offered(table))
        if not known:
            continue
        containers = [
            {
                "name": one.name,
                "resources": {
                    part: {name: None, known: amounts[name]}
                    for part, amounts in (
                        ("requests", one.resources.requests),
                        ("limits", one.resources.limits),
                    )
                    if name in amounts
                },
            }
            for one in pod.spec.containers
            if name in one.resources.requests or name in one.resources.limits
        ]
        if containers:
            text = f"request {known} instead of {name}"
            yield Remedy("resourceName", text, {"spec": {"containers": containers}}, 0.0)


def too_large(table: ClusterTable, request: FitRequest) -> list[tuple[str, int, int]]:
    """Requests that no node covers even if it is empty: resource, amount, and the largest there is."""
    found = []
    for name, wanted in request.wanted:
        line = table.resources.find(name)
        largest = 0 if line is None else int(table.allocatable[line, table.valid].max(initial=0))
        if wanted > largest and name not in request.devices_for:
            found.append((name, wanted, largest))
    return found
