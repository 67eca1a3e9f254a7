"""The one import of a plugin: base class, protocols, statuses, events, views of pods and nodes.

Only re-exports, as a stable path: the code is in `stowplan.scheduler.framework`.
"""

from stowplan.scheduler.framework import *  # noqa: F403
from stowplan.scheduler.framework import __all__ as __all__
