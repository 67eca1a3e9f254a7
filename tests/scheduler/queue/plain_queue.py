"""The rules of the queue in their plainest form: one dictionary, and every pod is looked at every time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import floor

ACTIVE, BACKOFF, UNSCHEDULABLE, FLYING = "active", "backoff", "unschedulable", "in flight"
WAIT = 300.0


@dataclass
class Record:
    """A pod and all that is known of it."""

    priority: int
    wants: str
    timestamp: float
    gated: bool
    place: str = ACTIVE
    rejections: int = 0
    errors: int = 0
    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    waits_since: float = 0.0
    happened: list[str] = field(default_factory=list)
    """Goods given by events since it was popped; `*` helps all pods."""

    @property
    def order(self) -> tuple[int, float]:
        return (-self.priority, self.timestamp)

    @property
    def backoff_end(self) -> int | None:
        failures = self.errors or self.rejections
        if not failures:
            return None
        return floor(self.timestamp + min(1 << (failures - 1), 10))

    def helped(self, gives: str) -> str | None:
        """Queue of the pod if an event helps it. An event that gives nothing helps no pod."""
        if gives == "*":
            return BACKOFF
        if not gives or self.gated:
            return None
        helping = {"NodeName", "ByTemplate", "ByPod"} if gives == self.wants else {"NodeName"}
        if self.pending & helping:
            return ACTIVE
        return BACKOFF if self.unschedulable & helping else None


class PlainQueue:
    """The specification of the queue, as simple as possible."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pods: dict[str, Record] = {}

    def at(self, place: str) -> dict[str, Record]:
        return {name: pod for name, pod in self.pods.items() if pod.place == place}

    def add(self, name: str, priority: int, wants: str, gated: bool) -> None:
        self.pods[name] = Record(priority, wants, self.now, gated)
        self._let_in(self.pods[name])

    def _let_in(self, pod: Record) -> None:
        if pod.gated:
            pod.unschedulable |= {"SchedulingGates"}
            self._wait(pod)
        else:
            pod.place = ACTIVE

    def _wait(self, pod: Record) -> None:
        if pod.place != UNSCHEDULABLE:
            pod.waits_since = max(pod.timestamp, pod.waits_since)
        pod.place = UNSCHEDULABLE

    def candidates(self) -> list[str]:
        """The pods of which any may be the next to be taken out."""
        ready = self.at(ACTIVE)
        if ready:
            first = min(pod.order for pod in ready.values())
            return [name for name, pod in ready.items() if pod.order == first]
        rejected = {n: p for n, p in self.at(BACKOFF).items() if p.unschedulable or p.pending}
        orders = {name: (pod.backoff_end, pod.order) for name, pod in rejected.items()}
        return [name for name, order in orders.items() if order == min(orders.values())]

    def take(self, name: str) -> None:
        self.pods[name].place = FLYING
        self.pods[name].happened = []

    def reject(self, name: str, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        pod = self.pods[name]
        pod.unschedulable, pod.pending = unschedulable | pending, pending
        pod.timestamp = self.now
        pod.waits_since = 0.0
        if pod.unschedulable:
            pod.rejections, pod.errors = pod.rejections + 1, 0
            ways = {pod.helped(gives) for gives in pod.happened}
        else:
            pod.errors += 1
            ways = {BACKOFF}
        if ACTIVE in ways:
            pod.place = ACTIVE
        elif BACKOFF in ways:
            pod.place = BACKOFF
        else:
            self._wait(pod)

    def event(self, gives: str, at_most_priority: int | None = None) -> None:
        for pod in self.at(UNSCHEDULABLE).values():
            if at_most_priority is None or pod.priority <= at_most_priority:
                self._wake(pod, pod.helped(gives))
        for pod in self.at(FLYING).values():
            pod.happened.append(gives)

    def _wake(self, pod: Record, way: str | None) -> None:
        if way is None:
            return
        if way == BACKOFF and not pod.gated and self._backing_off(pod):
            pod.place = BACKOFF
        else:
            self._let_in(pod)

    def _backing_off(self, pod: Record) -> bool:
        return pod.backoff_end is not None and pod.backoff_end >= floor(self.now)

    def ungate(self, name: str) -> None:
        pod = self.pods[name]
        pod.gated = False
        if pod.place == UNSCHEDULABLE and "SchedulingGates" in pod.unschedulable:
            self._wake(pod, BACKOFF)

    def activate(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        if pod.place == FLYING:
            pod.happened.append("*")
        elif pod.place in (BACKOFF, UNSCHEDULABLE):
            self._let_in(pod)

    def flush_backoff(self) -> None:
        for pod in self.at(BACKOFF).values():
            if not self._backing_off(pod):
                pod.place = ACTIVE

    def flush_unschedulable(self) -> None:
        due = [pod for pod in self.at(UNSCHEDULABLE).values() if self.now > pod.waits_since + WAIT]
        for pod in due:
            pod.waits_since = self.now
            self._wake(pod, BACKOFF)
        if due:
            for pod in self.at(FLYING).values():
                pod.happened.append("*")

    def deadlines(self) -> Iterable[float]:
        """When something is due by the clock."""
        for pod in self.pods.values():
            if pod.place == BACKOFF and pod.backoff_end is not None:
                yield pod.backoff_end + 1
            elif pod.place == UNSCHEDULABLE:
                yield pod.waits_since + WAIT
