"""Feature gates of one run: the optional behaviour that is on, in the release that is emulated.

Gates are resolved once, when the configuration is read and profiles are built; they are never read in the
middle of scheduling a pod. They carry the release with them: code that has the gates has the release.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from stowplan.api.releases import DEFAULT, Behaviour, Release, Stage, histories, value_without_gate


class FeatureGates(Mapping[str, bool]):
    """The gates of one run: the defaults of a release, some of them changed. Immutable.

    Iterating gives the gates of the release. A gate that only another release has can be read, too: what
    became GA there is on, what does not exist yet is off. Reading a name that no release knows is a
    programming error and raises KeyError.
    """

    __slots__ = ("_enabled", "coscheduling", "groups", "named", "release")

    release: Release
    """The release whose gates these are."""
    groups: frozenset[str]
    """Groups of gates that were turned on: AllAlpha, AllBeta."""

    named: frozenset[str]
    """Gates that were set explicitly, even to their defaults."""

    coscheduling: bool
    """True if a profile has the plugin Coscheduling, so pod groups of scheduler-plugins are honoured."""

    def __init__(
        self,
        changed: Mapping[str, bool] | Iterable[tuple[str, bool]] = (),
        release: Release = DEFAULT,
        groups: Iterable[str] = (),
    ) -> None:
        self.release = release
        self.groups = frozenset(groups)
        self.coscheduling = False
        changes = dict(changed)
        self.named = frozenset(changes)
        self._enabled = {name: gate.default for name, gate in release.gates.items()}
        for name, value in changes.items():
            if name not in self._enabled:
                raise KeyError(name)
            self._enabled[name] = value

    @property
    def behaviour(self) -> Behaviour:
        """The choices of the release where rules differ."""
        return self.release.behaviour

    @property
    def pod_groups(self) -> bool:
        """True if pods of a group are scheduled together, for either reason."""
        return self.coscheduling or self.built_in_pod_groups

    @property
    def built_in_pod_groups(self) -> bool:
        """True if that holds for PodGroups of scheduling.k8s.io (gate GenericWorkload, from 1.37 on)."""
        return self["GenericWorkload"] and self.behaviour.queueing.group_entities

    def with_coscheduling(self) -> "FeatureGates":
        """The same gates, for profiles of which one has the plugin Coscheduling."""
        gates = FeatureGates({name: self[name] for name in self.named}, self.release, self.groups)
        gates.coscheduling = True
        return gates

    def changed(self) -> dict[str, bool]:
        """The gates that are not at their defaults."""
        gates = self.release.gates
        return {name: on for name, on in self._enabled.items() if on != gates[name].default}

    def __getitem__(self, name: str) -> bool:
        known = self._enabled.get(name)
        return value_without_gate(name, self.release.emulated) if known is None else known

    def __contains__(self, name: object) -> bool:
        return name in self._enabled

    def __iter__(self) -> Iterator[str]:
        return iter(self._enabled)

    def __len__(self) -> int:
        return len(self._enabled)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FeatureGates):
            same = self.release is other.release and self.coscheduling == other.coscheduling
            return same and self._enabled == other._enabled
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((self.release.name, tuple(self._enabled.items())))

    def __repr__(self) -> str:
        return f"FeatureGates({self.changed()}, {self.release!r})"


def gates_with(names: Iterable[str], release: Release = DEFAULT) -> FeatureGates:
    """The defaults of a release with some gates enabled; those that it does not have are left alone."""
    return FeatureGates({name: True for name in names if name in release.gates}, release)


GATE_GROUPS: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Names that set all gates of a stage which are not locked."""

DEFAULT_GATES = FeatureGates()
"""All gates of the default release at their defaults."""

EVERY_GATE = frozenset(histories())
"""The names of all gates of any release."""
