"""NodeVolumeLimits: nodes can have only so many volumes attached.

`NodeVolumeLimits` knows the limits that CSI drivers set for each node. The others are from before there were
CSI drivers: each knows one kind of disk. They are no part of the default profile.
"""

from stowplan.scheduler.plugins.nodevolumelimits.csi import NodeVolumeLimits
from stowplan.scheduler.plugins.nodevolumelimits.non_csi import (
    MaxAzureDiskVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)

__all__ = ["MaxAzureDiskVolumeCount", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NodeVolumeLimits"]
