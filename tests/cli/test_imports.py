"""Modules that commands load: users wait for it, so a command that only asks a server does not load the
engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli import main
from stowplan.cli.main import stowplan

CLUSTER = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, uid: u}
spec: {containers: [{name: main, image: web}]}
"""

_LOADED = """
import json, sys
from stowplan.cli.main import stowplan
for arguments in json.loads(sys.argv[1]):
    try:
        stowplan(arguments)
    except SystemExit:
        pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

SERVERS = ("stowplan.localcluster", "stowplan.localcluster.up", "stowplan.testing", "hypothesis")
SCHEDULING = ("stowplan.scheduler.scheduler", "stowplan.scheduler.metrics", "prometheus_client", "aiohttp")
ENGINE = (
    "numpy",
    "stowplan.scheduler.framework",
    "stowplan.scheduler.table",
    "stowplan.scheduler.plugins",
    "stowplan.config",
)
EXTRAS = ("distributed", "hypothesis", "kubernetes", "pyarrow", "pytest")
"""Packages that only some installations have."""

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "who only ask": (
        "capacity compare completion doctor explain fit man pending plan record replay run simulate sweep "
        "version whatif",
        (*SERVERS, *SCHEDULING, *ENGINE, *EXTRAS),
    ),
    "with an engine": (
        "config demo snapshot top verify",
        (
            "stowplan.localcluster",
            "stowplan.localcluster.up",
            "stowplan.scheduler.scheduler",
            "aiohttp",
            *EXTRAS,
        ),
    ),
    "with a scheduler": (
        "shadow view",
        ("stowplan.localcluster", "stowplan.localcluster.up", "stowplan.testing", *EXTRAS),
    ),
    "components": (
        "apiserver controllers kubelets node",
        ("stowplan.localcluster.up", "stowplan.scheduler.scheduler", *EXTRAS),
    ),
    "with everything": ("bench lab up", EXTRAS),
}
"""All commands, and the modules that no help of a group loads. Commands that only ask load the rest when they
know the request."""


def loaded(*commands: list[str]) -> set[str]:
    """The modules that some commands have loaded when they are over."""
    command = [sys.executable, "-c", _LOADED, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (["--help"], (*SERVERS, *SCHEDULING, *ENGINE, "stowplan.cli.lab.bench", "stowplan.cli.hosts.up")),
        (["--version"], (*SERVERS, *SCHEDULING, *ENGINE, "stowplan.cli.lab.bench", "stowplan.cli.hosts.up")),
        (["explain", "--from", "CLUSTER", "web"], (*SERVERS, *SCHEDULING)),
        (["pending", "--from", "CLUSTER"], (*SERVERS, *SCHEDULING)),
    ],
)
def test_commands_do_not_load_what_they_do_not_use(
    arguments: list[str], never: tuple[str, ...], tmp_path: Path
) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(CLUSTER)
    found = loaded([str(dump) if part == "CLUSTER" else part for part in arguments])
    assert not {name for name in found for one in never if name == one or name.startswith(f"{one}.")}


def test_every_command_is_in_one_group() -> None:
    named = [name for names, _ in GROUPS.values() for name in names.split()]
    assert sorted(named) == sorted(stowplan.commands)


def test_every_command_has_a_summary_that_is_shown_without_loading_it() -> None:
    assert main._SUMMARIES.keys() == main._PLACES.keys()


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_commands_does_not_load_what_they_do_not_use(group: str) -> None:
    """A group in one process: modules that all of them together have not loaded, none of them has."""
    names, never = GROUPS[group]
    found = loaded(*([name, "--help"] for name in names.split()))
    assert not {module for module in found for one in never if module == one or module.startswith(f"{one}.")}


_STARTED = """
import json, sys, types
import stowplan.server.process, stowplan.server.startup
run = {name for name, module in sys.modules.items() if type(module) is types.ModuleType}
print(json.dumps(sorted(run)), file=sys.stderr)
"""


def test_a_scheduler_loads_no_http_server_and_no_expressions_before_it_needs_them() -> None:
    """Lazy modules that have not run are of another type until their first use."""
    done = subprocess.run([sys.executable, "-c", _STARTED], capture_output=True, text=True, check=True)
    found = set(json.loads(done.stderr.splitlines()[-1]))
    never = (
        "aiohttp",
        "cryptography",
        "stowplan.api.cel.devices",
        "stowplan.api.cel.syntax",
        "stowplan.localcluster",
        "stowplan.scheduler.extenders.http",
        "stowplan.explain.web",
        "stowplan.server.serving.server",
    )
    assert "stowplan.scheduler.scheduler" in found
    assert not {module for module in found for one in never if module == one or module.startswith(f"{one}.")}
