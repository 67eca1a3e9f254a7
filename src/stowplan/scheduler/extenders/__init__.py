"""Scheduler extenders: HTTP services that filter and score nodes, choose victims, or bind.

`requests` is what the scheduling cycle asks and is answered, `rounds` calls several extenders in turn,
`interface` is one extender, `http` the implementation, which makes extenders from a configuration.
"""

from stowplan.scheduler.extenders.interface import Extender, Filtered
from stowplan.scheduler.extenders.requests import ExtenderError, FindPod

__all__ = ["Extender", "ExtenderError", "Filtered", "FindPod"]
