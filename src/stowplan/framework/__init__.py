"""The one import of a plugin: base class, protocols, statuses, events, views of pods and nodes."""

from stowplan.scheduler.framework import *  # noqa: F403
from stowplan.scheduler.framework import __all__ as __all__
