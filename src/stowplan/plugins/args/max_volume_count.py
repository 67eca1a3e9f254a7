"""Arguments of the plugins that limit one kind of disk each."""

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs


class MaxVolumeCountArgs(PluginArgs, frozen=True):
    """How many disks a node can take that does not say so itself; 0: as many as its kind of machine can."""

    max_volumes: int = 0

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        if self.max_volumes >= 0:
            return []
        return [invalid(path.child("maxVolumes"), self.max_volumes, "not in valid range [0, inf)")]


class MaxEBSVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxEBSVolumeCount."""


class MaxGCEPDVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxGCEPDVolumeCount."""


class MaxAzureDiskVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxAzureDiskVolumeCount."""


class MaxCinderVolumeCountArgs(MaxVolumeCountArgs, frozen=True, forbid_unknown_fields=True):
    """Arguments of MaxCinderVolumeCount, which are read like those of plugins of earlier releases."""

    api_version: str = ""
    kind: str = ""
