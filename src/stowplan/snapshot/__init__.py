"""A cluster at one moment, read from an API server or from files, and the scheduler's engine over it.

Reading needs get and list only. `Snapshot` is the objects, `Engine` the table and the profiles over them.
"""

from stowplan.snapshot.engine import Engine
from stowplan.snapshot.sources import Snapshot, SnapshotError, read_cluster, read_files

__all__ = ["Engine", "Snapshot", "SnapshotError", "read_cluster", "read_files"]
