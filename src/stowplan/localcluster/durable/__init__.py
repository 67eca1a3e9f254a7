"""A store that outlives its process: changes go to a folder, in SQLite, and are read at the next start.

**Nothing leaves the process before it is on the disk.** The store itself stays synchronous and in memory. A
thread takes the changes that have piled up and commits them in one go, with one sync of the disk (group
commit); the API server holds its answers, also those of reads and watches, until everything they show is
committed. Waiting for a commit costs milliseconds, but all concurrent writers share it; syncing every single
change in the loop would block everything for as long, each time. Components in the same process (scheduler,
controllers) do not wait: commits keep the order of changes, so a consequence of a change is never kept
without it.

**A state and the changes since.** `changes` is a log of the last changes, each written once; when it gets
long its oldest part is folded into `objects`. At the start the log is replayed over that state, which
restores the history too, so watches resume from any version that is still in the log; older ones get a 410
and list again. Versions never go back: a process that did not end in good order may have shown versions that
were not kept (while the disk was full), so the next one begins far behind them, and those get a 410 as well.

**No silent loss.** Rows carry checksums, versions in the log have no holes, and a file next to the database
has the last committed version, so that a lost or cut write-ahead log is noticed. Any problem is reported in
one line, and nothing starts. There is no durability in virtual time, where a disk has no meaning.
"""

from stowplan.localcluster.durable.database import DataDirError, is_data_dir
from stowplan.localcluster.durable.groupcommit import GroupCommit, open_data_dir

__all__ = ["DataDirError", "GroupCommit", "is_data_dir", "open_data_dir"]
