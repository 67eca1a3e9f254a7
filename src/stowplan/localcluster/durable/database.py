"""The database in a data directory: opening it with care, reading it at the start, adding to it.

SQLite takes a write-ahead log that is cut off or damaged for one that ends there, and a missing one for an
empty one: commits would be gone without notice. So a separate file names the last committed version. It is
written after each commit and never exceeds the committed version; a database that has less has lost
something. The file is not synced: it guards against lost files, not against lost power.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.localcluster.apply import plain_json
from stowplan.localcluster.store import DELETED
from stowplan.localcluster.store.objects import Key
from stowplan.localcluster.store.storage import LogEntry, SavedState, UncommittedChange
from stowplan.localcluster.store.watchcache import Compacted

FORMAT: Final = 1

GAP: Final = 1_000_000
"""How far versions jump after a life that did not end in good order; many more than can be under way."""

LOG: Final = 16_384
"""Changes that stay in the log, so that watches can resume from them."""

FOLD: Final = 1024
"""Changes that are folded at a time."""

_FILE: Final = "store.db"
_APPLICATION_ID: Final = 0x73746F77
_ROWS: Final = 1000
_JUMP: Final = ""
_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), folded INTEGER NOT NULL, clean INTEGER NOT NULL);
CREATE TABLE resources (resource TEXT PRIMARY KEY, definition BLOB NOT NULL);
CREATE TABLE objects (
  version INTEGER NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  checksum INTEGER NOT NULL, json BLOB, PRIMARY KEY (resource, namespace, name)
);
CREATE INDEX deleted ON objects (version) WHERE json IS NULL;
CREATE TABLE changes (
  version INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  checksum INTEGER NOT NULL, json BLOB
);
INSERT INTO meta VALUES (1, 0, 1);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class DataDirError(Exception):
    """A data directory that cannot be used; the message is one line that says why."""


def is_data_dir(folder: Path) -> bool:
    """True if a folder has data already."""
    return (folder / _FILE).exists()


COLUMNS: Final = 6
"""Number of columns of a row."""

_JSON: Final = msgspec.json.Encoder(enc_hook=plain_json)
_OBJECT: Final = msgspec.json.Decoder(dict)

Row = tuple[int, str, str, str, int, bytes | None]
"""Version, resource (`plural.version.group`), namespace, name, checksum of everything, object as JSON."""


class RowError(ValueError):
    """A row that is not as it was written."""


def row_of(recorded: UncommittedChange) -> Row:
    """The row that a change is kept as; of a deleted object only the fact."""
    (namespace, name), change = recorded.key, recorded.change
    resource = recorded.resource.dotted
    text = None if change.type == DELETED else _JSON.encode(change.object)
    return (
        change.version,
        resource,
        namespace,
        name,
        _checksum(change.version, resource, recorded.key, text),
        text,
    )


def entry_of(row: Row, catalogue: Catalogue) -> LogEntry:
    """The change that a row was kept for. Raises RowError."""
    version, dotted, namespace, name, checksum, text = row
    key = (namespace, name)
    if _checksum(version, dotted, key, text) != checksum:
        raise RowError(f"the checksum of {dotted} {namespace}/{name} at version {version} is wrong")
    resource = catalogue.named(dotted)
    if resource is None:
        raise RowError(f"{dotted} {namespace}/{name} is of a resource that is not known here")
    return LogEntry(resource, key, version, None if text is None else _OBJECT.decode(text))


def definition_of(resource: Resource) -> bytes:
    """A resource that is not built in, so that it can be known again."""
    return _JSON.encode(resource)


def register(catalogue: Catalogue, definition: bytes) -> None:
    """Know a resource again, unless it is known already. Raises RowError."""
    try:
        resource = msgspec.json.decode(definition, type=Resource)
        if catalogue.named(resource.dotted) is None:
            catalogue.register(resource)
    except ValueError as error:
        raise RowError(f"the definition of a resource cannot be read: {error}") from None


def _checksum(version: int, resource: str, key: Key, text: bytes | None) -> int:
    place = f"{version} {resource} {key[0]} {key[1]} {text is None}".encode()
    return crc32(text or b"", crc32(place))


_COMMITTED_FILE: Final = "committed"
_COMMITTED_WIDTH: Final = 20


class CommittedVersion:
    """The version that a folder's file names; 0 where it names none."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it. Raises OSError."""
        self.path = folder / _COMMITTED_FILE
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        text = os.read(self._file, _COMMITTED_WIDTH).strip()
        self.version = int(text) if text.isdigit() else 0

    def note(self, version: int) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"{version:{_COMMITTED_WIDTH - 1}d}\n".encode())

    def close(self) -> None:
        os.close(self._file)


class Database:
    """The database of one folder, which no other process can open meanwhile.

    It is opened and read by one thread, and from then on belongs to the one that writes.
    """

    def __init__(self, folder: Path, *, log: int = LOG, fold: int = FOLD) -> None:
        """Open what is there, or make it. Raises DataDirError."""
        self._folder = folder
        self._log = log
        self._fold = fold
        self._logged = 0
        self._known: set[str] = set()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / _FILE).touch(mode=0o600)
            self._connection = sqlite3.connect(folder / _FILE, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise DataDirError(f"{folder}: cannot be used as a data directory: {error}") from None
        try:
            self._prepare()
            self._committed = CommittedVersion(folder)
        except (OSError, sqlite3.Error) as error:
            self._connection.close()
            raise DataDirError(f"{folder}: {_describe(error)}") from None
        except DataDirError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("PRAGMA busy_timeout = 0")
        is_new = not self._one("SELECT count(*) FROM sqlite_schema")
        if not is_new and self._one("PRAGMA application_id") != _APPLICATION_ID:
            raise DataDirError(f"{self._folder}: {_FILE} is not a database of stowplan")
        found = self._one("PRAGMA user_version")
        if found > FORMAT:
            raise DataDirError(
                f"{self._folder}: expected format {FORMAT} or older, got {found}: a newer stowplan made it"
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA wal_autocheckpoint = 4000")
        if is_new:
            self._connection.executescript(_SCHEMA)
        wrong = self._one("PRAGMA quick_check(1)")
        if wrong != "ok":
            raise DataDirError(f"{self._folder}: {_FILE} is damaged: {' '.join(str(wrong).split())}")

    def load(self, catalogue: Catalogue) -> SavedState:
        """Everything that was kept; from now on this process counts as one that has not ended well.

        Raises DataDirError if anything is missing or not as it was written.
        """
        try:
            kept = self._load(catalogue)
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise DataDirError(f"{self._folder}: {_describe(error)}") from None
        if self._committed.version > kept.version:
            raise DataDirError(
                f"{self._folder}: version {self._committed.version} was written but {_FILE} ends at version "
                f"{kept.version}: {_FILE}-wal is missing or damaged; to go on with what is left, delete the "
                f"file {self._committed.path.name}"
            )
        return self._begin(kept)

    def _load(self, catalogue: Catalogue) -> SavedState:
        for resource, definition in self._connection.execute("SELECT resource, definition FROM resources"):
            register(catalogue, definition)
            self._known.add(resource)
        folded = self._one("SELECT folded FROM meta")
        columns = "version, resource, namespace, name, checksum, json"
        states = self._connection.execute(f"SELECT {columns} FROM objects")
        objects = [entry_of(row, catalogue) for row in states]
        if any(entry.version > folded or entry.object is None for entry in objects):
            raise RowError(f"{_FILE} is damaged: an object is newer than the state it belongs to")
        changes: list[LogEntry] = []
        gaps: list[tuple[int, int]] = []
        version = folded
        for row in self._connection.execute(f"SELECT {columns} FROM changes ORDER BY version"):
            self._logged += 1
            if row[1] == _JUMP:
                gaps.append((version, row[0]))
            elif row[0] != version + 1:
                raise RowError(f"{_FILE} is damaged: the changes after version {version} are missing")
            else:
                changes.append(entry_of(row, catalogue))
            version = row[0]
        return SavedState(version, Compacted(folded, tuple(gaps)), objects, changes)

    def _begin(self, kept: SavedState) -> SavedState:
        """Note that a process has begun, far behind the last version if the one before did not end well."""
        try:
            if kept.version and not self._one("SELECT clean FROM meta"):
                ahead = kept.version + GAP
                self._insert([(ahead, _JUMP, "", "", 0, None)])
                self._logged += 1
                compacted = Compacted(kept.compacted.version, (*kept.compacted.gaps, (kept.version, ahead)))
                kept = kept._replace(version=ahead, compacted=compacted)
            self._connection.execute("UPDATE meta SET clean = 0")
        except sqlite3.Error as error:
            raise DataDirError(f"{self._folder}: {_describe(error)}") from None
        return kept

    def append(self, rows: Sequence[Row], resources: Sequence[Resource] = ()) -> None:
        """Commit changes to the disk. Raises sqlite3.Error or OSError; then it is to be tried again.

        The rows go in few statements, because each of them hands the interpreter to other threads and has to
        wait to get it back.
        """
        new = [resource for resource in resources if resource.custom and resource.dotted not in self._known]
        folds = self._logged + len(rows) >= self._log + self._fold
        if len(rows) <= _ROWS and not new and not folds:
            self._insert(rows)
        else:
            self._commit(rows, new, folds)
        self._logged += len(rows)
        self._committed.note(rows[-1][0])

    def _commit(self, rows: Sequence[Row], new: Sequence[Resource], folds: bool) -> None:
        self._connection.execute("BEGIN")
        try:
            for resource in new:
                values = (resource.dotted, definition_of(resource))
                self._connection.execute("INSERT OR REPLACE INTO resources VALUES (?, ?)", values)
            for part in _parts(rows):
                self._insert(part)
            folded = self._fold_oldest(self._logged + len(rows) - self._log) if folds else 0
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._known.update(resource.dotted for resource in new)
        self._logged -= folded

    def _insert(self, rows: Sequence[Row]) -> None:
        places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(rows))
        values: list[Any] = [None] * (COLUMNS * len(rows))
        for column in range(COLUMNS):
            values[column::COLUMNS] = [row[column] for row in rows]
        self._connection.execute(f"INSERT OR REPLACE INTO changes VALUES {places}", values)

    def _fold_oldest(self, count: int) -> int:
        """Make the oldest changes part of the state; gives back how many there were."""
        upto = self._one("SELECT version FROM changes ORDER BY version LIMIT 1 OFFSET ?", count - 1)
        self._connection.execute(
            "INSERT OR REPLACE INTO objects SELECT version, resource, namespace, name, checksum, json "
            "FROM changes WHERE version <= ? AND resource <> ? ORDER BY version",
            (upto, _JUMP),
        )
        self._connection.execute("DELETE FROM objects WHERE json IS NULL")
        self._connection.execute("DELETE FROM changes WHERE version <= ?", (upto,))
        self._connection.execute("UPDATE meta SET folded = ?", (upto,))
        return count

    def close(self, *, clean: bool) -> None:
        """Close the data directory. `clean`: nothing that was ever shown is missing."""
        try:
            if clean:
                self._connection.execute("UPDATE meta SET clean = 1")
            self._connection.close()
        except sqlite3.Error as error:
            raise DataDirError(f"{self._folder}: {_describe(error)}") from None
        finally:
            self._committed.close()

    def _one(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(statement, values).fetchone()[0]


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for first in range(0, len(rows), _ROWS):
        yield rows[first : first + _ROWS]


def _describe(error: Exception) -> str:
    """Error of the database in the words of its user."""
    text = " ".join(str(error).split())
    if isinstance(error, sqlite3.OperationalError):
        return "is in use by another process" if "locked" in text else text
    if isinstance(error, sqlite3.DatabaseError):
        return f"{_FILE} is damaged or not a database: {text}"
    return text
