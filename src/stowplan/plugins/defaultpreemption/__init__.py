"""DefaultPreemption: less important pods make way for one that fits nowhere."""

from stowplan.plugins.defaultpreemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
