"""A data directory that cannot be trusted is refused in one line, never used as if nothing were missing."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from localcluster.durable.lives import Life
from localcluster.store.stores import pod
from stowplan.api.catalogue import PODS
from stowplan.cli.hosts.apiserver import apiserver
from stowplan.localcluster.durable import DataDirError


def _filled(folder: Path, *, killed: bool = False, pods: int = 60) -> None:
    life = Life(folder, log=20)
    for number in range(pods):
        life.store.create(PODS, pod(f"pod-{number}"))
    if killed:
        life.kill()
    else:
        life.end()


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        yield connection


def _newer(folder: Path) -> None:
    with _database(folder) as connection:
        connection.execute("PRAGMA user_version = 2")


def _foreign(folder: Path) -> None:
    with _database(folder) as connection:
        connection.execute("PRAGMA application_id = 1")


def _nonsense(folder: Path) -> None:
    (folder / "store.db").write_bytes(b"nothing of the kind" * 1000)


def _cut(folder: Path) -> None:
    whole = (folder / "store.db").read_bytes()
    (folder / "store.db").write_bytes(whole[: len(whole) // 2])


def _empty(folder: Path) -> None:
    (folder / "store.db").write_bytes(b"")


def _flipped(folder: Path) -> None:
    text = (folder / "store.db").read_bytes()
    (folder / "store.db").write_bytes(text.replace(b'"pod-59"', b'"pod-58"'))


def _holed(folder: Path) -> None:
    with _database(folder) as connection:
        connection.execute("DELETE FROM changes WHERE version = 55")


def _headless(folder: Path) -> None:
    with _database(folder) as connection:
        connection.execute("DELETE FROM changes WHERE version > 55")


def _unknown(folder: Path) -> None:
    with _database(folder) as connection:
        connection.execute("DROP TABLE changes")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_newer, "expected format 1 or older, got 2: a newer stowplan made it"),
        (_foreign, "store.db is not a database of stowplan"),
        (_nonsense, "store.db is damaged or not a database"),
        (_cut, "is damaged"),
        (_empty, "version 60 was written but store.db ends at version 0"),
        (_flipped, "the checksum of pods.v1. default/pod-59 at version 60 is wrong"),
        (_holed, "the changes after version 54 are missing"),
        (_headless, "version 60 was written but store.db ends at version 55"),
        (_unknown, "no such table: changes"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    folder = tmp_path / "data"
    _filled(folder)
    damage(folder)
    result = CliRunner().invoke(apiserver, ["--data-dir", str(folder)])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    lines = result.output.strip().splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith(f"Error: {folder}: ")
    assert said in lines[0]


def test_a_write_ahead_log_that_is_lost_or_cut_is_noticed(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from localcluster.durable.lives import Life;"
        "from localcluster.store.stores import pod; from stowplan.api.catalogue import PODS; import asyncio;"
        "life = Life(Path(sys.argv[1]));"
        "[(life.store.create(PODS, pod(f'p{i}')), asyncio.run(life.store.settled())) for i in range(5)];"
        "os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env={"PYTHONPATH": _path()}, check=False)
    log = tmp_path / "store.db-wal"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) - 5000])
    with pytest.raises(DataDirError, match=r"version 5 was written but store\.db ends at version [0-4]:"):
        Life(tmp_path)


def _path() -> str:
    return ":".join(entry for entry in sys.path if entry)


def test_a_folder_in_use_is_refused_and_free_again_afterwards(tmp_path: Path) -> None:
    life = Life(tmp_path)
    script = (
        "import sys; from pathlib import Path; from stowplan.localcluster.durable.database import Database;"
        "Database(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    other = subprocess.run(command, env={"PYTHONPATH": _path()}, check=False, capture_output=True, text=True)
    assert other.stderr.splitlines()[-1].endswith(f"{tmp_path}: is in use by another process")
    with pytest.raises(DataDirError, match="is in use by another process"):
        Life(tmp_path)
    life.end()
    Life(tmp_path).end()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataDirError, match="cannot be used as a data directory"):
        Life(tmp_path / "data")


def test_only_its_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    _filled(tmp_path / "data", pods=1)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "store.db").stat().st_mode & 0o777 == 0o600
