"""The living scheduler: it watches a cluster, takes pods from its queue, and puts them on nodes.

`Scheduler` (scheduler.py) holds the parts together. The way of a pod through them: news arrives
(informers.py, news.py), the queue gives out the pod, an attempt finds it a node (attempt.py) which the cache
holds for it (cache.py), its binding goes through in the background (binding.py); and what becomes of it when
something is in the way is failure.py. Nothing here reads the machine's clock or rolls its own dice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stowplan.scheduler.settings import Settings

if TYPE_CHECKING:
    from stowplan.scheduler.cache import CacheCorruptedError
    from stowplan.scheduler.context import SchedulingObserver
    from stowplan.scheduler.scheduler import Scheduler

__all__ = ["CacheCorruptedError", "Scheduler", "SchedulingObserver", "Settings"]

_PLACES = {"CacheCorruptedError": "cache", "SchedulingObserver": "context", "Scheduler": "scheduler"}


def __getattr__(name: str) -> Any:
    """What needs a running scheduler is loaded when it is asked for: settings alone are enough for some."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
