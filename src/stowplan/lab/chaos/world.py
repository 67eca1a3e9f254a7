"""Shared state of a run: the store, the current faults, the log and the findings."""

import hashlib
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from stowplan.api.catalogue import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from stowplan.lab.chaos.plan import ChaosPlan, FaultPhase
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import Clock, LoopWatchdog
from stowplan.testing.faults import Faults


class ChaosFinding(NamedTuple):
    """A broken invariant: which one, what was seen, and at which second of the run."""

    invariant: str
    detail: str
    at: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail} (at {self.at:.3f} s)"


class Findings:
    """The findings of a run: the first few of each invariant."""

    ENOUGH = 5

    def __init__(self) -> None:
        self.found: list[ChaosFinding] = []

    def add(self, invariant: str, detail: str, at: float) -> None:
        if sum(known.invariant == invariant for known in self.found) < self.ENOUGH:
            self.found.append(ChaosFinding(invariant, detail, at))


_LOGGED = (
    PODS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    POD_GROUPS,
)
NO_FAULTS = FaultPhase(start=0.0, end=0.0)
UNSEEN_CLAIMS = "claims the informer never told of"


class RunLog:
    """Everything that happened, in order: a digest, and the lines if they are kept."""

    def __init__(self, keep: bool) -> None:
        self.lines: list[str] | None = [] if keep else None
        self._digest = hashlib.sha256()

    def note(self, at: float, text: str) -> None:
        line = f"{at:10.6f} {text}"
        self._digest.update(line.encode() + b"\n")
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        return self._digest.hexdigest()


class ChaosWorld:
    """The state of one run. `phase_listeners` are called with each new fault phase."""

    def __init__(
        self, plan: ChaosPlan, clock: Clock, watchdog: LoopWatchdog | None = None, *, keep_log: bool = False
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.watchdog = LoopWatchdog() if watchdog is None else watchdog
        self._began = clock.now()
        self.store = Store(clock, self.rng("store"), history=plan.history)
        self.faults = Faults()
        self.phase = NO_FAULTS
        self.findings = Findings()
        self.log = RunLog(keep_log)
        self.counts: Counter[str] = Counter()
        self.bound: set[str] = set()
        """Uids of the pods bound by the schedulers of the run."""
        self.phase_listeners: list[Callable[[FaultPhase], None]] = []
        for resource in _LOGGED:
            self._log_changes(resource)

    @property
    def second(self) -> float:
        """Seconds since the run began."""
        return self.clock.now() - self._began

    def rng(self, who: str) -> Random:
        """A generator for one purpose, so that one more draw there changes nothing here."""
        return Random(f"{who} {self.plan.seed}")

    def note(self, text: str) -> None:
        self.log.note(self.second, text)

    def violated(self, invariant: str, detail: str) -> None:
        self.note(f"BROKEN {invariant}: {detail}")
        self.findings.add(invariant, detail, self.second)

    def enter_phase(self, phase: FaultPhase = NO_FAULTS) -> None:
        """Inject the faults of a phase from now on; without a phase, none."""
        self.phase = phase
        faults = self.faults
        faults.refused, faults.lost = phase.refused, phase.lost
        faults.cut, faults.forgotten = phase.cut, phase.forgotten
        faults.lifetime, faults.delay = phase.lifetime, phase.delay
        for listener in self.phase_listeners:
            listener(phase)

    def _log_changes(self, resource: Resource) -> None:
        def sink(change: StoreChange) -> None:
            text = msgspec.json.encode(change.object, order="sorted").decode()
            self.note(f"{change.type} {resource.plural} {text}")

        self.store.watch(resource, sink)
