"""Walk through a new user's steps, as in the README, and time each step (`make newcomer`).

    python tests/deploy/newcomer.py dist/stowplan-0.1.0-py3-none-any.whl

Commands and files are those of the section "From nothing to your own scheduler"; kubectl has to be installed.
Commands that run until Ctrl-C run concurrently with the rest, and are terminated at the end.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

README: Final = Path(__file__).parents[2] / "README.md"
SECTION: Final = "### From nothing to your own scheduler"
LIMIT: Final = 300.0
"""Seconds for any one step."""

LASTING: Final = {"stowplan up": "export KUBECONFIG", "stowplan run": "Starting Kubernetes Scheduler"}
"""Commands that run until Ctrl-C, and what they have said when they can be used."""

SAID: Final = {
    "kubectl why deployment/train": "Insufficient cpu",
    "stowplan doctor": "stowplan run would work here",
    "kubectl why pod/web --config": "Price",
    "kubectl why pod/web": "Scheduler cheap decided that",
}
"""Expected output of commands; a question is repeated until the cluster has got that far."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")
_SETTING = re.compile(r"export |\. ")


@dataclass
class Walk:
    """Commands run one after the other in a folder, as in the shells of one user."""

    folder: Path
    path: str
    settings: list[str] = field(default_factory=list)
    beside: ExitStack = field(default_factory=ExitStack)

    def step(self, command: str) -> str:
        """Run a command; what it printed."""
        if _SETTING.match(command):
            self.settings.append(command)
        for lasting, said in LASTING.items():
            if command.startswith(lasting):
                return self.beside.enter_context(self._running(command, said))
        expected = next((answer for asked, answer in SAID.items() if command.startswith(asked)), "")
        deadline = time.monotonic() + LIMIT
        while expected not in (printed := self._printed(command)):
            assert time.monotonic() < deadline, f"{command}: expected {expected!r}\n{printed}"
        return printed

    def _printed(self, command: str) -> str:
        done = subprocess.run(
            self._shell(command),
            env=self._environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def _running(self, command: str, said: str) -> Iterator[str]:
        """A command that runs concurrently with the rest, after its first expected output."""
        log = self.folder / f"{command.split()[1]}.log"
        with log.open("w") as written:
            process = subprocess.Popen(
                self._shell(f"exec {command}"),
                env=self._environment(),
                cwd=self.folder,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + LIMIT
            while said not in log.read_text():
                assert process.poll() is None, f"{command}: ended\n{log.read_text()}"
                assert time.monotonic() < deadline, f"{command}: waited too long\n{log.read_text()}"
                time.sleep(0.05)
            yield log.read_text()
        finally:
            process.terminate()
            process.wait(LIMIT)

    def _shell(self, command: str) -> list[str]:
        return ["bash", "-c", "\n".join(("set -e", *self.settings, command))]

    def _environment(self) -> dict[str, str]:
        """That of the user, without what would lead to another installation or cluster."""
        left_out = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "KUBECONFIG")
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        return kept | {"PATH": self.path, "PYTHONUNBUFFERED": "1"}


def section() -> str:
    return README.read_text().partition(f"{SECTION}\n")[2].partition("\n### ")[0]


def steps() -> list[str]:
    """The command lines of the section."""
    found = [text for language, text in _BLOCK.findall(section()) if language == "text"]
    return [line.removeprefix("$ ") for text in found for line in text.splitlines() if line.startswith("$ ")]


def write_files(folder: Path) -> None:
    """The files that the README has."""
    for _, text in _BLOCK.findall(README.read_text()):
        named = _FILE.match(text)
        if named:
            (folder / named[1]).write_text(text)


def walked(folder: Path, path: str, commands: Sequence[str]) -> list[tuple[str, float, str]]:
    """Walk; every command with the seconds it took, and what it printed."""
    write_files(folder)
    walk = Walk(folder, path)
    found: list[tuple[str, float, str]] = []
    with walk.beside:
        for command in commands:
            began = time.monotonic()
            printed = walk.step(command)
            found.append((command, time.monotonic() - began, printed))
    return found


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dist").symlink_to(wheel.resolve().parent)
        path = os.pathsep.join(
            part for part in os.environ["PATH"].split(os.pathsep) if not (Path(part) / "stowplan").exists()
        )
        found = walked(folder, path, steps())
    for command, seconds, _ in found:
        print(f"{seconds:6.1f} s  {command}")
    print(f"{sum(seconds for _, seconds, _ in found):6.1f} s  altogether")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
