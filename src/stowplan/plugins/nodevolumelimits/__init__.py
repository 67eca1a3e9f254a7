"""NodeVolumeLimits: nodes can have only so many volumes attached.

`NodeVolumeLimits` knows the limits that CSI drivers set for each node. The others are from before there were
CSI drivers: each knows one kind of disk. They are no part of the default profile.
"""

from stowplan.plugins.nodevolumelimits.bykind import (
    MaxAzureDiskVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from stowplan.plugins.nodevolumelimits.plugin import NodeVolumeLimits

__all__ = ["MaxAzureDiskVolumeCount", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NodeVolumeLimits"]
