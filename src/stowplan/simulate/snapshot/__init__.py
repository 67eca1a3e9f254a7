"""A cluster at one moment, read from an API server or from files, and the scheduler's engine over it.

Reading needs get and list only. `Snapshot` is the objects, `Engine` the table and the profiles over them.
"""

from stowplan.simulate.snapshot.engine import Engine
from stowplan.simulate.snapshot.files import Snapshot, SnapshotError, read_snapshot, write_snapshot
from stowplan.simulate.snapshot.redaction import Redactor
from stowplan.simulate.snapshot.sources import read_cluster, read_files

__all__ = [
    "Engine",
    "Redactor",
    "Snapshot",
    "SnapshotError",
    "read_cluster",
    "read_files",
    "read_snapshot",
    "write_snapshot",
]
