"""MaxCinderVolumeCount: the limit of OpenStack's disks per node, beside those of the kinds that
`plugins/nodevolumelimits/bykind.py` knows. In Kubernetes 1.18 the plugin was called CinderLimits."""

from typing import Final

from stowplan.api.csitranslation import CINDER
from stowplan.plugins.args import MaxCinderVolumeCountArgs
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.nodevolumelimits.bykind import LimitByKind

_MOST: Final = 256


class MaxCinderVolumeCount(LegacyPlugin, LimitByKind):
    """Disks of OpenStack."""

    args_type = MaxCinderVolumeCountArgs
    args: MaxCinderVolumeCountArgs
    kind = CINDER
    field = "cinder"
    resource = "attachable-volumes-cinder"

    def limit_of_machine(self, machine: str) -> int:
        return _MOST
