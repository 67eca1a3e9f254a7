"""Running the command lines of the documentation, most of them without a process of their own."""

import contextlib
import io
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.testing import check_plugin
from waiting import PATIENCE

LASTING = (
    "stowplan doctor",
    "stowplan node",
    "stowplan record",
    "stowplan shadow",
    "stowplan top",
    "stowplan view",
    "stowplan run",
    "stowplan up",
    "stowplan apiserver",
    "stowplan kubelets",
    "stowplan controllers",
)
LONG = (
    "stowplan bench",
    "stowplan lab bench",
    "stowplan lab chaos",
    "stowplan lab conformance",
    "stowplan lab fuzz",
    "stowplan lab software",
    "stowplan verify --differences",
)
"""Commands that take long; tests of their own run them."""
INSTALLING = ("pip install",)
TESTING = "pytest "
SHELL = frozenset(("|", "||", "&&", "&", ";", ">", "<", "--"))
FEW = 5
"""Clusters that `check_plugin` tries here; tests/testing have it try more."""


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as a reader would.

    Commands that run until Ctrl-C, take long or install something are run with `--help`, which still refuses
    unknown options. `make` only prints its commands, and pytest its tests. Our own commands and scripts run
    in this process unless they need a shell: importing everything takes longer than most of them do.
    """
    words = shlex.split(command)
    if command.startswith((*LASTING, *LONG, *INSTALLING)):
        command = f"{command} --help"
        words.append("--help")
    if not SHELL.intersection(words):
        if words[0] == "stowplan":
            return _command(words[1:], folder)
        if words[0] == "python" and words[1].endswith(".py"):
            return _script(words[1:], folder)
    return _in_a_shell(command, folder)


def _in_a_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    if command.startswith(TESTING):
        command = f"python -m {command} --collect-only -q -p no:cacheprovider"
    if command.startswith("make "):
        command = f"make --dry-run {command.removeprefix('make ')}"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )


def _command(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(stowplan, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def _script(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script. Modules of the folder are forgotten again: other pages have files of the same names."""
    before = set(sys.modules)
    out, errors = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "path", [str((folder / words[0]).parent), *sys.path]),
        mock.patch.dict(check_plugin.__kwdefaults__, examples=FEW),
    ):
        try:
            runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
        finally:
            for name in set(sys.modules) - before:
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                    del sys.modules[name]
    return subprocess.CompletedProcess(words, int(str(code)), out.getvalue(), errors.getvalue())
