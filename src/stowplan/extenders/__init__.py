"""Services outside the scheduler that filter and score nodes, choose victims, or bind: HTTP extenders.

`interface` is what the scheduler sees, `rounds` asks several extenders in turn, `http` is the real thing and
`build` makes it from a configuration. Only the last two need sockets.
"""

from stowplan.extenders.interface import Extender, ExtenderError, Filtered, FindPod

__all__ = ["Extender", "ExtenderError", "Filtered", "FindPod"]
