"""A cluster at one moment, read from an API server or from files. Reading needs get and list only."""

from stowplan.simulate.snapshot.files import Snapshot, SnapshotError, read_snapshot, write_snapshot
from stowplan.simulate.snapshot.redaction import Redactor
from stowplan.simulate.snapshot.sources import read_cluster, read_files

__all__ = [
    "Redactor",
    "Snapshot",
    "SnapshotError",
    "read_cluster",
    "read_files",
    "read_snapshot",
    "write_snapshot",
]
