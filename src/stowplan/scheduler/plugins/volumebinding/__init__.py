"""VolumeBinding: a pod goes where its volumes are, can be had, or can be made."""

from stowplan.scheduler.plugins.volumebinding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
