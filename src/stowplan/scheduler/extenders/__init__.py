"""Scheduler extenders: HTTP services that filter and score nodes, choose victims, or bind.

`interface` is what the scheduler sees, `rounds` calls several extenders in turn, `http` is the implementation
and makes extenders from a configuration.
"""

from stowplan.scheduler.extenders.interface import Extender, ExtenderError, Filtered, FindPod

__all__ = ["Extender", "ExtenderError", "Filtered", "FindPod"]
