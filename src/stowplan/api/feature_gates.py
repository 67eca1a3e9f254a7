"""Feature gates of one run: which optional behaviour is on, in the release that is emulated.

Gates are resolved once, when the configuration is read and profiles are built; nothing asks for them
in the middle of scheduling a pod. They carry the release with them: wherever gates are given, so is it.
"""

from collections.abc import Iterable, Iterator, Mapping

from stowplan.releases import DEFAULT, Behaviour, Release, histories, value_without_gate


class FeatureGates(Mapping[str, bool]):
    """The gates of one run: the defaults of a release, some of them changed. Immutable.

    Iterating gives the gates of the release. A gate that only another release has can be read, too: what
    became GA there is on, what does not exist yet is off. Reading a name that no release knows is a
    programming error and raises KeyError.
    """

    __slots__ = ("_enabled", "release")

    release: Release
    """The release whose gates these are."""

    def __init__(
        self,
        changed: Mapping[str, bool] | Iterable[tuple[str, bool]] = (),
        release: Release = DEFAULT,
    ) -> None:
        self.release = release
        self._enabled = {name: gate.default for name, gate in release.gates.items()}
        for name, value in dict(changed).items():
            if name not in self._enabled:
                raise KeyError(name)
            self._enabled[name] = value

    @property
    def behaviour(self) -> Behaviour:
        """The choices of the release where rules differ."""
        return self.release.behaviour

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
            return self.release is other.release and self._enabled == other._enabled
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((self.release.name, tuple(self._enabled.items())))

    def __repr__(self) -> str:
        return f"FeatureGates({self.changed()}, {self.release!r})"


def gates_with(names: Iterable[str], release: Release = DEFAULT) -> FeatureGates:
    """The defaults of a release with some gates enabled; those that it does not have are left alone."""
    return FeatureGates({name: True for name in names if name in release.gates}, release)


DEFAULT_GATES = FeatureGates()
"""All gates of the default release at their defaults."""

EVERY_GATE = frozenset(histories())
"""The names of all gates of any release."""
