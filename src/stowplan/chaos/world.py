"""The world of one run: the store, the weather, and what has been seen so far."""

import hashlib
from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec

from stowplan.api.catalogue import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from stowplan.chaos.findings import Findings
from stowplan.chaos.plan import Plan, Weather
from stowplan.clock import Clock
from stowplan.embedded.store import Change, Store
from stowplan.testing.faults import Faults

_WRITTEN_DOWN = (PODS, NODES, POD_DISRUPTION_BUDGETS, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)
_FINE = Weather(begins=0.0, ends=0.0)


class Diary:
    """Everything that happened, in order: a digest of it, and on request the lines themselves."""

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


class World:
    """What the parts of a run share. All chance comes from the seed of the plan, by name of who needs it.

    `followers` are told when the weather changes.
    """

    def __init__(self, plan: Plan, clock: Clock, *, keep_diary: bool = False) -> None:
        self.plan = plan
        self.clock = clock
        self._began = clock.now()
        self.store = Store(clock, self.rng("store"), history=plan.history)
        self.faults = Faults()
        self.weather = _FINE
        self.findings = Findings()
        self.diary = Diary(keep_diary)
        self.counts: Counter[str] = Counter()
        self.followers: list[Callable[[Weather], None]] = []
        for resource in _WRITTEN_DOWN:
            self._write_down(resource)

    @property
    def second(self) -> float:
        """How long the run has been going."""
        return self.clock.now() - self._began

    def rng(self, who: str) -> Random:
        return Random(f"{who} {self.plan.seed}")

    def note(self, text: str) -> None:
        self.diary.note(self.second, text)

    def broken(self, invariant: str, detail: str) -> None:
        self.note(f"BROKEN {invariant}: {detail}")
        self.findings.add(invariant, detail, self.second)

    def change_weather(self, weather: Weather = _FINE) -> None:
        """From now on so much goes wrong; without a weather, nothing."""
        self.weather = weather
        faults = self.faults
        faults.refused, faults.lost = weather.refused, weather.lost
        faults.cut, faults.forgotten = weather.cut, weather.forgotten
        faults.lifetime, faults.delay = weather.lifetime, weather.delay
        for follow in self.followers:
            follow(weather)

    def _write_down(self, resource: Resource) -> None:
        def sink(change: Change) -> None:
            text = msgspec.json.encode(change.object, order="sorted").decode()
            self.note(f"{change.type} {resource.plural} {text}")

        self.store.watch(resource, sink)
