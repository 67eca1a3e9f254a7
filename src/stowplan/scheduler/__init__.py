"""The scheduler: it watches a cluster, takes pods from its queue, and binds them to nodes.

* `scheduler.py` composes the parts and runs the loop; `event_handlers.py` handles watch events;
  `cycle/` finds a node, assumes, fails and requeues, without I/O; `driver.py` does what it yields;
  `binding_cycle.py` binds
* `table/`: the cluster as columns; `queue/`: the scheduling queue; `framework/`: extension points and their
  runtime; `plugins/`: the in-tree plugins; `extenders/`; `pod_groups/`; `events/`: events and statuses;
  `metrics/`; `recording/`: recordings and their replay

Nothing here reads the machine's clock or creates its own random numbers.
"""

from typing import TYPE_CHECKING, Any

from stowplan.runtime.lazy import lazy_attribute

if TYPE_CHECKING:
    from stowplan.scheduler.cache import CacheCorruptedError
    from stowplan.scheduler.cycle.instrument import Instrument
    from stowplan.scheduler.scheduler import Scheduler
    from stowplan.scheduler.settings import Settings

__all__ = ["CacheCorruptedError", "Instrument", "Scheduler", "Settings"]

_MODULES = {
    "CacheCorruptedError": "cache",
    "Instrument": "cycle.instrument",
    "Scheduler": "scheduler",
    "Settings": "settings",
}


def __getattr__(name: str) -> Any:
    """Load public names on first use: sub-packages are imported by code that needs no scheduler."""
    return lazy_attribute(__name__, name, _MODULES)
