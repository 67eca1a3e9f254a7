"""Progress of a running cluster: number of pods by state, and their rate."""

from collections import deque
from dataclasses import dataclass

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import Json
from stowplan.client import DELETED
from stowplan.localcluster.store import Store, StoreChange

WINDOW = 5.0
"""Seconds over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class UpCounts:
    """Pods by how far they have come, nodes, and bindings per second of late."""

    pending: int
    bound: int
    running: int
    done: int
    nodes: int
    per_second: float

    def line(self) -> str:
        done = f", {self.done:,} done" if self.done else ""
        return (
            f"pods: {self.pending:,} pending, {self.bound:,} bound, {self.running:,} running{done}"
            f"  ·  {self.per_second:,.0f} pods/s  ·  {self.nodes:,} nodes"
        )


class UpProgress:
    """Counts as things change, so that looking costs nothing however large the cluster is."""

    def __init__(self, store: Store, now: float) -> None:
        self._stages = dict.fromkeys(("pending", "bound", "running", "done"), 0)
        self._nodes = 0
        self._bound_total = 0
        self._readings: deque[tuple[float, int]] = deque([(now, 0)])
        for pod in store.list(PODS).items:
            self._stages[_stage(pod)] += 1
        self._nodes = store.count(NODES)
        self._watchers = [store.watch(PODS, self._pod), store.watch(NODES, self._node)]

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()

    def counts(self, now: float) -> UpCounts:
        """Where things stand; to be asked now and then, since the rate is taken between the questions."""
        readings = self._readings
        while len(readings) > 1 and readings[0][0] < now - WINDOW:
            readings.popleft()
        then, before = readings[0]
        readings.append((now, self._bound_total))
        rate = (self._bound_total - before) / (now - then) if now > then else 0.0
        stages = self._stages
        return UpCounts(
            stages["pending"], stages["bound"], stages["running"], stages["done"], self._nodes, rate
        )

    def _pod(self, change: StoreChange) -> None:
        before = change.previous
        if before is not None:
            self._stages[_stage(before)] -= 1
        if change.type != DELETED:
            self._stages[_stage(change.object)] += 1
            if change.object["spec"].get("nodeName") and before and not before["spec"].get("nodeName"):
                self._bound_total += 1

    def _node(self, change: StoreChange) -> None:
        self._nodes += (change.type != DELETED) - (change.previous is not None)


def _stage(pod: Json) -> str:
    phase = pod.get("status", {}).get("phase")
    if phase == "Running":
        return "running"
    if phase in ("Succeeded", "Failed"):
        return "done"
    return "bound" if pod["spec"].get("nodeName") else "pending"
