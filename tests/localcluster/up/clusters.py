"""A running `stowplan up`, for tests that use it as a person would."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import PATIENCE

STOWPLAN = [sys.executable, "-c", "from stowplan.cli.main import main; main()", "up"]


class Up:
    """A running cluster, and what it says."""

    def __init__(self, process: "subprocess.Popen[str]", kubeconfig: Path, errors: Path) -> None:
        self.process = process
        self.kubeconfig = kubeconfig
        self._errors = errors
        assert process.stdout is not None
        self._said = process.stdout.readline()
        assert "is up at https://127.0.0.1:" in self._said, self.errors

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self._said += line
        return line

    def rest(self) -> str:
        """Everything it says until it ends by itself, or has been told to."""
        assert self.process.stdout is not None
        self._said += self.process.stdout.read()
        self.process.wait(timeout=PATIENCE)
        return self._said


@contextmanager
def up(tmp_path: Path, *options: str) -> Iterator[Up]:
    """A cluster that has said where it is."""
    out, errors = tmp_path / "kubeconfig", tmp_path / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*STOWPLAN, "--kubeconfig-out", str(out), *options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield Up(process, out, errors)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
