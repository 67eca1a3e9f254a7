"""DefaultPreemption: pods of lower priority are evicted for one that fits nowhere."""

from stowplan.scheduler.plugins.defaultpreemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
