"""The base class of plugin arguments. Those of a plugin are defined next to the plugin."""

from typing import Self

from stowplan.api.fielderrors import Path
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.meta import Struct
from stowplan.scheduler.framework.advanced import FeatureGates


class PluginArgs(Struct, frozen=True):
    """Arguments of one plugin. The class name is the `kind` they carry in a configuration.

    Field defaults are those of an absent field. `completed` then applies the effect of empty or zero values
    and of feature gates; the configuration loader always calls it.
    """

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        """These arguments with every default filled in."""
        return self

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        """Everything wrong with these (completed) arguments; `path` is where they stand."""
        return []
