"""NodeVolumeLimits: limits of the number of volumes attached to a node.

`NodeVolumeLimits` knows the limits that CSI drivers set for each node. The others are older than CSI drivers:
each knows one kind of disk. They are not part of the default profile.
"""

from stowplan.scheduler.plugins.nodevolumelimits.csi import NodeVolumeLimits
from stowplan.scheduler.plugins.nodevolumelimits.non_csi import (
    MaxAzureDiskVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)

__all__ = ["MaxAzureDiskVolumeCount", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NodeVolumeLimits"]
