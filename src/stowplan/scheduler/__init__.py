"""The living scheduler: it watches a cluster, takes pods from its queue, and puts them on nodes.

`Scheduler` (scheduler.py) holds the parts together. The way of a pod through them: news arrives
(informers.py, news.py), the queue gives out the pod, an attempt finds it a node (attempt.py) which the cache
holds for it (cache.py), its binding goes through in the background (binding.py); and what becomes of it when
something is in the way is failure.py. Nothing here reads the machine's clock or rolls its own dice.
"""

from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.context import SchedulingObserver
from stowplan.scheduler.scheduler import Scheduler
from stowplan.scheduler.settings import Settings

__all__ = ["CacheCorruptedError", "Scheduler", "SchedulingObserver", "Settings"]
