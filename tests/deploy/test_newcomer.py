"""The way of a new user, as the README has it, from an installation on; `make newcomer` installs it, too."""

import os
import sys
from pathlib import Path

from deploy.newcomer import SAID, steps, walked

INSTALLING = ("python3 -m venv", "pip install", ". venv/")


def test_what_the_readme_says_works_from_the_cluster_to_a_plugin_on_it(tmp_path: Path) -> None:
    commands = [command for command in steps() if not command.startswith(INSTALLING)]
    assert len(steps()) - len(commands) == 4
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    # Others may have the port.
    alone = [f"{command} --secure-port=0" if "stowplan run" in command else command for command in commands]
    found = walked(tmp_path, path, alone)
    assert [command for command, *_ in found] == alone
    assert {asked for asked in SAID for command in alone if command.startswith(asked)} == SAID.keys()
