"""Feature gates as data: what each gate is at every version, and which gates a release knows.

A gate has entries by version, as upstream has: the entry in force is the last one that is not newer than the
emulated version and does not ask for a newer compatibility version. `table.py` has them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from stowplan.api.gates.table import TABLE
from stowplan.api.releases.versions import Version


class Stage(StrEnum):
    """How mature a feature is."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate at one version: stage, default, whether that default can be changed, and the gates it needs.

    `has_effect` says whether it changes anything here; `why_without_effect` has the reason if not.
    """

    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()
    has_effect: bool = True


@dataclass(frozen=True, slots=True)
class GateEntry:
    """State of a gate from one version on; with `compatible` only if that is the oldest version around."""

    since: Version
    stage: Stage
    default: bool
    locked: bool
    compatible: Version | None


@dataclass(frozen=True, slots=True)
class GateHistory:
    """All entries of a gate, the oldest first.

    `needs` are the gates that must be on with it, and the version since which each is needed. Releases since
    the first entry know the gate, until `removed`.
    """

    name: str
    entries: tuple[GateEntry, ...]
    needs: tuple[tuple[str, Version], ...]
    has_effect: bool
    removed: Version | None

    def exists_in(self, release: Version) -> bool:
        """True if a release knows the gate, at any version it emulates."""
        return self.entries[0].since <= release and (self.removed is None or release < self.removed)

    def at(self, emulated: Version, compatible: Version) -> Gate | None:
        """The gate at a version; None before it had any entry."""
        found: GateEntry | None = None
        for entry in self.entries:
            if entry.since <= emulated and (entry.compatible is None or entry.compatible <= compatible):
                found = entry
        if found is None:
            return None
        needs = tuple(name for name, since in self.needs if since <= emulated)
        return Gate(found.stage, found.default, found.locked, needs, self.has_effect)


UNUSED: Final = {
    "ContextualLogging": "log lines have the same fields without it",
    "InPlacePodLevelResourcesVerticalScaling": "resources in the status of a pod count in any case",
    "InterPodAffinityHostnameFastPath": "pods are counted by domain as they come and go, which is as fast",
    "PodLevelResources": "resources of a pod as a whole count in any case",
}
"""Gates that kube-scheduler reads and that change nothing here, and why."""


def why_without_effect(name: str) -> str:
    """Why a gate changes nothing; "" if it does. Raises KeyError for a name that no release knows."""
    if histories()[name].has_effect:
        return ""
    return UNUSED.get(name, "it is not a gate of the scheduler")


def gates_at(release: Version, emulated: Version, compatible: Version) -> Mapping[str, Gate]:
    """The gates that a release knows, at the version it emulates."""
    known = {name: history for name, history in histories().items() if history.exists_in(release)}
    found: dict[str, Gate] = {}
    for name, history in known.items():
        gate = history.at(emulated, compatible)
        if gate is not None:
            found[name] = replace(gate, needs=tuple(need for need in gate.needs if need in known))
    return MappingProxyType(found)


def value_without_gate(name: str, emulated: Version) -> bool:
    """State of a feature whose gate a release does not have: the last state before its gate was removed, and
    off as long as there is no gate yet. Raises KeyError for a name that no release knows."""
    history = histories()[name]
    if history.removed is None or emulated < history.removed:
        return False
    return history.entries[-1].default


@cache
def histories() -> Mapping[str, GateHistory]:
    """Every gate of any release, by name."""
    lines = TABLE.replace("\n    ", " ").strip().splitlines()
    return MappingProxyType({history.name: history for history in map(_history, lines)})


_OLDEST = Version(0, 0)


def _history(line: str) -> GateHistory:
    name, _, rest = line.partition(":")
    entries, *clauses = (part.strip() for part in rest.split(";"))
    said = {word: rest for word, _, rest in (clause.partition(" ") for clause in clauses)}
    parsed = tuple(_entry(text.split()) for text in entries.split(","))
    return GateHistory(
        name=name.removeprefix("*"),
        entries=parsed,
        needs=tuple(map(_need, said.get("needs", "").split())),
        has_effect=name.startswith("*"),
        removed=Version.parse(said["removed"]) if "removed" in said else None,
    )


def _entry(words: list[str]) -> GateEntry:
    compatible = Version.parse(words[-1]) if "compatible" in words else None
    since, stage = Version.parse(words[0]), Stage(words[1])
    return GateEntry(since, stage, "on" in words, "locked" in words, compatible)


def _need(text: str) -> tuple[str, Version]:
    name, at, since = text.partition("@")
    return name, Version.parse(since) if at else _OLDEST
