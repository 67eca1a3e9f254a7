"""A release of Kubernetes: all in which kube-scheduler of that release differs from others, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from stowplan.api.gates.history import Gate, gates_at
from stowplan.api.releases.behaviour import Behaviour
from stowplan.api.releases.plugins import ReleasePlugin
from stowplan.api.releases.versions import Version


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """One release, and what differs between releases by subject.

    `version` is the full version whose behaviour is implemented, such as `1.36.4`. `plugins` are those of the
    tree in the order of the default profile, which is the order plugins run in; `points` are the extension
    points a configuration can name. `apis` has the API version in which objects are read and written, by
    resource, where releases differ. `behaviour` are choices in rules.

    `emulated` and `compatible` are the versions of `--emulated-version` and `--min-compatibility-version`:
    the feature gates are those of `emulated`. It differs from the release itself only if a version was asked
    for that has no release here; then the rules are those of the next newer release.
    """

    version: str
    plugins: tuple[ReleasePlugin, ...]
    points: tuple[str, ...]
    apis: Mapping[str, str]
    behaviour: Behaviour
    emulated: Version
    compatible: Version
    defaults: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates with another default than in their table: for comparing releases one thing at a time."""

    @cached_property
    def gates(self) -> Mapping[str, Gate]:
        """The feature gates that the release knows, at the version it emulates."""
        known = gates_at(self.minor, self.emulated, self.compatible)
        changed = {name: replace(known[name], default=on) for name, on in self.defaults.items()}
        return MappingProxyType({**known, **changed}) if changed else known

    @cached_property
    def minor(self) -> Version:
        """Major and minor version of the release."""
        return Version.parse(self.version)

    @property
    def name(self) -> str:
        """Name such as `1.36`."""
        return str(self.minor)

    def emulating(self, emulated: Version, compatible: Version) -> "Release":
        """This release with the feature gates of an earlier version, or for older components around it."""
        if (emulated, compatible) == (self.emulated, self.compatible):
            return self
        return replace(self, emulated=emulated, compatible=compatible)

    def __repr__(self) -> str:
        return f"Release({self.version!r})"
