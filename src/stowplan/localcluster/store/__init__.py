"""The smallest honest counterpart of an API server, as a Python object.

`Store` keeps objects as plain JSON data, counts versions, enforces the guarantees that writers rely on
(optimistic concurrency, uids, finalizers, grace, budgets) and delivers every change to watchers in order. It
has no thread and no clock, and waits for nothing.
"""

from stowplan.localcluster.store.fieldmanager import FieldManager
from stowplan.localcluster.store.store import Store
from stowplan.localcluster.store.watchcache import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    StoreChange,
    Watcher,
    WatchStream,
)

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "MODIFIED",
    "FieldManager",
    "Store",
    "StoreChange",
    "WatchStream",
    "Watcher",
]
